"""The cache leaves room for a checkout on its disk, and gives back what a checkout lacks."""

from contextlib import closing
from pathlib import Path

import pytest

from perago.adapters.localfs.disks import is_same_disk
from perago.adapters.object_cache import ObjectCache
from perago.adapters.object_cache.index import Index
from perago.adapters.object_cache.layout import CacheHome
from perago.adapters.object_cache.scratch import Scratch
from perago.adapters.object_cache.settling import Settling
from tests.unit.adapters.object_cache.bench import BLOCK, Bench, begin, keep

TOO_MUCH = 1 << 60
"""More than any disk has, and whole blocks."""

ELSEWHERE = Path("/dev")
"""A directory on another disk, so to speak, than any that a test writes to."""


@pytest.fixture
def filled(bench: Bench) -> Bench:
    for number in range(10):
        bench.fill({f"id{number}": b"%d" % number})
    return bench


def found(bench: Bench) -> list[int]:
    return [number for number in range(10) if bench.cache.find([f"id{number}"])]


# -- what a checkout will write


def test_what_the_checkout_will_write_is_left_free(bench: Bench) -> None:
    with bench.cache.intake(keep_free=TOO_MUCH + BLOCK, directory=bench.files) as intake:
        assert intake.begin(1) is None
        assert intake.lacked_room
        intake.note_written(TOO_MUCH)
        assert keep(intake, "one", b"1")
        intake.note_written(1)
    assert bench.deliver(b"1")


def test_a_checkout_on_another_disk_takes_no_room(bench: Bench) -> None:
    assert not is_same_disk(ELSEWHERE, bench.files)
    with bench.cache.intake(keep_free=TOO_MUCH, directory=ELSEWHERE) as intake:
        assert keep(intake, "one", b"1")
        intake.note_written(1)
    assert bench.deliver(b"1")


def test_what_is_begun_and_not_yet_written_counts(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "cache", tmp_path / "files", max_bytes=1 << 62)
    bench.cache.usage()
    spare = CacheHome(bench.directory).spare_bytes()
    with bench.cache.intake() as intake:
        large = begin(intake, spare * 3 // 4)
        assert intake.begin(spare // 2) is None
        large.discard()
        begin(intake, spare // 2).discard()
    with bench.cache.intake(keep_free=spare // 2, directory=bench.files) as intake:
        assert intake.begin(spare * 3 // 4) is None
        begin(intake, spare // 4)
        assert intake.begin(spare // 2) is None
    bench.cache.close()


# -- what a checkout lacks


def test_nothing_goes_where_there_is_room(filled: Bench) -> None:
    filled.cache.give_way(filled.files, 0)
    filled.cache.give_way(filled.files / "to" / "be made", 1)
    assert len(found(filled)) == 10


def test_nothing_goes_where_it_would_not_help(filled: Bench) -> None:
    filled.cache.give_way(ELSEWHERE, TOO_MUCH)
    assert len(found(filled)) == 10


def test_all_goes_where_nothing_is_enough(filled: Bench) -> None:
    filled.cache.give_way(filled.files / "to" / "be made", TOO_MUCH)
    assert found(filled) == []
    assert filled.cache.usage() == (0, 0)
    assert filled.debris() == []
    filled.check()
    filled.fill({"id1": b"1"})
    assert filled.deliver(b"1")


@pytest.mark.parametrize(
    ("lacking", "gone"), [(0, 0), (1, 1), (BLOCK, 1), (BLOCK + 1, 2), (3 * BLOCK, 3), (1 << 30, 10)]
)
def test_no_more_goes_than_is_lacking_and_the_oldest_first(
    filled: Bench, lacking: int, gone: int
) -> None:
    home = CacheHome(filled.directory)
    scratch = Scratch(home)
    with closing(Index(home)) as index, index.changing() as change:
        assert Settling(home, 1 << 30).give_way(change, scratch, lacking) == (gone > 0)
    scratch.remove()
    assert found(filled) == list(range(gone, 10))
    filled.check()


def test_what_a_killed_checkout_left_goes_too(filled: Bench) -> None:
    debris = filled.directory / "incoming" / "of a dead process"
    debris.mkdir()
    (debris / "0").write_bytes(b"half a download")
    filled.cache.give_way(filled.files, 0)
    assert debris.exists()
    filled.cache.give_way(filled.files, TOO_MUCH)
    assert not debris.exists()


def test_a_cache_that_was_never_used_is_not_made_for_it(bench: Bench) -> None:
    bench.cache.give_way(bench.files, TOO_MUCH)
    assert not bench.directory.exists()


def test_a_directory_that_is_not_safe_fails_nothing(
    filled: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    filled.directory.chmod(0o777)
    cache = ObjectCache(filled.directory, max_bytes=1 << 30)
    cache.give_way(filled.files, TOO_MUCH)
    cache.close()
    filled.directory.chmod(0o700)
    assert "gave no room" in caplog.text
    assert len(found(filled)) == 10
