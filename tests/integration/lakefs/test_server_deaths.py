"""The server is killed in the middle of a call: nothing is half published, and a retry heals it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from perago.domain.errors import (
    OutcomeUnknownError,
    PeragoError,
    PublishFenceError,
    StoreUnavailableError,
)
from perago.domain.outcome import Phase
from perago.domain.publication import Commit
from tests.fault_proxy import (
    Action,
    CallAfter,
    CallBefore,
    CallMidRequest,
    CallMidResponse,
    Fault,
    Match,
)
from tests.integration.lakefs.attempts import AFTER, NO_CHANGE, Attempted, Edit, big_content
from tests.integration.lakefs.faulty_lake import FaultyLake

pytestmark = [pytest.mark.lakefs, pytest.mark.slow]

BIG = 24 * 1024 * 1024
"""More than the buffers between the server and its client hold."""

RESTART_SECONDS = 60.0
"""A busy machine takes longer than an idle one to bring a server back."""

PART = 1024 * 1024
TO_THE_END = BIG + 1
BIG_DOWNLOAD = Match("GET", r"/objects\?path=big$")
BIG_UPLOAD = Match("POST", r"/objects\?path=big$")

Happening = Callable[[], object]
When = Callable[[Happening], Action]


def before_the_call(happening: Happening) -> Action:
    return CallBefore(callback=happening)


def during_the_call(happening: Happening) -> Action:
    """The server has the request, and may or may not have acted on it."""
    return CallMidRequest(callback=happening, after=TO_THE_END)


def after_the_call(happening: Happening) -> Action:
    return CallAfter(callback=happening)


WHEN = pytest.mark.parametrize("when", [before_the_call, during_the_call, after_the_call])


def heal(lake: FaultyLake, params: Edit | None = None) -> Attempted:
    """Bring the server back and run the retry that the orchestrator has scheduled."""
    lake.proxy.clear()
    lake.server.start()
    return lake.attempt(lake.poll(params))


def assert_healed(lake: FaultyLake, attempted: Attempted, before: Commit) -> None:
    """As published; but an attempt whose server is dead cannot remove its staging branch."""
    assert attempted.output_ref == lake.head.id
    assert lake.head.parents == (before.id,)
    assert lake.files(lake.head.id) == AFTER
    assert len(lake.stagings) <= 1


def test_a_server_that_dies_during_a_download(lake: FaultyLake) -> None:
    lake.stranger.commit({"big": bytes(BIG)})
    before, polled = lake.head, lake.schedule(Edit(deletes=["gone", "big"]))
    lake.proxy.add(
        Fault(match=BIG_DOWNLOAD, action=CallMidResponse(callback=lake.server.kill, after=PART))
    )

    attempted = lake.attempt(polled)

    attempted.assert_failed(StoreUnavailableError, Phase.DOWNLOAD, "download 'big'")
    again = heal(lake)
    lake.assert_published(again, before)


def test_a_server_that_restarts_during_a_download_is_survived(lake: FaultyLake) -> None:
    lake.retry_seconds = RESTART_SECONDS
    lake.stranger.commit({"big": bytes(BIG)})
    before, polled = lake.head, lake.schedule(Edit(deletes=["gone", "big"]))
    lake.proxy.add(
        Fault(match=BIG_DOWNLOAD, action=CallMidResponse(callback=lake.restart, after=PART))
    )

    lake.assert_published(lake.attempt(polled), before)


def test_a_server_that_dies_during_an_upload(lake: FaultyLake) -> None:
    before, polled = lake.head, lake.schedule(Edit(big_bytes=BIG))
    lake.proxy.add(
        Fault(match=BIG_UPLOAD, action=CallMidRequest(callback=lake.server.kill, after=PART))
    )

    attempted = lake.attempt(polled)

    attempted.assert_failed(StoreUnavailableError, Phase.STAGE, "upload 'big'")
    lake.server.start()
    assert lake.head == before
    assert_healed(lake, heal(lake, Edit()), before)


def test_a_server_that_restarts_during_an_upload_is_survived(lake: FaultyLake) -> None:
    lake.retry_seconds = RESTART_SECONDS
    before, polled = lake.head, lake.schedule(Edit(big_bytes=BIG))
    lake.proxy.add(
        Fault(match=BIG_UPLOAD, action=CallMidRequest(callback=lake.restart, after=PART))
    )

    attempted = lake.attempt(polled)

    assert attempted.output_ref == lake.head.id
    assert lake.head.parents == (before.id,)
    assert lake.files(lake.head.id) == AFTER | {"big": big_content(BIG)}
    assert lake.stagings == []


@WHEN
def test_a_server_that_dies_at_a_commit(lake: FaultyLake, when: When) -> None:
    before, polled = lake.head, lake.schedule()
    lake.fault("commit", when(lake.server.kill))

    attempted = lake.attempt(polled)

    assert isinstance(attempted.error, StoreUnavailableError | OutcomeUnknownError)
    assert attempted.error.hint
    assert lake.sent("commit") == 1
    assert lake.sent("merge") == 0
    lake.server.start()
    assert lake.head == before
    assert_healed(lake, heal(lake), before)


@WHEN
def test_a_server_that_dies_at_a_merge(lake: FaultyLake, when: When) -> None:
    before, polled = lake.head, lake.schedule()
    lake.fault("merge", when(lake.server.kill))

    attempted = lake.attempt(polled)

    assert isinstance(attempted.error, PeragoError)
    assert attempted.error.hint
    assert lake.sent("merge") == 1
    lake.server.start()
    head = lake.head
    if when is before_the_call:
        assert head == before
    if when is after_the_call:
        assert head != before
    if head != before:
        assert head.parents == (before.id,)
        assert lake.files(head.id) == AFTER
    assert_healed(lake, heal(lake), before)


def test_a_server_that_restarts_after_a_merge_is_survived(lake: FaultyLake) -> None:
    lake.retry_seconds = RESTART_SECONDS
    before, polled = lake.head, lake.schedule()
    lake.fault("merge", CallAfter(callback=lake.restart))

    attempted = lake.attempt(polled)

    assert lake.sent("merge") == 1
    lake.assert_published(attempted, before)


def test_a_merge_is_not_sent_again_to_a_server_that_restarts(lake: FaultyLake) -> None:
    lake.retry_seconds = RESTART_SECONDS
    before, polled = lake.head, lake.schedule()
    lake.fault("merge", CallBefore(callback=lake.restart))

    attempted = lake.attempt(polled)

    attempted.assert_failed(PublishFenceError, Phase.PUBLISH, "not published")
    assert lake.sent("merge") == 1
    lake.assert_unmoved(before)


@WHEN
@pytest.mark.parametrize("params", [Edit(), NO_CHANGE], ids=["replace", "take back"])
def test_a_server_that_dies_at_a_reset(lake: FaultyLake, when: When, params: Edit) -> None:
    before, abandoned = lake.head, lake.abandon()
    lake.fault("reset", when(lake.server.kill))

    attempted = lake.attempt(lake.poll(params))

    assert isinstance(attempted.error, StoreUnavailableError)
    assert attempted.error.hint
    assert lake.sent("reset") == 1
    lake.server.start()
    head = lake.head
    if when is before_the_call:
        assert head == abandoned
    if when is after_the_call:
        assert head != abandoned
    if params == NO_CHANGE:
        assert head in (before, abandoned)
    elif head != abandoned:
        assert head.parents == (before.id,)
        assert lake.files(head.id) == AFTER
    assert_healed(lake, heal(lake, Edit()), before)
