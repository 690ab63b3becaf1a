"""The Orchestrator port on SQLite: workflows with no server, for one machine and for tests."""

from perago.adapters.embedded.orchestrator.embedded_orchestrator import EmbeddedOrchestrator

__all__ = ["EmbeddedOrchestrator"]
