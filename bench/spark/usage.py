"""What a worker takes of its machine, seen from outside: the peaks of its disk and its memory."""

import os
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import psutil

_LOOK_SECONDS = 0.2


@dataclass(slots=True, kw_only=True)
class Peaks:
    """The most that was seen, in bytes: of disk below each place, and of memory."""

    disk: dict[str, int] = field(default_factory=dict)
    disk_together: int = 0
    python: int = 0
    jvm: int = 0


class UsageWatch:
    """Looks several times a second, until the end of the block.

    Memory is what the kernel noted as the most that a process held, so no peak is missed; what lay
    on the disk for less than the time between two looks may be.
    """

    def __init__(self, pid: int, places: Mapping[str, Path]) -> None:
        self.peaks = Peaks(disk=dict.fromkeys(places, 0))
        self._places = dict(places)
        self._process = psutil.Process(pid)
        self._jvm: psutil.Process | None = None
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._is_over.wait(_LOOK_SECONDS):
            self._look()

    def _look(self) -> None:
        peaks = self.peaks
        sizes = {name: disk_bytes(place) for name, place in self._places.items()}
        for name, size in sizes.items():
            peaks.disk[name] = max(peaks.disk[name], size)
        peaks.disk_together = max(peaks.disk_together, sum(sizes.values()))
        with suppress(psutil.NoSuchProcess):
            peaks.python = max(peaks.python, peak_memory(self._process.pid))
            if self._jvm is None or not self._jvm.is_running():
                # Not at every look: it goes through all processes of the machine.
                self._jvm = self._find_jvm()
            if self._jvm is not None:
                peaks.jvm = max(peaks.jvm, peak_memory(self._jvm.pid))

    def _find_jvm(self) -> psutil.Process | None:
        children = self._process.children(recursive=True)
        return next((each for each in children if _is_jvm(each)), None)


def _is_jvm(process: psutil.Process) -> bool:
    try:
        return process.name() == "java"
    except psutil.Error:
        return False


def peak_memory(pid: int) -> int:
    """The most that a process held in memory, where the kernel notes it; else what it holds."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except FileNotFoundError:
        with suppress(psutil.Error):
            return int(psutil.Process(pid).memory_info().rss)
        return 0
    except ProcessLookupError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), 0)


def disk_bytes(place: Path) -> int:
    """What the files below a directory take; one that is removed meanwhile counts nothing."""
    total = 0
    for directory, _, names in os.walk(place):
        for name in names:
            with suppress(OSError):
                total += Path(directory, name).lstat().st_blocks * 512
    return total
