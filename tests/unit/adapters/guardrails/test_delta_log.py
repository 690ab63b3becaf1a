"""A Delta log, replayed: what its newest version is, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from perago import require_no_nulls, require_rows, require_schema, require_unique
from perago.adapters.guardrails import LocalGuardrailEvaluator
from perago.adapters.guardrails.delta_log import DeltaLogError, DeltaSnapshot, read_snapshot
from perago.domain.guardrail import Guardrail

Action = dict[str, Any]

PROTOCOL: Action = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}


def metadata(columns: dict[str, Any] | None = None, **more: Any) -> Action:
    fields = [
        {"name": name, "type": kind, "nullable": True, "metadata": {}}
        for name, kind in (columns or {"id": "long"}).items()
    ]
    schema = json.dumps({"type": "struct", "fields": fields})
    return {"metaData": {"schemaString": schema, "partitionColumns": [], **more}}


def add(path: str, **more: Any) -> Action:
    return {"add": {"path": path, "partitionValues": {}, "size": 1, **more}}


def remove(path: str, **more: Any) -> Action:
    return {"remove": {"path": path, "dataChange": True, **more}}


class Log:
    """A log to be written."""

    def __init__(self, table: Path) -> None:
        self.place = table / "_delta_log"
        self.place.mkdir(parents=True)

    def commit(self, version: int, *actions: Action) -> None:
        lines = "".join(json.dumps(action, ensure_ascii=False) + "\n" for action in actions)
        (self.place / f"{version:020}.json").write_text(lines, encoding="utf-8")

    def checkpoint(self, name: str, *actions: Action) -> None:
        partition = pa.map_(pa.string(), pa.string())
        schema = pa.schema(
            {
                "add": pa.struct([("path", pa.string()), ("partitionValues", partition)]),
                "remove": pa.struct([("path", pa.string())]),
                "metaData": pa.struct(
                    [
                        ("schemaString", pa.string()),
                        ("partitionColumns", pa.list_(pa.string())),
                        ("configuration", partition),
                    ]
                ),
                "protocol": pa.struct([("minReaderVersion", pa.int32())]),
            }
        )
        parquet.write_table(pa.Table.from_pylist(list(actions), schema), self.place / name)

    def read(self) -> DeltaSnapshot:
        return read_snapshot(self.place)


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path / "t")


def test_what_was_removed_is_no_longer_there(log: Log) -> None:
    log.commit(0, PROTOCOL, metadata(), add("a.parquet"), add("b.parquet"))
    log.commit(1, remove("a.parquet"), add("c%20d.parquet"))
    log.commit(2, add("a.parquet"), remove("b.parquet"))
    snapshot = log.read()
    assert snapshot.version == 2
    assert sorted(snapshot.files) == ["a.parquet", "c d.parquet"]


def test_the_newest_columns_count(log: Log) -> None:
    log.commit(0, PROTOCOL, metadata())
    log.commit(1, metadata({"id": "long", "name": "string"}, partitionColumns=["name"]))
    assert log.read().columns == {"id": "long", "name": "string"}
    assert log.read().partition_columns == ("name",)


def test_a_checkpoint_stands_for_the_versions_before_it(log: Log) -> None:
    state = (PROTOCOL, metadata(), add("a.parquet", partitionValues={"m": "1"}))
    log.checkpoint(f"{10:020}.checkpoint.parquet", *state)
    log.commit(10, {"commitInfo": {}})
    log.commit(11, add("b.parquet"))
    snapshot = log.read()
    assert snapshot.version == 11
    assert snapshot.files == {"a.parquet": {"m": "1"}, "b.parquet": {}}


def test_a_checkpoint_in_parts_counts_once_all_are_there(log: Log) -> None:
    log.commit(0, PROTOCOL, metadata(), add("a.parquet"))
    log.commit(1, add("b.parquet"))
    log.checkpoint(f"{1:020}.checkpoint.{1:010}.{2:010}.parquet", PROTOCOL, metadata())
    assert sorted(log.read().files) == ["a.parquet", "b.parquet"]

    last = f"{1:020}.checkpoint.{2:010}.{2:010}.parquet"
    log.checkpoint(last, add("only.parquet"))
    assert sorted(log.read().files) == ["only.parquet"]


def test_a_moment_is_read_in_either_way_that_the_log_spells_it(log: Log) -> None:
    table = log.place.parent
    for name in ("a", "b"):
        parquet.write_table(pa.table({"id": [1]}), table / f"{name}.parquet")
    spelt = {"a": "2026-01-31T10:00:00.000000Z", "b": "2026-01-31 11:00:00"}
    log.commit(
        0,
        PROTOCOL,
        metadata({"id": "integer", "at": "timestamp"}, partitionColumns=["at"]),
        *(add(f"{name}.parquet", partitionValues={"at": text}) for name, text in spelt.items()),
    )
    assert look(table, require_unique("t", ["id", "at"])) == []
    assert look(table, require_no_nulls("t", ["at"])) == []


@pytest.mark.parametrize(
    ("actions", "words"),
    [
        pytest.param([add("a", deletionVector={"storageType": "u"})], "deletion vectors", id="dv"),
        pytest.param([add("/elsewhere/a")], "outside of its directory", id="absolute"),
        pytest.param([add("s3a://other/a")], "outside of its directory", id="address"),
        pytest.param(
            [{"protocol": {"minReaderVersion": 4}}], "a reader of version 4", id="version"
        ),
        pytest.param(
            [{"protocol": {"minReaderVersion": 3, "readerFeatures": ["v2Checkpoint"]}}],
            "only Spark reads: v2Checkpoint",
            id="feature",
        ),
        pytest.param(
            [metadata(configuration={"delta.columnMapping.mode": "name"})],
            "other names in the files",
            id="mapping",
        ),
    ],
)
def test_what_it_does_not_know_is_refused(log: Log, actions: list[Action], words: str) -> None:
    log.commit(0, PROTOCOL, metadata())
    log.commit(1, *actions)
    with pytest.raises(DeltaLogError, match=words):
        log.read()


def test_a_table_whose_deletion_vectors_are_gone_is_read_again(log: Log) -> None:
    first, second = ({"storageType": "u", "pathOrInlineDv": name} for name in ("v1", "v2"))
    log.commit(0, PROTOCOL, metadata(), add("a"))
    log.commit(1, add("a", deletionVector=first), remove("a"))
    log.commit(2, add("a", deletionVector=second), remove("a", deletionVector=first))
    with pytest.raises(DeltaLogError, match="deletion vectors"):
        log.read()
    log.commit(3, remove("a", deletionVector=second), add("b"))
    assert sorted(log.read().files) == ["b"]


def test_a_line_of_the_log_ends_where_json_says(log: Log) -> None:
    log.commit(0, PROTOCOL, metadata(), add("a", stats="\u2028 and \u0085"))
    assert sorted(log.read().files) == ["a"]


def test_a_log_with_a_hole_is_refused(log: Log) -> None:
    with pytest.raises(DeltaLogError, match="empty"):
        log.read()
    log.commit(0, PROTOCOL)
    with pytest.raises(DeltaLogError, match="does not say what its columns are"):
        log.read()
    log.commit(2, metadata())
    with pytest.raises(DeltaLogError, match="lacks version 1"):
        log.read()


def look(table: Path, *guardrails: Guardrail) -> list[str]:
    return LocalGuardrailEvaluator().violations(guardrails, table.parent)


def test_values_of_partitions_are_those_of_the_log(log: Log) -> None:
    """Not those that directories seem to spell; an empty one is no value."""
    table = log.place.parent
    for name in ("a", "b", "old"):
        (table / "m=7").mkdir(exist_ok=True)
        parquet.write_table(pa.table({"id": [1]}), table / "m=7" / f"{name}.parquet")
    log.commit(
        0,
        PROTOCOL,
        metadata({"id": "integer", "m": "date", "late": "string"}, partitionColumns=["m"]),
        add("m=7/a.parquet", partitionValues={"m": "2026-01-31"}),
        add("m=7/b.parquet", partitionValues={"m": ""}),
    )
    assert look(table, require_rows("t", min=2, max=2)) == []
    assert look(table, require_schema("t", "id INT, m DATE, late STRING")) == []
    assert look(table, require_unique("t", ["id", "m"])) == []
    (lacking,) = look(table, require_no_nulls("t", ["m"]))
    assert lacking == "t: 1 rows have no value in 'm', such as id=1, m=None, late=None"


@pytest.mark.parametrize(
    ("kind", "spelt"),
    [
        ("decimal(9,2)", "DECIMAL(9,2)"),
        ({"type": "array", "elementType": "short", "containsNull": True}, "ARRAY<SMALLINT>"),
        ({"type": "map", "keyType": "string", "valueType": "byte"}, "MAP<STRING, TINYINT>"),
        ({"type": "struct", "fields": [{"name": "a", "type": "double"}]}, "STRUCT<a: DOUBLE>"),
        ("timestamp_ntz", "TIMESTAMP"),
    ],
)
def test_types_are_spelt_as_spark_does(log: Log, kind: Any, spelt: str) -> None:
    table = log.place.parent
    log.commit(0, PROTOCOL, metadata({"x": kind}))
    assert look(table, require_schema("t", f"x {spelt}")) == []
    assert look(table, require_no_nulls("t", ["x"])) == []


def test_what_cannot_be_read_is_a_violation(log: Log) -> None:
    table = log.place.parent
    log.commit(0, PROTOCOL, metadata({"id": "long", "v": "variant"}), add("gone.parquet"))
    (gone,) = look(table, require_rows("t"))
    assert gone.startswith("t: the Delta table cannot be read: ")
    assert "t/gone.parquet" in gone
    assert str(table.parent) not in gone
    (strange,) = look(table, require_no_nulls("t", ["v"]))
    assert strange.endswith("it has a column of type variant, which only Spark reads")
    (log.place / f"{0:020}.json").write_text("{ no json")
    (broken,) = look(table, require_rows("t"))
    assert broken.startswith("t: the Delta table cannot be read: ")
    (log.place / f"{0:020}.json").write_text('{"add": {}}')
    (broken,) = look(table, require_rows("t"))
    assert broken.startswith("t: the Delta table cannot be read: ")


def test_a_part_of_a_table_is_no_table(log: Log) -> None:
    table = log.place.parent
    (table / "m=1").mkdir()
    parquet.write_table(pa.table({"id": [1]}), table / "m=1" / "a.parquet")
    log.commit(0, PROTOCOL, metadata())
    for path in ("t/m=1", "t/m=1/a.parquet"):
        (found,) = look(table, require_rows(path))
        assert found == f"{path}: it is inside of the Delta table t; name that one"
