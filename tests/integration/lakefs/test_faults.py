"""Broken connections and broken answers at calls that may be repeated: survived, or told.

Every attempt is also checked for what none may do: leave a file behind, send a merge or a reset
twice, show a secret (`FaultyLake.attempt`).
"""

from __future__ import annotations

import threading

import pytest

from perago.domain.errors import (
    CorruptStoreError,
    OutcomeUnknownError,
    StoreError,
    StoreUnavailableError,
)
from perago.domain.outcome import Phase
from tests.fault_proxy import (
    Action,
    CallMidResponse,
    CorruptByte,
    CutRequest,
    Fault,
    Match,
    Trickle,
    Truncate,
)
from tests.integration.lakefs.attempts import AFTER, Edit, big_content
from tests.integration.lakefs.faults import DONE, NOT_AN_ANSWER, NOT_DONE, SERVER_ERROR
from tests.integration.lakefs.faulty_lake import CALLS, FaultyLake

pytestmark = pytest.mark.lakefs

ONCE_ONLY = {"commit", "merge", "reset"}


@pytest.mark.parametrize("kind", NOT_DONE | DONE)
def test_a_fault_at_every_call_that_may_be_repeated_is_survived(
    lake: FaultyLake, kind: str
) -> None:
    before = lake.head
    polled = lake.schedule()
    calls = CALLS.keys() - ONCE_ONLY
    for call in calls:
        lake.fault(call, (NOT_DONE | DONE)[kind])

    attempted = lake.attempt(polled)

    assert {call: lake.struck(call) for call in calls} == dict.fromkeys(calls, 1)
    lake.assert_published(attempted, before)


@pytest.mark.parametrize(
    ("call", "phase", "named"),
    [
        ("read commit", Phase.DOWNLOAD, "read commit"),
        ("list", Phase.DOWNLOAD, "list the objects of commit"),
        ("download", Phase.DOWNLOAD, "download 'changed'"),
        ("create staging", Phase.STAGE, "create branch"),
        ("upload", Phase.STAGE, "upload 'changed'"),
        ("delete objects", Phase.STAGE, "delete objects"),
        ("diff", Phase.STAGE, "list what changed"),
        ("read head", Phase.PUBLISH, "read the head of"),
    ],
)
def test_a_fault_that_stays_is_told_and_nothing_is_published(
    lake: FaultyLake, call: str, phase: Phase, named: str
) -> None:
    before = lake.head
    lake.fault(call, SERVER_ERROR, times=None)

    attempted = lake.attempt()

    kind = OutcomeUnknownError if call == "create staging" else StoreUnavailableError
    attempted.assert_failed(kind, phase, named, "500", "boom")
    assert lake.struck(call) > 1
    lake.assert_unmoved(before)


def test_a_staging_branch_that_cannot_be_deleted_does_not_change_the_result(
    lake: FaultyLake,
) -> None:
    before = lake.head
    lake.fault("delete staging", SERVER_ERROR, times=None)

    attempted = lake.attempt()

    assert attempted.output_ref == lake.head.id
    assert lake.head.parents == (before.id,)
    assert len(lake.stagings) == 1
    assert "failed to clean staging workspace" in attempted.logged


def test_a_server_out_of_reach_is_told(lake: FaultyLake) -> None:
    before, polled = lake.head, lake.schedule()
    lake.proxy.refuse()

    attempted = lake.attempt(polled)

    attempted.assert_failed(StoreUnavailableError, Phase.DOWNLOAD, "no lakeFS server answers")
    lake.assert_unmoved(before)


def test_a_server_out_of_reach_for_a_moment_is_survived(lake: FaultyLake) -> None:
    before, polled = lake.head, lake.schedule()
    lake.proxy.refuse()
    back = threading.Timer(0.3, lake.proxy.resume)
    back.start()

    attempted = lake.attempt(polled)

    back.join()
    lake.assert_published(attempted, before)


def test_slow_is_not_broken(lake: FaultyLake) -> None:
    before, polled = lake.head, lake.schedule()
    for call in CALLS.keys() - {"reset"}:
        lake.fault(call, Trickle(bytes_per_second=500))

    attempted = lake.attempt(polled)

    assert lake.struck("merge") == 1
    lake.assert_published(attempted, before)


@pytest.mark.parametrize("kind", NOT_AN_ANSWER)
@pytest.mark.parametrize(
    ("call", "phase", "named"),
    [
        ("read commit", Phase.DOWNLOAD, "read commit"),
        ("list", Phase.DOWNLOAD, "list the objects"),
        ("upload", Phase.STAGE, "upload"),
        ("delete objects", Phase.STAGE, "delete objects"),
        ("diff", Phase.STAGE, "list what changed"),
        ("read head", Phase.PUBLISH, "read the head"),
    ],
)
def test_what_is_no_answer_of_a_lakefs_server_is_told(
    lake: FaultyLake, call: str, phase: Phase, named: str, kind: str
) -> None:
    before = lake.head
    lake.fault(call, NOT_AN_ANSWER[kind], times=None)

    attempted = lake.attempt()

    attempted.assert_failed(StoreError, phase, named, "not one of a lakeFS server")
    lake.assert_unmoved(before)


def test_a_download_that_stops_half_way_is_tried_again(lake: FaultyLake) -> None:
    before, polled = lake.head, lake.schedule()
    over = threading.Event()
    lake.fault("download", CallMidResponse(callback=lambda: over.wait(60), after=2))

    attempted = lake.attempt(polled)

    over.set()
    assert lake.struck("download") == 1
    lake.assert_published(attempted, before)


# -- content


UPLOAD_BYTES = 3 * 1024 * 1024
UPLOAD = Match("POST", r"/objects\?path=big$")


def test_half_an_upload_is_tried_again(lake: FaultyLake) -> None:
    before = lake.head
    lake.proxy.add(Fault(match=UPLOAD, action=CutRequest(after=1024 * 1024), times=2))

    attempted = lake.attempt(lake.schedule(Edit(big_bytes=UPLOAD_BYTES)))

    assert lake.struck("upload") == 2
    assert lake.head.id == attempted.output_ref
    assert lake.head.parents == (before.id,)
    assert lake.files(lake.head.id) == AFTER | {"big": big_content(UPLOAD_BYTES)}
    assert lake.stagings == []


def test_half_an_upload_is_never_published(lake: FaultyLake) -> None:
    before = lake.head
    lake.proxy.add(Fault(match=UPLOAD, action=CutRequest(after=1024 * 1024), times=None))

    attempted = lake.attempt(lake.schedule(Edit(big_bytes=UPLOAD_BYTES)))

    attempted.assert_failed(StoreUnavailableError, Phase.STAGE, "upload 'big'")
    assert lake.sent("commit") == 0
    lake.assert_unmoved(before)


@pytest.mark.parametrize("action", [Truncate(to=2), CorruptByte(offset=1)], ids=str)
def test_content_that_is_always_spoilt_on_its_way_is_refused_by_name(
    lake: FaultyLake, action: Action
) -> None:
    before = lake.head
    lake.proxy.add(Fault(match=Match("GET", r"objects\?path=kept"), action=action, times=None))

    attempted = lake.attempt()

    attempted.assert_failed(CorruptStoreError, Phase.DOWNLOAD, "'kept'")
    lake.assert_unmoved(before)
