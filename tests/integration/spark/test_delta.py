"""Delta tables in local workspaces, on a real Spark."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it

from perago import (
    require_columns,
    require_no_nulls,
    require_rows,
    require_schema,
    require_unique,
)
from perago.adapters.guardrails import LocalGuardrailEvaluator
from perago.adapters.spark import LocalSparkSessions, SparkGuardrailEvaluator
from perago.authoring import AnyTask, load_targets
from perago.domain.errors import EnvironmentUnfitError, TaskTerminalError
from perago.domain.guardrail import Guardrail
from perago.domain.ids import ExecutionId
from perago.ports import SparkWorkspace
from perago.testing import TaskEnvironment
from tests.architecture.docs_blocks import ROOT
from tests.integration.spark.conftest import QUICK, an_attempt

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def tables(
    tmp_path_factory: pytest.TempPathFactory, delta_jars: list[Path]
) -> Iterator[LocalSparkSessions]:
    root = tmp_path_factory.mktemp("delta")
    conf = {"spark.databricks.delta.properties.defaults.checkpointInterval": "3"}
    sessions = LocalSparkSessions(
        dataclasses.replace(QUICK, conf=conf),
        root / "scratch",
        root / "log",
        delta_jars=lambda _java: delta_jars,
    )
    yield sessions
    sessions.stop()


@pytest.fixture
def ws(tables: LocalSparkSessions, directories: tuple[Path, Path]) -> Iterator[SparkWorkspace]:
    with tables.lease(an_attempt(), ExecutionId(uuid4().hex)) as lease:
        yield lease.workspace(*directories)


def numbers(ws: SparkWorkspace, start: int = 0, end: int = 9) -> DataFrame:
    return ws.spark.range(start, end).withColumn("m", F.col("id") % 3)


def ids(ws: SparkWorkspace, version: int | None = None) -> list[int]:
    reader = ws.read_staged.format("delta")
    if version is not None:
        reader = reader.option("versionAsOf", version)
    return sorted(row["id"] for row in reader.load("t").collect())


def test_every_mode_does_what_it_says(ws: SparkWorkspace) -> None:
    ws.write(numbers(ws), "t", format="delta", partition_by=["m"])
    ws.write(numbers(ws, 9, 12), "t", format="delta", partition_by=["m"], mode="append")
    assert ids(ws) == list(range(12))

    only = ws.spark.range(100, 102).withColumn("m", F.lit(1).cast("long"))
    ws.write(only, "t", format="delta", partition_by=["m"], mode="overwrite_partitions")
    assert ids(ws) == [*(one for one in range(12) if one % 3 != 1), 100, 101]

    with pytest.raises(TaskTerminalError, match="'t' exists, and mode is 'error'"):
        ws.write(numbers(ws), "t", format="delta", mode="error")

    # A setting of the session does not make a whole overwrite a partial one.
    ws.spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    ws.write(only, "t", format="delta", partition_by=["m"])
    assert ids(ws) == [100, 101]
    assert ids(ws, version=0) == list(range(9))
    assert ids(ws, version=1) == list(range(12))


def test_nothing_but_the_log_and_its_files_is_left(ws: SparkWorkspace) -> None:
    for _ in range(5):
        ws.write(numbers(ws), "t", format="delta", partition_by=["m"], mode="append")
    names = ws.ls("t", staged=True)
    log = [name.rpartition("/")[2] for name in names if name.startswith("t/_delta_log/")]

    # Hadoop's own sums beside each file are hidden; Delta's, one for a version, are not.
    assert [name for name in names if name.rpartition("/")[2].startswith(".")] == []
    assert {name.partition(".")[2] for name in log} == {"json", "crc", "checkpoint.parquet", ""}
    assert [name for name in log if "." not in name] == ["_last_checkpoint"]


def test_sql_changes_a_table_in_its_place(ws: SparkWorkspace) -> None:
    ws.write(numbers(ws), "t", format="delta")
    table = f"delta.`{ws.uri_out('t')}`"
    ws.spark.sql(
        f"MERGE INTO {table} AS t USING (SELECT 1L AS id, 7L AS m UNION SELECT 50L, 7L) AS s "
        "ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    ws.spark.sql(f"DELETE FROM {table} WHERE id < 1")
    assert ids(ws) == [1, 2, 3, 4, 5, 6, 7, 8, 50]
    assert ws.read_staged.format("delta").load("t").where("m = 7").count() == 2


def test_what_delta_refuses_is_refused(ws: SparkWorkspace) -> None:
    ws.write(numbers(ws), "t", format="delta", partition_by=["m"])
    more = numbers(ws).withColumn("more", F.lit("x"))
    with pytest.raises(AnalysisException, match="schema mismatch"):
        ws.write(more, "t", format="delta", mode="overwrite")
    with pytest.raises(AnalysisException, match="Partition columns do not match"):
        ws.write(numbers(ws), "t", format="delta", mode="overwrite_partitions", partition_by=["id"])
    assert ids(ws) == list(range(9))


def test_a_write_that_fails_changes_no_row(ws: SparkWorkspace) -> None:
    ws.write(numbers(ws), "t", format="delta")
    broken = numbers(ws).where(F.col("id") > 3).withColumn("m", F.raise_error(F.lit("no")))
    with pytest.raises(PySparkException):
        ws.write(broken.withColumn("m", F.col("m").cast("long")), "t", format="delta")
    assert ids(ws) == list(range(9))
    assert len([name for name in ws.ls("t/_delta_log", staged=True) if "json" in name]) == 1


def test_plain_files_and_a_log_do_not_mix(ws: SparkWorkspace) -> None:
    ws.write(numbers(ws), "t", format="delta")
    with pytest.raises(TaskTerminalError, match="it is a Delta table"):
        ws.write(numbers(ws), "t", mode="append")
    ws.write(numbers(ws), "t")
    assert not ws.ls("t/_delta_log", staged=True)
    with pytest.raises(TaskTerminalError, match="files that no Delta log names"):
        ws.write(numbers(ws), "t", format="delta")


def test_a_path_is_taken_as_it_is(ws: SparkWorkspace) -> None:
    ws.write(numbers(ws), "a [1] {b}/*", format="delta")
    assert ws.read_staged.format("delta").load("a [1] {b}/*").count() == 9
    assert ws.read_staged.load("a [1] {b}/*", format="delta").count() == 9


def test_the_input_is_read_as_it_was(
    tables: LocalSparkSessions, ws: SparkWorkspace, directories: tuple[Path, Path]
) -> None:
    del tables
    ws.write(numbers(ws), "t", format="delta")
    # The other side of the same workspace has no such table.
    with pytest.raises(AnalysisException):
        ws.read.format("delta").load("t")
    (directories[1] / "t").rename(directories[0] / "t")
    assert ws.read.format("delta").load("t").count() == 9


def test_two_attempts_share_nothing_of_a_table(
    tables: LocalSparkSessions, directories: tuple[Path, Path]
) -> None:
    """Delta keeps what it read of a log for all sessions; a later attempt must not see it."""
    with tables.lease(an_attempt(), ExecutionId(uuid4().hex)) as lease:
        first = lease.workspace(*directories)
        first.write(numbers(first), "t", format="delta")
        first.write(numbers(first), "t", format="delta", mode="append")
    for name in ("json", "crc"):
        (directories[1] / "t" / "_delta_log" / f"{1:020}.{name}").unlink()
    with tables.lease(an_attempt(), ExecutionId(uuid4().hex)) as lease:
        second = lease.workspace(*directories)
        assert second.read_staged.format("delta").load("t").count() == 9


HOLDS: list[Guardrail] = [
    require_columns("t", ["id", "m", "name"]),
    require_rows("t", min=4, max=4),
    require_schema("t", "id BIGINT, m BIGINT, name STRING, at TIMESTAMP, tags ARRAY<INT>"),
    require_unique("t", ["id"]),
    require_no_nulls("t", ["id", "m", "at"]),
    require_rows("many", min=25, max=25),
    require_rows("none", min=0, max=0),
]
BROKEN: list[Guardrail] = [
    require_columns("t", ["nowhere"]),
    require_rows("t", min=5),
    require_schema("t", "id INT, m BIGINT"),
    require_unique("t", ["m"]),
    require_no_nulls("t", ["name"]),
    require_unique("t", ["at", "m"]),
    require_rows("t/m=1"),
]


@pytest.fixture
def in_india(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A worker in another time zone."""
    with monkeypatch.context() as changed:
        changed.setenv("TZ", "Asia/Kolkata")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("in_india")
def test_guardrails_read_the_log(
    tables: LocalSparkSessions, ws: SparkWorkspace, directories: tuple[Path, Path]
) -> None:
    """Replaced and deleted rows are in files that are still there; both kinds pass over them."""
    del tables
    at = F.lit("2026-01-01 00:00:00").cast("timestamp")
    rows = numbers(ws).withColumn("name", F.lit("x")).withColumn("at", at)
    rows = rows.withColumn("tags", F.array(F.lit(1)))
    ws.write(rows, "t", format="delta", partition_by=["m"])
    ws.write(rows.where("id < 3"), "t", format="delta", partition_by=["m"])
    extra = rows.where("id = 4").drop("name", "tags")
    ws.write(extra, "t", format="delta", partition_by=["m"], mode="append")
    for _ in range(5):
        ws.write(numbers(ws, 0, 5), "many", format="delta", mode="append")
    ws.write(numbers(ws, 0, 0), "none", format="delta")

    here, there = LocalGuardrailEvaluator(), SparkGuardrailEvaluator()
    output = directories[1]
    seen = _reading(ws, output)
    for guardrail in HOLDS:
        assert here.violations([guardrail], output) == [], guardrail
        assert there.violations([guardrail], seen) == [], guardrail
    for guardrail in BROKEN:
        found = here.violations([guardrail], output)
        assert len(found) >= 1, guardrail
        assert found == there.violations([guardrail], seen)


def _reading(ws: SparkWorkspace, output: Path) -> SparkWorkspace:
    """The same session on a workspace whose input is what was written."""
    from perago.adapters.spark import LocalSparkWorkspace
    from perago.adapters.spark.open_writes import OpenWrites

    return LocalSparkWorkspace(
        spark=ws.spark,
        input_directory=output,
        output_directory=output,
        scratch=output,
        open_writes=OpenWrites(),
    )


def test_what_a_simple_reader_of_the_log_cannot_read_is_refused(
    ws: SparkWorkspace, directories: tuple[Path, Path]
) -> None:
    evaluator, output = LocalGuardrailEvaluator(), directories[1]
    dropped = f"delta.`{ws.uri_out('vectors')}`"
    ws.spark.sql(
        f"CREATE TABLE {dropped} (id BIGINT) USING delta "
        "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
    )
    ws.spark.sql(f"INSERT INTO {dropped} SELECT id FROM range(0, 9, 1, 1)")
    assert evaluator.violations([require_rows("vectors", min=9, max=9)], output) == []
    ws.spark.sql(f"DELETE FROM {dropped} WHERE id = 3")
    (found,) = evaluator.violations([require_rows("vectors")], output)
    assert "deletion vectors, which only Spark reads" in found

    ws.spark.sql(
        f"CREATE TABLE delta.`{ws.uri_out('mapped')}` (id BIGINT) USING delta "
        "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
    )
    (found,) = evaluator.violations([require_rows("mapped", min=0)], output)
    assert "other names in the files" in found


def test_without_the_setting_it_is_told_which_to_set(workspace: SparkWorkspace) -> None:
    for act in (
        lambda: workspace.write(workspace.spark.range(3), "t", format="delta"),
        lambda: workspace.read.format("delta"),
    ):
        with pytest.raises(TaskTerminalError, match="no Delta Lake") as caught:
            act()
        assert "PERAGO_SPARK_TABLES=delta" in str(caught.value.hint)
    assert workspace.ls(staged=True) == []


def test_iceberg_is_refused_by_name(workspace: SparkWorkspace) -> None:
    for act in (
        lambda: workspace.write(workspace.spark.range(3), "t", format="iceberg"),
        lambda: workspace.read.format("iceberg"),
    ):
        with pytest.raises(TaskTerminalError, match="Iceberg tables do not work") as caught:
            act()
        assert "delta" in str(caught.value.hint)


def test_a_guardrail_on_spark_without_delta_says_so(
    workspace: SparkWorkspace, directories: tuple[Path, Path]
) -> None:
    (directories[0] / "t" / "_delta_log").mkdir(parents=True)
    (directories[0] / "t" / "_delta_log" / f"{0:020}.json").write_text(json.dumps({}))
    (found,) = SparkGuardrailEvaluator().violations([require_rows("t")], workspace)
    assert found.startswith("t: it is a Delta table, and this Spark has no Delta Lake")
    assert "PERAGO_SPARK_TABLES=delta" in found


def test_jars_without_delta_are_told_at_the_start(tmp_path: Path) -> None:
    sessions = LocalSparkSessions(
        QUICK, tmp_path / "scratch", tmp_path / "log", delta_jars=lambda _java: []
    )
    with (
        pytest.raises(EnvironmentUnfitError, match="lack Delta Lake") as caught,
        sessions.lease(an_attempt(), ExecutionId(uuid4().hex)),
    ):
        pytest.fail("there is no Delta")  # pragma: no cover
    assert "PERAGO_SPARK_JARS" in str(caught.value.hint)


@pytest.fixture
def keep_orders() -> AnyTask:
    source = ROOT / "examples" / "tables" / "keep_orders.py"
    (declared,) = load_targets([str(source)], source.parent).tasks
    return declared


@pytest.mark.usefixtures("delta_jars")
def test_the_example_of_the_how_to_page(keep_orders: AnyTask) -> None:
    def run(day: str, csv: str) -> dict[str, object]:
        env.put({"shop/incoming.csv": f"order_id,state\n{csv}"})
        done = env.run(keep_orders, keep_orders.body.params.validate({"day": day}))
        assert done.published, done.reason
        return dict(done.result)

    with TaskEnvironment(spark=QUICK, tables="delta") as env:
        assert run("2026-01-01", "1,new\n2,new\n") == {"orders": 2}
        assert run("2026-01-02", "2,sent\n3,new\n") == {"orders": 3}
        env.put({"shop/incoming.csv": "order_id,state\n4,\n"})
        bad = env.run(keep_orders, keep_orders.body.params.validate({"day": "2026-01-03"}))
    assert not bad.published
    assert "rows have no value in 'state', 'day', such as order_id=4" in bad.reason
