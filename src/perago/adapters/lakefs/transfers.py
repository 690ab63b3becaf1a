"""Runs the transfers of many objects side by side, in flat memory however many there are.

Invariant: an object is tried again on its own; when the tries are used up the others stop soon,
the error names the objects that failed, and no transfer is still running when it is raised.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from perago.adapters.lakefs.answers import TransientError
from perago.adapters.lakefs.retries import Patience
from perago.domain.errors import StoreError, StoreUnavailableError
from perago.ports import OnTransfer

OnBytes = Callable[[int], None]
_NAMED = 5
"""How many failed objects are waited for and named before the rest is given up."""

_Item = TypeVar("_Item")


class _StoppedError(Exception):
    """Another transfer failed; never seen outside."""


class _Progress:
    """What one try of one object moved, taken back when the try fails."""

    def __init__(self, on_transfer: OnTransfer, stop: threading.Event) -> None:
        self._on_transfer = on_transfer
        self._stop = stop
        self._moved = 0

    def add(self, count: int) -> None:
        if self._stop.is_set():
            raise _StoppedError
        self._moved += count
        self._on_transfer(0, count)

    def take_back(self) -> None:
        self._on_transfer(0, -self._moved)
        self._moved = 0


class Transfers:
    """A bounded number of threads that share one stream of items."""

    def __init__(self, concurrency: int, patience: Patience, on_transfer: OnTransfer) -> None:
        self._concurrency = concurrency
        self._patience = patience
        self._on_transfer = on_transfer
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._errors: list[Exception] = []
        self._gave_up: list[StoreError] = []

    def run(
        self, items: Iterable[_Item], transfer: Callable[[_Item, OnBytes], None], *, total: int
    ) -> None:
        """Transfer every item."""
        shared = iter(items)
        threads = max(1, min(self._concurrency, total))
        with ThreadPoolExecutor(threads, thread_name_prefix="perago-transfer") as pool:
            try:
                workers = [pool.submit(self._work, shared, transfer) for _ in range(threads)]
                for worker in workers:
                    worker.result()
            finally:
                # For a caller that is interrupted; otherwise all are done.
                self._stop.set()
        self._raise_failures(total)

    def _work(self, shared: Iterator[_Item], transfer: Callable[[_Item, OnBytes], None]) -> None:
        while not self._stop.is_set():
            with self._lock:
                item = next(shared, None)
            if item is None:
                return
            try:
                self._transfer(item, transfer)
            except _StoppedError:
                return
            except StoreUnavailableError as error:
                with self._lock:
                    self._gave_up.append(error)
                    if len(self._gave_up) >= _NAMED:
                        self._stop.set()
            # Whatever it is, it is raised in the caller's thread, after the others have stopped.
            except Exception as error:  # noqa: BLE001
                with self._lock:
                    self._errors.append(error)
                self._stop.set()

    def _transfer(self, item: _Item, transfer: Callable[[_Item, OnBytes], None]) -> None:
        progress = _Progress(self._on_transfer, self._stop)

        def try_once() -> None:
            try:
                transfer(item, progress.add)
            except TransientError:
                progress.take_back()
                raise

        self._patience.retry(try_once)
        self._on_transfer(1, 0)

    def _raise_failures(self, total: int) -> None:
        if self._errors:
            raise self._errors[0]
        if not self._gave_up:
            return
        shown = "; ".join(error.message for error in self._gave_up[:_NAMED])
        raise StoreUnavailableError(
            f"{len(self._gave_up)} or more of {total} objects could not be transferred: {shown}",
            hint="look at the server and at the network; then try again",
        )
