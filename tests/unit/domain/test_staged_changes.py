"""Which of the objects that a body wrote to its staging branch are kept, removed or refused."""

import pytest

from perago.domain.changes import ChangeCount
from perago.domain.errors import UnpublishableFileError
from perago.domain.ids import ObjectPath
from perago.domain.staged_changes import ChangeKind, ObjectChange, judge_changes
from perago.domain.workspace import Prefix

OUT = Prefix.parse("out")
ALL = Prefix.parse("/")


def added(path: str, size: int = 1) -> ObjectChange:
    return ObjectChange(path=ObjectPath(path), kind=ChangeKind.ADDED, size=size)


def changed(path: str, size: int = 1) -> ObjectChange:
    return ObjectChange(path=ObjectPath(path), kind=ChangeKind.CHANGED, size=size)


def removed(path: str) -> ObjectChange:
    return ObjectChange(path=ObjectPath(path), kind=ChangeKind.REMOVED)


def test_what_a_body_wrote_and_removed_is_counted() -> None:
    judged = judge_changes([added("out/a"), changed("out/b/c"), removed("out/d")], OUT)

    assert judged.kept == ChangeCount(written=2, deleted=1)
    assert judged.strays == ()
    assert not judged.is_empty


@pytest.mark.parametrize(
    "stray",
    [
        pytest.param(added("out/t/", 0), id="a directory marker"),
        pytest.param(added("out/", 0), id="the marker of the prefix"),
        pytest.param(added("elsewhere/", 0), id="a marker that S3A put above the prefix"),
        pytest.param(added("out/t/_SUCCESS", 0), id="the marker of a finished job"),
        pytest.param(added("out/_SUCCESS", 99), id="the report of an S3A committer"),
        pytest.param(added("out/t/_temporary/0/task/part-0"), id="a task's work"),
        pytest.param(added("out/t/__magic/job/part-0.pending"), id="a pending upload"),
        pytest.param(added("out/t/__magic_job-ab12/part-0"), id="the same, as Hadoop 3.4 has it"),
        pytest.param(added("out/t/.spark-staging-ab12/m=1/part-0"), id="dynamic partitions"),
        pytest.param(added("out/.perago-attempt.json"), id="a name of Perago's own"),
    ],
)
def test_what_a_writer_left_for_itself_is_a_stray(stray: ObjectChange) -> None:
    judged = judge_changes([stray], OUT)

    assert judged.strays == (stray.path,)
    assert judged.is_empty


@pytest.mark.parametrize(
    "path",
    [
        "out/t/part-00000.parquet",
        "out/t/_delta_log/00000000000000000000.json",
        "out/t/_delta_log/00000000000000000000.crc",
        "out/t/_delta_log/_last_checkpoint",
        "out/_temporary_tables/a",
        "out/__magical/a",
        "out/_temporary",
        "out/t/_SUCCESS/a",
        "out/t/.perago-attempt.json",
        "out/month=1/a",
    ],
)
def test_what_looks_a_little_like_one_is_kept(path: str) -> None:
    assert judge_changes([added(path)], OUT).kept == ChangeCount(written=1, deleted=0)


def test_what_the_input_holds_is_no_stray() -> None:
    changes = [changed("out/_SUCCESS"), removed("out/t/"), removed("out/u/_temporary/x")]

    judged = judge_changes(changes, OUT)

    assert judged.strays == ()
    assert judged.kept == ChangeCount(written=1, deleted=2)


@pytest.mark.parametrize("marker", ["out/t/", "out/"])
def test_a_marker_that_the_input_holds_may_be_written_again(marker: str) -> None:
    assert judge_changes([changed(marker, 0)], OUT).kept.written == 1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (added("elsewhere/a"), "the body wrote elsewhere/a, which is outside of its prefix out"),
        (changed("out-old/a"), "the body wrote out-old/a, which is outside of its prefix out"),
        (removed("in/a"), "the body removed in/a, which is outside of its prefix out"),
        (added("elsewhere/_SUCCESS"), "outside of its prefix"),
    ],
)
def test_a_change_outside_of_the_prefix_is_refused(change: ObjectChange, words: str) -> None:
    with pytest.raises(UnpublishableFileError, match=words) as caught:
        judge_changes([added("out/fine"), change], OUT)
    assert caught.value.path == change.path


@pytest.mark.parametrize("prefix", [ALL, OUT, Prefix.parse("_lakefs_actions")])
def test_a_change_of_a_hook_is_refused_whatever_the_prefix(prefix: Prefix) -> None:
    with pytest.raises(UnpublishableFileError, match="holds the repository's hooks"):
        judge_changes([changed("_lakefs_actions/fence.yaml")], prefix)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (added("out/a//b"), "a part of its name is empty"),
        (added("out/../b"), "a part of its name is '..'"),
        (added("out/a\x01b"), "control character"),
        (added("out/t/", 5), "ends in '/' but it has content"),
        (changed("out/" + "x" * 300), "longer than 255 bytes"),
    ],
)
def test_a_name_that_could_not_be_checked_out_again_is_refused(
    change: ObjectChange, reason: str
) -> None:
    with pytest.raises(UnpublishableFileError, match=reason):
        judge_changes([change], OUT)


@pytest.mark.parametrize(
    ("file", "below"),
    [
        ([added("out/a"), added("out/a/b")], "out/a/b"),
        ([added("out/a"), added("out/a-b"), added("out/a.b"), changed("out/a/b/c")], "out/a/b/c"),
        ([changed("out/a"), changed("out/a/", 0)], "out/a/"),
        ([added("out/a"), added("out/a!"), added("out/a!/b")], "out/a!/b"),
    ],
)
def test_a_file_that_is_a_directory_too_is_refused(file: list[ObjectChange], below: str) -> None:
    with pytest.raises(UnpublishableFileError, match="cannot be a directory too") as caught:
        judge_changes(file, OUT)
    assert caught.value.path == below


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param([removed("out/a"), added("out/a/b")], id="a file that became a directory"),
        pytest.param([added("out/a"), removed("out/a/b")], id="a directory that became a file"),
        pytest.param([changed("out/a/", 0), added("out/a/b")], id="a marker and its directory"),
        pytest.param([added("out/a"), added("out/a-b"), added("out/ab/c")], id="neighbours"),
        pytest.param([added("out/t/_SUCCESS", 0), added("out/t/_SUCCESS/a")], id="a stray"),
    ],
)
def test_what_only_looks_like_a_file_and_a_directory_is_kept(changes: list[ObjectChange]) -> None:
    assert not judge_changes(changes, OUT).is_empty


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (changed("out/.perago-attempt.json"), "the body wrote out/.perago-attempt.json, a name"),
        (removed("out/.perago-attempt.json"), "the body removed out/.perago-attempt.json, a name"),
        (changed("out/.perago-attempt.json/a"), "a name that is Perago's own"),
    ],
)
def test_a_changed_object_with_a_name_of_ours_is_refused(change: ObjectChange, words: str) -> None:
    with pytest.raises(UnpublishableFileError, match=words):
        judge_changes([change], OUT)


def test_such_a_name_may_be_removed() -> None:
    assert judge_changes([removed("out/a//b")], OUT).kept == ChangeCount(written=0, deleted=1)


def test_the_fingerprint_is_that_of_what_is_kept() -> None:
    judged = judge_changes([added("out/_SUCCESS", 0), added("out/a")], OUT)

    assert judged.fingerprint == judge_changes([added("out/a")], OUT).fingerprint
    assert judged.fingerprint != judge_changes([changed("out/a")], OUT).fingerprint
    assert judged.fingerprint != judge_changes([added("out/a", 2)], OUT).fingerprint
    assert judged.fingerprint != judge_changes([added("out/a"), added("out/b")], OUT).fingerprint
