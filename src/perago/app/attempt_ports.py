"""Everything an attempt needs from outside, in one value."""

from __future__ import annotations

from dataclasses import dataclass

from perago.ports import (
    AttemptDirectories,
    BodyIsolation,
    Clock,
    DirectStore,
    Failpoints,
    GuardrailEvaluator,
    Orchestrator,
    OutcomeReporter,
    SparkGuardrails,
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
    spark_guardrails: SparkGuardrails
    isolation: BodyIsolation
    clock: Clock
    failpoints: Failpoints
    direct_store: DirectStore | None = None
    """The same store, where Spark can reach it by itself."""
    reporter: OutcomeReporter | None = None
    """Reports in the attempt's stead; without one the orchestrator is told directly, once."""
