"""What `SparkWorkspace.write` leaves: clean files, stable names, same bytes for same rows."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from perago.adapters.spark.layout import arranged
from perago.adapters.spark.scratch import SCRATCH_TAG
from perago.domain.errors import TaskTerminalError
from perago.ports import SparkWorkspace
from perago.ports.spark import WriteMode
from tests.integration.spark.conftest import Lease

pytestmark = pytest.mark.spark


def everything_below(directory: Path) -> list[str]:
    return sorted(path.relative_to(directory).as_posix() for path in directory.rglob("*"))


def contents(directory: Path) -> dict[str, bytes]:
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }


def flights(workspace: SparkWorkspace, rows: int = 60, partitions: int = 3) -> DataFrame:
    """Rows with ties in every sort column, nulls, a map, and a partition value with a space."""
    ids = workspace.spark.range(rows).repartition(partitions)
    return ids.select(
        (F.col("id") % 7).alias("hour"),
        F.when(F.col("id") % 5 > 0, F.col("id") % 5).alias("delay"),
        F.create_map(F.lit("k"), F.col("id") % 2).alias("notes"),
        F.when(F.col("id") % 3 == 0, "New York").when(F.col("id") % 3 == 1, "").alias("city"),
    )


def test_a_table_is_data_files_with_stable_names_and_nothing_else(
    workspace: SparkWorkspace, directories: tuple[Path, Path]
) -> None:
    workspace.write(flights(workspace), "clean/flights")
    workspace.write(flights(workspace), "by city", partition_by=["city"])
    assert everything_below(directories[1]) == [
        "by city",
        "by city/city=New York",
        "by city/city=New York/part-00000.snappy.parquet",
        "by city/city=__HIVE_DEFAULT_PARTITION__",
        "by city/city=__HIVE_DEFAULT_PARTITION__/part-00000.snappy.parquet",
        "clean",
        "clean/flights",
        "clean/flights/part-00000.snappy.parquet",
        "clean/flights/part-00001.snappy.parquet",
        "clean/flights/part-00002.snappy.parquet",
    ]
    assert everything_below(directories[0]) == []


@pytest.mark.parametrize(
    ("partition_by", "sort_by"),
    [([], ["delay", "hour"]), (["city"], ["hour"]), (["city", "hour"], ["delay"])],
)
def test_the_same_rows_are_the_same_bytes_however_they_come(
    workspace: SparkWorkspace,
    directories: tuple[Path, Path],
    partition_by: Sequence[str],
    sort_by: Sequence[str],
) -> None:
    for name, partitions in (("one", 1), ("many", 5)):
        shuffled = flights(workspace, partitions=partitions).orderBy(F.rand())
        workspace.write(shuffled, name, partition_by=partition_by, sort_by=sort_by)
    one = contents(directories[1] / "one")
    assert one == contents(directories[1] / "many")
    assert workspace.read_staged.parquet("one").count() == 60


def test_a_large_table_is_spread_over_files_by_its_rows_alone(workspace: SparkWorkspace) -> None:
    def rows_per_file(partitions: int) -> list[list[tuple[object, ...]]]:
        df = flights(workspace, partitions=partitions).drop("notes")
        with arranged(df, partition_by=(), sort_by=["hour"], rows_per_file=25) as laid_out:
            return [[tuple(row) for row in part] for part in laid_out.rdd.glom().collect()]

    files = rows_per_file(2)
    assert files == rows_per_file(7)
    assert len(files) == 3
    assert all(part == sorted(part, key=lambda row: (row[0], row[1] or 0)) for part in files)


def test_sorting_leaves_a_table_that_the_body_cached_in_the_cache(
    workspace: SparkWorkspace,
) -> None:
    cached, plain = flights(workspace).cache(), flights(workspace, rows=10)
    workspace.write(cached, "cached", sort_by=["hour"])
    workspace.write(plain, "plain", sort_by=["hour"])
    assert cached.storageLevel.useMemory
    assert not plain.storageLevel.useMemory


def test_append_goes_on_counting(workspace: SparkWorkspace, directories: tuple[Path, Path]) -> None:
    for _ in range(2):
        workspace.write(flights(workspace, partitions=1), "t", mode="append")
    for rows in (1, 4):
        workspace.write(flights(workspace, rows), "p", mode="append", partition_by=["hour"])
    assert everything_below(directories[1] / "t") == [
        "part-00000.snappy.parquet",
        "part-00001.snappy.parquet",
    ]
    assert everything_below(directories[1] / "p" / "hour=0") == [
        "part-00000.snappy.parquet",
        "part-00001.snappy.parquet",
    ]
    assert workspace.read_staged.parquet("t").count() == 120
    assert workspace.read_staged.parquet("p").count() == 5


def test_overwrite_replaces_the_directory_as_a_whole(
    workspace: SparkWorkspace, directories: tuple[Path, Path]
) -> None:
    workspace.write(flights(workspace), "t", partition_by=["hour"])
    (directories[1] / "t" / "_SUCCESS").touch()
    workspace.write(flights(workspace, partitions=1), "t")
    assert everything_below(directories[1] / "t") == ["part-00000.snappy.parquet"]


def test_reading_shows_the_input_and_read_staged_what_was_written(
    lease: Lease, directories: tuple[Path, Path]
) -> None:
    with lease() as held:
        first = held.workspace(directories[0].parent / "nothing", directories[0])
        first.write(flights(first, rows=10), "t")
        first.write(flights(first, rows=10), "gone")
    for name, content in contents(directories[0]).items():
        (directories[1] / name).parent.mkdir(parents=True, exist_ok=True)
        (directories[1] / name).write_bytes(content)
    with lease() as held:
        workspace = held.workspace(*directories)
        assert workspace.ls() == workspace.ls(staged=True)
        workspace.write(flights(workspace, rows=3), "t", mode="append")
        workspace.delete("gone")
        assert workspace.read.parquet("t").count() == 10
        assert workspace.read_staged.parquet("t").count() == 13
        assert workspace.spark.read.parquet(workspace.uri_in("t")).count() == 10
        assert workspace.spark.read.parquet(workspace.uri_out("t")).count() == 13
        assert workspace.ls("gone", staged=True) == []
        assert workspace.read.parquet("gone").count() == 10


def test_a_table_can_be_made_from_what_it_replaces(workspace: SparkWorkspace) -> None:
    workspace.write(flights(workspace, rows=10), "t")
    for _ in range(2):
        doubled = workspace.read_staged.parquet("t")
        workspace.write(doubled.unionAll(doubled), "t")
    assert workspace.read_staged.parquet("t").count() == 40


@pytest.mark.parametrize("mode", ["overwrite", "append"])
def test_a_failed_write_changes_nothing(
    workspace: SparkWorkspace, directories: tuple[Path, Path], mode: WriteMode
) -> None:
    workspace.write(flights(workspace), "t")
    before = contents(directories[1])
    fails_late = flights(workspace).select(
        "*", F.when(F.col("hour") == 6, F.raise_error(F.lit("too late"))).alias("failing")
    )
    with pytest.raises(PySparkException, match="too late"):
        workspace.write(fails_late, "t", mode=mode)
    assert contents(directories[1]) == before


def test_nothing_is_left_in_scratch_space(lease: Lease, directories: tuple[Path, Path]) -> None:
    with lease() as held:
        workspace = held.workspace(*directories)
        workspace.write(flights(workspace), "t", sort_by=["hour"])
        workspace.write(flights(workspace), "t")
        scratch = workspace._scratch
        assert [path.name for path in scratch.iterdir()] == [SCRATCH_TAG.file_name]
    assert not scratch.exists()


@pytest.mark.parametrize("file_format", ["csv", "json", "orc", "text"])
def test_other_file_formats(workspace: SparkWorkspace, file_format: str) -> None:
    df = flights(workspace).selectExpr("cast(hour AS string) AS value")
    workspace.write(df, "t", format=file_format, sort_by=["value"])
    (name,) = workspace.ls("t", staged=True)
    assert name.startswith("t/part-00000.")
    read = workspace.read_staged.format(file_format).option("header", True).load("t")
    assert read.columns == ["value"]
    assert read.count() == 60


def test_an_empty_table_keeps_its_columns(workspace: SparkWorkspace) -> None:
    workspace.write(flights(workspace).where("hour > 100"), "t", sort_by=["hour"])
    assert workspace.read_staged.parquet("t").columns == ["hour", "delay", "notes", "city"]


NAMES = [
    "a b",
    "50%",
    "a%20b",
    "a#b",
    "a+b",
    "ü/日本",
    "a:b",
    "a[1]",
    "{a,b}",
    "a*?",
    "back\\slash",
]


@pytest.mark.parametrize("name", NAMES)
def test_any_safe_name_can_be_written_and_read(
    workspace: SparkWorkspace, directories: tuple[Path, Path], name: str
) -> None:
    df = workspace.spark.range(3)
    workspace.write(df, f"tables/{name}")
    df.write.parquet(workspace.uri_out(f"direct/{name}"))
    assert (directories[1] / "tables" / name / "part-00000.snappy.parquet").is_file()
    assert workspace.read_staged.parquet(f"tables/{name}").count() == 3
    assert workspace.read_staged.parquet(f"direct/{name}").count() == 3


def test_a_workspace_may_lie_anywhere(lease: Lease, tmp_path: Path) -> None:
    places = tmp_path / "a b%20#+ü[1]{x}*" / "in", tmp_path / "a b%20#+ü[1]{x}*" / "out"
    for place in places:
        place.mkdir(parents=True)
    (places[0] / "a.csv").write_text("x\n1\n")
    with lease() as held:
        workspace = held.workspace(*places)
        workspace.write(workspace.read.csv("*.csv", header=True), "t", sort_by=["x"])
        assert workspace.read_staged.parquet("t").count() == 1


def test_what_a_body_writes_past_us_is_clean_too(
    workspace: SparkWorkspace, directories: tuple[Path, Path]
) -> None:
    workspace.spark.range(3).coalesce(1).write.csv(workspace.uri_out("direct"))
    (name,) = everything_below(directories[1] / "direct")
    assert name.endswith(".csv")


def test_a_table_that_exists_is_kept_when_that_is_asked(workspace: SparkWorkspace) -> None:
    workspace.write(flights(workspace), "t", mode="error")
    with pytest.raises(TaskTerminalError, match="'t' exists, and mode is 'error'"):
        workspace.write(flights(workspace), "t", mode="error")


def test_appending_with_another_layout_is_refused(workspace: SparkWorkspace) -> None:
    workspace.write(flights(workspace), "t", partition_by=["hour"])
    with pytest.raises(TaskTerminalError, match=r"partitioned by \['hour'\], .* is \[\]"):
        workspace.write(flights(workspace), "t", mode="append")


def test_a_file_in_the_way_is_named(
    workspace: SparkWorkspace, directories: tuple[Path, Path]
) -> None:
    (directories[1] / "file").touch()
    with pytest.raises(TaskTerminalError, match="cannot append to 'file': it is a file"):
        workspace.write(flights(workspace), "file", mode="append")
    with pytest.raises(TaskTerminalError, match="'file' is a file, not a directory"):
        workspace.write(flights(workspace), "file/table")


def test_wrong_use_is_refused_before_anything_runs(workspace: SparkWorkspace) -> None:
    df = flights(workspace)
    with pytest.raises(TaskTerminalError, match=r"format 'avro'\n.*uri_out"):
        workspace.write(df, "t", format="avro")
    with pytest.raises(TaskTerminalError, match=r"sort_by names 'Hour'.*\n.*hour, delay"):
        workspace.write(df, "t", sort_by=["Hour"])
    with pytest.raises(TaskTerminalError, match="partition_by names 'day'"):
        workspace.write(df, "t", partition_by=["day"])
    with pytest.raises(TaskTerminalError, match="'' is not a path of the workspace"):
        workspace.write(df, "")
    assert workspace.ls(staged=True) == []


def test_partitions_are_replaced_one_by_one(
    workspace: SparkWorkspace, directories: tuple[Path, Path]
) -> None:
    workspace.write(flights(workspace), "t", partition_by=["hour"])
    table = directories[1] / "t"
    before = contents(table)
    rows = flights(workspace, rows=200).where("hour = 2")

    workspace.write(rows, "t", partition_by=["hour"], mode="overwrite_partitions")

    after = contents(table)
    assert after.keys() == before.keys()
    changed = [name for name in after if after[name] != before[name]]
    assert [Path(name).parent.name for name in changed] == ["hour=2"]
    found = workspace.read_staged.parquet("t").where("hour = 2")
    assert found.count() == rows.count()


def test_a_partition_has_a_file_of_each_task_where_asked_for(workspace: SparkWorkspace) -> None:
    workspace.write(flights(workspace), "one", partition_by=["hour"])
    workspace.write(flights(workspace), "many", partition_by=["hour"], repartition=False)
    assert len(workspace.ls("one", staged=True)) == 7
    assert len(workspace.ls("many", staged=True)) == 21
