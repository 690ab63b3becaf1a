import struct
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from perago.adapters.spark.parquet_footer import normalise_footer, sort_encodings

TABLE = pa.table(
    {
        "text": ["a", "b", None] * 40,
        "number": list(range(120)),
        "nested": [{"x": [1.5, 2.5], "y": {"deep": 1}}] * 120,
    }
)


def write_table(path: Path, **options: object) -> Path:
    parquet.write_table(TABLE, path, row_group_size=50, **options)
    return path


def footer_of(content: bytes) -> bytes:
    (length,) = struct.unpack("<I", content[-8:-4])
    return content[-8 - length : -8]


def encodings_of(path: Path) -> list[tuple[str, ...]]:
    metadata = parquet.ParquetFile(path).metadata
    return [
        metadata.row_group(group).column(column).encodings
        for group in range(metadata.num_row_groups)
        for column in range(metadata.num_columns)
    ]


def scramble(path: Path) -> None:
    """Turn every list of encodings round, as another JVM might have left it."""
    # A list of three 32-bit numbers, as Thrift writes it: PLAIN, RLE and RLE_DICTIONARY.
    ordered, turned = bytes([0x35, 0, 6, 16]), bytes([0x35, 16, 6, 0])
    content = path.read_bytes()
    assert content.count(ordered) == len(encodings_of(path))
    path.write_bytes(content.replace(ordered, turned))


def test_encodings_end_up_in_one_order(tmp_path: Path) -> None:
    path = write_table(tmp_path / "t.parquet")
    normalise_footer(path)
    before = path.read_bytes()
    scramble(path)
    assert set(encodings_of(path)) == {("RLE_DICTIONARY", "RLE", "PLAIN")}
    normalise_footer(path)
    assert path.read_bytes() == before
    assert set(encodings_of(path)) == {("PLAIN", "RLE", "RLE_DICTIONARY")}
    assert parquet.read_table(path).equals(TABLE)


def test_doing_it_twice_is_doing_it_once(tmp_path: Path) -> None:
    footer = footer_of(write_table(tmp_path / "t.parquet").read_bytes())
    assert sort_encodings(sort_encodings(footer)) == sort_encodings(footer)


def test_only_the_footer_is_touched(tmp_path: Path) -> None:
    path = write_table(tmp_path / "t.parquet")
    scramble(path)
    before = path.read_bytes()
    normalise_footer(path)
    after = path.read_bytes()
    body = len(before) - 8 - len(footer_of(before))
    assert len(after) == len(before)
    assert after[:body] == before[:body]
    assert sorted(after) == sorted(before)


def test_an_encrypted_footer_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    path.write_bytes(b"PARE" + bytes(20) + struct.pack("<I4s", 20, b"PARE"))
    normalise_footer(path)
    assert path.read_bytes().startswith(b"PARE" + bytes(20))


def test_what_is_no_footer_is_refused() -> None:
    with pytest.raises(ValueError, match="type 14 is not of Thrift"):
        sort_encodings(bytes([0x1E, 0]))


def varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


@given(st.lists(st.integers(0, 9), max_size=40), st.binary(max_size=200))
def test_lists_of_any_length_are_found_between_other_fields(
    encodings: list[int], other: bytes
) -> None:
    def footer(elements: list[int]) -> bytes:
        size = len(elements)
        header = bytes([size << 4 | 5]) if size < 15 else bytes([0xF5]) + varint(size)
        column = bytes([0x15, 2, 0x19]) + header + bytes(2 * e for e in elements) + b"\x00"
        chunk = bytes([0x16, 8, 0x2C]) + column + b"\x00"
        group = bytes([0x19, 0x1C]) + chunk + b"\x00"
        # field 1: bytes; 2: true; 3: a map; 4: row groups; 20: a double, its id written in full
        start = bytes([0x18]) + varint(len(other)) + other + bytes([0x11, 0x1B, 1, 0x83, 1, 97, 9])
        return start + bytes([0x19, 0x1C]) + group + bytes([0x07, 40]) + bytes(8) + b"\x00"

    assert sort_encodings(footer(encodings)) == footer(sorted(encodings))
