"""Crash, retry, lost response, double dispatch, strangers on the branch: in any order.

A model of what a branch may look like is checked after every step. The attempt runner, the fence,
the publication and the orchestrator's engine are the real ones; only time and the store's medium
are not.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import ClassVar, Literal

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from pydantic import BaseModel

from perago import RetryPolicy, TaskControls, WorkspaceSpec, task
from perago.app.confirm_report import explain_unconfirmed
from perago.domain.attempt import AttemptStatus
from perago.domain.ids import CommitId, ExecutionId
from perago.domain.outcome import Completed, read_ref
from perago.domain.publication import Commit, read_logical_task
from perago.domain.workflow import PolledTask
from perago.ports import Failpoint, Fencing
from perago.testing import TaskEnvironment
from tests.lossy_store import LossyStore, SoftLossyStore


class Params(BaseModel):
    text: str


class Result(BaseModel):
    written: str


@task(
    "write",
    owner_email="data@example.com",
    workspace=WorkspaceSpec(prefix="/"),
    controls=TaskControls(retry=RetryPolicy(count=1000, delay_seconds=0)),
)
def write(workspace: Path, params: Params) -> Result:
    """Write what the run is about, and the input ref's files stay."""
    (workspace / "text").write_text(params.text)
    return Result(written=params.text)


AFTER_PUBLICATION = (Failpoint.PUBLISHED, Failpoint.VERIFIED)


class Crash(BaseException):
    """The process is gone: nobody reports, nobody cleans up."""


def crash() -> None:
    raise Crash


class AttemptMachine(RuleBasedStateMachine):
    """One branch, many workflow instances, everything that can happen to an attempt."""

    store_kind: ClassVar[type[LossyStore]] = LossyStore

    def __init__(self) -> None:
        super().__init__()
        self.env = TaskEnvironment()
        self.store = self.store_kind(self.env.clock)
        self.store.create_repository(self.env.repository, branch=self.env.branch)
        self.env.store = self.store
        self.polled: list[PolledTask] = []
        self.runs = 0
        self.acknowledged: set[CommitId] = set()
        """Commits that the orchestrator took as the output of a completed attempt."""

    # -- what happens

    @initialize()
    def two_runs_from_one_commit(self) -> None:
        self.start_a_run()
        self.start_a_run()

    @rule()
    def start_a_run(self) -> None:
        self.runs += 1
        self.polled.append(self.env.schedule(write, Params(text=f"run {self.runs}")))

    @rule()
    def poll_a_retry(self) -> None:
        polled = self.env.orchestrator.poll(
            [write.name], worker_id=self.env.worker_id, count=5, wait_seconds=0
        )
        self.polled.extend(polled)

    @precondition(lambda self: self.polled)
    @rule(data=st.data(), again=st.booleans())
    def run_undisturbed(self, data: st.DataObject, again: bool) -> None:
        self.run_one(data, again=again)

    @precondition(lambda self: self.polled)
    @rule(data=st.data(), point=st.sampled_from(list(Failpoint)), again=st.booleans())
    def crash_somewhere(self, data: st.DataObject, point: Failpoint, again: bool) -> None:
        self.run_one(data, again=again, at={point: crash})

    @precondition(lambda self: self.polled)
    @rule(data=st.data(), point=st.sampled_from(AFTER_PUBLICATION))
    def crash_before_the_report(self, data: st.DataObject, point: Failpoint) -> None:
        self.run_one(data, at={point: crash})

    @precondition(lambda self: self.polled)
    @rule(
        data=st.data(),
        point=st.sampled_from(list(Failpoint)),
        fault=st.sampled_from(["lose_lease", "time_out", "move_head"]),
    )
    def run_into_trouble(self, data: st.DataObject, point: Failpoint, fault: str) -> None:
        self.run_one(data, at={point: getattr(self.env, fault)})

    @precondition(lambda self: self.polled)
    @rule(data=st.data(), after_a_crash=st.booleans())
    def a_stranger_commits_while_the_last_fence_is_asked(
        self, data: st.DataObject, after_a_crash: bool
    ) -> None:
        if after_a_crash:  # so that a reset may be what follows
            self.run_one(data, again=True, at={Failpoint.VERIFIED: crash})
            self.time_passes()
            self.poll_a_retry()
        landed: list[CommitId] = []

        def commit() -> None:
            self.env.move_head()
            landed.append(self.store.head(self.env.repository, self.env.branch).id)

        self.run_one(data, at={Failpoint.FENCED_BEFORE_ACT: commit})
        assert set(landed) <= {commit.id for commit in self.history()}, "it was reset away"

    @precondition(lambda self: self.polled)
    @rule(data=st.data(), loses=st.sampled_from(["request", "response"]))
    def lose_an_answer(self, data: st.DataObject, loses: Literal["request", "response"]) -> None:
        self.store.loses = loses
        self.run_one(data)
        self.store.loses = None

    def run_one(
        self,
        data: st.DataObject,
        *,
        again: bool = False,
        at: Mapping[Failpoint, Callable[[], None]] | None = None,
    ) -> None:
        """Run one attempt; `again` leaves it in the list, so that it is dispatched twice."""
        polled = data.draw(st.sampled_from(self.polled))
        if not again:
            self.polled.remove(polled)
        was_open = self.is_open(polled)
        try:
            run = self.env.run_attempt(write, polled, at=at)
        except Crash:
            return
        if isinstance(run.outcome, Completed):
            self.confirm(polled, run.outcome)
        after = self.env.orchestrator.snapshot(polled.attempt.task_id).status
        if was_open and after is AttemptStatus.COMPLETED and isinstance(run.outcome, Completed):
            workspace = run.outcome.output["workspace"]
            assert isinstance(workspace, dict)
            ref = CommitId(str(workspace["ref"]))
            self.acknowledged.add(ref)
            params = polled.input["params"]
            assert isinstance(params, dict)
            assert self.read(ref) == params["text"], "the output is not what the attempt wrote"

    def confirm(self, polled: PolledTask, outcome: Completed) -> None:
        """Whoever reports for an executor would find that the outcome is true."""
        workspace = write.parse_input(polled.input).workspace
        ref = read_ref(outcome.output)
        assert workspace is not None
        assert ref is not None
        commit = self.store.read_commit(self.env.repository, ref)
        execution_id = ExecutionId(commit.metadata.get("perago.execution", ""))
        assert (
            explain_unconfirmed(polled.attempt, execution_id, workspace, outcome, store=self.store)
            is None
        )

    @rule()
    def time_passes(self) -> None:
        """Leases run out; what was in progress is scheduled again."""
        self.env.clock.advance(3600)

    @rule()
    def a_stranger_commits(self) -> None:
        self.env.move_head()

    # -- what must hold

    def is_open(self, polled: PolledTask) -> bool:
        return not self.env.orchestrator.snapshot(polled.attempt.task_id).status.is_terminal

    def history(self) -> list[Commit]:
        head = self.store.head(self.env.repository, self.env.branch).id
        return list(self.store.log(self.env.repository, head))

    @invariant()
    def the_history_is_linear(self) -> None:
        assert all(len(commit.parents) == 1 for commit in self.history()[:-1])

    @invariant()
    def a_logical_task_is_in_the_history_at_most_once(self) -> None:
        owners = [read_logical_task(commit.metadata) for commit in self.history()]
        ours = [owner for owner in owners if owner is not None]
        assert len(ours) == len(set(ours))

    @invariant()
    def no_acknowledged_publication_is_ever_lost(self) -> None:
        ids = {commit.id for commit in self.history()}
        assert self.acknowledged <= ids

    @invariant()
    def a_publication_stands_on_the_commit_that_its_attempt_read(self) -> None:
        if self.store.fencing is Fencing.SOFT:
            return  # a merge may land on a stranger's commit; its attempt fails
        for commit in self.history():
            if "perago.expected_head" in commit.metadata:
                assert commit.parents == (commit.metadata["perago.expected_head"],)

    @invariant()
    def a_publication_holds_what_its_run_wrote(self) -> None:
        for commit in self.history():
            owner = read_logical_task(commit.metadata)
            if owner is not None:
                text = self.env.orchestrator.workflow(owner.workflow_id).input["params"]
                assert isinstance(text, dict)
                assert self.read(commit.id) == text["text"]

    def read(self, commit: CommitId) -> str:
        entries: Collection[str] = [
            entry.path
            for entry in self.store.list_objects(self.env.repository, commit)
            if entry.path == "text"
        ]
        (path,) = entries
        with self.store.open_object(self.env.repository, commit, path) as stream:  # type: ignore[arg-type]
            return stream.read().decode()

    def teardown(self) -> None:
        self.env.close()


class SoftAttemptMachine(AttemptMachine):
    """The same on a store that cannot compare and move in one step."""

    store_kind: ClassVar[type[LossyStore]] = SoftLossyStore


@pytest.mark.parametrize("machine", [AttemptMachine, SoftAttemptMachine], ids=["atomic", "soft"])
@pytest.mark.parametrize("examples", [40, pytest.param(2_000, marks=pytest.mark.torture)])
def test_no_order_of_events_damages_the_branch(
    machine: type[AttemptMachine], examples: int
) -> None:
    chosen = settings(max_examples=examples, stateful_step_count=20)
    run_state_machine_as_test(machine, settings=chosen)
