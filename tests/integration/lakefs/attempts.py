"""One task, and whole attempts of it: the real attempt runner on a real store.

Only the orchestrator is one in memory, and the lease never ends.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel

from perago import PublishBudget, RetryPolicy, TaskControls, WorkspaceSpec, task
from perago.adapters.guardrails import LocalGuardrailEvaluator
from perago.adapters.localfs.clock import SystemClock
from perago.adapters.localfs.directories import LocalAttemptDirectories
from perago.adapters.spark import (
    LocalSparkSessions,
    SparkGuardrailEvaluator,
    SparkSettings,
)
from perago.app.attempt_ports import AttemptPorts
from perago.app.run_attempt import AttemptRun
from perago.authoring import AnyTask
from perago.domain.attempt import Attempt
from perago.domain.errors import PeragoError, StaleAttemptError
from perago.domain.ids import CommitId, ExecutionId
from perago.domain.outcome import Completed, Failed, Outcome, Phase, read_ref
from perago.domain.spark_progress import SparkProgress
from perago.domain.workflow import PolledTask
from perago.ports import (
    DirectStore,
    Failpoint,
    Orchestrator,
    SparkSessions,
    WorkspaceStore,
)

MERGE_SECONDS = 2.0
BEFORE = {"kept": b"kept", "changed": b"old", "gone": b"gone"}
"""What a repository holds before an edit, and after the usual one."""
AFTER = {"kept": b"kept", "changed": b"new", "added/file": b"added"}

Hooks = Mapping[Failpoint, Callable[[], object]]


class Edit(BaseModel):
    writes: dict[str, str] = {"changed": "new", "added/file": "added"}
    deletes: list[str] = ["gone"]
    big_bytes: int = 0


class Nothing(BaseModel):
    """An edit has no result."""


@task(
    "edit",
    owner_email="data@example.com",
    workspace=WorkspaceSpec(prefix="/"),
    controls=TaskControls(
        retry=RetryPolicy(count=3, delay_seconds=0),
        publish_budget=PublishBudget(
            observed_merge_p99_seconds=1,
            safety_factor=1,
            conductor_completion_reserve_seconds=1,
            heartbeat_interval_seconds=1,
            shutdown_grace_seconds=1,
            lakefs_merge_timeout_seconds=MERGE_SECONDS,
        ),
    ),
)
def edit(workspace: Path, params: Edit) -> Nothing:
    for path, text in params.writes.items():
        (workspace / path).parent.mkdir(parents=True, exist_ok=True)
        (workspace / path).write_text(text)
    for path in params.deletes:
        (workspace / path).unlink()
    if params.big_bytes:
        (workspace / "big").write_bytes(big_content(params.big_bytes))
    return Nothing()


def big_content(size: int) -> bytes:
    """What `edit` writes to `big`: no two parts of it are the same."""
    return random.Random(size).randbytes(size)


NO_CHANGE = Edit(writes={}, deletes=[])


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempted:
    """How an attempt ended; `error` is what made it fail, as it was logged."""

    outcome: Outcome
    error: BaseException | None
    logged: str

    def assert_failed(self, kind: type[PeragoError], phase: Phase, *named: str) -> None:
        """It failed in a phase with one clear error: what it is about, and what to do."""
        assert isinstance(self.outcome, Failed), self.outcome
        assert type(self.error) is kind, repr(self.error)
        assert isinstance(self.error, PeragoError)
        assert self.outcome.phase is phase
        assert self.error.hint
        for name in named:
            assert name in self.error.message

    @property
    def output_ref(self) -> CommitId:
        assert isinstance(self.outcome, Completed), self.outcome
        ref = read_ref(self.outcome.output)
        assert ref is not None
        return ref


class _Quiet:
    """A lease that lasts, and nobody who watches."""

    deadline = float("inf")
    is_lost = False
    poll_count = None

    def phase_started(self, phase: Phase) -> None: ...

    def phase_ended(self, phase: Phase, seconds: float) -> None: ...

    def transferred(self, objects: int, size: int) -> None: ...

    def progressed(self, message: str, fraction: float | None) -> None: ...

    def spark_progressed(self, progress: SparkProgress, line: str | None) -> None: ...

    def around_body(self) -> AbstractContextManager[None]:
        return nullcontext()


@dataclass(frozen=True, slots=True)
class _Failpoints:
    hooks: Hooks

    def hit(self, point: Failpoint, attempt: Attempt) -> None:
        if point in self.hooks:
            self.hooks[point]()


class _Witness(logging.Handler):
    """Keeps what was logged: the errors as they are, the rest as it would be printed."""

    def __init__(self) -> None:
        super().__init__()
        self.errors: list[BaseException] = []
        self.lines: list[str] = []
        self.setFormatter(logging.Formatter("%(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))
        if record.exc_info and record.exc_info[1] and "attempt failed" in record.msg:
            self.errors.append(record.exc_info[1])


@contextmanager
def _witnessing() -> Iterator[_Witness]:
    """Hear all that anybody logs meanwhile, down to the HTTP client's own chatter."""
    witness, logger = _Witness(), logging.getLogger()
    level = logger.level
    logger.addHandler(witness)
    logger.setLevel(logging.DEBUG)
    try:
        yield witness
    finally:
        logger.setLevel(level)
        logger.removeHandler(witness)


def run_attempt(
    polled: PolledTask,
    execution_id: ExecutionId,
    *,
    store: WorkspaceStore,
    orchestrator: Orchestrator,
    root: Path,
    hooks: Hooks,
    declared: AnyTask = edit,
    spark: SparkSessions | None = None,
    direct_store: DirectStore | None = None,
) -> Attempted:
    """Run an attempt of `edit` on a machine whose workspace root is `root`."""
    quiet = _Quiet()
    ports = AttemptPorts(
        store=store,
        orchestrator=orchestrator,
        directories=LocalAttemptDirectories(root),
        guardrails=LocalGuardrailEvaluator(),
        spark=spark or LocalSparkSessions(SparkSettings(), root),
        spark_guardrails=SparkGuardrailEvaluator(),
        isolation=quiet,
        clock=SystemClock(),
        failpoints=_Failpoints(hooks),
        direct_store=direct_store,
    )
    with _witnessing() as seen:
        run = AttemptRun(declared, polled, execution_id, ports=ports, lease=quiet, observer=quiet)
        end = run.run()
    error = seen.errors[0] if seen.errors else None
    # A report would fail the attempt that holds the task now.
    assert end.is_reported is not isinstance(error, StaleAttemptError)
    return Attempted(outcome=end.outcome, error=error, logged="\n".join(seen.lines))
