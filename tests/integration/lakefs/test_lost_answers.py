"""A commit, a merge and a reset are sent once: a lost answer is settled by reading, or told."""

from __future__ import annotations

import time
from functools import partial

import pytest

from perago.domain.errors import (
    OutcomeUnknownError,
    PublishFenceError,
    StaleAttemptError,
    StoreError,
)
from perago.domain.outcome import Phase
from perago.domain.publication import Commit
from perago.ports import Failpoint
from tests.fault_proxy import (
    Action,
    Answer,
    CallAfter,
    DelayRequest,
    LateRequest,
    LoseResponse,
)
from tests.integration.lakefs.attempts import MERGE_SECONDS, NO_CHANGE, Edit
from tests.integration.lakefs.faults import DONE, NOT_AN_ANSWER, NOT_DONE
from tests.integration.lakefs.faulty_lake import FaultyLake

pytestmark = pytest.mark.lakefs


@pytest.mark.parametrize("kind", NOT_DONE)
def test_a_commit_that_was_not_made_fails_the_attempt(lake: FaultyLake, kind: str) -> None:
    before = lake.head
    lake.fault("commit", NOT_DONE[kind])

    attempted = lake.attempt()

    attempted.assert_failed(OutcomeUnknownError, Phase.STAGE, "commit to")
    assert lake.sent("commit") == 1
    lake.assert_unmoved(before)
    lake.assert_published(lake.attempt(lake.poll()), before)


@pytest.mark.parametrize("kind", DONE | NOT_AN_ANSWER)
def test_a_commit_whose_answer_is_lost_is_found(lake: FaultyLake, kind: str) -> None:
    before, polled = lake.head, lake.schedule()
    lake.fault("commit", (DONE | NOT_AN_ANSWER)[kind])

    attempted = lake.attempt(polled)

    assert lake.sent("commit") == lake.struck("commit") == 1
    lake.assert_published(attempted, before)


NOT_MERGED: dict[str, Action] = NOT_DONE | {
    "409": Answer(status=409, body=b'{"reference": ""}'),
    "412": Answer(status=412, body=b'{"message": "a hook said no"}'),
    "a page": Answer(status=200, body=b"<html>Down for maintenance</html>"),
    "no reference": Answer(status=200, body=b'{"reference": ""}'),
}


@pytest.mark.parametrize("kind", NOT_MERGED)
def test_a_merge_that_did_not_happen_fails_the_attempt(lake: FaultyLake, kind: str) -> None:
    before = lake.head
    lake.fault("merge", NOT_MERGED[kind])

    attempted = lake.attempt()

    attempted.assert_failed(PublishFenceError, Phase.PUBLISH, "not published", before.id)
    assert lake.sent("merge") == 1
    lake.assert_unmoved(before)
    lake.assert_published(lake.attempt(lake.poll()), before)


@pytest.mark.parametrize("kind", DONE | NOT_AN_ANSWER)
def test_a_merge_whose_answer_is_lost_is_found(lake: FaultyLake, kind: str) -> None:
    before, polled = lake.head, lake.schedule()
    lake.fault("merge", (DONE | NOT_AN_ANSWER)[kind])

    attempted = lake.attempt(polled)

    assert lake.sent("merge") == lake.struck("merge") == 1
    lake.assert_published(attempted, before)


@pytest.mark.parametrize("status", [500, 404])
def test_a_merge_that_cannot_be_read_back_at_once_is_found(lake: FaultyLake, status: int) -> None:
    before, polled = lake.head, lake.schedule()
    lake.retry_seconds = 0

    def spoil_the_next_read() -> None:
        lake.fault("read commit", Answer(status=status))

    lake.fault("merge", CallAfter(callback=spoil_the_next_read))

    attempted = lake.attempt(polled)

    assert lake.struck("read commit") == 1
    lake.assert_published(attempted, before)


def test_a_merge_that_lands_after_its_attempt_gave_up_is_replaced_by_the_retry(
    lake: FaultyLake,
) -> None:
    before = lake.head
    lake.fault("merge", DelayRequest(seconds=2 * MERGE_SECONDS))

    attempted = lake.attempt()

    attempted.assert_failed(PublishFenceError, Phase.PUBLISH, "not published")
    late = _wait_for_head_after(lake, before)
    assert late.parents == (before.id,)
    again = lake.attempt(lake.poll())
    assert lake.sent("reset") == 1
    assert lake.head.id != late.id
    lake.assert_published(again, before)


def test_a_merge_that_lands_a_moment_after_its_answer_was_lost_is_found(lake: FaultyLake) -> None:
    before, polled = lake.head, lake.schedule()
    lake.fault("merge", LateRequest(seconds=MERGE_SECONDS / 4))

    attempted = lake.attempt(polled)

    assert lake.sent("merge") == lake.struck("merge") == 1
    lake.assert_published(attempted, before)


@pytest.mark.parametrize("params", [Edit(), NO_CHANGE], ids=["replace", "take back"])
def test_a_reset_that_lands_a_moment_after_its_answer_was_lost_is_found(
    lake: FaultyLake, params: Edit
) -> None:
    before = lake.head
    abandoned = lake.abandon()
    lake.fault("reset", LateRequest(seconds=MERGE_SECONDS / 4))

    attempted = lake.attempt(lake.poll(params))

    assert lake.sent("reset") == 1
    assert lake.head != abandoned
    assert attempted.output_ref == lake.head.id
    assert lake.head == before or lake.head.parents == (before.id,)


@pytest.mark.parametrize("call", ["merge", "reset"])
def test_an_attempt_that_was_given_up_during_the_last_reads_sends_nothing(
    lake: FaultyLake, call: str
) -> None:
    """The fence is the last thing before the act, however slow the reads before it were."""
    if call == "merge":
        polled = lake.schedule()
    else:
        lake.abandon()
        polled = lake.poll()
    head = lake.head

    def give_up_during_the_next_read() -> None:
        end = partial(lake.orchestrator.terminate, polled.attempt.workflow_id, "no longer wanted")
        lake.fault("read head", CallAfter(callback=end))

    attempted = lake.attempt(polled, at={Failpoint.HEAD_READ: give_up_during_the_next_read})

    attempted.assert_failed(StaleAttemptError, Phase.PUBLISH)
    assert lake.sent(call) == 0
    lake.assert_unmoved(head)


@pytest.mark.parametrize("params", [Edit(), NO_CHANGE], ids=["replace", "take back"])
def test_a_commit_that_lands_while_the_last_fence_is_asked_is_not_reset_away(
    lake: FaultyLake, params: Edit
) -> None:
    abandoned = lake.abandon()

    def commit() -> None:
        lake.stranger.commit({"theirs": b"theirs"})

    attempted = lake.attempt(lake.poll(params), at={Failpoint.FENCED_BEFORE_ACT: commit})

    foreign = lake.head
    attempted.assert_failed(PublishFenceError, Phase.PUBLISH, "moved while publishing", foreign.id)
    assert lake.sent("reset") == 0
    assert foreign.parents == (abandoned.id,)
    assert lake.files(foreign.id)["theirs"] == b"theirs"


def test_what_is_written_while_the_last_fence_is_asked_is_not_reset_away(lake: FaultyLake) -> None:
    abandoned = lake.abandon()

    def write() -> None:
        lake.stranger.put("theirs", b"theirs")

    attempted = lake.attempt(lake.poll(), at={Failpoint.FENCED_BEFORE_ACT: write})

    attempted.assert_failed(StoreError, Phase.PUBLISH, "uncommitted changes", "theirs")
    assert lake.sent("reset") == 0
    assert lake.stranger.is_there("theirs")
    lake.assert_unmoved(abandoned)


def _wait_for_head_after(lake: FaultyLake, before: Commit) -> Commit:
    deadline = time.monotonic() + 30
    while (head := lake.head) == before:
        assert time.monotonic() < deadline, "the merge did not land"
        time.sleep(0.1)
    return head


@pytest.mark.parametrize("params", [Edit(), NO_CHANGE], ids=["replace", "take back"])
@pytest.mark.parametrize("kind", NOT_DONE)
def test_a_reset_that_did_not_happen_fails_the_attempt(
    lake: FaultyLake, kind: str, params: Edit
) -> None:
    abandoned = lake.abandon()
    lake.fault("reset", NOT_DONE[kind])

    attempted = lake.attempt(lake.poll(params))

    attempted.assert_failed(PublishFenceError, Phase.PUBLISH, abandoned.id)
    assert lake.sent("reset") == 1
    lake.assert_unmoved(abandoned)


@pytest.mark.parametrize("kind", DONE)
def test_a_reset_whose_answer_is_lost_is_found(lake: FaultyLake, kind: str) -> None:
    before = lake.head
    lake.abandon()
    lake.fault("reset", DONE[kind])

    replaced = lake.attempt(lake.poll(Edit()))

    assert lake.sent("reset") == lake.struck("reset") == 1
    lake.assert_published(replaced, before)


def test_a_lost_answer_to_taking_back_is_found(lake: FaultyLake) -> None:
    before = lake.head
    lake.abandon()
    lake.fault("reset", LoseResponse())

    attempted = lake.attempt(lake.poll(NO_CHANGE))

    assert attempted.output_ref == before.id
    assert lake.sent("reset") == lake.struck("reset") == 1
    lake.assert_unmoved(before)
