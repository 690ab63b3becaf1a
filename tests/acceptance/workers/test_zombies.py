"""A worker that stands still past its lease, and wakes up after the retry has published.

The whole process tree is stopped, executors at every moment of an attempt. What a zombie does then
must change nothing: Conductor records no success of it, and the target is as the retry left it.
Except between the last look at the clock and the server's act, where lakeFS has no lock to offer:
there the failures of the soft fence are counted.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from perago.domain.attempt import AttemptStatus
from perago.domain.ids import BranchName
from perago.ports import Failpoint
from tests.acceptance.workers.moments import APART, MERGE, RESETS, Moment, rules, wait_until_stopped
from tests.acceptance.workers.site import Site
from tests.session_report import FIGURE

pytestmark = [pytest.mark.conductor, pytest.mark.lakefs, pytest.mark.timeout(900)]

BEFORE_REPORT = tuple(moment for moment in MERGE if moment.is_before_report)


@pytest.mark.parametrize("moments", [BEFORE_REPORT, APART + RESETS], ids=["merge", "reset"])
def test_zombies_change_nothing(
    site: Site, moments: tuple[Moment, ...], record_property: Callable[[str, object], None]
) -> None:
    count = str(len(moments))
    with site.worker(
        "-j", count, home="zombie", PERAGO_FAILPOINTS=rules(moments, "stop")
    ) as zombie:
        started = {moment: moment.start(site, "brief") for moment in moments}
        wait_until_stopped(zombie, len(moments))
        frozen = zombie.freeze()
        with site.worker("-j", "2", home="second") as second:
            # What Conductor takes for lost by now, for its lease ran out, goes to the second one.
            site.complete(list(started.values()))
            assert second.stop() == 0, second.said
        before = {moment: site.state(workflow) for moment, workflow in started.items()}
        heads = {moment: head_of(site, moment) for moment in moments}

        zombie.thaw(frozen)
        assert zombie.stop() == 0, zombie.said

    moved = [moment for moment in moments if head_of(site, moment) != heads[moment]]
    for moment, workflow in started.items():
        state = site.state(workflow)
        assert state.tasks == before[moment].tasks, "Conductor heard nothing of the zombie"
        zombies, last = state.tasks[: moment.retry + 1], state.tasks[-1]
        assert zombies[-1].status is AttemptStatus.TIMED_OUT
        assert last.status is AttemptStatus.COMPLETED
        if moment in moved:
            assert moment.point is Failpoint.TIMED_BEFORE_ACT
        elif moment.publishes:
            site.assert_published_once(state, moment.name)
        else:
            assert site.history(moment.name) == []
    record_property(FIGURE, describe(moments, moved))


def head_of(site: Site, moment: Moment) -> str:
    return site.store.head(site.repository, BranchName(moment.name)).id


def describe(moments: tuple[Moment, ...], moved: list[Moment]) -> str:
    open_ways = [m for m in moments if m.point is Failpoint.TIMED_BEFORE_ACT]
    names = ", ".join(moment.way for moment in moved) or "none"
    return (
        f"zombies: {len(moments)} stopped past their lease; between the last look at the clock and "
        f"the server's act the soft fence failed {len(moved)} times of {len(open_ways)} ({names}), "
        "elsewhere never"
    )
