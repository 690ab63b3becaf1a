"""Readers that are rooted at the input, listings, and what a read-only task may not do."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import orc, parquet
from pyspark.sql import DataFrame, DataFrameReader

from perago.domain.errors import TaskTerminalError
from perago.ports import SparkWorkspace
from tests.integration.spark.conftest import Lease

pytestmark = pytest.mark.spark

CSV = "carrier,delay\nUA,2\nAA,-1\n"


@pytest.fixture(scope="module")
def tables_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One table per format, made without Spark."""
    root = tmp_path_factory.mktemp("tables")
    rows = pa.table({"carrier": ["UA", "AA"], "delay": [2, -1]})
    for name in ("parquet", "orc", "json", "month=1"):
        (root / name).mkdir()
    parquet.write_table(rows, root / "parquet" / "part-00000.parquet")
    orc.write_table(rows, root / "orc" / "part-00000.orc")
    (root / "json" / "part-00000.json").write_text('{"delay": 2}\n{"delay": -1}\n')
    (root / "rows.xml").write_text("<r><row><delay>2</delay></row></r>")
    for name in ("one.csv", "two.csv", "text.txt", "month=1/a.csv"):
        (root / name).write_text(CSV)
    return root


@pytest.fixture
def tables(lease: Lease, tables_directory: Path, tmp_path: Path) -> Iterator[SparkWorkspace]:
    """The input holds the tables; nothing is staged."""
    with lease() as held:
        yield held.workspace(tables_directory, tmp_path)


Read = Callable[[DataFrameReader], DataFrame]

READS: list[tuple[Read, int]] = [
    (lambda read: read.parquet("parquet"), 2),
    (lambda read: read.parquet("parquet/"), 2),
    (lambda read: read.parquet("parquet", "parquet", mergeSchema=True), 4),
    (lambda read: read.orc("orc"), 2),
    (lambda read: read.json("json"), 2),
    (lambda read: read.text("text.txt"), 3),
    (lambda read: read.xml("rows.xml", rowTag="row"), 1),
    (lambda read: read.csv("one.csv", header=True), 2),
    (lambda read: read.csv(["one.csv", "two.csv"], header=True), 4),
    (lambda read: read.csv("*.csv", header=True), 4),
    (lambda read: read.csv("{one,two}.csv"), 6),
    (lambda read: read.option("header", True).csv("one.csv"), 2),
    (lambda read: read.schema("carrier string, delay int").csv("one.csv"), 3),
    (lambda read: read.format("csv").options(header=True, sep=",").load("one.csv"), 2),
    (lambda read: read.load("one.csv", format="csv", header=True), 2),
    (lambda read: read.format("csv").option("path", "one.csv").load(), 3),
]


@pytest.mark.parametrize(("read", "rows"), READS)
def test_every_reader_is_rooted_at_the_input(tables: SparkWorkspace, read: Read, rows: int) -> None:
    assert read(tables.read).count() == rows


def test_the_base_of_partitions_is_rooted_too(tables: SparkWorkspace) -> None:
    table = tables.read.option("basePath", "").csv("month=1", header=True)
    assert table.columns == ["carrier", "delay", "month"]


def test_views_are_spark_s_own(tables: SparkWorkspace) -> None:
    tables.read.parquet("parquet").createOrReplaceTempView("flights")
    assert tables.read.table("flights").count() == 2


@pytest.mark.parametrize("path", ["/etc/passwd", "file:/etc/passwd", "../output", "s3a://b/x"])
def test_no_reader_leaves_the_workspace(tables: SparkWorkspace, path: str) -> None:
    for reads in (tables.read.csv, tables.read.load, tables.read.text, tables.read_staged.csv):
        with pytest.raises(TaskTerminalError, match="is not a path of the workspace"):
            reads(path)
    for option in ("path", "basePath"):
        with pytest.raises(TaskTerminalError, match="is not a path of the workspace"):
            tables.read.option(option, path)


def test_listings_are_relative_and_sorted(tables: SparkWorkspace, tables_directory: Path) -> None:
    assert tables.ls("month=1") == ["month=1/a.csv"]
    assert tables.ls("one.csv") == ["one.csv"]
    assert tables.ls("nothing") == []
    assert tables.ls() == sorted(tables.ls())
    assert tables.ls(staged=True) == []
    assert (tables_directory / tables.ls()[0]).is_file()


def test_files_and_directories_are_deleted_from_the_staged_side(
    workspace: SparkWorkspace, directories: tuple[Path, Path]
) -> None:
    for side in directories:
        (side / "a").mkdir()
        (side / "a" / "b.csv").write_text(CSV)
        (side / "c.csv").write_text(CSV)
    workspace.delete("a")
    workspace.delete("c.csv")
    assert workspace.ls(staged=True) == []
    assert workspace.ls() == ["a/b.csv", "c.csv"]


@pytest.mark.parametrize("path", ["nothing", "", "..", "/"])
def test_what_cannot_be_deleted_is_said(workspace: SparkWorkspace, path: str) -> None:
    with pytest.raises(TaskTerminalError):
        workspace.delete(path)


def test_a_read_only_task_reads_and_writes_nothing(lease: Lease, tmp_path: Path) -> None:
    (tmp_path / "one.csv").write_text(CSV)
    with lease() as held:
        workspace = held.workspace(tmp_path, tmp_path)
        assert workspace.read.csv("one.csv", header=True).count() == 2
        assert workspace.read_staged.csv("one.csv", header=True).count() == 2
        for refused in (
            lambda: workspace.write(workspace.spark.range(1), "t"),
            lambda: workspace.delete("one.csv"),
            lambda: workspace.uri_out("t"),
        ):
            with pytest.raises(TaskTerminalError, match=r"read-only task (?s:.*)read_only=False"):
                refused()
    assert [path.name for path in tmp_path.iterdir()] == ["one.csv"]
