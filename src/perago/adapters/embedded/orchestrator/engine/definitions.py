"""TaskDefs and WorkflowDefs as frozen values.

Invariant: a `WorkflowDefinition` can be run to its end. What cannot was refused by
`perago.adapters.embedded.orchestrator.engine.parsing`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from perago.domain.outcome import JsonObject


class RetryLogic(StrEnum):
    """How the delay before a retry grows."""

    FIXED = "FIXED"
    LINEAR_BACKOFF = "LINEAR_BACKOFF"
    EXPONENTIAL_BACKOFF = "EXPONENTIAL_BACKOFF"


class TimeoutPolicy(StrEnum):
    """What follows when a task, or a workflow, is over its `timeoutSeconds`."""

    RETRY = "RETRY"
    TIME_OUT_WF = "TIME_OUT_WF"
    ALERT_ONLY = "ALERT_ONLY"


class StepType(StrEnum):
    """The task types of a WorkflowDef that this engine runs."""

    SIMPLE = "SIMPLE"
    FORK_JOIN = "FORK_JOIN"
    JOIN = "JOIN"
    HUMAN = "HUMAN"
    WAIT = "WAIT"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskDefinition:
    """A TaskDef; the defaults are Conductor's. Zero switches a limit off."""

    name: str
    retry_count: int = 3
    retry_logic: RetryLogic = RetryLogic.FIXED
    retry_delay_seconds: int = 60
    backoff_scale_factor: int = 1
    max_retry_delay_seconds: int = 0
    response_timeout_seconds: int = 3600
    timeout_seconds: int = 0
    poll_timeout_seconds: int = 0
    timeout_policy: TimeoutPolicy = TimeoutPolicy.TIME_OUT_WF
    concurrent_limit: int = 0
    rate_limit: int = 0
    rate_window_seconds: int = 1
    input_template: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimpleStep:
    """A step that a worker runs. `retry_count` overrides the TaskDef's."""

    reference_name: str
    name: str
    input_parameters: JsonObject
    definition: TaskDefinition
    optional: bool = False
    retry_count: int | None = None
    start_delay_seconds: int = 0

    type = StepType.SIMPLE

    @property
    def max_retries(self) -> int:
        """How often a failed attempt of this step is tried again."""
        return self.definition.retry_count if self.retry_count is None else self.retry_count


@dataclass(frozen=True, slots=True, kw_only=True)
class HumanStep:
    """A step that is in progress until somebody reports it by its task id."""

    reference_name: str
    name: str
    input_parameters: JsonObject
    optional: bool = False

    type = StepType.HUMAN


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitStep:
    """A step that completes by itself after `duration` or at `until`; with neither, by report."""

    reference_name: str
    name: str
    input_parameters: JsonObject
    optional: bool = False

    type = StepType.WAIT


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkStep:
    """Starts all its branches at once."""

    reference_name: str
    name: str
    branches: tuple[tuple[Step, ...], ...]

    type = StepType.FORK_JOIN
    optional = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinStep:
    """Completes when every step that it names is done; its output holds theirs by reference."""

    reference_name: str
    name: str
    join_on: tuple[str, ...]

    type = StepType.JOIN
    optional = False


Step = SimpleStep | HumanStep | WaitStep | ForkStep | JoinStep


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowDefinition:
    """A WorkflowDef whose every SIMPLE step carries its TaskDef.

    `source` is the JSON that it was read from: what an instance stores, so that a definition
    registered later does not change a running instance.
    """

    name: str
    version: int
    steps: tuple[Step, ...]
    by_reference: Mapping[str, Step]
    source: JsonObject
    output_parameters: JsonObject = field(default_factory=dict)
    input_template: JsonObject = field(default_factory=dict)
    timeout_seconds: int = 0
    timeout_policy: TimeoutPolicy = TimeoutPolicy.ALERT_ONLY


def walk_steps(steps: Sequence[Step]) -> Iterator[Step]:
    """Every step, those inside branches included, in the order of the definition."""
    for step in steps:
        yield step
        if isinstance(step, ForkStep):
            for branch in step.branches:
                yield from walk_steps(branch)
