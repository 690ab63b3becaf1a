"""Verification: every kind of damage is found, with all that suffers from it."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing

import pytest

from perago.adapters.embedded.store import AffectedObject
from perago.adapters.embedded.store.manifest import decode_root
from perago.domain.errors import CorruptStoreError
from perago.domain.ids import CommitId, ObjectPath
from perago.domain.publication import Commit
from tests.unit.adapters.embedded.store.conftest import LARGE, MAIN, REPOSITORY, Bench


def affected(commit: CommitId, path: str | None) -> AffectedObject:
    return AffectedObject(
        repository=REPOSITORY, commit=commit, path=None if path is None else ObjectPath(path)
    )


def damage(bench: Bench, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(bench.home / "store.sqlite3")) as connection, connection:
        assert connection.execute(statement, values).rowcount == 1


def test_a_sound_store_is_clean_and_counted(bench: Bench) -> None:
    bench.commit({"a": b"1", "b": b"1", "c": LARGE})
    bench.abandon({"d": b"2"})
    report = bench.store.verify()
    assert report.is_clean
    assert report.problems == ()
    assert report.commits == 3
    assert report.contents == 3
    assert report.tree_nodes == 5
    assert report.bytes_checked == len(LARGE) + 2


def flip(bench: Bench) -> None:
    path = bench.object_file(LARGE)
    path.chmod(0o644)
    content = bytearray(path.read_bytes())
    content[5_000] ^= 1
    path.write_bytes(content)


def truncate(bench: Bench) -> None:
    path = bench.object_file(LARGE)
    path.chmod(0o644)
    path.write_bytes(LARGE[:-1])


def remove(bench: Bench) -> None:
    bench.object_file(LARGE).unlink()


def replace_by_a_link(bench: Bench) -> None:
    path = bench.object_file(LARGE)
    moved = path.rename(bench.files / "elsewhere")
    path.symlink_to(moved)


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (flip, "does not match its hash"),
        (truncate, "has 99999 bytes instead of 100000"),
        (remove, "is missing: no file"),
        (replace_by_a_link, "cannot be read"),
    ],
)
def test_a_damaged_file_is_found_with_all_that_it_affects(
    bench: Bench, harm: Callable[[Bench], None], said: str
) -> None:
    first = bench.commit({"x/large": LARGE, "fine": b"1"})
    second = bench.commit({"copy": LARGE, "other": b"2"})
    bench.commit({"later": b"3"}, ["copy", "x/large"])
    harm(bench)
    (problem,) = bench.store.verify().problems
    assert said in problem.what
    assert bench.object_file(LARGE).name in problem.what
    assert set(problem.affected) == {
        affected(first.id, "x/large"),
        affected(second.id, "x/large"),
        affected(second.id, "copy"),
    }


def test_a_damaged_small_content_is_found(bench: Bench) -> None:
    commit = bench.commit({"a": b"small", "b": b"other"})
    damage(
        bench,
        "UPDATE contents SET data = X'00' || substr(data, 2) WHERE size = 5 "
        "AND data = CAST('small' AS BLOB)",
    )
    (problem,) = bench.store.verify().problems
    assert "does not match its hash" in problem.what
    assert problem.affected == (affected(commit.id, "a"),)


def test_a_missing_small_content_is_found(bench: Bench) -> None:
    commit = bench.commit({"a": b"small"})
    damage(bench, "DELETE FROM contents")
    (problem,) = bench.store.verify().problems
    assert "is missing" in problem.what
    assert problem.affected == (affected(commit.id, "a"),)


@pytest.mark.parametrize("harm", ["removed", "cut short", "replaced by another"])
@pytest.mark.parametrize("node", ["root", "leaf"])
def test_a_missing_or_damaged_tree_node_affects_whole_commits(
    bench: Bench, harm: str, node: str
) -> None:
    def node_of(commit: Commit) -> tuple[bytes, bytes]:
        """The id and body of a commit's root or only leaf."""
        found = bytes.fromhex(commit.tree)
        with bench.store._database.reading() as connection:
            select = "SELECT body FROM trees WHERE id = ?"
            (body,) = connection.execute(select, (found,)).fetchone()
            if node == "leaf":
                found = decode_root(body)[0].id
                (body,) = connection.execute(select, (found,)).fetchone()
        return found, body

    first, second = bench.commit({"a": b"1"}), bench.commit({"a": b"2"})
    damaged, body = node_of(first)
    if harm == "removed":
        damage(bench, "DELETE FROM trees WHERE id = ?", damaged)
    else:
        body = body[:-1] if harm == "cut short" else node_of(second)[1]
        damage(bench, "UPDATE trees SET body = ? WHERE id = ?", body, damaged)
    (problem,) = bench.store.verify().problems
    assert damaged.hex() in problem.what
    assert problem.affected == (affected(first.id, None),)


def test_a_damaged_commit_is_found(bench: Bench) -> None:
    commit = bench.commit({"a": b"1"})
    following = bench.commit({"a": b"2"})
    record = {"message": "forged"}
    damage(bench, "UPDATE commits SET record = ? WHERE id = ?", json.dumps(record), commit.id)
    problems = bench.store.verify().problems
    assert [problem.affected for problem in problems] == [
        (affected(commit.id, None),),
        (affected(following.id, None),),
    ]


def test_a_branch_without_a_commit_is_found(bench: Bench) -> None:
    commit = bench.commit({"a": b"1"})
    damage(bench, "DELETE FROM commits WHERE id = ?", commit.id)
    (problem,) = bench.store.verify().problems
    assert MAIN in problem.what
    assert commit.id in problem.what


def test_garbage_that_is_half_collected_is_no_problem(bench: Bench) -> None:
    gone = bench.abandon({"a": b"1"})
    damage(bench, "DELETE FROM commits WHERE id = ?", gone.id)
    damage(bench, "DELETE FROM contents")
    assert bench.store.verify().is_clean


def test_a_database_that_is_no_database_is_refused(bench: Bench) -> None:
    bench.commit({"a": b"1"})
    bench.store.close()
    database = bench.home / "store.sqlite3"
    database.write_bytes(b"not a database at all" * 1000)
    with pytest.raises(CorruptStoreError, match=str(database)):
        bench.store.verify()


def test_a_page_of_the_database_that_was_overwritten_is_noticed(bench: Bench) -> None:
    bench.commit({f"part-{n}": bytes([n]) * 20_000 for n in range(20)})
    bench.store.close()
    database = bench.home / "store.sqlite3"
    content = bytearray(database.read_bytes())
    assert len(content) > 40_000
    for start in range(8192, len(content), 8192):
        content[start : start + 64] = b"\xff" * 64
    database.write_bytes(content)
    with pytest.raises(CorruptStoreError, match=str(database)):
        bench.store.verify()
