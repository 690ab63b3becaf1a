"""Guardrails on the rows of local tables."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from perago import require_no_nulls, require_schema, require_unique
from perago.adapters.guardrails import LocalGuardrailEvaluator
from perago.adapters.guardrails.table_content import spark_type
from perago.domain.guardrail import Guardrail


def violations(root: Path, guardrail: Guardrail) -> list[str]:
    return LocalGuardrailEvaluator().violations([guardrail], root)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A table of two partitions, one of one file, and a CSV file."""
    for month, ids in ((1, [1, 2, 3]), (2, [3, 4, None])):
        place = tmp_path / "t" / f"m={month}"
        place.mkdir(parents=True)
        table = pa.table({"id": pa.array(ids, pa.int64()), "name": [f"n{one}" for one in ids]})
        parquet.write_table(table, place / "part-0.parquet")
    parquet.write_table(pa.table({"a": [1.5]}), tmp_path / "one.parquet")
    (tmp_path / "c.csv").write_text('id,note\n1,"x\ny"\n2,\n1,z\n')
    return tmp_path


def test_a_schema_that_fits(root: Path) -> None:
    assert violations(root, require_schema("t", "name STRING, id LONG, m INT")) == []
    assert violations(root, require_schema("one.parquet", {"a": "double"})) == []


def test_a_schema_that_does_not(root: Path) -> None:
    assert violations(root, require_schema("t", "id INT, other DATE")) == [
        "t: the table lacks 'other date'",
        "t: the table has 'name string', 'm any' too much",
        "t: column 'id' is bigint, not int",
    ]


def test_parts_that_differ(root: Path) -> None:
    parquet.write_table(pa.table({"id": ["x"]}), root / "t" / "m=2" / "part-1.parquet")
    (found,) = violations(root, require_schema("t", "id BIGINT"))
    assert found == "t/m=2/part-1.parquet: its columns are not those of t/m=1/part-0.parquet"


def test_a_csv_file_has_no_types(root: Path) -> None:
    (found,) = violations(root, require_schema("c.csv", "id BIGINT"))
    assert "a CSV file has no types" in found


def test_values_that_stand_twice(root: Path) -> None:
    assert violations(root, require_unique("t", ["id", "m"])) == []
    assert violations(root, require_unique("t", ["id"])) == [
        "t: 1 values of 'id' stand in more than one row, such as id=3 (2 rows)"
    ]
    assert violations(root, require_unique("c.csv", ["id"])) == [
        "c.csv: 1 values of 'id' stand in more than one row, such as id='1' (2 rows)"
    ]


def test_rows_without_a_value(root: Path) -> None:
    assert violations(root, require_no_nulls("t", ["name", "m"])) == []
    assert violations(root, require_no_nulls("t", ["name", "id"])) == [
        "t: 1 rows have no value in 'name', 'id', such as id=None, name='nNone', m=2"
    ]
    assert violations(root, require_no_nulls("c.csv", ["note"])) == [
        "c.csv: 1 rows have no value in 'note', such as id='2', note=None"
    ]


@pytest.mark.parametrize("make", [require_unique, require_no_nulls])
def test_a_column_that_is_not_there_is_named(root: Path, make: type[Guardrail]) -> None:
    (found,) = violations(root, make("t", ["nowhere"]))  # type: ignore[call-arg, arg-type]
    assert "the table has no column 'nowhere'" in found


def test_a_table_that_cannot_be_read_is_a_violation(root: Path) -> None:
    (root / "t" / "m=1" / "part-0.parquet").write_bytes(b"PAR1 no more")
    for guardrail in (
        require_unique("t", ["id"]),
        require_no_nulls("t", ["id"]),
        require_schema("t", "id BIGINT"),
    ):
        (found,) = violations(root, guardrail)
        assert "cannot be read" in found
    assert violations(root, require_unique("nowhere", ["id"])) == [
        "nowhere: there is no such table"
    ]


@pytest.mark.parametrize(
    ("value", "kind", "name"),
    [
        (True, None, "boolean"),
        (1, pa.int8(), "tinyint"),
        (1, pa.int16(), "smallint"),
        (1, pa.int32(), "int"),
        (1.5, pa.float32(), "float"),
        ("x", pa.large_string(), "string"),
        (b"x", None, "binary"),
        (dt.date(2013, 1, 1), None, "date"),
        (dt.datetime(2013, 1, 1, tzinfo=dt.UTC), None, "timestamp"),
        (Decimal("1.50"), pa.decimal128(9, 2), "decimal(9,2)"),
        ([1], None, "array<bigint>"),
        ({"a": 1}, None, "struct<a:bigint>"),
        ([("k", 1)], pa.map_(pa.string(), pa.int32()), "map<string,int>"),
        ("x", pa.dictionary(pa.int32(), pa.string()), "string"),
        (1, pa.uint8(), "uint8"),
    ],
)
def test_types_have_sparks_names(value: object, kind: pa.DataType | None, name: str) -> None:
    assert spark_type(pa.array([value], kind).type) == name
