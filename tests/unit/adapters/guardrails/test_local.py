"""Guardrails on real files."""

import gzip
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from perago.adapters.guardrails import LocalGuardrailEvaluator
from perago.adapters.guardrails.globs import matches
from perago.domain.errors import TaskFailed
from perago.domain.guardrail import (
    Custom,
    ForbidGlob,
    Guardrail,
    RequireColumns,
    RequireDir,
    RequireFile,
    RequireGlob,
    RequireRows,
)
from perago.ports import GuardrailEvaluator

EVALUATOR: GuardrailEvaluator = LocalGuardrailEvaluator()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    workspace = tmp_path / "files"
    workspace.mkdir()
    return workspace


def put(root: Path, name: str, content: bytes = b"") -> Path:
    file = root / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    return file


def put_parquet(root: Path, name: str, **columns: list[object]) -> Path:
    file = root / name
    file.parent.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(pa.table(columns), file)
    return file


def violations(root: Path, *guardrails: Guardrail) -> list[str]:
    return EVALUATOR.violations(guardrails, root)


# -- files, directories, globs


def test_all_is_well(root: Path) -> None:
    put(root, "raw/a.csv", b"x\n1\n")
    put(root, "raw/deep/b.csv", b"x\n1\n")
    assert (
        violations(
            root,
            RequireFile("raw/a.csv"),
            RequireDir("raw"),
            RequireDir("raw/deep"),
            RequireGlob("raw/**/*.csv", 2, 2),
            ForbidGlob("**/*.tmp"),
            RequireColumns("raw/a.csv", ("x",)),
            RequireRows("raw", 2, 2),
            Custom(lambda directory: (directory / "raw").is_dir()),
        )
        == []
    )


def test_every_violation_is_told_in_order(root: Path) -> None:
    put(root, "a.tmp")
    assert violations(root, RequireFile("b"), ForbidGlob("*.tmp"), RequireDir("c")) == [
        "b: there is no such file",
        "*.tmp: must match nothing, and matches 'a.tmp'",
        "c: there is no such directory",
    ]


def test_a_directory_is_no_file_and_a_file_no_directory(root: Path) -> None:
    put(root, "d/f")
    assert violations(root, RequireFile("d")) == ["d: there is no such file"]
    assert violations(root, RequireDir("d/f")) == ["d/f: there is no such directory"]


def test_a_directory_is_there_when_something_is_in_it(root: Path) -> None:
    (root / "empty/er").mkdir(parents=True)
    assert violations(root, RequireDir("empty")) == ["empty: the directory has no file in it"]


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (1, None, []),
        (3, 3, []),
        (4, None, ["*.csv: 3 files match, fewer than 4"]),
        (0, 2, ["*.csv: 3 files match, more than 2"]),
    ],
)
def test_glob_bounds(root: Path, low: int, high: int | None, expected: list[str]) -> None:
    for name in ("a.csv", "b.csv", ".c.csv", "d.txt", "sub/e.csv"):
        put(root, name)
    assert violations(root, RequireGlob("*.csv", low, high)) == expected


def test_many_strays_are_counted_and_a_few_are_named(root: Path) -> None:
    for number in range(9):
        put(root, f"{number}.tmp")
    assert violations(root, ForbidGlob("*.tmp")) == [
        "*.tmp: must match nothing, and matches '0.tmp', '1.tmp', '2.tmp' and 6 more"
    ]


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("*.csv", "a.csv", True),
        ("*.csv", "raw/a.csv", False),
        ("raw/*", "raw/a/b", False),
        ("raw/**", "raw/a/b", True),
        ("raw/**", "raw", False),
        ("**/a", "a", True),
        ("**/a", "x/y/a", True),
        ("**/**/a", "x/a", True),
        ("x/**/a", "x/a", True),
        ("x/**/a/**/b", "x/1/a/2/3/b", True),
        ("x/**/a/**/b", "x/1/2/3/b", False),
        ("a**", "abc", True),
        ("a**", "a/b", False),
        ("?.csv", "é.csv", True),
        ("[ab].csv", "b.csv", True),
        ("[!ab].csv", "b.csv", False),
        ("a+b(1).csv", "a+b(1).csv", True),
        ("A.csv", "a.csv", False),
        ("**", "a", True),
    ],
)
def test_what_a_pattern_matches(pattern: str, path: str, expected: bool) -> None:
    assert matches(pattern, [path]) == ([path] if expected else [])


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    put(tmp_path / "outside", "secret.csv", b"x\n1\n")
    return tmp_path / "outside"


def test_nothing_is_followed_out_of_the_directory(root: Path, outside: Path) -> None:
    (root / "file.csv").symlink_to(outside / "secret.csv")
    (root / "directory").symlink_to(outside)
    assert violations(root, ForbidGlob("**")) == []
    assert violations(root, RequireFile("file.csv"), RequireFile("directory/secret.csv")) == [
        "file.csv: there is no such file",
        "directory/secret.csv: there is no such file",
    ]
    assert violations(root, RequireDir("directory"), RequireRows("directory")) == [
        "directory: there is no such directory",
        "directory: there is no such table",
    ]


def test_a_circle_of_links_ends(root: Path) -> None:
    (root / "a").symlink_to(root / "b")
    (root / "b").symlink_to(root / "a")
    (root / "self").symlink_to(root)
    assert violations(root, RequireFile("a"), ForbidGlob("**")) == ["a: there is no such file"]


def test_a_link_that_stays_inside_counts(root: Path) -> None:
    put(root, "a.csv", b"x\n1\n")
    (root / "b.csv").symlink_to("a.csv")
    assert (
        violations(root, RequireFile("b.csv"), RequireGlob("*.csv", 2), RequireRows("b.csv")) == []
    )


# -- tables


def test_partition_keys_are_columns(root: Path) -> None:
    for month in (1, 2):
        put_parquet(
            root, f"t/year=2013/month={month}/part-0.snappy.parquet", a=[1, 2], b=["x", "y"]
        )
    put(root, "t/_SUCCESS")
    put(root, "t/_temporary/0/part-9.parquet", b"half written")
    put(root, "t/.part-0.parquet.crc", b"crc")
    assert violations(root, RequireColumns("t", ("a", "b", "year", "month"))) == []
    assert violations(root, RequireRows("t", 4, 4)) == []
    (violation,) = violations(root, RequireColumns("t", ("a", "day")))
    assert violation == (
        "t/year=2013/month=1/part-0.snappy.parquet: the table has no column 'day'; "
        "it has 'a', 'b', 'year', 'month'"
    )


def test_only_a_tables_own_directories_are_its_partitions(root: Path) -> None:
    put_parquet(root, "run=7/t/part-0.parquet", a=[1])
    (violation,) = violations(root, RequireColumns("run=7/t", ("run",)))
    assert "no column 'run'; it has 'a'" in violation


def test_every_file_of_a_table_needs_the_columns(root: Path) -> None:
    put_parquet(root, "t/1.parquet", a=[1], b=[1])
    put_parquet(root, "t/2.parquet", a=[1])
    assert violations(root, RequireColumns("t", ("a", "b"))) == [
        "t/2.parquet: the table has no column 'b'; it has 'a'"
    ]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.csv", b"a,b\n1,2\n3,4\n"),
        ("t.csv", b"\xef\xbb\xbfa,b\n1,2\n3,4"),
        ("t.csv", b'a,b\r\n"1\n1",2\r\n3,4\r\n'),
        ("t.csv", b"a,b\n\xff\xfe,2\n3,4\n"),
        ("t.tsv", b"a\tb\n1\t2\n3\t4\n"),
        ("t.csv.gz", gzip.compress(b"a,b\n1,2\n3,4\n")),
        ("table without ending", b"a,b\n1,2\n3,4\n"),
    ],
    ids=["plain", "BOM", "newline in a value", "latin", "tabs", "gzip", "no ending"],
)
def test_csv_in_many_dresses(root: Path, name: str, content: bytes) -> None:
    put(root, name, content)
    assert violations(root, RequireColumns(name, ("a", "b")), RequireRows(name, 2, 2)) == []


def test_a_csv_column_may_change_its_type_anywhere(root: Path) -> None:
    rows = 700_000
    put(root, "t.csv", b"a,b\n" + b"1,2\n" * rows + b"one,two\n")
    assert violations(root, RequireRows("t.csv", rows + 1, rows + 1)) == []


def test_a_parquet_file_is_known_by_its_content_too(root: Path) -> None:
    put_parquet(root, "table", a=[1, 2, 3])
    assert violations(root, RequireColumns("table", ("a",)), RequireRows("table", 3, 3)) == []


@pytest.mark.parametrize("content", [b"", b"a,b\n", b"a,b", b"\xef\xbb\xbfa,b"])
def test_a_csv_without_rows(root: Path, content: bytes) -> None:
    put(root, "t.csv", content)
    assert violations(root, RequireRows("t.csv", 0, 0)) == []
    assert violations(root, RequireRows("t.csv")) == ["t.csv: the table has 0 rows, fewer than 1"]


@pytest.mark.parametrize("content", [b"a,b\n", b"a,b", b"\xef\xbb\xbfa,b"])
def test_a_header_alone_has_columns(root: Path, content: bytes) -> None:
    put(root, "t.csv", content)
    assert violations(root, RequireColumns("t.csv", ("a", "b"))) == []


def test_an_empty_csv_has_no_columns(root: Path) -> None:
    put(root, "t.csv")
    assert violations(root, RequireColumns("t.csv", ("a",))) == [
        "t.csv: the table has no column 'a'; it has none"
    ]


def test_row_bounds(root: Path) -> None:
    put_parquet(root, "t.parquet", a=[1, 2, 3])
    assert violations(root, RequireRows("t.parquet", 4), RequireRows("t.parquet", 0, 2)) == [
        "t.parquet: the table has 3 rows, fewer than 4",
        "t.parquet: the table has 3 rows, more than 2",
    ]


@pytest.mark.parametrize("guardrail", [RequireRows("t"), RequireColumns("t", ("a",))])
def test_what_is_no_table_is_a_violation(root: Path, guardrail: Guardrail) -> None:
    assert violations(root, guardrail) == ["t: there is no such table"]
    put(root, "t/readme.md")
    assert violations(root, guardrail) == ["t: there is no Parquet or CSV file in it"]
    put(root, "t/a.csv", b"a\n1\n")
    assert violations(root, guardrail) == []
    put_parquet(root, "t/a.parquet", a=[1])
    assert violations(root, guardrail) == ["t: it mixes Parquet and CSV files"]


@pytest.mark.parametrize("guardrail", [RequireRows("t"), RequireColumns("t", ("a",))])
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t/1.parquet", b""),
        ("t/1.parquet", b"PAR1 and then nonsense PAR1"),
        ("t/1.csv", b"a,b\nsecret-row\n"),
        ("t/1.csv.gz", b"no gzip at all"),
    ],
)
def test_a_corrupt_file_is_a_violation_and_no_crash(
    root: Path, guardrail: Guardrail, name: str, content: bytes
) -> None:
    put(root, name, content)
    (violation,) = violations(root, guardrail)
    assert violation.startswith(f"{name}: the file cannot be read: ")
    assert "secret-row" not in violation
    assert str(root) not in violation


def test_a_truncated_parquet_file_is_a_violation(root: Path) -> None:
    whole = put_parquet(root, "t.parquet", a=list(range(1000)))
    whole.write_bytes(whole.read_bytes()[:-100])
    (violation,) = violations(root, RequireRows("t.parquet"))
    assert violation.startswith("t.parquet: the file cannot be read: ")


def test_parquet_rows_are_counted_from_footers_alone(root: Path) -> None:
    file = put_parquet(root, "t.parquet", a=[math.pi] * 100_000, b=list(range(100_000)))
    content = bytearray(file.read_bytes())
    data_end = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    content[4:data_end] = bytes(data_end - 4)
    file.write_bytes(content)
    assert violations(root, RequireRows("t.parquet", 100_000, 100_000)) == []


COUNT_AND_MEASURE = """
import sys
from pathlib import Path
import pyarrow as pa
from perago.adapters.guardrails import LocalGuardrailEvaluator
from perago.domain.guardrail import RequireRows

rows = int(sys.argv[2])
demand = RequireRows("t.csv", rows, rows)
assert LocalGuardrailEvaluator().violations([demand], Path(sys.argv[1])) == []
print(pa.default_memory_pool().max_memory())
"""


def test_a_csv_is_counted_in_flat_memory(root: Path) -> None:
    rows, line = 2_000_000, b"some text," + b"and more of it " * 5 + b"\n"
    with (root / "t.csv").open("wb") as file:
        file.write(b"a,b\n")
        for _ in range(100):
            file.write(line * (rows // 100))
    # In a process of its own: Arrow's peak is that of the whole process.
    answer = subprocess.run(
        [sys.executable, "-c", COUNT_AND_MEASURE, str(root), str(rows)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(answer.stdout) < rows * len(line) / 2


# -- checks of one's own


def says_nothing(directory: Path) -> None:
    assert directory.is_dir()


def raises(directory: Path) -> None:
    raise TaskFailed("three rows are late")


def raises_silently(directory: Path) -> None:
    raise ValueError


class Callable_:  # noqa: N801 - a check may be an object
    def __call__(self, directory: Path) -> bool:
        return False


def named(name: str, answer: object) -> Callable[[Path], object]:
    def check(directory: Path) -> object:
        return answer

    check.__name__ = name
    return check


@pytest.mark.parametrize(
    ("check", "expected"),
    [
        (says_nothing, []),
        (named("yes", True), []),
        (named("numpy_yes", np.True_), []),
        (named("no", False), ["no: returned False"]),
        (named("numpy_no", np.False_), ["numpy_no: returned False"]),
        (named("text", "two rows are late"), ["text: two rows are late"]),
        (named("empty", ""), ["empty: "]),
        (
            named("number", 1),
            ["number: returned a int; a check raises, or returns None, True, False or a text"],
        ),
        (raises, ["raises: TaskFailed: three rows are late"]),
        (raises_silently, ["raises_silently: ValueError"]),
        (Callable_(), ["Callable_: returned False"]),
    ],
)
def test_a_check_of_ones_own(
    root: Path, check: Callable[[Path], object], expected: list[str]
) -> None:
    assert violations(root, Custom(check)) == expected
