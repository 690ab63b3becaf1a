"""The moments of an attempt at which tests kill or stop its processes, as failpoint rules.

Three ways lead to the target: a merge, the reset that replaces what an earlier attempt published
and never reported, and the reset that takes such a publication back because nothing changed. A
merge beside that of another attempt conflicts, unless they wrote files apart from each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import psutil

from perago.domain.ids import WorkflowId
from perago.domain.outcome import JsonObject
from perago.ports import Failpoint
from tests.acceptance.workers.processes import WorkerProcess, wait_until
from tests.acceptance.workers.site import Site

Way = Literal["merge", "apart", "replace", "take-back"]

AFTER_REPORT = (Failpoint.REPORTED, Failpoint.STAGING_REMOVED, Failpoint.CLEANED)
"""By then Conductor knows: what happens to the process changes nothing."""
_CONFIRM = (
    Failpoint.HEAD_READ,
    Failpoint.FENCED_BEFORE_ACT,
    Failpoint.TIMED_BEFORE_ACT,
    Failpoint.PUBLISHED,
)


@dataclass(frozen=True, slots=True)
class Moment:
    """A failpoint on one of the ways."""

    point: Failpoint
    way: Way = "merge"

    @property
    def name(self) -> str:
        """The step's reference name, and its branch."""
        return f"{self.way}-{self.point}"

    @property
    def retry(self) -> int:
        """Which attempt gets there: the first, or the one after a publication without report."""
        return 0 if self.way in ("merge", "apart") else 1

    @property
    def params(self) -> JsonObject:
        return {"idle_from": 1 if self.way == "take-back" else 100, "apart": self.way == "apart"}

    @property
    def is_before_report(self) -> bool:
        return self.point not in AFTER_REPORT

    @property
    def publishes(self) -> bool:
        """Whether the retry leaves a commit."""
        return self.way != "take-back"

    def rules(self, action: str) -> str:
        own = f"{self.point}={action}@{self.name}#{self.retry}"
        return own if self.retry == 0 else f"published=kill@{self.name}#0;{own}"

    def start(self, site: Site, task: str) -> WorkflowId:
        return site.start(task, self.name, self.params)


MERGE = tuple(Moment(point) for point in Failpoint)
APART = tuple(
    Moment(point, "apart") for point in (Failpoint.FENCED_BEFORE_ACT, Failpoint.TIMED_BEFORE_ACT)
)
RESETS = tuple(Moment(point, way) for way in ("replace", "take-back") for point in _CONFIRM)


def rules(moments: tuple[Moment, ...], action: str) -> str:
    """All of it, for PERAGO_FAILPOINTS."""
    return ";".join(moment.rules(action) for moment in moments)


def wait_until_stopped(worker: WorkerProcess, count: int) -> None:
    """Wait until so many executors stand still at their moments."""

    def stopped() -> int:
        return sum(_is_stopped(process) for process in worker.tree)

    wait_until(lambda: stopped() == count, f"{count} executors stand still")


def _is_stopped(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_STOPPED
    except psutil.NoSuchProcess:
        return False
