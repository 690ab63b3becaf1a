"""What must be so after processes were killed: one commit or none, and nothing that stays."""

from __future__ import annotations

from collections.abc import Mapping

from perago.domain.attempt import AttemptStatus
from perago.domain.ids import WorkflowId
from perago.domain.workflow import WorkflowState
from tests.acceptance.workers.moments import Moment
from tests.acceptance.workers.site import MAIN, Site

COMPLETED, FAILED = AttemptStatus.COMPLETED, AttemptStatus.FAILED


def assert_outcome(site: Site, moment: Moment, state: WorkflowState) -> None:
    """One commit on the input ref; none where the last attempt changed nothing."""
    if moment.publishes:
        site.assert_published_once(state, moment.name)
    else:
        assert site.history(moment.name) == []
        assert state.tasks[-1].output["workspace"] == site.workspace(moment.name)


def assert_each_was_killed_and_completed(site: Site, started: Mapping[Moment, WorkflowId]) -> None:
    """As many attempts died as its moment means, and the one after them completed."""
    for moment, workflow in started.items():
        state = site.state(workflow)
        deaths = moment.retry + moment.is_before_report
        assert [task.status for task in state.tasks] == [FAILED] * deaths + [COMPLETED]
        for task in state.tasks[:-1]:
            assert "killed by SIGKILL" in (task.reason or "")
        assert_outcome(site, moment, state)


def assert_leftovers_are_collectable(site: Site, started: Mapping[Moment, WorkflowId]) -> None:
    """Staging branches are hidden from people, and `perago gc` removes them all."""
    names = sorted([MAIN, *(moment.name for moment in started)])
    assert [branch.name for branch in site.store.branches(site.repository)] == names
    assert_stagings_are_collectable(site)


def assert_stagings_are_collectable(site: Site) -> None:
    """`perago gc` removes them all."""
    left = site.stagings()
    collected = site.run("gc", "--staging", site.repository)
    assert collected.code == 0, collected.err
    assert f"removed {len(left)} staging" in collected.out
    assert site.stagings() == []
