"""Puts what polls bring into slots.

Invariant: a task id is in one slot at a time, however often it is delivered; what finds no slot
is handed back, so that it need not wait for its lease.

A slot whose attempt is reporting is as good as free, and so is one whose attempt will be over in
less time than a poll takes: the next attempt is asked for meanwhile and waits here, so that a busy
worker has no gaps.
"""

from __future__ import annotations

import logging
import math
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from perago.domain.attempt import Attempt
from perago.domain.errors import PeragoError
from perago.domain.ids import ExecutionId, TaskId
from perago.domain.workflow import PolledTask
from perago.ports import Clock, Orchestrator
from perago.runtime.attempt_logs import attempt_log_path
from perago.runtime.calls import Calls
from perago.runtime.events import WorkerEvents
from perago.runtime.leases import start_lease
from perago.runtime.log_context import about
from perago.runtime.options import SupervisorOptions
from perago.runtime.slot import Assignment, Slot

_log = logging.getLogger(__name__)

_WAITING_SHARE = 4
_WAITING_SECONDS = 5.0
"""What waited so long for a slot, or for such a part of its lease, is handed back: its slot does
not come free, and another worker may have one."""

_BRIEF_SECONDS = 0.02
"""Less than a server takes to answer a poll when it has work."""
_NEWEST_WEIGHT = 0.3


@dataclass(frozen=True, slots=True)
class _Waiting:
    """An attempt that was polled for a slot that is about to be free."""

    polled: PolledTask
    polled_at: float
    received_at: float

    @property
    def task_id(self) -> TaskId:
        return self.polled.attempt.task_id


class Intake:
    """Takes attempts until it is closed; from then on it hands them back."""

    def __init__(
        self,
        slots: Sequence[Slot],
        options: SupervisorOptions,
        *,
        orchestrator: Orchestrator,
        clock: Clock,
        calls: Calls,
        events: WorkerEvents,
        is_over: Callable[[TaskId], bool],
    ) -> None:
        """`is_over` says whether a task came to its end here, and only waits to be reported."""
        self._slots = slots
        self._options = options
        self._orchestrator = orchestrator
        self._clock = clock
        self._calls = calls
        self._events = events
        self._is_over = is_over
        self._waiting: list[_Waiting] = []
        self._taken = 0
        self._handing_back = 0
        self._is_closed = False
        self._usual_seconds: dict[str, float] = {}

    @property
    def room(self) -> int:
        """How many attempts can be taken now."""
        if self._is_closed:
            return 0
        room = sum(slot.is_idle or slot.is_finishing for slot in self._slots) - len(self._waiting)
        most = self._options.max_attempts
        return room if most is None else min(room, most - self._taken - len(self._waiting))

    @property
    def waiting(self) -> Counter[str]:
        """How many attempts of each task wait for their slot."""
        return Counter(waiting.polled.attempt.task_name for waiting in self._waiting)

    @property
    def has_had_enough(self) -> bool:
        """Whether it took all the attempts that it ever will."""
        most = self._options.max_attempts
        return most is not None and self._taken >= most

    @property
    def is_handing_back(self) -> bool:
        """Whether the orchestrator has not yet heard of all that was handed back."""
        return self._handing_back > 0

    def close(self) -> None:
        """Take nothing more, and hand back what waits. Call it on the loop's thread."""
        self._is_closed = True
        for waiting in self._waiting:
            self._hand_back(waiting.polled.attempt)
        self._waiting = []

    def receive(self, tasks: Sequence[PolledTask], polled_at: float) -> None:
        """Take what a poll brought that began at `polled_at`."""
        for polled in tasks:
            task_id = polled.attempt.task_id
            running = self._find_running(task_id)
            if running is not None:
                self._receive_again(running, polled)
            elif self._is_over(task_id):
                self._warn(polled.attempt, "was delivered again while its end is reported")
            elif self._is_closed:
                self._hand_back(polled.attempt)
            else:
                # Delivered again before it began: only the last delivery counts.
                self._waiting = [one for one in self._waiting if one.task_id != task_id]
                self._waiting.append(_Waiting(polled, polled_at, self._clock.elapsed()))
        self.fill()

    def fill(self) -> None:
        """Put what waits into the slots that are idle; what no slot will take is handed back."""
        while self._waiting and (slot := self._pick_slot()) is not None:
            waiting = self._waiting.pop(0)
            self._begin(slot, waiting.polled, waiting.polled_at)
        expected = sum(slot.is_finishing for slot in self._slots)
        for waiting in self._waiting[expected:]:
            self._hand_back(waiting.polled.attempt)
        del self._waiting[expected:]

    def give_up_waiting(self, now: float) -> None:
        """Hand back what waits for too long; `now` is on `Clock.elapsed`."""
        late = [
            waiting
            for waiting in self._waiting
            # The lease runs from the poll on, which may have waited at the server.
            if now - waiting.polled_at > waiting.polled.lease_seconds / _WAITING_SHARE
            or now - waiting.received_at > _WAITING_SECONDS
        ]
        for waiting in late:
            self._waiting.remove(waiting)
            self._hand_back(waiting.polled.attempt)

    def learn(self, task_name: str, seconds: float) -> None:
        """An attempt of this task took so long in its slot."""
        usual = self._usual_seconds.get(task_name, seconds)
        self._usual_seconds[task_name] = usual + _NEWEST_WEIGHT * (seconds - usual)

    def _find_running(self, task_id: TaskId) -> Slot | None:
        for slot in self._slots:
            if slot.assignment is not None and slot.assignment.attempt.task_id == task_id:
                return slot
        return None

    def _receive_again(self, slot: Slot, polled: PolledTask) -> None:
        """The task that runs in a slot was delivered again: it is run once."""
        assert slot.assignment is not None
        self._warn(polled.attempt, "was delivered again while it runs")
        if slot.assignment.cancelled_at is None:
            slot.adopt(polled)
        else:  # what runs was given up already; two never run side by side
            slot.kill()
            self._hand_back(polled.attempt)

    def _pick_slot(self) -> Slot | None:
        # The one used last: its Spark is warm.
        idle = (slot for slot in self._slots if slot.is_idle)
        return max(idle, key=lambda slot: slot.last_used, default=None)

    def _begin(self, slot: Slot, polled: PolledTask, polled_at: float) -> None:
        attempt = polled.attempt
        assignment = Assignment(
            polled=polled,
            execution_id=ExecutionId(uuid.uuid4().hex),
            began=self._clock.elapsed(),
            is_brief=self._usual_seconds.get(attempt.task_name, math.inf) < _BRIEF_SECONDS,
            lease=start_lease(
                polled_at=polled_at,
                lease_seconds=polled.lease_seconds,
                heartbeat_seconds=self._options.heartbeats[attempt.task_name],
                timeout_seconds=polled.timeout_seconds,
            ),
        )
        logs = self._options.logs_directory
        slot.assign(assignment, attempt_log_path(logs, attempt, assignment.execution_id))
        self._taken += 1
        self._events.execution_began(assignment.execution)
        self._events.attempt_started(attempt)

    def _hand_back(self, attempt: Attempt) -> None:
        def take(answer: PeragoError | None) -> None:
            self._handing_back -= 1
            if isinstance(answer, PeragoError):
                why = f"cannot be handed back, its lease decides: {answer.message}"
                self._warn(attempt, why)

        self._handing_back += 1
        self._calls.submit(lambda: self._orchestrator.hand_back(attempt), take)

    def _warn(self, attempt: Attempt, what: str) -> None:
        with about(attempt):
            _log.warning("%s %s", attempt.reference_name, what)
