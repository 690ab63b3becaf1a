"""A place for one executor: when it can take an attempt, and when it soon will."""

from __future__ import annotations

from dataclasses import replace

import pytest

from perago.domain.events import AttemptTally
from perago.domain.execution import execution_of
from perago.domain.ids import ExecutionId
from perago.domain.outcome import Phase
from perago.runtime.leases import start_lease
from perago.runtime.slot import Assignment, Slot
from tests.unit.runtime.turn_scene import polled

READY = Slot(number=0, is_started=True, is_ready=True)


def an_assignment() -> Assignment:
    task = polled("a")
    return Assignment(
        polled=task,
        tally=AttemptTally(execution=execution_of(task, ExecutionId("0" * 32))),
        lease=start_lease(
            polled_at=0.0, lease_seconds=60.0, heartbeat_seconds=5.0, timeout_seconds=None
        ),
        began=0.0,
        is_brief=False,
    )


def test_a_new_slot_is_empty_and_to_be_filled_at_once() -> None:
    assert Slot(number=3) == Slot(
        number=3,
        is_started=False,
        is_ready=False,
        is_ending=False,
        broken=None,
        retired_at=None,
        attempts_run=0,
        assignment=None,
        deaths_in_a_row=0,
        died_at_work=False,
        respawn_at=0.0,
        last_used=0.0,
    )


def test_a_new_attempt_is_heard_of_by_nobody_and_decided_by_nobody() -> None:
    assignment = an_assignment()
    assert (assignment.is_heard_of, assignment.seen_in, assignment.is_decided) == (
        False,
        None,
        False,
    )
    assert (assignment.outcome, assignment.beat_is_under_way) == (None, False)
    assert (assignment.cancelled_at, assignment.failure) == (None, None)
    assert assignment.phase is Phase.VALIDATE


@pytest.mark.parametrize(
    ("slot", "is_idle"),
    [
        (READY, True),
        (replace(READY, is_ready=False), False),
        (replace(READY, is_ending=True), False),
        (replace(READY, retired_at=0.0), False),
        (replace(READY, assignment=an_assignment()), False),
    ],
)
def test_a_slot_is_idle_when_its_executor_is_ready_and_has_nothing_else_to_do(
    slot: Slot, is_idle: bool
) -> None:
    assert slot.is_idle is is_idle


@pytest.mark.parametrize(
    ("is_decided", "is_brief", "is_heard_of", "is_finishing"),
    [
        (False, False, False, False),
        (True, False, True, True),
        (False, True, False, True),
        (False, True, True, False),
    ],
)
def test_a_slot_soon_makes_room_when_its_attempt_is_decided_or_brief(
    is_decided: bool, is_brief: bool, is_heard_of: bool, is_finishing: bool
) -> None:
    assignment = replace(
        an_assignment(), is_decided=is_decided, is_brief=is_brief, is_heard_of=is_heard_of
    )
    slot = replace(READY, assignment=assignment)
    assert slot.is_finishing is is_finishing
    slot.is_ending = True
    assert not slot.is_finishing


@pytest.mark.parametrize(
    ("cancelled_at", "is_decided", "needs_lease"),
    [(None, False, True), (0.0, False, False), (None, True, False)],
)
def test_a_lease_is_needed_until_the_outcome_is_known(
    cancelled_at: float | None, is_decided: bool, needs_lease: bool
) -> None:
    assignment = replace(an_assignment(), cancelled_at=cancelled_at, is_decided=is_decided)
    assert assignment.needs_lease is needs_lease
    assert assignment.lease_due == (5.0 if needs_lease else None)


def test_while_a_beat_is_under_way_only_the_end_of_the_lease_is_due() -> None:
    assert replace(an_assignment(), beat_is_under_way=True).lease_due == 60.0
