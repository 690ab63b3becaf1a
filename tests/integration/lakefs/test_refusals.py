"""What a server, a repository or its objects can hold against an attempt: one clear error each."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from perago.adapters.lakefs import LakeFSWorkspaceStore
from perago.domain.errors import (
    CorruptStoreError,
    NotFoundInStoreError,
    PublishFenceError,
    StoreAccessError,
    StoreError,
    StoreUnavailableError,
    UnmappableObjectError,
)
from perago.domain.ids import BranchName, CommitId, RepositoryName
from perago.domain.outcome import Failed, Phase
from perago.domain.publication import Commit
from perago.ports import Failpoint
from tests.fault_proxy import Answer, Fault, Match
from tests.integration.lakefs.attempts import NO_CHANGE, Edit
from tests.integration.lakefs.faulty_lake import MAIN, FaultyLake

pytestmark = pytest.mark.lakefs

NOWHERE = "0123456789abcdef" * 4


# -- who asks


@pytest.mark.parametrize("wrong", ["key", "secret"])
def test_a_wrong_key_is_told(lake: FaultyLake, wrong: str) -> None:
    before = lake.head
    connection = (
        lake.connection(access_key_id="AKIAWRONG")
        if wrong == "key"
        else lake.connection(secret_access_key="wrong-secret-of-this-test")
    )

    attempted = lake.attempt(connection=connection)

    attempted.assert_failed(StoreAccessError, Phase.DOWNLOAD, "access key")
    lake.assert_unmoved(before)


@pytest.mark.parametrize(
    ("call", "phase"),
    [
        ("list", Phase.DOWNLOAD),
        ("download", Phase.DOWNLOAD),
        ("create staging", Phase.STAGE),
        ("upload", Phase.STAGE),
        ("delete objects", Phase.STAGE),
        ("commit", Phase.STAGE),
        ("read head", Phase.PUBLISH),
        ("merge", Phase.PUBLISH),
    ],
)
@pytest.mark.parametrize("status", [401, 403])
def test_a_permission_that_is_missing_is_told_at_once(
    lake: FaultyLake, call: str, phase: Phase, status: int
) -> None:
    before, polled = lake.head, lake.schedule()
    lake.fault(call, Answer(status=status, body=b'{"message": "not for you"}'), times=None)

    attempted = lake.attempt(polled)

    attempted.assert_failed(StoreAccessError, phase)
    lake.assert_unmoved(before)


# -- what is not there


def test_a_ref_that_is_not_there_is_told(lake: FaultyLake) -> None:
    before = lake.head

    attempted = lake.attempt(lake.schedule(ref=NOWHERE))

    attempted.assert_failed(NotFoundInStoreError, Phase.DOWNLOAD, NOWHERE, lake.repository)
    lake.assert_unmoved(before)


def test_what_is_missing_is_told_by_its_own_name(lake: FaultyLake) -> None:
    nowhere, nothing = RepositoryName("nosuch"), CommitId(NOWHERE)
    with LakeFSWorkspaceStore(lake.connection()) as store:
        for look in (
            lambda: store.head(nowhere, MAIN),
            lambda: store.resolve(nowhere, "main"),
            lambda: store.resolve(nowhere, NOWHERE),
            lambda: store.read_commit(nowhere, nothing),
            lambda: store.resolve(RepositoryName("Bad_Name!"), "main"),
        ):
            with pytest.raises(NotFoundInStoreError, match=r"^no repository '.*' on this") as found:
                look()
            assert "store init" in str(found.value.hint)
        others: dict[str, Callable[[], object]] = {
            "no branch 'lab' in": lambda: store.head(lake.repository, BranchName("lab")),
            "'lab' is no branch and no commit": lambda: store.resolve(lake.repository, "lab"),
            f"no commit {NOWHERE}": lambda: store.read_commit(lake.repository, nothing),
        }
        for missing, ask in others.items():
            with pytest.raises(NotFoundInStoreError, match=f"^{missing}") as found:
                ask()
            assert found.value.hint


def test_what_is_there_is_found_with_no_further_call(lake: FaultyLake) -> None:
    head = lake.head.id
    with LakeFSWorkspaceStore(lake.connection()) as store:
        assert store.resolve(lake.repository, head[:8]) == head

    assert len(lake.proxy.log) == 2, "a branch of that name, then a commit"


def test_another_web_server_is_told_from_a_lakefs_server_without_repositories(
    lake: FaultyLake,
) -> None:
    lake.proxy.add(Fault(match=Match("GET", "/"), action=Answer(status=404), times=None))

    with (
        LakeFSWorkspaceStore(lake.connection()) as store,
        pytest.raises(StoreError, match="is no lakeFS server") as found,
    ):
        store.repositories()

    assert lake.connection().endpoint in found.value.message
    assert "PERAGO_LAKEFS_ENDPOINT" in str(found.value.hint)


def test_an_object_that_was_collected_as_garbage_is_told(lake: FaultyLake) -> None:
    before = lake.head
    block_of(lake, "kept").unlink()

    attempted = lake.attempt()

    attempted.assert_failed(NotFoundInStoreError, Phase.DOWNLOAD, "'kept'")
    lake.assert_unmoved(before)


@pytest.mark.parametrize(
    "point", [Failpoint.VALIDATED, Failpoint.DOWNLOADED, Failpoint.STAGED, Failpoint.HEAD_READ]
)
def test_a_repository_that_is_deleted_is_told(lake: FaultyLake, point: Failpoint) -> None:
    attempted = lake.attempt(at={point: lake.stranger.delete_repository})

    # In which phase depends on how much the server still has in its cache.
    assert isinstance(attempted.outcome, Failed)
    attempted.assert_failed(NotFoundInStoreError, attempted.outcome.phase, lake.repository)
    assert lake.sent("merge") == 0


# -- what may not be changed


def test_a_read_only_repository_is_told(lake: FaultyLake) -> None:
    lake.repository = RepositoryName(f"read-only-{uuid.uuid4().hex}")
    lake.stranger.create_read_only_repository(lake.repository)
    before = lake.head

    attempted = lake.attempt(lake.schedule(Edit(deletes=[])))

    attempted.assert_failed(StoreAccessError, Phase.STAGE, lake.repository)
    lake.assert_unmoved(before)


def test_an_attempt_that_changes_nothing_completes_on_a_read_only_repository(
    lake: FaultyLake,
) -> None:
    lake.repository = RepositoryName(f"read-only-{uuid.uuid4().hex}")
    lake.stranger.create_read_only_repository(lake.repository)
    before = lake.head

    attempted = lake.attempt(lake.schedule(NO_CHANGE))

    assert attempted.output_ref == before.id


def test_a_protected_target_takes_a_merge_and_no_reset(lake: FaultyLake) -> None:
    before = lake.head
    lake.stranger.protect()

    abandoned = lake.abandon()
    assert abandoned.parents == (before.id,)
    attempted = lake.attempt(lake.poll(Edit()))

    attempted.assert_failed(StoreAccessError, Phase.PUBLISH, "reset", lake.repository)
    assert attempted.error is not None
    assert "protected" in str(attempted.error)
    assert lake.sent("reset") == 1
    lake.assert_unmoved(abandoned)


def test_a_dirty_target_takes_no_merge(lake: FaultyLake) -> None:
    before, polled = lake.head, lake.schedule()
    lake.stranger.put("uncommitted", b"precious")

    attempted = lake.attempt(polled)

    attempted.assert_failed(StoreError, Phase.PUBLISH, "merge", lake.repository)
    assert "uncommitted" in str(attempted.error)
    lake.assert_unmoved(before)
    assert lake.stranger.is_there("uncommitted")


def test_a_dirty_target_takes_no_reset(lake: FaultyLake) -> None:
    abandoned = lake.abandon()
    lake.stranger.put("uncommitted", b"precious")

    attempted = lake.attempt(lake.poll(Edit()))

    attempted.assert_failed(StoreError, Phase.PUBLISH, "reset", "uncommitted")
    assert lake.sent("reset") == 0
    lake.assert_unmoved(abandoned)
    assert lake.stranger.is_there("uncommitted")


def test_a_target_that_somebody_else_moved_on_is_left_alone(lake: FaultyLake) -> None:
    heads: list[Commit] = []

    def move() -> None:
        # Twice: one commit on the input ref would pass for an abandoned publication.
        lake.stranger.commit({"theirs": b"first"})
        lake.stranger.commit({"theirs": b"second"})
        heads.append(lake.head)

    attempted = lake.attempt(at={Failpoint.BODY_DONE: move})

    attempted.assert_failed(PublishFenceError, Phase.PUBLISH, "moved on", heads[0].id)
    lake.assert_unmoved(heads[0])


# -- what objects can be


@pytest.mark.parametrize("content", [b"kep", b"kept and more"], ids=["shorter", "longer"])
def test_an_object_of_another_size_than_was_listed_is_refused(
    lake: FaultyLake, content: bytes
) -> None:
    before = lake.head
    block_of(lake, "kept").write_bytes(content)

    attempted = lake.attempt()

    # The server notices it half-way and breaks the connection off.
    attempted.assert_failed(StoreUnavailableError, Phase.DOWNLOAD, "'kept'")
    lake.assert_unmoved(before)


def test_an_object_of_another_content_than_was_listed_is_refused(lake: FaultyLake) -> None:
    before = lake.head
    block_of(lake, "kept").write_bytes(b"Kept")

    attempted = lake.attempt()

    attempted.assert_failed(CorruptStoreError, Phase.DOWNLOAD, "'kept'")
    lake.assert_unmoved(before)


def block_of(lake: FaultyLake, path: str) -> Path:
    """The file in which the server keeps an object."""
    return Path(urlsplit(lake.stranger.address_of(path)).path)


HOSTILE = {
    "the parent": "../x",
    "the parent of the attempt": "../../../../x",
    "the parent, later": "a/../../x",
    "absolute": "/tmp/x",
    "an empty part": "a//b",
    "a dot": "a/./b",
    "a file and a directory": "kept/x",
    "a control character": "a\tb",
    "a line break": "a\nb",
    "a long part": "x" * 256,
    "a directory that is a file": "d/",
    "NUL": "a\0b",
}


@pytest.mark.parametrize("path", HOSTILE.values(), ids=HOSTILE.keys())
def test_an_object_that_cannot_be_a_file_is_refused_before_anything_is_written(
    lake: FaultyLake, path: str
) -> None:
    lake.stranger.commit({path: b"hostile"})
    before = lake.head

    attempted = lake.attempt()

    attempted.assert_failed(UnmappableObjectError, Phase.DOWNLOAD)
    assert isinstance(attempted.error, UnmappableObjectError)
    assert attempted.error.object_path in {path, "kept"}
    assert lake.sent("download") == 0
    lake.assert_unmoved(before)
