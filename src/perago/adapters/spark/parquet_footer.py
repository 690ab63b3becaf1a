"""Makes the footer of a Parquet file depend on its content alone.

Spark's Parquet writer keeps the encodings of a column in a hash set of Java enums, whose order is
another one in every JVM: the same rows, written twice, differ in a few bytes of the footer. The
order has no meaning in the format. Invariant: nothing but the order inside those lists is changed,
so every length and offset in the file stays right.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

_MAGIC = b"PAR1"
_TAIL_BYTES = 8
# FileMetaData.row_groups -> RowGroup.columns -> ColumnChunk.meta_data -> ColumnMetaData.encodings,
# as field ids of the format's Thrift definition.
_ENCODINGS = (4, 1, 3, 2)

# Types of Thrift's compact protocol.
_STOP = 0
_BOOLEANS = (1, 2)
_BYTE = 3
_WHOLE_NUMBERS = (4, 5, 6)
_DOUBLE = 7
_BINARY = 8
_SEQUENCES = (9, 10)
_MAP = 11
_STRUCT = 12


def normalise_footer(path: Path) -> None:
    """Sort the lists of encodings in a Parquet file, in place."""
    with path.open("r+b") as file:
        file.seek(-_TAIL_BYTES, 2)
        length, magic = struct.unpack("<I4s", file.read(_TAIL_BYTES))
        if magic != _MAGIC:
            # An encrypted footer cannot be read, nor would it be the same twice.
            return
        start = file.seek(-_TAIL_BYTES - length, 2)
        footer = file.read(length)
        normalised = sort_encodings(footer)
        if normalised != footer:
            file.seek(start)
            file.write(normalised)


def sort_encodings(footer: bytes) -> bytes:
    """The same footer with every list of encodings in ascending order."""
    result = bytearray(footer)
    for elements in _Walker(footer).find_encodings():
        start = elements[0].start if elements else 0
        ordered = b"".join(sorted(footer[span.start : span.stop] for span in elements))
        result[start : start + len(ordered)] = ordered
    return bytes(result)


@dataclass(slots=True)
class _Span:
    start: int
    stop: int


class _Walker:
    """Walks over a Thrift structure in the compact protocol without building it."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._found: list[list[_Span]] = []

    def find_encodings(self) -> list[list[_Span]]:
        """Where the elements of each list of encodings lie."""
        self._struct(())
        return self._found

    def _struct(self, path: tuple[int, ...]) -> None:
        field = 0
        while (header := self._byte()) != _STOP:
            kind, delta = header & 0x0F, header >> 4
            # Field ids are zigzag-encoded when they do not fit beside the type.
            field = field + delta if delta else self._varint() >> 1
            # A boolean field is all in its header.
            if kind not in _BOOLEANS:
                self._value(kind, (*path, field))

    def _value(self, kind: int, path: tuple[int, ...]) -> None:
        if kind in _BOOLEANS or kind == _BYTE:
            self._at += 1
        elif kind in _WHOLE_NUMBERS:
            self._varint()
        elif kind == _DOUBLE:
            self._at += 8
        elif kind == _BINARY:
            length = self._varint()
            self._at += length
        elif kind in _SEQUENCES:
            self._sequence(path)
        elif kind == _MAP:
            self._map(path)
        elif kind == _STRUCT:
            self._struct(path)
        else:
            raise ValueError(f"type {kind} is not of Thrift's compact protocol")

    def _sequence(self, path: tuple[int, ...]) -> None:
        header = self._byte()
        size, kind = header >> 4, header & 0x0F
        if size == 0x0F:
            size = self._varint()
        elements = []
        for _ in range(size):
            start = self._at
            self._value(kind, path)
            elements.append(_Span(start, self._at))
        if path == _ENCODINGS:
            self._found.append(elements)

    def _map(self, path: tuple[int, ...]) -> None:
        size = self._varint()
        kinds = self._byte() if size else 0
        for _ in range(size):
            self._value(kinds >> 4, path)
            self._value(kinds & 0x0F, path)

    def _varint(self) -> int:
        result = shift = 0
        while True:
            byte = self._byte()
            result |= (byte & 0x7F) << shift
            if not byte & 0x80:
                return result
            shift += 7

    def _byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1]
