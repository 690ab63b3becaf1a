"""kill -9 of a driver, Python and its JVM, at every moment of an attempt on the lake itself.

The same holds as for files: after Conductor's own retry the workflow completes, the history is
`input_ref -> published`, no stray object is in it, and what is left behind is collectable.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest

from perago.adapters.servers import ThrowawayLakeFS
from perago.domain.attempt import AttemptStatus
from perago.domain.ids import BranchName
from perago.ports import Failpoint
from tests.acceptance.workers.aftermath import (
    assert_each_was_killed_and_completed,
    assert_leftovers_are_collectable,
    assert_outcome,
    assert_stagings_are_collectable,
)
from tests.acceptance.workers.moments import (
    MERGE,
    RESETS,
    Moment,
    rules,
    wait_until_stopped,
)
from tests.acceptance.workers.processes import WorkerProcess, processes_of_site, wait_until
from tests.acceptance.workers.site import INPUT, Site, open_site
from tests.conductor_server import SharedConductor

pytestmark = [
    pytest.mark.conductor,
    pytest.mark.lakefs,
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.timeout(1800),
]


class StartWorker(Protocol):
    def __call__(
        self, executors: int, *, home: str = "home", failpoints: str = ""
    ) -> WorkerProcess: ...


COMPLETED, FAILED = AttemptStatus.COMPLETED, AttemptStatus.FAILED
PATIENCE = 1200.0
"""Every death costs the start of a JVM, and they all wait for each other."""

# A direct attempt downloads nothing.
ALL = tuple(moment for moment in MERGE if moment.point is not Failpoint.DOWNLOADED) + RESETS
SOME = (
    Moment(Failpoint.BODY_DONE),
    Moment(Failpoint.STAGED),
    Moment(Failpoint.FENCED_BEFORE_ACT, "replace"),
)
"""One of each kind of leftover: objects, a commit, and a publication with a second death."""


@pytest.fixture
def site(
    conductor_server: SharedConductor, lakefs_server: ThrowawayLakeFS, tmp_path: Path
) -> Iterator[Site]:
    """With the tasks of `direct_jobs` registered."""
    place = tmp_path / "site"
    with open_site(conductor_server.endpoint, lakefs_server, place, "direct_jobs") as site:
        yield site


@pytest.fixture
def start_worker(site: Site, s3a_jars: list[Path]) -> StartWorker:
    """A worker whose Spark is small and starts fast."""
    variables = {
        "PERAGO_SPARK_JARS": ",".join(map(str, s3a_jars)),
        "PERAGO_SPARK_MASTER": "local[2]",
        "PERAGO_SPARK_MEMORY_MB": "1024",
    }

    def start(executors: int, *, home: str = "home", failpoints: str = "") -> WorkerProcess:
        own = variables | {"PERAGO_FAILPOINTS": failpoints}
        return site.worker("-j", str(executors), home=home, module="direct_jobs", **own)

    return start


@pytest.mark.parametrize(
    "moments",
    [SOME, pytest.param(ALL, marks=[pytest.mark.torture, pytest.mark.timeout(7200)])],
    ids=["some", "all"],
)
def test_a_driver_is_killed_at_moments(
    site: Site, start_worker: StartWorker, moments: tuple[Moment, ...]
) -> None:
    with start_worker(2, failpoints=rules(moments, "kill")) as worker:
        started = {moment: moment.start(site, "direct") for moment in moments}
        site.complete(list(started.values()), PATIENCE)
        assert worker.stop() == 0, worker.said

    assert_each_was_killed_and_completed(site, started)
    assert worker.attempt_directories == []
    assert site.stagings() != []
    assert_leftovers_are_collectable(site, started)
    wait_until(lambda: processes_of_site(site.mark) == [], "no JVM is left")


@pytest.mark.torture
def test_the_supervisor_is_killed_while_drivers_are_at_work(
    site: Site, start_worker: StartWorker
) -> None:
    """The retries wait for no lease: the next start of the same root says who died."""
    moments = (Moment(Failpoint.BODY_DONE), Moment(Failpoint.PUBLISHED))
    with start_worker(len(moments), failpoints=rules(moments, "stop")) as worker:
        started = {moment: moment.start(site, "direct") for moment in moments}
        wait_until_stopped(worker, len(moments))
        worker.kill()
        wait_until(lambda: processes_of_site(site.mark) == [], "its executors and JVMs are gone")
    assert len(worker.attempt_directories) == len(moments)

    with start_worker(1) as worker:
        site.complete(list(started.values()), PATIENCE)
        assert worker.stop() == 0, worker.said

    for moment, workflow in started.items():
        state = site.state(workflow)
        assert [task.status for task in state.tasks] == [FAILED, COMPLETED]
        assert state.tasks[0].reason == "the worker that held it died"
        assert_outcome(site, moment, state)
    assert worker.attempt_directories == []
    assert_leftovers_are_collectable(site, started)


@pytest.mark.torture
def test_two_drivers_of_one_task_at_once_publish_once(
    site: Site, start_worker: StartWorker
) -> None:
    """A worker stands still past its lease with a table on its branch, and wakes up too late."""
    moments = (Moment(Failpoint.BODY_DONE), Moment(Failpoint.FENCED_BEFORE_PUBLISH))
    with start_worker(len(moments), home="first", failpoints=rules(moments, "stop")) as first:
        started = {moment: moment.start(site, "direct_brief") for moment in moments}
        wait_until_stopped(first, len(moments))
        frozen = first.freeze()
        with start_worker(1, home="second") as second:
            site.complete(list(started.values()), PATIENCE)
            assert second.stop() == 0, second.said
        before = {moment: site.state(workflow) for moment, workflow in started.items()}

        first.thaw(frozen)
        assert first.stop() == 0, first.said

    for moment, workflow in started.items():
        state = site.state(workflow)
        assert state.tasks == before[moment].tasks, "Conductor heard nothing of the first"
        assert state.tasks[0].status is AttemptStatus.TIMED_OUT
        assert_outcome(site, moment, state)
    assert_leftovers_are_collectable(site, started)


@pytest.mark.torture
def test_a_driver_that_is_killed_in_the_middle_of_a_write_leaves_nothing_in_reach(
    site: Site, start_worker: StartWorker
) -> None:
    """Files of a table are uploads in parts that only the end of the job would complete."""
    with start_worker(1) as worker:
        (state,) = site.complete([site.start("grind", "grind")], PATIENCE)
        assert worker.stop() == 0, worker.said
    assert [task.status for task in state.tasks] == [FAILED, COMPLETED]
    site.assert_published_once(state, "grind")

    (left,) = site.stagings()
    shown = site.store.list_staged(site.repository, BranchName(left))
    unfinished = {str(entry.path) for entry in shown} - INPUT.keys()
    assert any(name.endswith(".pendingset") for name in unfinished)
    assert all("/__magic" in name or name.endswith("/") for name in unfinished), "no data file"
    parts = parts_of_uploads(site)
    assert parts != set()
    assert_stagings_are_collectable(site)

    # What remains is the block store's to expire: no branch, commit or upload of lakeFS names it.
    assert parts_of_uploads(site) == parts
    for branch in site.store.branches(site.repository, hidden=True):
        for entry in site.store.list_objects(site.repository, branch.head):
            assert not any(part in (entry.address or "") for part in parts)


def parts_of_uploads(site: Site) -> set[str]:
    """What this server's block store, a directory, holds of uploads that nobody completed."""
    blocks = site.lakefs.log.parent / "blocks"
    names = {path.name for path in blocks.rglob("*") if site.repository in path.parts}
    return {name for name in names if re.fullmatch(r"[0-9a-f]{32}-\d{5}", name)}
