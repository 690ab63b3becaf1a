"""Runs the transfers of large files side by side, and reports them as they go."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TypeVar

from perago.adapters.localfs.copying import OnBytes
from perago.adapters.localfs.side_by_side import SideBySide
from perago.ports import OnTransfer

_THREADS = min(4, os.cpu_count() or 1)
_Result = TypeVar("_Result")


def run_transfers(
    transfers: Sequence[Callable[[OnBytes], _Result]], on_transfer: OnTransfer
) -> list[_Result]:
    """Run them all and return their results, in no particular order."""
    results: list[_Result] = []
    runner = SideBySide(_THREADS)

    def on_bytes(count: int) -> None:
        runner.check()
        on_transfer(0, count)

    def run(transfer: Callable[[OnBytes], _Result]) -> None:
        results.append(transfer(on_bytes))
        on_transfer(1, 0)

    runner.run(transfers, run)
    return results
