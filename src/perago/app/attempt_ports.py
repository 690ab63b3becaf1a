"""Everything an attempt needs from outside, in one value."""

from __future__ import annotations

from dataclasses import dataclass

from perago.ports import (
    AttemptDirectories,
    BodyIsolation,
    Clock,
    Failpoints,
    GuardrailEvaluator,
    Orchestrator,
    SparkSessions,
    WorkspaceStore,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptPorts:
    """Everything an attempt needs from outside."""

    store: WorkspaceStore
    orchestrator: Orchestrator
    directories: AttemptDirectories
    guardrails: GuardrailEvaluator
    spark: SparkSessions
    isolation: BodyIsolation
    clock: Clock
    failpoints: Failpoints
