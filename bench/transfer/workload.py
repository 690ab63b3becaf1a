"""What an attempt works on and what its body does there: the same for every contestant.

Only the standard library: the peer's process, which has another `perago`, imports this too.
"""

import random
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from pathlib import Path

KIB, MIB, GIB = 1024, 1024**2, 1024**3


class Scenario(StrEnum):
    """How much of its workspace a body changes."""

    NO_OP = "no-op"
    CHANGE_ONE = "change-1"
    REWRITE_ALL = "rewrite-all"


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """So many files of one size."""

    name: str
    count: int
    size: int

    @property
    def total(self) -> int:
        """Its bytes."""
        return self.count * self.size

    def __str__(self) -> str:
        unit, divisor = next(
            (unit, divisor)
            for unit, divisor in (("GiB", GIB), ("MiB", MIB), ("KiB", KIB))
            if self.size >= divisor
        )
        return f"{self.count} x {self.size // divisor} {unit}"


WORKSPACES = {
    workspace.name: workspace
    for workspace in (
        Workspace(name="T", count=20, size=10 * KIB),
        Workspace(name="S", count=1000, size=10 * KIB),
        Workspace(name="L", count=40, size=25 * MIB),
    )
}
"""S and L are what the aims are about; T is there to try the benchmark itself."""


def changed_files(scenario: Scenario, count: int) -> range:
    """Which files a body writes, by their numbers."""
    match scenario:
        case Scenario.NO_OP:
            return range(0)
        case Scenario.CHANGE_ONE:
            return range(count // 2, count // 2 + 1)
        case Scenario.REWRITE_ALL:
            return range(count)


def new_content(seed: int, index: int, size: int) -> Iterator[bytes]:
    """What a body writes into a file: cheap to make, so that the transfer is what is measured.

    No two pieces of an attempt are equal, and none can be compressed.
    """
    block = _block(seed, min(size, MIB))
    for start in range(0, size, MIB):
        yield (struct.pack(">QQ", index, start) + block[16:])[: size - start]


@lru_cache(maxsize=1)
def _block(seed: int, size: int) -> bytes:
    return random.Random(seed).randbytes(size)


def file_name(index: int) -> str:
    """The name of a file, as `bench.store.make_files` gives it."""
    return f"part-{index:05}"


def run_body(directory: Path, scenario: Scenario, seed: int, workspace: Workspace) -> float:
    """Look that every file is here, and change those that are to change; return the seconds."""
    began = time.perf_counter()
    sizes = {path.name: path.stat().st_size for path in directory.glob("part-*")}
    if sizes != {file_name(index): workspace.size for index in range(workspace.count)}:
        raise RuntimeError(f"the download brought {len(sizes)} files, or not all of them whole")
    for index in changed_files(scenario, workspace.count):
        with (directory / file_name(index)).open("wb") as stream:
            stream.writelines(new_content(seed, index, workspace.size))
    return time.perf_counter() - began
