"""Eight workflow instances publish to one branch at the same moment: what the soft fence is worth.

Each instance has content of its own, so that no merge conflicts with another: nothing but the
fence keeps them apart. The number of rounds in which the server let more than one merge through
is printed: the fence finds each of those out, it does not prevent them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from perago import TaskControls
from perago.adapters.lakefs import LakeFSWorkspaceStore
from perago.adapters.servers import ThrowawayLakeFS
from perago.app.follow import RunRequest, start_run
from perago.authoring import Pipeline
from perago.domain.ids import BranchName, CommitId, ExecutionId, RepositoryName, WorkerId
from perago.domain.outcome import Completed
from perago.domain.publication import Commit
from perago.domain.workflow import PolledTask
from perago.ports import Failpoint
from perago.testing import FakeClock, MemoryOrchestrator
from tests.integration.lakefs.attempts import Attempted, Edit, edit, run_attempt
from tests.lakefs_server import connection_to
from tests.session_report import FIGURE

pytestmark = pytest.mark.lakefs

PUBLISHERS = 8
UNHURRIED = replace(edit, controls=TaskControls())
"""With the usual merge time-out: a slow winner must not be cut off from its answer."""
REPOSITORY, MAIN = RepositoryName("race"), BranchName("main")


class Race:
    """A branch, and the workflow instances that want it."""

    def __init__(self, server: ThrowawayLakeFS, root: Path) -> None:
        self.stores = [LakeFSWorkspaceStore(connection_to(server)) for _ in range(PUBLISHERS)]
        self.orchestrator = MemoryOrchestrator(FakeClock())
        self.root = root

    def close(self) -> None:
        for store in self.stores:
            store.close()

    def run_round(self, number: int) -> tuple[CommitId, list[Attempted]]:
        """Start one instance per publisher from the head, and run all of them side by side."""
        head = self.stores[0].head(REPOSITORY, MAIN).id
        self.orchestrator = MemoryOrchestrator(FakeClock())  # without the last round's retries
        polled = [self._start(f"round-{number}/publisher-{one}") for one in range(PUBLISHERS)]
        assert len({task.attempt.workflow_id for task in polled}) == PUBLISHERS
        barrier = threading.Barrier(PUBLISHERS)

        def publish(one: int) -> Attempted:
            # All have staged; what follows is the read of HEAD, the last fence, and the merge.
            return run_attempt(
                polled[one],
                ExecutionId(f"{number * PUBLISHERS + one:032x}"),
                store=self.stores[one],
                orchestrator=self.orchestrator,
                root=self.root / str(one),
                hooks={Failpoint.FENCED_BEFORE_PUBLISH: lambda: barrier.wait(timeout=60)},
                declared=UNHURRIED,
            )

        with ThreadPoolExecutor(PUBLISHERS) as pool:
            return head, list(pool.map(publish, range(PUBLISHERS)))

    def _start(self, path: str) -> PolledTask:
        request = RunRequest(
            pipeline=Pipeline.of_task(edit),
            params=Edit(writes={path: path}, deletes=[]).model_dump(),
            repository=REPOSITORY,
            branch=MAIN,
        )
        start_run(request, store=self.stores[0], orchestrator=self.orchestrator)
        (task,) = self.orchestrator.poll(
            [edit.name], worker_id=WorkerId("racer"), count=1, wait_seconds=0
        )
        return task

    def commits_since(self, head: CommitId) -> list[Commit]:
        """What the round added to the branch, oldest first."""
        store = self.stores[0]
        added: list[Commit] = []
        for commit in store.log(REPOSITORY, store.head(REPOSITORY, MAIN).id):
            if commit.id == head:
                return added[::-1]
            added.append(commit)
        raise AssertionError(f"{head} is no longer an ancestor of the branch")


def judge(head: CommitId, added: Sequence[Commit], outcomes: Sequence[Attempted]) -> None:
    """Only the publisher of the input ref's child may claim to have published."""
    assert added[0].parents == (head,)
    claimed = [end.output_ref for end in outcomes if isinstance(end.outcome, Completed)]
    assert claimed == [added[0].id]
    for end in outcomes:
        if not isinstance(end.outcome, Completed):
            assert end.outcome.status == "FAILED"


@pytest.mark.parametrize(
    "rounds",
    [
        pytest.param(8, id="8-rounds"),
        pytest.param(200, id="200-rounds", marks=[pytest.mark.torture, pytest.mark.timeout(3600)]),
    ],
)
def test_of_racing_instances_only_the_first_claims_its_publication(
    lakefs_server: ThrowawayLakeFS,
    tmp_path: Path,
    rounds: int,
    record_property: Callable[[str, object], None],
) -> None:
    race = Race(lakefs_server, tmp_path)
    try:
        race.stores[0].create_repository(REPOSITORY, branch=MAIN)
        merged: list[int] = []
        for number in range(rounds):
            head, outcomes = race.run_round(number)
            added = race.commits_since(head)
            judge(head, added, outcomes)
            merged.append(len(added))
    finally:
        race.close()
    several = sum(count > 1 for count in merged)
    assert several > 0, "nobody raced: this proves nothing"
    record_property(
        FIGURE,
        f"soft fence on lakeFS, {PUBLISHERS} publishers, {rounds} rounds: more than one merge in "
        f"{several} rounds (up to {max(merged)}); each was found out, none was claimed",
    )
