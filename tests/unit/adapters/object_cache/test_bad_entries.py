"""An entry that is not what its name says is never delivered, and does not stay."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.adapters.object_cache.bench import Bench, digest_of, ignore, index_file

SMALL, LARGE = b"s" * 10_000, b"l" * 300_000


def flip(entry: Path) -> None:
    content = bytearray(entry.read_bytes())
    content[len(content) // 2] ^= 1
    replace(entry, bytes(content))


def truncate(entry: Path) -> None:
    replace(entry, entry.read_bytes()[:-1])


def extend(entry: Path) -> None:
    replace(entry, entry.read_bytes() + b"x")


def empty(entry: Path) -> None:
    replace(entry, b"")


def replace(entry: Path, content: bytes) -> None:
    entry.chmod(0o600)
    entry.write_bytes(content)


def make_directory(entry: Path) -> None:
    entry.unlink()
    entry.mkdir()
    (entry / "file").write_bytes(b"x")


def make_link(entry: Path) -> None:
    entry.rename(entry.parent / "elsewhere")
    entry.symlink_to("elsewhere")


def make_fifo(entry: Path) -> None:
    entry.unlink()
    os.mkfifo(entry)


FAULTS = [flip, truncate, extend, empty, make_directory, make_link, make_fifo]
Fault = Callable[[Path], None]


@pytest.mark.parametrize("content", [SMALL, LARGE], ids=["small", "large"])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_bad_entry_is_removed_and_comes_back_good(
    bench: Bench, caplog: pytest.LogCaptureFixture, content: bytes, fault: Fault
) -> None:
    bench.fill({"one": content, "two": b"2"})
    fault(bench.entry(content))
    assert not bench.deliver(content)
    assert not os.path.lexists(bench.entry(content))
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert digest_of(content) in caplog.text
    assert bench.cache.find(["one", "two"]).keys() == {"two"}
    (bench.entry(content).parent / "elsewhere").unlink(missing_ok=True)
    bench.fill({"one": content})
    assert bench.deliver(content)
    assert bench.deliver(b"2")
    bench.check()


@pytest.mark.parametrize("fault", FAULTS)
def test_a_bad_entry_is_replaced_by_who_downloads_it_anyway(bench: Bench, fault: Fault) -> None:
    bench.fill({"one": SMALL})
    fault(bench.entry(SMALL))
    bench.fill({"other": SMALL})
    assert bench.deliver(SMALL)
    (bench.entry(SMALL).parent / "elsewhere").unlink(missing_ok=True)
    bench.check()
    assert bench.debris() == []


def test_a_good_entry_that_took_the_place_of_a_bad_one_stays(bench: Bench) -> None:
    bench.fill({"one": LARGE})
    flip(bench.entry(LARGE))
    healed: list[int] = []

    def heal(count: int) -> None:
        if not healed:
            bench.fill({"other": LARGE})
        healed.append(count)

    assert not bench.cache.deliver(digest_of(LARGE), len(LARGE), bench.files / "t", heal)
    assert not (bench.files / "t").exists()
    assert bench.deliver(LARGE)


def test_a_size_that_the_content_does_not_have_is_a_miss(bench: Bench) -> None:
    bench.fill({"one": SMALL})
    target = bench.files / "target"
    assert not bench.cache.deliver(digest_of(SMALL), len(SMALL) + 1, target, ignore)
    assert not target.exists()


def test_a_row_without_a_file_is_a_miss(bench: Bench) -> None:
    bench.fill({"one": SMALL})
    bench.entry(SMALL).unlink()
    assert bench.cache.find(["one"])
    assert not bench.deliver(SMALL)
    bench.fill({"one": SMALL})
    assert bench.deliver(SMALL)
    bench.check()


def test_a_cache_that_is_removed_in_the_middle_begins_anew(bench: Bench) -> None:
    bench.fill({"one": SMALL})
    shutil.rmtree(bench.directory)
    assert not bench.deliver(SMALL)
    assert bench.cache.find(["one"]) == {}
    bench.fill({"one": SMALL})
    assert bench.deliver(SMALL)
    bench.check()


def test_a_cache_that_is_removed_under_an_intake_fails_nothing(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    with bench.cache.intake() as intake:
        writer = intake.begin(len(SMALL))
        assert writer is not None
        writer.write(SMALL)
        shutil.rmtree(bench.directory)
        writer.keep("one", digest_of(SMALL))
        assert intake.begin(1) is None
    assert "nothing more of this checkout is cached" in caplog.text
    assert not bench.deliver(SMALL)
    bench.fill({"one": SMALL})
    assert bench.deliver(SMALL)
    bench.check()


def test_something_in_the_way_of_a_directory_costs_only_its_entries(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.fill({"two": b"2"})
    bench.entry(SMALL).parent.write_bytes(b"not a directory")
    bench.fill({"one": SMALL, "three": b"3"})
    assert f"the content {digest_of(SMALL)} is not cached" in caplog.text
    assert bench.cache.find(["one", "two", "three"]).keys() == {"two", "three"}
    assert not bench.deliver(SMALL)
    assert index_file(bench.directory).exists()
    bench.check()
