"""Keeps the leases of running attempts, and gives up those that are lost."""

from __future__ import annotations

import logging
from collections.abc import Callable

from perago.domain.attempt import Attempt, AttemptSnapshot, decide_staleness
from perago.domain.errors import PeragoError
from perago.ports import Clock, Orchestrator
from perago.runtime.calls import Calls
from perago.runtime.events import WorkerEvents
from perago.runtime.leases import LeaseAction, decide_lease, postpone_beat, renew_lease
from perago.runtime.log_context import about
from perago.runtime.slot import Assignment, Slot

_log = logging.getLogger(__name__)

_CANCEL_GRACE_SECONDS = 2.0
"""How long a body may react to `context.cancelled` before its process group is killed."""


class LeaseKeeper:
    """Beats, reads back, and cancels. It runs in the supervisor, where no body can stall it.

    `hear` takes the messages of a slot's executor; `note` adds a line to an attempt's log.
    """

    def __init__(
        self,
        orchestrator: Orchestrator,
        clock: Clock,
        calls: Calls,
        *,
        events: WorkerEvents,
        hear: Callable[[Slot], None],
        note: Callable[[Attempt, str], None],
    ) -> None:
        self._orchestrator = orchestrator
        self._clock = clock
        self._calls = calls
        self._events = events
        self._hear = hear
        self._note = note

    def keep(self, slot: Slot, assignment: Assignment) -> None:
        """Do what is due for one running attempt."""
        now = self._clock.elapsed()
        if assignment.cancelled_at is not None:
            if now >= assignment.cancelled_at + _CANCEL_GRACE_SECONDS:
                slot.kill()
            return
        if not assignment.needs_lease:
            return
        action = decide_lease(assignment.lease, now)
        if assignment.is_decided and action is not LeaseAction.WAIT:
            # What is being reported is not given up: the orchestrator knows what a late one is
            # worth.
            action = LeaseAction.BEAT
        match action:
            case LeaseAction.WAIT:
                return
            case LeaseAction.BEAT:
                if not assignment.beat_is_under_way and now >= assignment.lease.next_beat:
                    self._beat(slot, assignment)
            case LeaseAction.GIVE_UP:
                self._cancel(slot, assignment, "no heartbeat succeeded for the whole lease")
            case LeaseAction.TIME_OUT:
                self._cancel(slot, assignment, "its overall time is used up")

    def _beat(self, slot: Slot, assignment: Assignment) -> None:
        """Renew the lease, and read back: a stale heartbeat is answered like a good one."""
        attempt, began = assignment.attempt, self._clock.elapsed()

        def beat() -> AttemptSnapshot:
            self._orchestrator.heartbeat(attempt)
            return self._orchestrator.snapshot(attempt.task_id)

        def take(answer: AttemptSnapshot | PeragoError) -> None:
            assignment.beat_is_under_way = False
            if slot.assignment is assignment and assignment.needs_lease:
                self._settle(slot, assignment, answer, began)

        assignment.beat_is_under_way = True
        self._calls.submit(beat, take)

    def _settle(
        self,
        slot: Slot,
        assignment: Assignment,
        answer: AttemptSnapshot | PeragoError,
        began: float,
    ) -> None:
        if isinstance(answer, PeragoError):
            attempt = assignment.attempt
            with about(assignment.execution):
                _log.warning("heartbeat of %s failed: %s", attempt.reference_name, answer.message)
            self._events.heartbeat_failed(attempt, answer.message)
            assignment.lease = postpone_beat(assignment.lease, now=self._clock.elapsed())
            return
        # As it is now: the same task may have been delivered to this worker again meanwhile.
        reason = decide_staleness(assignment.attempt, answer)
        if reason is None:
            assignment.lease = renew_lease(assignment.lease, beat_began=began)
            slot.share_deadline(assignment.lease.safe_until)
            return
        # The executor may have reported in this very moment: then the attempt is over, not stale.
        self._hear(slot)
        if slot.assignment is not assignment:
            return
        if assignment.is_decided:
            assignment.lease = postpone_beat(assignment.lease, now=self._clock.elapsed())
        else:
            self._cancel(slot, assignment, reason)

    def _cancel(self, slot: Slot, assignment: Assignment, reason: str) -> None:
        attempt = assignment.attempt
        with about(assignment.execution):
            _log.warning("giving up %s: %s", attempt.reference_name, reason)
        self._events.lease_lost(attempt, reason)
        slot.cancel(self._clock.elapsed())
        self._note(attempt, f"given up: {reason}")
