"""The writes of an attempt that have begun and are not whole.

A body may return while a thread of its own still writes, or go on after a write that failed
halfway. What such a write left on the staged side looks like any other change, so nobody but the
writer can tell; hence an attempt that has one publishes nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

from perago.domain.errors import EnvironmentUnfitError, TaskTerminalError, UnfinishedWriteError


class OpenWrites:
    """Where the workspaces of one lease note what they change; from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._paths: list[str] = []
        self._is_closed = False

    def begin(self, path: str) -> None:
        """Note that something is being changed; refused once the body has returned."""
        with self._lock:
            if self._is_closed:
                raise TaskTerminalError(
                    f"cannot change {path!r} any more: the body has returned",
                    hint="have the body wait for all that it starts",
                )
            self._paths.append(path)

    def end(self, path: str) -> None:
        """Note that the change is whole, or that nothing has changed."""
        with self._lock:
            self._paths.remove(path)

    def close(self) -> None:
        """Let no other begin, and raise unless all of them have ended."""
        with self._lock:
            self._is_closed = True
            if self._paths:
                raise unfinished(self._paths)


def unanswered(error: Exception) -> EnvironmentUnfitError:
    """For a Spark that does not say what it still does."""
    first = next(iter(str(error).strip().splitlines()), type(error).__name__)
    return EnvironmentUnfitError(
        f"Spark does not say what it still does: {first}",
        hint="what the body wrote cannot be relied on; the attempt is to be tried again",
    )


def unfinished(what: Iterable[str]) -> UnfinishedWriteError:
    """For writes that were under way when the body returned, or failed halfway."""
    return UnfinishedWriteError(
        f"the body returned while a write was not over: {', '.join(sorted(set(what)))}",
        hint="have the body wait for all that it starts, and let it fail when one of its writes "
        "does: what such a write leaves would be published in part",
    )
