"""`TaskEnvironment`: run one task the way a worker would, with no server, and see what it did.

It is the real attempt runner on in-memory ports, so guardrails, validation, the diff, both
fences and the publication are the real ones. Faults are injected at the named failpoints.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from perago.adapters.guardrails import LocalGuardrailEvaluator
from perago.adapters.localfs.copying import hash_path
from perago.adapters.localfs.directories import LocalAttemptDirectories
from perago.adapters.localfs.java import JavaInstallation
from perago.adapters.spark import (
    LocalSparkSessions,
    SparkGuardrailEvaluator,
    SparkSettings,
)
from perago.app.attempt_policy import AttemptPolicy
from perago.app.attempt_ports import AttemptPorts
from perago.app.follow import RunRequest, start_run
from perago.app.run_attempt import AttemptRun
from perago.authoring import AnyTask, Pipeline
from perago.bootstrap.machine import delta_jars
from perago.domain.attempt import Attempt, AttemptStatus
from perago.domain.ids import (
    BranchName,
    CommitId,
    ExecutionId,
    ObjectPath,
    RepositoryName,
    WorkerId,
)
from perago.domain.outcome import Completed, JsonObject, JsonValue, Outcome, Phase, read_ref
from perago.domain.publication import Commit
from perago.domain.spark_progress import SparkProgress
from perago.domain.workflow import PolledTask
from perago.ports import Failpoint, LocalFile, WorkspaceStore
from perago.settings import resolve_settings
from perago.testing.clock import FakeClock
from perago.testing.memory_orchestrator import MemoryOrchestrator
from perago.testing.memory_store import MemoryWorkspaceStore

Fault = Callable[[], None]
"""Something that happens at a failpoint: a method of the environment, or a function that raises."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRun:
    """What one attempt did."""

    outcome: Outcome
    input_ref: CommitId
    head: Commit
    files: Mapping[str, bytes]
    """Every object of the repository at the target's head afterwards, by its whole path."""
    progress: tuple[str, ...] = ()
    phases: tuple[Phase, ...] = ()

    @property
    def status(self) -> AttemptStatus:
        """What the orchestrator is told."""
        return self.outcome.status

    @property
    def published(self) -> bool:
        """Whether this attempt's output is a new commit."""
        if not isinstance(self.outcome, Completed):
            return False
        return read_ref(self.outcome.output) not in (None, self.input_ref)

    @property
    def result(self) -> JsonObject:
        """The result of a completed attempt; a failed one raises an `AssertionError` saying why."""
        assert isinstance(self.outcome, Completed), f"the attempt failed: {self.reason}"
        result: JsonValue = self.outcome.output["result"]
        assert isinstance(result, dict)
        return result

    @property
    def reason(self) -> str:
        """Why the attempt failed; empty when it did not."""
        return "" if isinstance(self.outcome, Completed) else self.outcome.reason


@dataclass(slots=True)
class _Observer:
    progress: list[str] = field(default_factory=list)
    phases: list[Phase] = field(default_factory=list)

    def phase_started(self, phase: Phase) -> None:
        self.phases.append(phase)

    def phase_ended(self, phase: Phase, seconds: float) -> None: ...

    def transferred(self, objects: int, size: int) -> None: ...

    def progressed(self, message: str, fraction: float | None) -> None:  # noqa: ARG002
        self.progress.append(message)

    def spark_progressed(self, progress: SparkProgress, line: str | None) -> None: ...


@dataclass(slots=True)
class _Lease:
    deadline: float
    is_lost: bool = False
    poll_count: int | None = None


class _NoIsolation:
    """Tests bring their own."""

    def around_body(self) -> AbstractContextManager[None]:
        return nullcontext()


class _HookedFailpoints:
    def __init__(self, faults: Mapping[Failpoint, Fault]) -> None:
        self._faults = faults

    def hit(self, point: Failpoint, attempt: Attempt) -> None:  # noqa: ARG002
        self._faults.get(point, _nothing)()


class TaskEnvironment:
    """A store, an orchestrator and a machine for one task at a time.

    Use it as a context manager: it removes its directory and stops Spark if it was started.
    """

    def __init__(
        self,
        *,
        repository: str = "test",
        branch: str = "main",
        spark: SparkSettings | None = None,
        tables: Literal["none", "delta"] = "none",
        policy: AttemptPolicy | None = None,
    ) -> None:
        self.repository = RepositoryName(repository)
        self.branch = BranchName(branch)
        self.clock = FakeClock()
        self.store: WorkspaceStore = MemoryWorkspaceStore(self.clock)
        self.orchestrator = MemoryOrchestrator(self.clock)
        self.store.create_repository(self.repository, branch=self.branch)
        self._temporary = tempfile.TemporaryDirectory(prefix="perago-test-")
        self._root = Path(self._temporary.name)
        self._spark = LocalSparkSessions(
            spark or SparkSettings(master="local[2]", quick_start=True),
            self._root / "spark",
            delta_jars=_find_delta_jars if tables == "delta" else None,
        )
        self.worker_id = WorkerId("task-environment")
        self._policy = policy
        self._lease = _Lease(0.0)
        self._executions = 0

    # -- what is there before

    def put(self, files: Mapping[str, bytes | str]) -> CommitId:
        """Commit objects by their whole path; what is there stays. Returns the new head."""
        source = Path(tempfile.mkdtemp(dir=self._root))
        writes: dict[ObjectPath, LocalFile] = {}
        for number, (path, content) in enumerate(files.items()):
            raw = content.encode() if isinstance(content, str) else content
            local = source / str(number)
            local.write_bytes(raw)
            writes[ObjectPath(path)] = LocalFile(path=local, digest=hash_path(local), size=len(raw))
        return self.store.commit_changes(
            self.repository,
            self.branch,
            writes=writes,
            deletes=(),
            message="put by a test",
            metadata={},
            on_transfer=lambda _objects, _size: None,
        ).id

    # -- what goes wrong, for `at`

    def move_head(self) -> None:
        """Somebody else publishes to the target branch."""
        self._executions += 1
        self.put({f"somebody-else-{self._executions}": "was here"})

    def lose_lease(self) -> None:
        """The supervisor gives the attempt up: `context.cancelled` becomes true."""
        self._lease.is_lost = True

    def shorten_lease(self, seconds: float) -> None:
        """Leave the lease so many seconds."""
        self._lease.deadline = self.clock.elapsed() + seconds

    def time_out(self) -> None:
        """The orchestrator times the attempt out and schedules another."""
        self.clock.advance(10 * 365 * 24 * 3600)

    # -- running

    def run(
        self,
        task: AnyTask,
        params: object,
        *,
        at: Mapping[Failpoint, Fault] | None = None,
    ) -> TaskRun:
        """Run one attempt of a task on the target's head; `params` is an instance of its model."""
        return self.run_attempt(task, self.schedule(task, params), at=at)

    def schedule(self, task: AnyTask, params: object) -> PolledTask:
        """Start a workflow of this one task and poll its attempt, without running it."""
        pipeline = Pipeline.of_task(task)
        start_run(
            RunRequest(
                pipeline=pipeline,
                params=task.body.params.dump(params),
                repository=self.repository,
                branch=self.branch,
            ),
            store=self.store,
            orchestrator=self.orchestrator,
        )
        return self.poll(task)

    def poll(self, task: AnyTask) -> PolledTask:
        """Poll the next attempt of a task, such as the retry of one that failed."""
        (polled,) = self.orchestrator.poll(
            [task.name], worker_id=self.worker_id, count=1, wait_seconds=0
        )
        return polled

    def run_attempt(
        self,
        task: AnyTask,
        polled: PolledTask,
        *,
        at: Mapping[Failpoint, Fault] | None = None,
    ) -> TaskRun:
        """Run an attempt that was polled, faults included."""
        self._executions += 1
        self._lease = _Lease(self.clock.elapsed() + polled.lease_seconds)
        observer = _Observer()
        before = self._input_ref(polled)
        end = AttemptRun(
            task,
            polled,
            ExecutionId(f"{self._executions:032x}"),
            ports=self._ports(at or {}),
            lease=self._lease,
            observer=observer,
            policy=self._policy,
        ).run()
        head = self.store.head(self.repository, self.branch)
        return TaskRun(
            outcome=end.outcome,
            input_ref=before,
            head=head,
            files=self._read_all(head.id),
            progress=tuple(observer.progress),
            phases=tuple(observer.phases),
        )

    def _input_ref(self, polled: PolledTask) -> CommitId:
        """The commit that the attempt reads; a task without a workspace reads none."""
        ref = read_ref(polled.input)
        return self.store.head(self.repository, self.branch).id if ref is None else ref

    def _ports(self, faults: Mapping[Failpoint, Fault]) -> AttemptPorts:
        return AttemptPorts(
            store=self.store,
            orchestrator=self.orchestrator,
            directories=LocalAttemptDirectories(self._root),
            guardrails=LocalGuardrailEvaluator(),
            spark=self._spark,
            spark_guardrails=SparkGuardrailEvaluator(),
            isolation=_NoIsolation(),
            clock=self.clock,
            failpoints=_HookedFailpoints(faults),
        )

    def _read_all(self, commit: CommitId) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        for entry in self.store.list_objects(self.repository, commit):
            with self.store.open_object(self.repository, commit, entry.path) as stream:
                found[entry.path] = stream.read()
        return found

    @property
    def leftovers(self) -> list[Path]:
        """Attempt directories that were not cleaned up."""
        attempts = self._root / "attempts"
        return sorted(attempts.glob("*-*/"))

    def close(self) -> None:
        """Stop Spark if it runs and remove every file."""
        self._spark.stop()
        self._temporary.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _nothing() -> None:
    """At a failpoint without a fault."""


def _find_delta_jars(java: JavaInstallation) -> Sequence[Path]:
    """Those that a worker with the same environment would have."""
    find = delta_jars(resolve_settings(flags={"spark_tables": "delta"}).settings)
    assert find is not None
    return find(java)
