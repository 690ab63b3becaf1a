"""What goes in comes out, by identity and by digest, and the least recently used goes first."""

import os
import pickle
import subprocess
import sys
from array import array
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from perago.adapters.object_cache import ObjectCache
from perago.domain.ids import Digest
from perago.domain.workspace import disk_use
from tests.unit.adapters.object_cache.bench import (
    BLOCK,
    Bench,
    begin,
    digest_of,
    ignore,
    keep,
    object_files,
)

LARGE = bytes(range(256)) * 1000


def test_nothing_is_written_before_the_first_use(bench: Bench) -> None:
    with bench.cache.intake():
        pass
    bench.cache.close()
    assert not bench.directory.exists()


@pytest.mark.parametrize("content", [b"", b"small", LARGE], ids=["empty", "small", "large"])
def test_a_kept_content_is_found_and_delivered(bench: Bench, content: bytes) -> None:
    bench.fill({"one": content})
    assert bench.cache.find(["one", "two"]) == {"one": digest_of(content)}
    heard: list[int] = []
    target = bench.files / "target"
    assert bench.cache.deliver(digest_of(content), len(content), str(target), heard.append)
    assert target.read_bytes() == content
    assert sum(heard) == len(content)
    assert bench.cache.usage() == (1, disk_use(len(content)))
    assert bench.debris() == []


@pytest.mark.parametrize("content", [b"small", LARGE], ids=["small", "large"])
def test_a_delivered_file_is_a_private_writable_one(bench: Bench, content: bytes) -> None:
    bench.fill({"one": content})
    target = bench.files / "target"
    assert bench.cache.deliver(digest_of(content), len(content), target, ignore)
    assert target.stat().st_nlink == 1
    assert target.stat().st_mode & 0o200
    target.write_bytes(b"changed")
    assert bench.deliver(content)


@pytest.mark.parametrize("content", [b"small", LARGE], ids=["small", "large"])
def test_a_delivery_writes_over_nothing(bench: Bench, content: bytes) -> None:
    bench.fill({"one": content})
    target = bench.files / "target"
    target.write_bytes(b"what has the name")

    with pytest.raises(FileExistsError):
        bench.cache.deliver(digest_of(content), len(content), target, ignore)

    assert target.read_bytes() == b"what has the name"


def test_many_identities_are_found_at_once(bench: Bench) -> None:
    contents = {f"é {number}\ud800": b"%d" % number for number in range(1201)}
    bench.fill(contents)
    expected = {identity: digest_of(content) for identity, content in contents.items()}
    assert bench.cache.find([*contents, "no such"]) == expected
    assert bench.cache.find([]) == {}


def test_one_content_under_several_identities_is_stored_once(bench: Bench) -> None:
    bench.fill({"one": b"same", "two": b"same"})
    bench.fill({"three": b"same"})
    assert bench.cache.find(["one", "two", "three"]).keys() == {"one", "two", "three"}
    assert bench.cache.usage() == (1, BLOCK)
    assert len(object_files(bench.directory)) == 1
    assert bench.debris() == []


def test_an_identity_that_meets_its_content_again_is_found_again(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "cache", tmp_path / "files", max_bytes=BLOCK)
    bench.fill({"one": b"a"})
    bench.fill({"other": b"b"})
    assert bench.cache.find(["one", "other"]) == {"other": digest_of(b"b")}
    bench.fill({"two": b"a"})
    assert bench.cache.find(["one", "two"]).keys() == {"one", "two"}
    bench.cache.close()


def test_any_buffer_can_be_written(bench: Bench) -> None:
    numbers = array("i", range(5000))
    content = numbers.tobytes() * 3
    with bench.cache.intake() as intake:
        writer = begin(intake, len(content))
        writer.write(numbers)
        writer.write(memoryview(numbers))
        writer.write(bytearray(numbers.tobytes()))
        writer.keep("one", digest_of(content))
    assert bench.deliver(content)


def test_nothing_is_an_entry_before_the_block_ends(bench: Bench) -> None:
    with bench.cache.intake() as intake:
        assert keep(intake, "one", b"1")
        assert bench.cache.find(["one"]) == {}
        assert not bench.deliver(b"1")
    assert bench.deliver(b"1")


def test_what_was_kept_survives_an_error(bench: Bench) -> None:
    def fail(intake_over: Callable[[], None]) -> None:
        with bench.cache.intake() as intake:
            assert keep(intake, "one", b"1")
            begin(intake, 1).write(b"2")
            intake_over()

    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail(stop)
    assert bench.cache.find(["one"])
    assert bench.debris() == []
    bench.check()


def test_what_is_discarded_or_left_is_no_entry(bench: Bench) -> None:
    with bench.cache.intake() as intake:
        discarded = begin(intake, 1)
        discarded.write(b"1")
        discarded.discard()
        discarded.write(b"1")
        discarded.keep("one", digest_of(b"1"))
        left = begin(intake, 1)
        left.write(b"2")
        kept = begin(intake, 1)
        kept.write(b"3")
        kept.keep("three", digest_of(b"3"))
        kept.discard()
    left.write(b"2")
    left.keep("two", digest_of(b"2"))
    assert intake.begin(1) is None
    assert list(object_files(bench.directory)) == [digest_of(b"3")]
    bench.check()
    assert bench.debris() == []


def test_more_than_was_expected_is_not_kept(bench: Bench) -> None:
    with bench.cache.intake() as intake:
        writer = begin(intake, 3)
        writer.write(b"123")
        writer.write(b"4")
        writer.keep("one", digest_of(b"1234"))
    assert bench.cache.find(["one"]) == {}
    assert bench.debris() == []


def test_a_malformed_digest_leads_nowhere(bench: Bench) -> None:
    bench.fill({"one": b"1"})
    (bench.directory / "secret").write_bytes(b"x")
    for digest in ("", "..", "../secret", "ab", digest_of(b"1").upper(), digest_of(b"1") + "\n"):
        assert not bench.cache.deliver(Digest(digest), 1, bench.files / "target", ignore)
    assert (bench.directory / "secret").exists()
    assert bench.deliver(b"1")
    with bench.cache.intake() as intake, pytest.raises(ValueError, match="not a digest"):
        begin(intake, 1).keep("two", Digest("../secret"))


def test_a_content_that_cannot_fit_is_not_begun(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "cache", tmp_path / "files", max_bytes=10 * BLOCK)
    with bench.cache.intake() as intake:
        assert intake.begin(10 * BLOCK + 1) is None
        assert keep(intake, "eight", b"8" * 8 * BLOCK)
        # Duplicates and what was discarded take no room.
        for _ in range(3):
            assert keep(intake, "same", b"1")
            begin(intake, 1).discard()
        assert intake.begin(BLOCK + 1) is None
    bench.check(10 * BLOCK)
    bench.cache.close()


def test_a_cache_gives_way_on_a_disk_without_room(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "cache", tmp_path / "files", max_bytes=1 << 62)
    bench.fill({f"id{number}": b"%d" % number for number in range(20)})
    with bench.cache.intake() as intake:
        assert intake.begin(1 << 60) is None
        assert intake.begin(1) is not None
    # The least recently used tenth.
    assert bench.cache.usage() == (18, 18 * BLOCK)
    assert not bench.deliver(b"1")
    assert bench.deliver(b"2")
    with bench.cache.intake() as intake:
        assert intake.begin(1 << 60) is None
        for number in range(18):
            assert keep(intake, f"new{number}", b"new %d" % number)
    # Of these, none.
    assert bench.cache.find([f"new{number}" for number in range(18)]).keys() == {
        f"new{number}" for number in range(18)
    }
    assert bench.debris() == []
    bench.check()
    bench.cache.close()


def test_the_least_recently_used_go_first(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "cache", tmp_path / "files", max_bytes=10 * BLOCK)
    contents = [b"%d" % number for number in range(10)]
    bench.fill({f"id{number}": content for number, content in enumerate(contents)})
    assert bench.cache.usage() == (10, 10 * BLOCK)
    with bench.cache.intake() as intake:
        assert bench.deliver(contents[0])
        assert keep(intake, "id10", b"10")
    # Down to nine tenths, so that the next checkout need not evict.
    assert bench.cache.usage() == (9, 9 * BLOCK)
    assert [bench.entry(content).exists() for content in contents] == [
        *(True, False, False),
        *[True] * 7,
    ]
    assert bench.cache.find([f"id{number}" for number in range(3)]).keys() == {"id0"}
    bench.check(10 * BLOCK)
    assert bench.debris() == []
    bench.cache.close()


def test_uses_are_remembered_over_a_close(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "cache", tmp_path / "files", max_bytes=2 * BLOCK)
    bench.fill({"a": b"a"})
    bench.fill({"b": b"b"})
    assert bench.deliver(b"a")
    bench.cache.close()
    bench.fill({"c": b"c"})
    assert bench.cache.find(["a", "b", "c"]).keys() == {"c"}  # nine tenths of two is one
    bench.cache.close()


def test_a_new_entry_stays_when_the_rest_must_go(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "cache", tmp_path / "files", max_bytes=10 * BLOCK)
    bench.fill({f"id{number}": b"%d" % number for number in range(5)})
    large = b"l" * 10 * BLOCK
    bench.fill({"large": large})
    assert bench.cache.usage() == (1, 10 * BLOCK)
    assert bench.deliver(large)
    bench.cache.close()


def test_a_smaller_bound_takes_effect_with_the_next_checkout(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "cache", tmp_path / "files")
    bench.fill({f"id{number}": b"%d" % number for number in range(20)})
    bench.cache.close()
    smaller = Bench(tmp_path / "cache", tmp_path / "files", max_bytes=10 * BLOCK)
    with smaller.cache.intake():
        assert smaller.deliver(b"0")
    assert smaller.cache.usage() == (9, 9 * BLOCK)
    assert smaller.deliver(b"0")
    assert smaller.debris() == []
    smaller.cache.close()


@pytest.mark.parametrize("size", [1, BLOCK, BLOCK + 1, 100_000])
def test_at_least_the_real_disk_use_is_accounted(bench: Bench, size: int) -> None:
    bench.fill({"one": b"x" * size})
    entry = bench.entry(b"x" * size)
    assert entry.stat().st_blocks * 512 <= bench.cache.usage()[1] < size + BLOCK


def test_an_entry_may_be_evicted_while_it_is_copied(tmp_path: Path) -> None:
    content = os.urandom(3_000_000)
    bench = Bench(tmp_path / "cache", tmp_path / "files", max_bytes=3 << 20)
    bench.fill({"one": content})
    other = Bench(tmp_path / "cache", tmp_path / "files", max_bytes=3 << 20)
    chunks: list[int] = []

    def evict(count: int) -> None:
        if not chunks:
            other.fill({"other": b"o" * 2_000_000})
        chunks.append(count)

    target = bench.files / "target"
    assert bench.cache.deliver(digest_of(content), len(content), target, evict)
    assert len(chunks) > 1
    assert target.read_bytes() == content
    assert not bench.deliver(content)
    other.cache.close()
    bench.cache.close()
    bench.check(3 << 20)
    bench.cache.close()


@pytest.mark.parametrize("content", [b"small", LARGE], ids=["small", "large"])
def test_a_delivery_that_the_caller_stops_leaves_no_file(bench: Bench, content: bytes) -> None:
    bench.fill({"one": content})

    def stop(_count: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bench.cache.deliver(digest_of(content), len(content), bench.files / "target", stop)
    assert not (bench.files / "target").exists()
    assert bench.deliver(content)


@pytest.mark.parametrize("content", [b"small", LARGE], ids=["small", "large"])
def test_a_target_that_cannot_be_written_is_an_error(bench: Bench, content: bytes) -> None:
    bench.fill({"one": content})
    with pytest.raises(FileNotFoundError):
        bench.cache.deliver(digest_of(content), len(content), bench.files / "no" / "f", ignore)
    assert bench.deliver(content)


def test_many_threads_share_a_checkout(bench: Bench) -> None:
    contents = [b"%d" % (number % 150) * 1000 for number in range(300)]

    def check_out(number: int) -> None:
        assert keep(intake, f"id{number}", contents[number])

    with ThreadPoolExecutor(32) as pool:
        with bench.cache.intake() as intake:
            list(pool.map(check_out, range(300)))
        assert len(bench.cache.find([f"id{number}" for number in range(300)])) == 300
        assert bench.cache.usage()[0] == 150
        with bench.cache.intake():
            targets = [bench.files / str(number) for number in range(300)]
            delivered = pool.map(
                lambda pair: bench.cache.deliver(digest_of(pair[0]), len(pair[0]), pair[1], ignore),
                zip(contents, targets, strict=True),
            )
            assert all(delivered)
    assert [target.read_bytes() for target in targets] == contents
    bench.check()
    assert bench.debris() == []


def test_a_cache_can_be_used_after_close(bench: Bench) -> None:
    bench.fill({"one": b"1"})
    bench.cache.close()
    bench.cache.close()
    assert bench.cache.find(["one"])
    assert bench.deliver(b"1")
    if Path("/proc/self/fd").is_dir():
        bench.cache.close()
        links = [link.readlink() for link in Path("/proc/self/fd").iterdir() if link.exists()]
        assert not [link for link in links if link.is_relative_to(bench.directory)]


def test_a_cache_can_be_sent_to_another_process(bench: Bench) -> None:
    bench.fill({"one": b"1"})
    script = (
        "import pickle, sys\n"
        "cache = pickle.load(sys.stdin.buffer)\n"
        "print(cache.find(['one'])['one'], cache.usage())\n"
        "cache.close()\n"
    )
    answer = subprocess.run(
        [sys.executable, "-c", script],
        input=pickle.dumps(bench.cache),
        capture_output=True,
        check=True,
    )
    assert answer.stdout.decode().split() == [digest_of(b"1"), "(1,", f"{BLOCK})"]


FORK = """
import os, sys
from pathlib import Path
from perago.adapters.object_cache import ObjectCache

def fill(cache, identity, digest):
    with cache.intake() as intake:
        writer = intake.begin(1)
        writer.write(identity.encode())
        writer.keep(identity, digest)

cache = ObjectCache(Path(sys.argv[1]), max_bytes=1 << 30)
cache.find(["x"])
child = os.fork()
if child == 0:
    fill(cache, "c", sys.argv[2])
    cache.close()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
fill(cache, "p", sys.argv[3])
print(*sorted(cache.find(["c", "p"])))
cache.close()
"""


def test_connections_are_not_shared_over_a_fork(bench: Bench) -> None:
    answer = subprocess.run(
        [sys.executable, "-c", FORK, bench.directory, digest_of(b"c"), digest_of(b"p")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert answer.stdout.split() == ["c", "p"]
    assert answer.stderr == ""
    bench.check()


def test_a_relative_directory_stays_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    cache = ObjectCache(Path("cache"), max_bytes=BLOCK)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert cache.usage() == (0, 0)
    cache.close()
    assert (tmp_path / "cache").is_dir()
