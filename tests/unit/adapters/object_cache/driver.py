"""Kills a process at a call to the system, in the middle of a checkout that evicts.

Run as `python -m tests.unit.adapters.object_cache.driver FIRST STRIDE`. It is a program of its own
because it forks, and a process with threads, such as a test runner, must not.
"""

import json
import os
import shutil
import signal
import sys
import tempfile
import traceback
from collections import Counter
from pathlib import Path
from types import FrameType

from tests.unit.adapters.object_cache.bench import BLOCK, Bench, keep

MAX_BYTES = 10 * BLOCK
OLD = {f"old{number}": b"old %d" % number for number in range(10)}
NEW = {f"new{number}": b"new %d" % number for number in range(4)}
BAD = OLD["old5"]


def check_out(bench: Bench) -> None:
    """Hits, a bad entry, additions and an eviction."""
    with bench.cache.intake() as intake:
        bench.cache.find(list(OLD))
        assert bench.deliver(OLD["old0"])
        assert not bench.deliver(BAD)
        for identity, content in NEW.items():
            assert keep(intake, identity, content)
    bench.cache.close()


def check_out_until(at: int, bench: Bench) -> int:
    """The exit code of a process that dies at its n-th call."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    calls = 0

    def count(_frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "c_call" and touches_the_world(argument)
        if calls == at:
            os.kill(os.getpid(), signal.SIGKILL)

    try:
        sys.setprofile(count)
        check_out(bench)
        sys.setprofile(None)
        os._exit(0)
    except BaseException:  # noqa: BLE001 - a child never returns into its parent's code
        traceback.print_exc()
        os._exit(70)


def touches_the_world(function: object) -> bool:
    module = getattr(function, "__module__", None)
    owner = getattr(function, "__qualname__", "").partition(".")[0]
    return module in {"posix", "fcntl"} or owner in {"Connection", "Cursor"}


def kill_at_every_call(root: Path, first: int, stride: int) -> dict[str, int]:
    pristine = Bench(root / "pristine", root / "files", MAX_BYTES)
    pristine.fill(OLD)
    pristine.cache.close()
    pristine.entry(BAD).chmod(0o600)
    pristine.entry(BAD).write_bytes(b"bad!!")
    seen, at, code = Counter[str](), first, -signal.SIGKILL
    while code == -signal.SIGKILL:
        shutil.copytree(root / "pristine", root / "cache")
        bench = Bench(root / "cache", root / "files", MAX_BYTES)
        code = check_out_until(at, bench)
        seen["debris"] += bool(bench.debris())
        # It may have died while it delivered.
        shutil.rmtree(bench.files)
        bench.files.mkdir()
        look_at_what_is_left(bench, seen)
        shutil.rmtree(root / "cache")
        seen["rounds"] += 1
        at += stride
    assert code == 0
    return dict(seen)


def look_at_what_is_left(bench: Bench, seen: Counter[str]) -> None:
    assert not bench.deliver(BAD)
    bench.check()
    seen["added"] += len(bench.cache.find(list(NEW))) == len(NEW)
    seen["evicted"] += not bench.entry(OLD["old1"]).exists()
    for content in (OLD | NEW).values():
        assert bench.deliver(content) == bench.entry(content).exists()
    bench.fill({"after": b"after"})
    assert bench.debris() == []
    bench.check(MAX_BYTES)
    bench.cache.close()


if __name__ == "__main__":
    # In memory where there is such a place: killing a process needs no real disk, and is faster.
    shared_memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(prefix="perago-cache-", dir=shared_memory) as name:
        outcome = kill_at_every_call(Path(name), int(sys.argv[1]), int(sys.argv[2]))
    print(json.dumps(outcome))  # noqa: T201
