"""Many processes on one cache, and processes that die."""

import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest

from tests.unit.adapters.object_cache.bench import BLOCK, Bench, index_file, keep, object_files

SPAWN = multiprocessing.get_context("spawn")
CONTENTS = {f"id{n}": b"%d " % n * (n * 300 + 1) for n in range(24)}
MAX_BYTES = 30 * BLOCK


def work(directory: Path, files: Path, rounds: int, sabotage: bool) -> Counter[str]:
    """Check out at random; in a process of its own."""
    chance = random.Random(str(files))
    bench = Bench(directory, files, MAX_BYTES)
    seen = Counter[str]()
    for _ in range(rounds):
        wanted = dict(chance.sample(sorted(CONTENTS.items()), 6))
        with bench.cache.intake() as intake:
            found = bench.cache.find(list(wanted))
            for identity, content in wanted.items():
                hit = identity in found and bench.deliver(content)
                seen["hits" if hit else "misses"] += 1
                if not hit and keep(intake, identity, content):
                    seen["kept"] += 1
        if sabotage:
            damage(bench, chance, seen)
    bench.cache.close()
    return seen


def damage(bench: Bench, chance: random.Random, seen: Counter[str]) -> None:
    # Whatever it is, it may just have gone away.
    with suppress(FileNotFoundError, ValueError):
        if chance.random() < 0.1:
            index_file(bench.directory).unlink()
            seen["indexes"] += 1
        elif chance.random() < 0.3:
            path = chance.choice(sorted(object_files(bench.directory).values()) or [Path("none")])
            path.chmod(0o600)
            descriptor = os.open(path, os.O_WRONLY)
            os.pwrite(descriptor, b"?", 0)
            os.close(descriptor)
            seen["entries"] += 1


@pytest.mark.parametrize("rounds", [30, pytest.param(500, marks=pytest.mark.torture)])
@pytest.mark.parametrize("sabotage", [False, True], ids=["in peace", "with sabotage"])
def test_many_processes_fill_evict_and_deliver(
    bench: Bench, tmp_path: Path, sabotage: bool, rounds: int
) -> None:
    with ProcessPoolExecutor(4, mp_context=SPAWN) as pool:
        futures = [
            pool.submit(work, bench.directory, tmp_path / f"files{number}", rounds, sabotage)
            for number in range(4)
        ]
        seen = sum((future.result() for future in futures), Counter[str]())
    assert seen["hits"] > rounds
    assert seen["kept"] > rounds
    if sabotage:
        assert seen["indexes"]
        assert seen["entries"]
        for content in CONTENTS.values():
            bench.deliver(content)  # finds the last bad ones
        bench.fill({"after": b"after"})
    else:
        assert bench.cache.usage()[1] > MAX_BYTES // 2
    assert bench.debris() == []
    bench.check(MAX_BYTES)


def open_cache(directory: Path, files: Path) -> bool:
    bench = Bench(directory, files)
    bench.fill({"one": b"1"})
    delivered = bench.deliver(b"1")
    bench.cache.close()
    return delivered


def test_a_bad_index_is_thrown_away_by_many_at_once(bench: Bench, tmp_path: Path) -> None:
    bench.fill(CONTENTS)
    bench.cache.close()
    index_file(bench.directory).write_bytes(b"no database" * 1000)
    with ProcessPoolExecutor(4, mp_context=SPAWN) as pool:
        futures = [
            pool.submit(open_cache, bench.directory, tmp_path / str(number)) for number in range(8)
        ]
        assert all(future.result() for future in futures)
    assert bench.cache.find(["one", *CONTENTS]).keys() == {"one"}
    assert bench.debris() == []
    bench.check()


def hold_an_intake(directory: Path, files: Path, is_ready: Event) -> None:
    bench = Bench(directory, files)
    with bench.cache.intake() as intake:
        assert keep(intake, "kept", b"kept")
        writer = intake.begin(100)
        assert writer is not None
        writer.write(b"half of it")
        is_ready.set()
        signal.pause()


def test_an_intake_that_is_killed_leaves_nothing_for_long(bench: Bench) -> None:
    bench.fill({"one": b"1"})
    is_ready = SPAWN.Event()
    process = SPAWN.Process(target=hold_an_intake, args=(bench.directory, bench.files, is_ready))
    process.start()
    try:
        assert is_ready.wait(60)
        bench.fill({"two": b"2"})
        assert len(bench.debris()) == 3  # of a living process: left alone
    finally:
        process.kill()
        process.join()
    assert len(bench.debris()) == 3
    assert bench.cache.find(["one", "two", "kept"]).keys() == {"one", "two"}
    bench.fill({"three": b"3"})
    assert bench.debris() == []
    bench.check()
    process.close()


@pytest.mark.parametrize(
    ("first", "stride"), [(3, 7), pytest.param(1, 1, marks=pytest.mark.torture)]
)
def test_a_checkout_may_be_killed_at_any_call(project_root: Path, first: int, stride: int) -> None:
    answer = subprocess.run(
        [
            *(sys.executable, "-m", "tests.unit.adapters.object_cache.driver"),
            *(str(first), str(stride)),
        ],
        cwd=project_root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    seen = json.loads(answer.stdout)
    # Before and after each of the steps, and some left a temporary file.
    for step in ("added", "evicted", "debris"):
        assert 0 < seen[step] < seen["rounds"]
