"""One object of a lakeFS server as a file to read from."""

from __future__ import annotations

from collections.abc import Callable
from io import RawIOBase

from perago.adapters.patience import once


class ObjectStream(RawIOBase):
    """Reads a body piece by piece through a function that gives the next `size` bytes."""

    def __init__(self, read: Callable[[int], bytes]) -> None:
        super().__init__()
        self._read = read

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        chunk = once(lambda: self._read(len(buffer)))
        buffer[: len(chunk)] = chunk
        return len(chunk)
