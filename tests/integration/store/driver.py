"""Puts an embedded store through crashes, full disks and crowds, in forked processes.

Run as `python -m tests.integration.store.driver COMMAND JSON`, it prints one JSON object. It is a
program of its own because it forks, and a process with threads, such as a test runner, must not.
Every check that fails raises, so the program's exit code tells.
"""

import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import FrameType

from perago.adapters.embedded.store import EmbeddedWorkspaceStore
from perago.adapters.localfs.clock import SystemClock
from perago.domain.errors import HeadMovedError, PeragoError
from perago.domain.ids import CommitId
from tests.integration.store.actors import (
    LARGE,
    MAIN,
    NO_GRACE,
    REPOSITORY,
    Acknowledge,
    Author,
    Child,
    Prepared,
    check,
    set_up,
)


def one_attempt(home: Path, files: Path, seed: int, acknowledge: Acknowledge) -> None:
    """A publication of small and large files, and a collection."""
    author = Author(home, files, "author")
    numbers = random.Random(seed)
    author.publish(
        {
            "small": numbers.randbytes(500),
            "shared": b"the same every time",
            "large": numbers.randbytes(LARGE),
            "large again": b"L" * LARGE,
        },
        acknowledge,
    )
    author.store.gc(grace=NO_GRACE)
    author.store.close()


def _touches_the_world(function: object) -> bool:
    """Whether a C function can change a file or the database."""
    module = getattr(function, "__module__", None)
    owner = getattr(function, "__qualname__", "").partition(".")[0]
    return module in {"posix", "fcntl"} or owner in {"Connection", "Cursor", "FileIO"}


def kill_at_every_call(root: Path, first: int, stride: int) -> dict[str, object]:
    """Kill an attempt at its n-th call to the system or to SQLite: n = first, first + stride, …."""
    pristine = root / "pristine"
    set_up(pristine)
    at, acknowledged, debris = first, Counter[int](), 0
    while True:
        place = root / str(at)
        home, files = place / "home", place / "files"
        files.mkdir(parents=True)
        shutil.copytree(pristine, home)
        with Child(partial(_attempt_until, at, home, files)) as child:
            heard = child.hear()
            code = child.wait()
        # A staged commit is garbage once its branch is gone: only what main leads to must stay.
        removed = check(home, heard[1:])
        acknowledged[len(heard)] += 1
        debris += removed["temporary_files"]
        shutil.rmtree(place)
        if code != -signal.SIGKILL:
            assert code == 0
            return {"acknowledged": acknowledged, "debris": debris}
        at += stride


def _attempt_until(at: int, home: Path, files: Path, acknowledge: Acknowledge) -> None:
    calls = 0

    def count(_frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "c_call" and _touches_the_world(argument)
        if calls == at:
            os.kill(os.getpid(), signal.SIGKILL)

    threading.setprofile(count)
    sys.setprofile(count)
    one_attempt(home, files, at, acknowledge)
    sys.setprofile(None)


def kill_at_random(root: Path, rounds: int) -> dict[str, object]:
    """Kill a process that publishes without end, at random moments."""
    home, files = root / "home", root / "files"
    files.mkdir()
    set_up(home)
    moments = random.Random()
    acknowledged = 0

    def work(acknowledge: Acknowledge) -> None:
        author = Author(home, files, "author")
        while True:
            contents = {f"p{n}": author.random.randbytes(3000) for n in range(3)}
            contents["large"] = author.random.randbytes(LARGE)
            author.publish(contents, acknowledge)

    for number in range(rounds):
        with Child(work) as child:
            time.sleep(moments.uniform(0.01, 0.06))
            child.kill()
            heard = child.hear()
            assert child.wait() == -signal.SIGKILL
        check(home, heard, collect=False)
        acknowledged += len(heard)
        if number % 10 == 9:
            check(home, [])
    return {"acknowledged": acknowledged}


def fill_the_disk(root: Path, limits: list[int]) -> dict[str, object]:
    """Write with no file allowed to grow beyond a limit, for each of the limits."""

    def limit_files(limit: int) -> Callable[[], None]:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        endless = resource.RLIM_INFINITY
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, endless))
        return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (endless, endless))

    outcomes: Counter[str] = Counter()
    for limit in limits:
        place = root / str(limit)
        outcomes[run_out_of_space(place, place / "files", partial(limit_files, limit))] += 1
        shutil.rmtree(place)
    return dict(outcomes)


def fill_a_small_disk(root: Path, sizes: list[int]) -> dict[str, object]:
    """Write to a file system that has so many bytes left, for each of the sizes.

    Mounts, so it needs a mount namespace of its own.
    """
    outcomes: Counter[str] = Counter()
    for size in sizes:
        disk, files = root / f"disk-{size}", root / f"files-{size}"
        disk.mkdir()
        mount = shutil.which("mount") or "mount"
        subprocess.run([mount, "-t", "tmpfs", "-o", "size=16m", "tmpfs", disk], check=True)

        def take_space(disk: Path = disk, size: int = size) -> Callable[[], None]:
            free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
            ballast = disk / "ballast"
            ballast.write_bytes(b"0" * max(0, free - size))
            return ballast.unlink

        outcomes[run_out_of_space(disk, files, take_space)] += 1
        subprocess.run([shutil.which("umount") or "umount", disk], check=True)
    return dict(outcomes)


def run_out_of_space(place: Path, files: Path, take_space: Callable[[], Callable[[], None]]) -> str:
    """Commit where there may be too little space, then again where there is enough."""
    home = place / "home"
    files.mkdir(parents=True)
    set_up(home)
    result = files / "result"

    def work(acknowledge: Acknowledge) -> None:
        contents = {f"small-{n}": os.urandom(9_000) for n in range(40)}
        contents["large"] = os.urandom(LARGE)
        prepared = Prepared(Author(home, files, "author"), contents)
        give_back = take_space()
        try:
            acknowledge(prepared.commit().id)
            said = "committed"
        except PeragoError as error:
            said = type(error).__name__
        leftovers = sorted(path.name for path in (home / "incoming").iterdir())
        give_back()
        assert not leftovers, leftovers
        result.write_text(said)
        if said != "committed":
            acknowledge(prepared.commit().id)

    with Child(work) as child:
        heard = child.hear()
        assert child.wait() == 0
    assert len(heard) == 1
    check(home, heard)
    return result.read_text()


def crowd(root: Path, authors: int, publications: int) -> dict[str, object]:
    """Many processes publish to one branch while one collects what they abandon."""
    home, files = root / "home", root / "files"
    files.mkdir()
    set_up(home)

    def write(name: str, acknowledge: Acknowledge) -> None:
        author = Author(home, files, name)
        done = 0
        while done < publications:
            # All authors want the same contents at about the same time: first as garbage, then
            # for good.
            contents = {"small": b"s%d" % done, "large": b"%6d" % done * (LARGE // 6)}
            author.commit_and_abandon(contents)
            merged: list[CommitId] = []
            try:
                author.publish(contents | {name: os.urandom(9)}, merged.append)
            except HeadMovedError:
                continue
            acknowledge(merged[-1])
            done += 1

    def collect(_acknowledge: Acknowledge) -> None:
        with EmbeddedWorkspaceStore(home, SystemClock()) as store:
            while not (root / "done").exists():
                store.gc(grace=NO_GRACE)

    acknowledged: list[CommitId] = []
    with ExitStack() as crew:
        collector = crew.enter_context(Child(collect))
        writers = [
            crew.enter_context(Child(partial(write, f"author-{number}")))
            for number in range(authors)
        ]
        for writer in writers:
            acknowledged += writer.hear()
            assert writer.wait() == 0
        (root / "done").touch()
        assert collector.wait() == 0
    check(home, acknowledged)
    with EmbeddedWorkspaceStore(home, SystemClock()) as store:
        history = [c.id for c in store.log(REPOSITORY, store.head(REPOSITORY, MAIN).id)]
    assert set(history[:-1]) == set(acknowledged)
    assert len(history) == authors * publications + 1
    return {"acknowledged": len(acknowledged)}


COMMANDS: dict[str, Callable[..., dict[str, object]]] = {
    "kill-at-every-call": kill_at_every_call,
    "kill-at-random": kill_at_random,
    "fill-the-disk": fill_the_disk,
    "fill-a-small-disk": fill_a_small_disk,
    "crowd": crowd,
}


if __name__ == "__main__":
    # In memory where there is such a place: killing a process needs no real disk, and is faster.
    shared_memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(prefix="perago-store-", dir=shared_memory) as name:
        print(json.dumps(COMMANDS[sys.argv[1]](Path(name), **json.loads(sys.argv[2]))))  # noqa: T201
