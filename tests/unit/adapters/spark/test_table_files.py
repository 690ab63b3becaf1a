from pathlib import Path

import pytest

from perago.adapters.spark.table_files import (
    add_to_table,
    list_files,
    partition_keys,
    plan_names,
    rename_into,
    replace_table,
)
from perago.domain.errors import TaskTerminalError

JOB = "0f5a1c9e-1111-2222-3333-444455556666"


def make_files(root: Path, *names: str) -> Path:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return root


def test_names_say_nothing_of_the_job() -> None:
    written = [f"part-00003-{JOB}-c000.snappy.parquet", f"part-00001-{JOB}-c000.snappy.parquet"]
    assert plan_names(written, []) == {
        f"part-00001-{JOB}-c000.snappy.parquet": "part-00000.snappy.parquet",
        f"part-00003-{JOB}-c000.snappy.parquet": "part-00001.snappy.parquet",
    }


def test_chunks_of_one_task_keep_their_order() -> None:
    written = [f"part-00000-{JOB}-c{chunk:03d}.csv" for chunk in (1, 0, 10)]
    assert list(plan_names(written, []).values()) == [
        "part-00000.csv",
        "part-00001.csv",
        "part-00002.csv",
    ]
    assert plan_names(written, [])[f"part-00000-{JOB}-c010.csv"] == "part-00002.csv"


def test_every_directory_counts_for_itself() -> None:
    written = [f"m={month}/part-0000{month}-{JOB}.c000.json" for month in (1, 2)]
    assert sorted(plan_names(written, []).values()) == [
        "m=1/part-00000.json",
        "m=2/part-00000.json",
    ]


def test_numbers_go_on_where_the_existing_files_end() -> None:
    written = [f"m={month}/part-00000-{JOB}.c000.json" for month in (1, 2)]
    existing = ["m=1/part-00000.json", "m=1/part-00007.csv", "m=1/notes.txt"]
    assert sorted(plan_names(written, existing).values()) == [
        "m=1/part-00008.json",
        "m=2/part-00000.json",
    ]


@pytest.mark.parametrize(
    "stray", ["_SUCCESS", f".part-00000-{JOB}-c000.csv.crc", "_temporary/0/x", "_metadata"]
)
def test_what_is_no_data_gets_no_name(stray: str) -> None:
    assert plan_names([stray], []) == {}


def test_a_file_of_an_unknown_name_is_not_passed_over() -> None:
    with pytest.raises(TaskTerminalError, match=r"'m=1/data-0\.bin'(?s:.*)uri_out"):
        plan_names(["m=1/data-0.bin"], [])


def test_a_partition_column_may_begin_with_an_underscore() -> None:
    written = [f"_m=1/part-00000-{JOB}.c000.json"]
    assert list(plan_names(written, []).values()) == ["_m=1/part-00000.json"]


@pytest.mark.parametrize(
    ("files", "keys"),
    [
        (["_m=1/part-00000.parquet"], ("_m",)),
        (["year=2013/month=1/part-00000.parquet"], ("year", "month")),
        (["part-00000.parquet"], ()),
        (["_SUCCESS", ".hidden/x"], None),
        ([], None),
    ],
)
def test_partition_keys_are_read_from_paths(files: list[str], keys: tuple[str, ...] | None) -> None:
    assert partition_keys(files) == keys


def test_links_are_not_listed(tmp_path: Path) -> None:
    make_files(tmp_path, "b", "a/c")
    (tmp_path / "link").symlink_to(tmp_path / "b")
    assert list_files(tmp_path) == ["a/c", "b"]


def test_renamed_files_leave_the_rest_behind(tmp_path: Path) -> None:
    source = make_files(tmp_path / "source", "x/one", "_SUCCESS")
    rename_into(source, {"x/one": "x/part-00000"}, tmp_path / "new")
    assert list_files(tmp_path / "new") == ["x/part-00000"]


def test_a_table_takes_the_place_of_another(tmp_path: Path) -> None:
    new = make_files(tmp_path / "new", "a")
    target = make_files(tmp_path / "deep" / "target", "old")
    replace_table(new, target, set_aside=tmp_path / "aside")
    assert list_files(target) == ["a"]


def test_a_table_takes_the_place_of_a_file(tmp_path: Path) -> None:
    new = make_files(tmp_path / "new", "a")
    make_files(tmp_path, "target")
    replace_table(new, tmp_path / "target", set_aside=tmp_path / "aside")
    assert list_files(tmp_path / "target") == ["a"]


def test_a_failed_replacement_puts_the_old_table_back(tmp_path: Path) -> None:
    target = make_files(tmp_path / "target", "old")
    with pytest.raises(FileNotFoundError):
        replace_table(tmp_path / "missing", target, set_aside=tmp_path / "aside")
    assert list_files(target) == ["old"]


def test_files_are_added_beside_others(tmp_path: Path) -> None:
    new = make_files(tmp_path / "new", "m=2/b")
    target = make_files(tmp_path / "target", "m=1/a")
    add_to_table(new, target, set_aside=tmp_path / "aside")
    assert list_files(target) == ["m=1/a", "m=2/b"]


def test_a_failed_addition_takes_its_files_back(tmp_path: Path) -> None:
    new = make_files(tmp_path / "new", "a", "clash/b")
    target = make_files(tmp_path / "target", "clash", "old")
    with pytest.raises(OSError, match="clash"):
        add_to_table(new, target, set_aside=tmp_path / "aside")
    assert list_files(target) == ["clash", "old"]


def test_files_take_the_place_of_some_others(tmp_path: Path) -> None:
    new = make_files(tmp_path / "new", "m=1/b")
    target = make_files(tmp_path / "target", "m=1/a", "m=2/a")
    add_to_table(new, target, instead_of=["m=1/a"], set_aside=tmp_path / "aside")
    assert list_files(target) == ["m=1/b", "m=2/a"]


def test_a_failed_exchange_puts_the_old_files_back(tmp_path: Path) -> None:
    new = make_files(tmp_path / "new", "clash/b", "m=1/b")
    target = make_files(tmp_path / "target", "clash", "m=1/a")
    with pytest.raises(OSError, match="clash"):
        add_to_table(new, target, instead_of=["m=1/a"], set_aside=tmp_path / "aside")
    assert list_files(target) == ["clash", "m=1/a"]
