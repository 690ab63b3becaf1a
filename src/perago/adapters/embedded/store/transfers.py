"""Runs the transfers of large files side by side.

Invariant: when one fails, or the caller is interrupted, the others stop at their next chunk,
and none is still running when the error reaches the caller.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TypeVar

from perago.adapters.localfs.copying import OnBytes
from perago.ports import OnTransfer

_THREADS = min(4, os.cpu_count() or 1)
_Result = TypeVar("_Result")


class _StoppedError(Exception):
    """Another transfer failed first; never seen outside."""


def run_transfers(
    transfers: Sequence[Callable[[OnBytes], _Result]], on_transfer: OnTransfer
) -> list[_Result]:
    """Run them all and return their results, in no particular order."""
    if not transfers:
        return []
    stopped = threading.Event()

    def on_bytes(count: int) -> None:
        if stopped.is_set():
            raise _StoppedError
        on_transfer(0, count)

    def run(transfer: Callable[[OnBytes], _Result]) -> _Result:
        result = transfer(on_bytes)
        on_transfer(1, 0)
        return result

    with ThreadPoolExecutor(_THREADS, thread_name_prefix="perago-transfer") as pool:
        try:
            futures = [pool.submit(run, transfer) for transfer in transfers]
            return [future.result() for future in as_completed(futures)]
        finally:
            # After a failure; a no-op when all are done.
            stopped.set()
            pool.shutdown(wait=True, cancel_futures=True)
