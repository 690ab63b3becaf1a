"""Transfers many objects side by side, each tried again on its own.

Invariant: what a failed try moved is taken back. When the tries are used up the others stop soon,
the error names the objects that failed, and no transfer is still running when it is raised.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterable
from functools import partial
from typing import TypeVar

from perago.adapters.localfs.side_by_side import SideBySide
from perago.adapters.patience import Patience, TransientError
from perago.domain.errors import StoreError, StoreUnavailableError
from perago.ports import OnTransfer

OnBytes = Callable[[int], None]
_NAMED = 5
"""How many failed objects are waited for and named before the rest is given up."""

_LEAST_TRIES = 3
"""A transfer may take longer than all patience, and survives a cut or two nevertheless."""

_Item = TypeVar("_Item")


class _Progress:
    """What one try of one item moved, taken back when the try fails."""

    def __init__(self, on_transfer: OnTransfer, check: Callable[[], None]) -> None:
        self._on_transfer = on_transfer
        self._check = check
        self._moved = 0

    def add(self, count: int) -> None:
        self._check()
        self._moved += count
        self._on_transfer(0, count)

    def take_back(self) -> None:
        self._on_transfer(0, -self._moved)
        self._moved = 0


class Transfers:
    """A bounded number of transfers at a time; good for one run."""

    def __init__(self, concurrency: int, patience: Patience, on_transfer: OnTransfer) -> None:
        self._patience = patience
        self._on_transfer = on_transfer
        self._runner = SideBySide(concurrency)
        self._lock = threading.Lock()
        self._gave_up: dict[Hashable, StoreError] = {}

    def run(
        self,
        items: Iterable[_Item],
        transfer: Callable[[_Item, OnBytes], None],
        *,
        total: int,
        object_of: Callable[[_Item], Hashable] | None = None,
    ) -> None:
        """Transfer every item of `total` objects.

        An item is an object of its own, unless `object_of` says which one it is a part of.
        """

        def work(item: _Item) -> None:
            name = item if object_of is None else object_of(item)
            # Without one of its parts an object is lost, so the rest of them is not tried.
            if name not in self._gave_up:
                self._transfer(name, partial(transfer, item))

        self._runner.run(items, work)
        self._raise_failures(total)

    def _transfer(self, name: Hashable, transfer: Callable[[OnBytes], None]) -> None:
        progress = _Progress(self._on_transfer, self._runner.check)

        def try_once() -> None:
            self._runner.check()
            try:
                transfer(progress.add)
            except TransientError:
                progress.take_back()
                raise

        try:
            self._patience.retry(try_once, least_tries=_LEAST_TRIES, wait=self._runner.wait)
        except StoreUnavailableError as error:
            self._give_up(name, error)
        else:
            self._on_transfer(1, 0)

    def _give_up(self, name: Hashable, error: StoreError) -> None:
        with self._lock:
            self._gave_up.setdefault(name, error)
            if len(self._gave_up) >= _NAMED:
                self._runner.stop()

    def _raise_failures(self, total: int) -> None:
        if not self._gave_up:
            return
        failed = list(self._gave_up.values())
        count = f"{len(failed)} or more" if len(failed) >= _NAMED else f"{len(failed)}"
        shown = "; ".join(error.message for error in failed[:_NAMED])
        raise StoreUnavailableError(
            f"{count} of {total} objects could not be transferred: {shown}",
            hint="look at the server and at the network; then try again",
        )
