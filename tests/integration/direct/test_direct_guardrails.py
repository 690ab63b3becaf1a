"""Guardrails on Spark say of a commit what those on local files say of the same files."""

from __future__ import annotations

import io
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from perago import (
    forbid_glob,
    require_columns,
    require_dir,
    require_file,
    require_glob,
    require_no_nulls,
    require_rows,
    require_schema,
    require_unique,
)
from perago.adapters.guardrails import LocalGuardrailEvaluator
from perago.adapters.spark import LocalSparkSessions, SparkGuardrailEvaluator
from perago.domain.attempt import Attempt
from perago.domain.guardrail import Guardrail
from perago.domain.ids import ExecutionId, TaskId, WorkflowId
from perago.domain.workspace import Prefix
from perago.ports import DirectPlace, SparkWorkspace
from tests.integration.direct.lake import DirectLake

pytestmark = [pytest.mark.lakefs, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

ATTEMPT = Attempt(
    workflow_id=WorkflowId("w"), task_id=TaskId("t"), task_name="look", reference_name="look"
)


def rows(ids: list[int | None]) -> bytes:
    table = pa.table({"id": pa.array(ids, pa.int64()), "name": [f"n{one}" for one in ids]})
    buffer = io.BytesIO()
    parquet.write_table(table, buffer)
    return buffer.getvalue()


def wider(ids: list[int]) -> bytes:
    return as_parquet({"id": ids, "name": [f"n{one}" for one in ids], "more": [True for _ in ids]})


def text_ids(ids: list[str]) -> bytes:
    return as_parquet({"id": ids, "name": ids})


def as_parquet(columns: dict[str, list[Any]]) -> bytes:
    buffer = io.BytesIO()
    parquet.write_table(pa.table(columns), buffer)
    return buffer.getvalue()


FILES = {
    "t/m=1/part-0.parquet": rows([1, 2, 3]),
    "t/m=2/part-0.parquet": rows([3, 4, None]),
    "t/_SUCCESS": b"",
    "broken/part-0.parquet": b"PAR1 no more",
    "mixed/a.csv": b"id\n1\n",
    "mixed/b.parquet": rows([1]),
    "noted/a.csv": b"id,note\n1,x\n",
    "noted/notes.txt": b"these\nare\nno\nrows\n",
    "c.csv": b'id,note\n1,"x ""quoted""\ny"\n2,\n1,z\n',
    "tabs.tsv": b"id\tnote\n1\tx\n",
    "empty/readme": b"nothing here",
    "grown/a.parquet": rows([1]),
    "grown/b.parquet": wider([2, 3]),
    "days/_day=1/part-0.parquet": rows([1, 2]),
    "odd[1]/part-0.parquet": rows([1]),
    "turned/a.csv": b"id,note\n1,x\n",
    "turned/b.csv": b"note,id\ny,\n",
    "torn/a.parquet": rows([1]),
    "torn/b.parquet": text_ids(["x"]),
}

HOLDS: list[Guardrail] = [
    require_file("c.csv"),
    require_dir("t"),
    require_glob("t/**/*.parquet", min=2, max=2),
    forbid_glob("**/*.tmp"),
    require_columns("t", ["id", "name", "m"]),
    require_columns("tabs.tsv", ["id", "note"]),
    require_rows("t", min=6, max=6),
    require_rows("c.csv", min=3, max=3),
    require_rows("noted", min=1, max=1),
    require_schema("t", "id BIGINT, name STRING, m INT"),
    require_unique("t", ["id", "m"]),
    require_unique("c.csv", ["note"]),
    require_no_nulls("t", ["name", "m"]),
    require_rows("days", min=2, max=2),
    require_rows("odd[1]", min=1, max=1),
]
BROKEN: list[Guardrail] = [
    require_file("nowhere"),
    require_dir("nowhere"),
    require_glob("t/*.parquet"),
    forbid_glob("**/_SUCCESS"),
    require_columns("c.csv", ["nowhere"]),
    require_rows("t", min=7),
    require_rows("nowhere"),
    require_rows("empty"),
    require_schema("t", "id INT, other DATE, m INT"),
    require_schema("c.csv", "id BIGINT"),
    require_unique("t", ["id"]),
    require_unique("c.csv", ["id"]),
    require_unique("t", ["nowhere"]),
    require_no_nulls("t", ["name", "id"]),
    require_no_nulls("c.csv", ["note"]),
]


@pytest.fixture
def local(tmp_path: Path) -> Path:
    root = tmp_path / "files"
    for name, content in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    return root


@pytest.fixture
def workspace(lake: DirectLake, sessions: LocalSparkSessions) -> Iterator[SparkWorkspace]:
    head = lake.put({f"out/{name}": content for name, content in FILES.items()})
    with sessions.lease(ATTEMPT, ExecutionId(uuid.uuid4().hex), direct=True) as lease:
        place = DirectPlace(
            repository=lake.repository, ref=head, prefix=Prefix.parse("out"), staging=None
        )
        yield lease.direct_workspace(place, lake.store)


def test_both_find_the_same(workspace: SparkWorkspace, local: Path) -> None:
    here, there = LocalGuardrailEvaluator(), SparkGuardrailEvaluator()
    for guardrail in HOLDS:
        assert here.violations([guardrail], local) == [], guardrail
        assert there.violations([guardrail], workspace) == [], guardrail
    for guardrail in BROKEN:
        found = there.violations([guardrail], workspace)
        assert found, guardrail
        # A table without a file of its own name is called by its directory on Spark.
        assert _plain(found) == _plain(here.violations([guardrail], local))


def _plain(texts: list[str]) -> list[str]:
    return [
        text.partition(", such as ")[0].replace("t/m=1/part-0.parquet:", "t:") for text in texts
    ]


def test_what_cannot_be_read_is_a_violation(workspace: SparkWorkspace) -> None:
    evaluator = SparkGuardrailEvaluator()
    (broken,) = evaluator.violations([require_rows("broken")], workspace)
    assert "broken: the table cannot be read" in broken
    (mixed,) = evaluator.violations([require_rows("mixed")], workspace)
    assert "mixed: it mixes .csv and .parquet files" in mixed


def test_columns_are_never_taken_for_one_another(workspace: SparkWorkspace) -> None:
    """Of CSV files whose headers differ, by position a null would be in the other column."""
    evaluator = SparkGuardrailEvaluator()
    for guardrail in (require_no_nulls("turned", ["id"]), require_unique("turned", ["note"])):
        (found,) = evaluator.violations([guardrail], workspace)
        assert "turned: the table cannot be read" in found


def test_the_sample_shows_the_rows(workspace: SparkWorkspace) -> None:
    evaluator = SparkGuardrailEvaluator()
    (double,) = evaluator.violations([require_unique("t", ["id"])], workspace)
    assert double == "t: 1 values of 'id' stand in more than one row, such as id=3 (2 rows)"
    (lacking,) = evaluator.violations([require_no_nulls("t", ["id"])], workspace)
    assert "such as id=None, name='nNone', m=2" in lacking


def test_a_table_has_the_columns_of_all_its_files(workspace: SparkWorkspace) -> None:
    """Also of those that only its last file has; where another lacks one, there is a hole."""
    evaluator = SparkGuardrailEvaluator()
    assert evaluator.violations([require_columns("grown", ["id", "name", "more"])], workspace) == []
    (hole,) = evaluator.violations([require_no_nulls("grown", ["more"])], workspace)
    assert hole == "grown: 1 rows have no value in 'more', such as id=1, name='n1', more=None"
    (torn,) = evaluator.violations([require_columns("torn", ["id"])], workspace)
    assert torn.startswith("torn: the table cannot be read: ")
