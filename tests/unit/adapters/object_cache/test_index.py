"""A damaged or foreign index costs the entries, never a wrong content and never a checkout."""

import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.unit.adapters.object_cache.bench import (
    Bench,
    digest_of,
    index_file,
    indexed,
    object_files,
)

CONTENTS = {f"id{number}": b"%d" % number * 2000 for number in range(40)}


def overwrite(index: Path) -> None:
    index.write_bytes(b"this is no database, and never was one" * 1000)


def empty(index: Path) -> None:
    index.write_bytes(b"")


def remove(index: Path) -> None:
    index.unlink()


def double(index: Path) -> None:
    shutil.copy(index, index.with_name("index-copy.sqlite3"))


def make_newer(index: Path) -> None:
    execute(index, "PRAGMA user_version = 2")


def make_foreign(index: Path) -> None:
    execute(index, "PRAGMA application_id = 1")


def drop_a_table(index: Path) -> None:
    execute(index, "DROP TABLE totals")


def execute(index: Path, statement: str) -> None:
    with closing(sqlite3.connect(index)) as connection, connection:
        connection.execute(statement)


Damage = Callable[[Path], None]


@pytest.mark.parametrize("damage", [overwrite, empty, make_newer, make_foreign, drop_a_table])
def test_a_bad_index_begins_anew_with_a_warning(
    bench: Bench, caplog: pytest.LogCaptureFixture, damage: Damage
) -> None:
    bench.fill(CONTENTS)
    bench.cache.close()
    old = index_file(bench.directory)
    damage(old)
    assert bench.cache.find(list(CONTENTS)) == {}
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert str(old) in caplog.text
    assert bench.cache.usage() == (0, 0)
    assert object_files(bench.directory) == {}
    bench.fill({"one": b"1"})
    assert bench.deliver(b"1")
    assert bench.debris() == []
    bench.check()


@pytest.mark.parametrize("damage", [remove, double])
def test_entries_without_their_one_index_are_thrown_away(bench: Bench, damage: Damage) -> None:
    bench.fill(CONTENTS)
    bench.cache.close()
    damage(index_file(bench.directory))
    bench.fill({"one": b"1"})
    assert list(object_files(bench.directory)) == [digest_of(b"1")]
    assert bench.debris() == []
    bench.check()


def test_others_notice_that_the_index_began_anew(bench: Bench, tmp_path: Path) -> None:
    bench.fill({"one": b"1"})
    other = Bench(bench.directory, tmp_path / "other")
    assert other.cache.find(["one"])
    assert other.deliver(b"1")
    index_file(bench.directory).unlink()
    bench.fill({"two": b"2"})
    assert not other.deliver(b"1")
    assert other.cache.find(["one", "two"]).keys() == {"two"}
    index_file(bench.directory).unlink()
    bench.fill({"three": b"3"})
    other.fill({"four": b"4"})
    assert bench.cache.find(["two", "three", "four"]).keys() == {"three", "four"}
    other.cache.close()
    bench.check()


@pytest.mark.parametrize("seed", range(12))
def test_a_page_of_rubbish_costs_only_entries(bench: Bench, seed: int) -> None:
    """Wherever the rubbish is: a content is right or missing, and the cache works on."""
    chance = random.Random(seed)
    bench.fill(CONTENTS)
    bench.cache.close()
    index = index_file(bench.directory)
    content = bytearray(index.read_bytes())
    start = chance.randrange(len(content) // 512) * 512
    length = chance.choice([8, 64, 512])
    content[start : start + length] = chance.choice([bytes(length), chance.randbytes(length)])
    index.write_bytes(content)
    expected = {identity: digest_of(content) for identity, content in CONTENTS.items()}
    for turn in range(2):
        found = bench.cache.find(list(CONTENTS))
        for identity, digest in found.items():
            target = bench.files / f"{identity}-{turn}"
            size = len(CONTENTS[identity])
            if bench.cache.deliver(digest, size, target, lambda _: None):
                assert digest == expected[identity]
        with bench.cache.intake() as intake:
            for identity, content_of in CONTENTS.items():
                if writer := intake.begin(len(content_of)):
                    writer.write(content_of)
                    writer.keep(identity, digest_of(content_of))
    bench.cache.usage()


def test_the_number_of_identities_is_bounded(bench: Bench) -> None:
    bench.fill({"old": b"1", "seen again": b"1", "new": b"1"})
    bench.cache.close()
    execute(index_file(bench.directory), "UPDATE identities SET serial = 1000002 WHERE serial = 3")
    bench.fill({"seen again": b"1"})
    assert bench.cache.find(["old", "seen again", "new"]).keys() == {"seen again", "new"}
    assert len(indexed(bench.directory)) == 1
