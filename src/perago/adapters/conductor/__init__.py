"""The Orchestrator port on a Conductor server."""

from perago.adapters.conductor.connection import ConductorConnection
from perago.adapters.conductor.orchestrator import ConductorOrchestrator

__all__ = ["ConductorConnection", "ConductorOrchestrator"]
