"""The task that the README shows does what it seems to do."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from perago.authoring import AnyTask, load_targets
from perago.testing import TaskEnvironment
from tests.architecture.docs_blocks import ROOT

pytestmark = pytest.mark.spark

RAW = "month,flight,delay\n1,AA1,5\n1,BB2,\n2,CC3,999\n2,DD4,0\n"


@pytest.fixture
def task() -> AnyTask:
    source = ROOT / "examples" / "readme" / "tidy_flights.py"
    (declared,) = load_targets([str(source)], source.parent).tasks
    return declared


@pytest.fixture
def env() -> Iterator[TaskEnvironment]:
    with TaskEnvironment() as environment:
        environment.put({"flights/raw.csv": RAW})
        yield environment


def test_the_readme_task_publishes_a_clean_table_once(task: AnyTask, env: TaskEnvironment) -> None:
    params = task.body.params.validate({})

    first = env.run(task, params)
    second = env.run(task, params)

    assert first.published
    assert first.result == {"rows": 2}
    assert sorted(first.files) == [
        "flights/raw.csv",
        "flights/tidy/month=1/part-00000.snappy.parquet",
        "flights/tidy/month=2/part-00000.snappy.parquet",
    ]
    assert second.status == "COMPLETED"
    assert not second.published, "the same rows give the same bytes"
