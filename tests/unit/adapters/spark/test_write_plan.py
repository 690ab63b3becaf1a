"""What a write may do, and which files give way to it."""

from typing import Any

import pytest

from perago.adapters.spark.write_plan import WritePlan
from perago.domain.errors import TaskTerminalError

OLD = ["m=1/a.parquet", "m=2/a.parquet"]


def plan(**changes: Any) -> WritePlan:
    fields: dict[str, Any] = {
        "path": "t",
        "mode": "overwrite",
        "file_format": "parquet",
        "partition_by": (),
        "sort_by": (),
        "repartition": True,
    }
    return WritePlan(**(fields | changes))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"file_format": "avro"}, "cannot write format 'avro'"),
        ({"mode": "overwrite_partitions"}, "partition_by is empty"),
        ({"sort_by": ("a",), "repartition": False}, "sort_by and repartition=False"),
        ({"file_format": "iceberg"}, "Iceberg tables do not work"),
        ({"file_format": "delta", "sort_by": ("a",)}, "each write to a Delta table is a new"),
        ({"file_format": "delta", "mode": "overwrite_partitions"}, "partition_by is empty"),
    ],
)
def test_what_makes_no_sense_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(TaskTerminalError, match=words) as caught:
        plan(**changes)
    assert caught.value.hint


def test_an_overwrite_replaces_all() -> None:
    assert plan().find_replaced(OLD, ["x.parquet"]) == OLD


def test_only_the_partitions_that_were_written_are_replaced() -> None:
    chosen = plan(mode="overwrite_partitions", partition_by=("m",))
    assert chosen.find_replaced(OLD, ["m=2/b.parquet", "m=3/b.parquet"]) == ["m=2/a.parquet"]
    assert chosen.find_replaced(OLD, []) == []
    assert chosen.find_replaced([*OLD, "README.md"], ["_SUCCESS"]) == []


def test_an_append_replaces_nothing() -> None:
    assert plan(mode="append").find_replaced(OLD, ["m=1/b.parquet"]) == []


@pytest.mark.parametrize("mode", ["append", "overwrite_partitions"])
def test_a_table_that_lies_otherwise_is_not_added_to(mode: str) -> None:
    chosen = plan(mode=mode, partition_by=("year",))
    with pytest.raises(TaskTerminalError, match="partitioned by"):
        chosen.check_target(OLD, is_file=False)
    with pytest.raises(TaskTerminalError, match="it is a file"):
        chosen.check_target([], is_file=True)
    plan(mode=mode, partition_by=("m",)).check_target(OLD, is_file=False)


def test_a_table_that_must_not_exist() -> None:
    chosen = plan(mode="error")
    chosen.check_target([], is_file=False)
    for existing, is_file in ((OLD, False), ([], True)):
        with pytest.raises(TaskTerminalError, match="mode is 'error'"):
            chosen.check_target(existing, is_file=is_file)


def test_an_overwrite_may_replace_anything() -> None:
    plan().check_target(OLD, is_file=False)
    plan().check_target([], is_file=True)


def test_only_csv_has_options() -> None:
    assert plan().options == {}
    assert plan(file_format="csv").options == {"header": "true"}


@pytest.mark.parametrize(
    ("mode", "said", "partitions"),
    [
        ("overwrite", "overwrite", "static"),
        ("overwrite_partitions", "overwrite", "dynamic"),
        ("append", "append", "static"),
        ("error", "error", "static"),
    ],
)
def test_delta_is_told_its_own_words(mode: str, said: str, partitions: str) -> None:
    chosen = plan(file_format="delta", mode=mode, partition_by=("m",))
    assert chosen.delta_mode == said
    assert chosen.options == {"partitionOverwriteMode": partitions}


def test_a_delta_table_goes_where_one_is_or_nothing() -> None:
    log = ["_delta_log/00000000000000000000.json", "m=1/a.parquet"]
    chosen = plan(file_format="delta")
    chosen.check_target([], is_file=False)
    chosen.check_target(log, is_file=False)
    with pytest.raises(TaskTerminalError, match="files that no Delta log names"):
        chosen.check_target(OLD, is_file=False)
    with pytest.raises(TaskTerminalError, match="it is a file"):
        chosen.check_target([], is_file=True)
    # Delta knows the partitions of its tables, whatever the directories say.
    plan(file_format="delta", mode="append").check_target(log, is_file=False)


def test_plain_files_are_not_added_to_a_delta_table() -> None:
    log = ["_delta_log/00000000000000000000.json", "m=1/a.parquet"]
    for mode in ("append", "overwrite_partitions"):
        with pytest.raises(TaskTerminalError, match="it is a Delta table"):
            plan(mode=mode, partition_by=("m",)).check_target(log, is_file=False)
    plan().check_target(log, is_file=False)
    assert plan().find_replaced(log, ["x.parquet"]) == log
