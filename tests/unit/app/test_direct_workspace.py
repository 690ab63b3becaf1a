"""The order of a direct attempt, step by step, on a store in memory and a Spark that only pretends.

What real Spark and a real lakeFS do is in tests/integration/direct.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pydantic import BaseModel

from perago import RetryPolicy, SparkWorkspace, TaskControls, WorkspaceSpec, require_file, task
from perago.adapters.localfs.directories import MARKERS
from perago.app.attempt_policy import AttemptPolicy
from perago.app.attempt_ports import AttemptPorts
from perago.authoring import AnyTask
from perago.domain.access import Access
from perago.domain.attempt import Attempt
from perago.domain.errors import EnvironmentUnfitError, TaskTerminalError
from perago.domain.guardrail import Guardrail
from perago.domain.ids import BranchName, ExecutionId, ObjectPath
from perago.domain.outcome import Completed, Failed, Phase, TerminalFailure
from perago.ports import DirectPlace, DirectStore, Failpoint, SparkWatch
from perago.testing import TaskEnvironment, TaskRun
from perago.testing.environment import Fault
from perago.testing.memory_direct_store import MemoryDirectStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OWNER = "data@example.com"
CONTROLS = TaskControls(retry=RetryPolicy(count=5, delay_seconds=0))


@dataclass(slots=True)
class FakeWorkspace:
    """Just enough of a `SparkWorkspace` for a body that puts objects."""

    place: DirectPlace
    store: MemoryDirectStore

    def put(self, path: str, content: bytes = b"x") -> None:
        assert self.place.staging is not None
        self.store.put(self.place.repository, self.place.staging, ObjectPath(path), content)


@dataclass(slots=True)
class FakeSpark:
    """A `SparkSessions` and its lease: notes what it is asked for, in order."""

    heard: list[str] = field(default_factory=list)
    settling: Callable[[], None] = lambda: None
    is_usable: bool = True
    starting: Callable[[], Exception | None] = lambda: None

    @contextmanager
    def lease(
        self, attempt: Attempt, execution_id: ExecutionId, *, direct: bool = False
    ) -> Iterator[FakeSpark]:
        del attempt, execution_id
        error = self.starting()
        if error is not None:
            raise error
        self.heard.append("lease" if direct else "local lease")
        yield self
        self.heard.append("give back")

    @property
    def session(self) -> SparkSession:
        return None  # type: ignore[return-value] # no body here takes it

    def workspace(self, input_directory: Path, output_directory: Path) -> SparkWorkspace:
        raise AssertionError((input_directory, output_directory))

    def direct_workspace(self, place: DirectPlace, store: DirectStore) -> SparkWorkspace:
        assert isinstance(store, MemoryDirectStore)
        return FakeWorkspace(place, store)  # type: ignore[return-value] # what the bodies here use

    def watch(self) -> SparkWatch:
        raise EnvironmentUnfitError("nobody shows how far this one is")

    def settle(self) -> None:
        self.heard.append("settle")
        self.settling()

    def stop(self) -> None: ...


@dataclass(slots=True)
class FakeGuardrails:
    """Notes at which commit it was asked, and finds `require_file` broken where the file is not."""

    at: list[str] = field(default_factory=list)

    def violations(self, guardrails: Sequence[Guardrail], workspace: SparkWorkspace) -> list[str]:
        assert isinstance(workspace, FakeWorkspace)
        place = workspace.place
        assert place.staging is None, "guardrails look at commits"
        self.at.append(place.ref)
        paths = {
            one.path for one in workspace.store.list_objects(place.repository, place.ref, "out/")
        }
        return [str(one) for one in guardrails if f"out/{getattr(one, 'path', '')}" not in paths]


class DirectEnvironment(TaskEnvironment):
    """A `TaskEnvironment` whose store Spark could reach."""

    def __init__(self) -> None:
        super().__init__()
        self.lake = MemoryDirectStore(self.clock)
        self.lake.create_repository(self.repository, branch=self.branch)
        self.store = self.lake
        self.fake = FakeSpark()
        self.guardrails = FakeGuardrails()
        self._policy = AttemptPolicy(access=Access.DIRECT)

    def _ports(self, faults: dict[Failpoint, Fault]) -> AttemptPorts:  # type: ignore[override]
        ports = super()._ports(faults)
        return AttemptPorts(
            store=self.lake,
            orchestrator=ports.orchestrator,
            directories=ports.directories,
            guardrails=ports.guardrails,
            spark=self.fake,
            spark_guardrails=self.guardrails,
            isolation=ports.isolation,
            clock=ports.clock,
            failpoints=ports.failpoints,
            direct_store=self.lake,
        )

    @property
    def stagings(self) -> list[BranchName]:
        branches = self.store.branches(self.repository, hidden=True)
        return [branch.name for branch in branches if branch.hidden]


class Params(BaseModel):
    writes: list[str] = ["out/t/part-0"]


class Result(BaseModel):
    files: int


def body(workspace: SparkWorkspace, params: Params) -> Result:
    for path in params.writes:
        workspace.put(path)  # type: ignore[attr-defined] # a FakeWorkspace
    return Result(files=len(params.writes))


def declare(name: str, **spec: object) -> AnyTask:
    workspace = WorkspaceSpec("out", **spec)  # type: ignore[arg-type]
    return task(name, owner_email=OWNER, workspace=workspace, controls=CONTROLS)(body)


plain = declare("plain")
read_only = declare("read_only", read_only=True)
guarded = declare("guarded", pre=[require_file("old")], post=[require_file("t/part-0")])
stays_local = declare("stays_local", access="local")


@pytest.fixture
def env() -> Iterator[DirectEnvironment]:
    with DirectEnvironment() as environment:
        environment.put({"out/old": "1", "in/a": "2"})
        yield environment


def failed(run: TaskRun, phase: Phase) -> str:
    assert isinstance(run.outcome, Failed), run.outcome
    assert run.outcome.phase is phase
    assert not run.published
    return run.outcome.reason


def test_what_the_body_wrote_is_published(env: DirectEnvironment) -> None:
    run = env.run(plain, Params())

    assert run.published
    assert run.files == {"out/old": b"1", "in/a": b"2", "out/t/part-0": b"x"}
    assert env.stagings == []
    assert env.fake.heard == ["lease", "settle", "give back"]
    assert Phase.DOWNLOAD not in run.phases
    assert env.leftovers == []


def test_a_marker_tells_who_runs_for_as_long_as_the_attempt_does(env: DirectEnvironment) -> None:
    seen: dict[Failpoint, list[str]] = {}

    def markers() -> list[str]:
        return [
            path.stem
            for one in env.leftovers
            for path in (one.parent.parent / MARKERS).glob("*.json")
            if one.name.endswith(path.stem)
        ]

    def look(point: Failpoint) -> Fault:
        return lambda: seen.update({point: markers()})

    points = (Failpoint.PREPARED, Failpoint.BODY_DONE, Failpoint.STAGING_REMOVED, Failpoint.CLEANED)
    env.run(plain, Params(), at={point: look(point) for point in points})

    marked = [f"{1:032x}"]
    assert [seen[point] for point in points] == [marked, marked, marked, []]


def test_the_branch_is_there_before_the_body_and_spark_is_given_back_before_the_judgement(
    env: DirectEnvironment,
) -> None:
    seen: dict[Failpoint, tuple[int, list[str]]] = {}

    def look(point: Failpoint) -> Fault:
        return lambda: seen.update({point: (len(env.stagings), list(env.fake.heard))})

    points = (
        Failpoint.PREPARED,
        Failpoint.FENCED_BEFORE_STAGE,
        Failpoint.BODY_DONE,
        Failpoint.DIFFED,
    )
    env.run(plain, Params(), at={point: look(point) for point in points})

    assert [seen[point][0] for point in points] == [0, 0, 1, 1]
    assert seen[Failpoint.FENCED_BEFORE_STAGE][1] == ["lease"]
    assert seen[Failpoint.BODY_DONE][1] == ["lease", "settle", "give back"]


def test_strays_are_removed_and_alone_are_no_change(env: DirectEnvironment) -> None:
    before = env.store.head(env.repository, env.branch).id
    run = env.run(plain, Params(writes=["out/t/_SUCCESS", "out/_temporary/0/x"]))

    assert isinstance(run.outcome, Completed)
    assert not run.published
    assert run.head.id == before
    assert env.stagings == []


def test_strays_are_removed_from_beside_what_is_published(env: DirectEnvironment) -> None:
    run = env.run(plain, Params(writes=["out/t/part-0", "out/t/_SUCCESS", "out/_temporary/0/x"]))

    assert run.published
    assert run.files == {"out/old": b"1", "in/a": b"2", "out/t/part-0": b"x"}


@pytest.mark.parametrize("path", ["elsewhere/x", "_lakefs_actions/hook.yaml", "out/a//b"])
def test_what_may_not_be_written_fails_the_attempt(env: DirectEnvironment, path: str) -> None:
    assert path in failed(env.run(plain, Params(writes=["out/fine", path])), Phase.DIFF)
    assert env.stagings == []


@pytest.mark.parametrize("writes", [["out/fine"], []], ids=["and to its own", "alone"])
def test_a_write_to_the_target_itself_fails_the_attempt(
    env: DirectEnvironment, writes: list[str]
) -> None:
    def trespass() -> None:
        env.lake.put(env.repository, env.branch, ObjectPath("out/astray"), b"x")

    before = env.store.head(env.repository, env.branch).id
    run = env.run(plain, Params(writes=writes), at={Failpoint.BODY_DONE: trespass})

    assert "'main' itself has uncommitted changes, such as 'out/astray'" in failed(run, Phase.DIFF)
    assert run.head.id == before
    assert env.stagings == []


def test_guardrails_look_at_the_input_and_at_the_staged_commit(env: DirectEnvironment) -> None:
    run = env.run(guarded, Params())

    assert run.published
    assert env.guardrails.at[0] == run.input_ref
    staged = env.store.read_commit(env.repository, env.guardrails.at[1])  # type: ignore[arg-type]
    assert staged.parents == (run.input_ref,)
    assert staged.tree == run.head.tree


def test_post_guardrails_do_not_get_the_spark_that_the_body_had(env: DirectEnvironment) -> None:
    assert env.run(guarded, Params()).published
    assert env.fake.heard == ["lease", "settle", "give back", "lease", "give back"]


def test_a_broken_promise_publishes_nothing(env: DirectEnvironment) -> None:
    run = env.run(guarded, Params(writes=["out/else"]))
    assert "t/part-0" in failed(run, Phase.POST_CHECK)
    assert env.stagings == []


def test_a_read_only_task_keeps_its_promises_too(env: DirectEnvironment) -> None:
    strict = declare("strict_reader", read_only=True, post=[require_file("missing")])

    assert "missing" in failed(env.run(strict, Params(writes=[])), Phase.POST_CHECK)


def test_a_broken_input_makes_no_branch(env: DirectEnvironment) -> None:
    counts: list[int] = []
    strict = declare("strict", pre=[require_file("missing")])
    look = {Failpoint.REPORTED: lambda: counts.append(len(env.stagings))}
    run = env.run(strict, Params(), at=look)
    assert isinstance(run.outcome, TerminalFailure)
    assert counts == [0]


def test_a_read_only_task_has_no_branch_at_all(env: DirectEnvironment) -> None:
    counts: list[int] = []
    run = env.run(
        read_only,
        Params(writes=[]),
        at={Failpoint.BODY_DONE: lambda: counts.append(len(env.stagings))},
    )
    assert isinstance(run.outcome, Completed)
    assert counts == [0]
    assert env.fake.heard == ["lease", "give back"]


def test_a_stale_attempt_makes_no_branch(env: DirectEnvironment) -> None:
    run = env.run(plain, Params(), at={Failpoint.PRE_CHECKED: env.time_out})
    failed(run, Phase.PREPARE)
    assert env.stagings == []


def test_an_attempt_that_became_stale_publishes_nothing(env: DirectEnvironment) -> None:
    passed: list[str] = []
    at: dict[Failpoint, Fault] = {
        Failpoint.STAGED: env.time_out,
        Failpoint.FENCED_BEFORE_PUBLISH: lambda: passed.append("the fence"),
    }
    run = env.run(plain, Params(), at=at)
    failed(run, Phase.PUBLISH)
    assert env.stagings == []
    assert passed == []


def test_every_moment_of_a_direct_attempt_can_be_made_to_fail(env: DirectEnvironment) -> None:
    hit: list[Failpoint] = []

    def note(point: Failpoint) -> Fault:
        return lambda: hit.append(point)

    env.run(guarded, Params(), at={point: note(point) for point in Failpoint})

    assert hit[: hit.index(Failpoint.FENCED_BEFORE_PUBLISH) + 1] == [
        Failpoint.VALIDATED,
        Failpoint.PREPARED,
        Failpoint.PRE_CHECKED,
        Failpoint.FENCED_BEFORE_STAGE,
        Failpoint.BODY_DONE,
        Failpoint.DIFFED,
        Failpoint.STAGED,
        Failpoint.POST_CHECKED,
        Failpoint.FENCED_BEFORE_PUBLISH,
    ]


def test_a_branch_that_moved_is_left_alone(env: DirectEnvironment) -> None:
    def move_twice() -> None:
        env.move_head()
        env.move_head()

    run = env.run(plain, Params(), at={Failpoint.STAGED: move_twice})
    failed(run, Phase.PUBLISH)
    assert "out/t/part-0" not in run.files


def test_jobs_that_do_not_end_fail_the_attempt(env: DirectEnvironment) -> None:
    def go_on() -> None:
        raise EnvironmentUnfitError("2 Spark tasks still run")

    env.fake.settling = go_on
    assert "still run" in failed(env.run(plain, Params()), Phase.BODY)
    assert env.stagings == []


def test_a_body_whose_spark_died_is_told_so(env: DirectEnvironment) -> None:
    def die(workspace: SparkWorkspace, params: Params) -> Result:
        del workspace, params
        env.fake.is_usable = False
        raise ConnectionRefusedError("Connection refused")

    spec = WorkspaceSpec("out")
    dying = task("dying", owner_email=OWNER, workspace=spec, controls=CONTROLS)(die)
    reason = failed(env.run(dying, Params()), Phase.BODY)
    assert "Spark was stopped or died under the body: ConnectionRefusedError" in reason
    assert env.stagings == []


def test_a_body_that_gives_up_after_its_spark_died_keeps_its_word(env: DirectEnvironment) -> None:
    def give_up(workspace: SparkWorkspace, params: Params) -> Result:
        del workspace, params
        env.fake.is_usable = False
        raise TaskTerminalError("enough")

    spec = WorkspaceSpec("out")
    final = task("final", owner_email=OWNER, workspace=spec, controls=CONTROLS)(give_up)
    assert isinstance(env.run(final, Params()).outcome, TerminalFailure)


def test_a_machine_without_a_fit_spark_makes_no_branch(env: DirectEnvironment) -> None:
    """No Java, a wrong one, no jars, a cluster that refuses: all of these say so at the lease."""
    counts: list[int] = []
    env.fake.starting = lambda: EnvironmentUnfitError("Spark needs Java 17 or 21")
    look = {Failpoint.REPORTED: lambda: counts.append(len(env.stagings))}
    reason = failed(env.run(plain, Params(), at=look), Phase.PREPARE)
    assert "Spark needs Java 17 or 21" in reason
    assert counts == [0]
    assert env.leftovers == []


@pytest.mark.parametrize("path", ["out/late", "out/_temporary/late"], ids=["file", "stray"])
def test_what_comes_in_between_judgement_and_commit_fails_the_attempt(
    env: DirectEnvironment, path: str
) -> None:
    def write_late() -> None:
        (staging,) = env.stagings
        env.lake.put(env.repository, staging, ObjectPath(path), b"late")

    run = env.run(plain, Params(), at={Failpoint.DIFFED: write_late})
    assert "while it was committed" in failed(run, Phase.STAGE)


def test_a_commit_that_was_not_ours_fails_the_attempt(env: DirectEnvironment) -> None:
    def commit() -> None:
        (staging,) = env.stagings
        head = env.store.head(env.repository, staging).id
        env.lake.commit_staged(
            env.repository, staging, expected_head=head, message="mine", metadata={}
        )

    run = env.run(plain, Params(), at={Failpoint.BODY_DONE: commit})
    assert "committed to the staging branch" in failed(run, Phase.DIFF)


def test_an_abandoned_publication_is_replaced_by_the_retry(env: DirectEnvironment) -> None:
    class Died(BaseException):
        pass

    def die() -> None:
        raise Died

    polled = env.schedule(plain, Params())
    with pytest.raises(Died):
        env.run_attempt(plain, polled, at={Failpoint.PUBLISHED: die})
    abandoned = env.store.head(env.repository, env.branch)
    env.clock.advance(10 * 365 * 24 * 3600)

    run = env.run_attempt(plain, env.poll(plain))

    assert run.published
    assert run.head.id != abandoned.id
    assert run.head.parents == abandoned.parents


def test_a_task_may_insist_on_local_files(env: DirectEnvironment) -> None:
    run = env.run(stays_local, Params())
    assert Phase.DOWNLOAD in run.phases
    assert env.fake.heard == ["local lease"]
