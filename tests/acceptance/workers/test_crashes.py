"""kill -9 of an executor, then of the supervisor, at every moment of an attempt.

After Conductor's own retry the workflow completes, the history is `input_ref -> published`, and
what is left behind is gone after the next start, or collectable.
"""

from __future__ import annotations

import pytest

from perago.domain.attempt import AttemptStatus
from perago.ports import Failpoint
from tests.acceptance.workers.aftermath import (
    assert_each_was_killed_and_completed,
    assert_leftovers_are_collectable,
    assert_outcome,
)
from tests.acceptance.workers.moments import (
    AFTER_REPORT,
    MERGE,
    RESETS,
    Moment,
    rules,
    wait_until_stopped,
)
from tests.acceptance.workers.processes import processes_of_site, wait_until
from tests.acceptance.workers.site import Site

pytestmark = [pytest.mark.conductor, pytest.mark.lakefs, pytest.mark.timeout(900)]

COMPLETED, FAILED = AttemptStatus.COMPLETED, AttemptStatus.FAILED


@pytest.mark.parametrize("moments", [MERGE, RESETS], ids=["merge", "resets"])
def test_an_executor_is_killed_at_every_moment(site: Site, moments: tuple[Moment, ...]) -> None:
    with site.worker("-j", "4", PERAGO_FAILPOINTS=rules(moments, "kill")) as worker:
        started = {moment: moment.start(site, "step") for moment in moments}
        site.complete(list(started.values()))
        assert worker.stop() == 0, worker.said

    assert_each_was_killed_and_completed(site, started)
    assert worker.attempt_directories == []
    assert_leftovers_are_collectable(site, started)


def test_the_supervisor_is_killed_while_attempts_are_at_every_moment(site: Site) -> None:
    """The retries wait for no lease: the next start of the same root says who died."""
    with site.worker("-j", str(len(MERGE)), PERAGO_FAILPOINTS=rules(MERGE, "stop")) as worker:
        # Before it has a directory an attempt leaves nothing to be found: its lease must end it.
        started = {
            moment: moment.start(site, "brief" if moment.point is Failpoint.VALIDATED else "step")
            for moment in MERGE
        }
        wait_until_stopped(worker, len(MERGE))
        worker.kill()
        wait_until(lambda: processes_of_site(site.mark) == [], "its executors are gone")
    assert worker.attempt_directories != []

    with site.worker("-j", "2") as worker:
        site.complete(list(started.values()))
        assert worker.stop() == 0, worker.said

    for moment, workflow in started.items():
        state = site.state(workflow)
        statuses = [task.status for task in state.tasks]
        if moment.point in AFTER_REPORT:
            assert statuses == [COMPLETED]
        elif moment.point is Failpoint.VALIDATED:
            assert statuses == [AttemptStatus.TIMED_OUT, COMPLETED]
        else:
            assert statuses == [FAILED, COMPLETED]
            assert state.tasks[0].reason == "the worker that held it died"
        assert_outcome(site, moment, state)
    assert worker.attempt_directories == []
    assert_leftovers_are_collectable(site, started)


@pytest.mark.torture
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("moment", MERGE + RESETS, ids=lambda moment: moment.name)
def test_a_worker_is_killed_whole_at_one_moment(site: Site, moment: Moment) -> None:
    with site.worker(PERAGO_FAILPOINTS=moment.rules("kill-worker")) as worker:
        workflow = moment.start(site, "step")
        assert worker.end() == -9, worker.said
        wait_until(lambda: processes_of_site(site.mark) == [], "its executors are gone")
    with site.worker() as worker:
        # Where the report was sent before, nothing is left to do, and a signal could come too soon.
        worker.wait_until_ready()
        (state,) = site.complete([workflow])
        assert worker.stop() == 0, worker.said

    assert_outcome(site, moment, state)
    assert worker.attempt_directories == []
    assert_leftovers_are_collectable(site, {moment: workflow})
