"""Keeps the leases of running attempts, and gives up those that are lost."""

from __future__ import annotations

import logging
from collections.abc import Callable

from perago.domain.attempt import decide_staleness
from perago.domain.errors import PeragoError
from perago.ports import Clock, Orchestrator
from perago.runtime.leases import LeaseAction, decide_lease, postpone_beat, renew_lease
from perago.runtime.slot import Assignment, Slot

_log = logging.getLogger(__name__)

_CANCEL_GRACE_SECONDS = 2.0
"""How long a body may react to `context.cancelled` before its process group is killed."""


class LeaseKeeper:
    """Beats, reads back, and cancels. It runs in the supervisor, where no body can stall it."""

    def __init__(self, orchestrator: Orchestrator, clock: Clock) -> None:
        self._orchestrator = orchestrator
        self._clock = clock

    def keep(self, slot: Slot, assignment: Assignment, hear: Callable[[Slot], None]) -> None:
        """Do what is due for one running attempt; `hear` takes its executor's messages."""
        now = self._clock.elapsed()
        if assignment.cancelled_at is not None:
            if now >= assignment.cancelled_at + _CANCEL_GRACE_SECONDS:
                slot.kill()
            return
        if assignment.is_decided:
            return
        match decide_lease(assignment.lease, now):
            case LeaseAction.WAIT:
                return
            case LeaseAction.BEAT:
                self._beat(slot, assignment, hear)
            case LeaseAction.GIVE_UP:
                self._cancel(slot, assignment, "no heartbeat succeeded for the whole lease")
            case LeaseAction.TIME_OUT:
                self._cancel(slot, assignment, "its overall time is used up")

    def _beat(self, slot: Slot, assignment: Assignment, hear: Callable[[Slot], None]) -> None:
        """Renew the lease, and read back: a stale heartbeat is answered like a good one."""
        attempt, began = assignment.attempt, self._clock.elapsed()
        try:
            self._orchestrator.heartbeat(attempt)
            snapshot = self._orchestrator.snapshot(attempt.task_id)
        except PeragoError as error:
            _log.warning("heartbeat of %s failed: %s", attempt.reference_name, error.message)
            assignment.lease = postpone_beat(assignment.lease, now=self._clock.elapsed())
            return
        reason = decide_staleness(attempt, snapshot)
        if reason is None:
            assignment.lease = renew_lease(assignment.lease, beat_began=began)
            slot.share_deadline(assignment.lease.safe_until)
            return
        # The executor may have reported in this very moment: then the attempt is over, not stale.
        hear(slot)
        if slot.assignment is assignment and not assignment.is_decided:
            self._cancel(slot, assignment, reason)

    def _cancel(self, slot: Slot, assignment: Assignment, reason: str) -> None:
        attempt = assignment.attempt
        _log.warning("giving up %s: %s", attempt.reference_name, reason)
        slot.cancel(self._clock.elapsed())
        try:
            self._orchestrator.append_log(attempt.task_id, f"given up: {reason}")
        except PeragoError as error:
            _log.debug("cannot log to %s: %s", attempt.task_id, error.message)
