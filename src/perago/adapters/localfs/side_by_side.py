"""Runs the same work on many items side by side, in flat memory however many there are.

Invariant: when one fails, or the caller is interrupted, the others stop at their next check, and
none is still running when the error reaches the caller.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, islice
from typing import Generic, TypeVar

_Item = TypeVar("_Item")


class _StoppedError(Exception):
    """Something else failed first; never seen outside."""


class _Shared(Generic[_Item]):
    """An iterator that many threads may use."""

    def __init__(self, items: Iterable[_Item]) -> None:
        self._items = iter(items)
        self._lock = threading.Lock()

    def __iter__(self) -> Iterator[_Item]:
        return self

    def __next__(self) -> _Item:
        with self._lock:
            return next(self._items)


class SideBySide:
    """A bounded number of threads that share one stream of items; good for one run."""

    def __init__(self, threads: int) -> None:
        self._threads = max(1, threads)
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._errors: list[Exception] = []

    def run(self, items: Iterable[_Item], work: Callable[[_Item], object]) -> None:
        """Work on every item; what is raised is the first error."""
        shared = _Shared(items)
        with ThreadPoolExecutor(self._threads, thread_name_prefix="perago-transfer") as pool:
            try:
                # A thread for each of the first items: no more than there are items.
                workers = [
                    pool.submit(self._work, chain((first,), shared), work)
                    for first in islice(shared, self._threads)
                ]
                for worker in workers:
                    worker.result()
            finally:
                # For a caller that is interrupted; otherwise all are done.
                self._stop.set()
        if self._errors:
            raise self._errors[0]

    def check(self) -> None:
        """Leave the work, from within, where all is to stop."""
        if self._stop.is_set():
            raise _StoppedError

    def wait(self, seconds: float) -> None:
        """Wait, but no longer than the others go on."""
        self._stop.wait(seconds)

    def stop(self) -> None:
        """Let no more work begin, and what runs end at its next check."""
        self._stop.set()

    def _work(self, items: Iterator[_Item], work: Callable[[_Item], object]) -> None:
        try:
            for item in items:
                if self._stop.is_set():
                    return
                work(item)
        except _StoppedError:
            return
        # Whatever it is, it is raised in the caller's thread, after the others have stopped.
        except Exception as error:  # noqa: BLE001
            with self._lock:
                self._errors.append(error)
            self._stop.set()
