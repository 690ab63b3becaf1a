"""A body on local files that returns while something of its own still runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from perago.domain.outcome import Completed, Failed, Phase
from perago.testing import TaskEnvironment
from tests.stragglers import Params, straggle, straggling

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def env() -> Iterator[TaskEnvironment]:
    with TaskEnvironment() as environment:
        yield environment


@pytest.mark.parametrize("what", ["a slow write", "a slow table", "table after table"])
def test_one_that_writes_publishes_nothing(env: TaskEnvironment, tmp_path: Path, what: str) -> None:
    with straggling():
        run = env.run(straggle, Params(what=what, witness=str(tmp_path)))

    assert isinstance(run.outcome, Failed)
    assert run.outcome.phase is Phase.BODY
    assert "while a write was not over" in run.reason
    assert not run.published


def test_one_that_reads_is_ended(env: TaskEnvironment, tmp_path: Path) -> None:
    with straggling():
        run = env.run(straggle, Params(what="a slow query", witness=str(tmp_path)))

    assert isinstance(run.outcome, Completed), run.outcome
    assert run.published
