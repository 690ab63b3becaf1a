"""A big file goes up in parts: each is tried again by itself, and half a file is no object."""

from __future__ import annotations

from dataclasses import replace

import pytest

from perago.adapters.lakefs import LakeFSConnection
from perago.domain.errors import PeragoError, StoreError, StoreUnavailableError
from perago.domain.outcome import Completed, Failed, Phase
from perago.domain.publication import Commit
from tests.fault_proxy import (
    Action,
    Answer,
    CallAfter,
    CallBefore,
    CallMidRequest,
    CutRequest,
    Fault,
    Match,
)
from tests.integration.lakefs.attempts import AFTER, Attempted, Edit, big_content
from tests.integration.lakefs.faults import DONE, NOT_AN_ANSWER, NOT_DONE, SERVER_ERROR
from tests.integration.lakefs.faulty_lake import FaultyLake

pytestmark = pytest.mark.lakefs

MIB = 1024 * 1024
SIZE = 12 * MIB
PARTS = 3

BEGIN = Match("POST", r"/big\?uploads")
PART = Match("PUT", r"/big\?partNumber=")
SECOND_PART = Match("PUT", r"/big\?partNumber=2")
COMPLETE = Match("POST", r"/big\?uploadId=")
ABORT = Match("DELETE", r"/big\?uploadId=")
WHOLE = Match("POST", r"/objects\?path=big$")


def in_parts(lake: FaultyLake) -> LakeFSConnection:
    return replace(lake.connection(), multipart_bytes=MIB, part_bytes=5 * MIB)


def attempt(lake: FaultyLake) -> Attempted:
    polled = lake.schedule(Edit(big_bytes=SIZE))
    return lake.attempt(polled, connection=in_parts(lake))


def sent(lake: FaultyLake, match: Match) -> int:
    return lake.proxy.count(match.method, match.path)


def assert_published(lake: FaultyLake, attempted: Attempted, before: Commit) -> None:
    assert attempted.output_ref == lake.head.id
    assert lake.head.parents == (before.id,)
    assert lake.files(lake.head.id) == AFTER | {"big": big_content(SIZE)}
    assert lake.stagings == []


def test_a_big_file_goes_up_in_parts(lake: FaultyLake) -> None:
    before = lake.head

    attempted = attempt(lake)

    assert sent(lake, PART) == PARTS
    assert sent(lake, WHOLE) == 0
    assert_published(lake, attempted, before)


FAULTS: dict[str, Action] = NOT_DONE | DONE | {"half a part": CutRequest(after=MIB)}


@pytest.mark.parametrize("kind", FAULTS)
def test_a_fault_at_every_step_is_survived(lake: FaultyLake, kind: str) -> None:
    before = lake.head
    steps = [SECOND_PART] if kind == "half a part" else [BEGIN, SECOND_PART, COMPLETE]
    for step in steps:
        lake.proxy.add(Fault(match=step, action=FAULTS[kind]))

    attempted = attempt(lake)

    assert sum(found.fault is not None for found in lake.proxy.log) == len(steps)
    assert sent(lake, WHOLE) == 0
    assert_published(lake, attempted, before)


@pytest.mark.parametrize("step", [BEGIN, SECOND_PART, COMPLETE], ids=["begin", "part", "complete"])
def test_a_fault_that_stays_is_told_and_the_parts_are_given_up(
    lake: FaultyLake, step: Match
) -> None:
    before = lake.head
    lake.proxy.add(Fault(match=step, action=SERVER_ERROR, times=None))

    attempted = attempt(lake)

    attempted.assert_failed(StoreUnavailableError, Phase.STAGE, "upload 'big'", "500")
    assert sent(lake, ABORT) == (0 if step is BEGIN else 1)
    assert lake.sent("commit") == 0
    lake.assert_unmoved(before)


@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize("step", [SECOND_PART, COMPLETE], ids=["part", "complete"])
def test_a_refusal_is_told_at_once(lake: FaultyLake, step: Match, status: int) -> None:
    before = lake.head
    lake.proxy.add(Fault(match=step, action=Answer(status=status), times=None))

    attempted = attempt(lake)

    assert isinstance(attempted.outcome, Failed)
    assert isinstance(attempted.error, PeragoError)
    assert attempted.error.hint
    assert "upload 'big'" in attempted.error.message
    assert sent(lake, step) == 1
    lake.assert_unmoved(before)


def test_a_server_that_takes_no_parts_gets_the_file_in_one_piece(lake: FaultyLake) -> None:
    before = lake.head
    lake.proxy.add(Fault(match=BEGIN, action=Answer(status=403), times=None))

    attempted = attempt(lake)

    assert sent(lake, WHOLE) == 1
    assert_published(lake, attempted, before)


@pytest.mark.parametrize("kind", NOT_AN_ANSWER)
def test_a_strange_answer_to_the_completion_is_settled_by_looking(
    lake: FaultyLake, kind: str
) -> None:
    before = lake.head
    lake.proxy.add(Fault(match=COMPLETE, action=NOT_AN_ANSWER[kind]))

    assert_published(lake, attempt(lake), before)


@pytest.mark.slow
@pytest.mark.parametrize("step", ["part", "before completion", "after completion"])
def test_a_server_that_restarts_is_survived(lake: FaultyLake, step: str) -> None:
    before = lake.head
    match step:
        case "part":
            restart = CallMidRequest(callback=lake.restart, after=MIB)
            lake.proxy.add(Fault(match=SECOND_PART, action=restart))
        case "before completion":
            lake.proxy.add(Fault(match=COMPLETE, action=CallBefore(callback=lake.restart)))
        case _:
            lake.proxy.add(Fault(match=COMPLETE, action=CallAfter(callback=lake.restart)))

    assert_published(lake, attempt(lake), before)


@pytest.mark.slow
def test_what_a_server_left_that_died_while_it_put_the_parts_together_is_never_published(
    lake: FaultyLake,
) -> None:
    before = lake.head
    restart = CallMidRequest(callback=lake.restart, after=MIB)
    lake.proxy.add(Fault(match=COMPLETE, action=restart))

    attempted = attempt(lake)

    # It may have put all of them together, some, or none.
    if isinstance(attempted.outcome, Completed):
        assert_published(lake, attempted, before)
        return
    assert isinstance(attempted.error, StoreError), repr(attempted.error)
    assert attempted.error.hint
    lake.assert_unmoved(before)
    again = lake.attempt(lake.poll(), connection=in_parts(lake))
    assert_published(lake, again, before)
