"""A body that returns while something of its own still runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from perago.domain.errors import UnfinishedWriteError
from perago.domain.outcome import Completed, Phase
from tests.integration.direct.lake import DirectLake
from tests.stragglers import Params, straggle, straggling

pytestmark = [pytest.mark.lakefs, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.mark.parametrize("what", ["a slow write", "a slow table", "a stream"])
def test_one_that_writes_publishes_nothing(lake: DirectLake, tmp_path: Path, what: str) -> None:
    """It may be there in part, and nobody could tell."""
    before = lake.head
    with straggling():
        attempted = lake.attempt(straggle, Params(what=what, witness=str(_witness(tmp_path))))

    attempted.assert_failed(UnfinishedWriteError, Phase.BODY, "while a write was not over")
    assert lake.head == before


def test_one_that_reads_is_ended(lake: DirectLake, tmp_path: Path) -> None:
    witness = str(_witness(tmp_path))
    with straggling():
        attempted = lake.attempt(straggle, Params(what="a slow query", witness=witness))

    assert isinstance(attempted.outcome, Completed), attempted.outcome
    assert list(lake.files(attempted.output_ref, "out/mine/"))


def test_a_thread_that_goes_on_writing_is_found_out(lake: DirectLake, tmp_path: Path) -> None:
    """Whether it was between two tables at the moment, or at one."""
    before = lake.head
    with straggling():
        params = Params(what="table after table", witness=str(_witness(tmp_path)))
        attempted = lake.attempt(straggle, params)

    attempted.assert_failed(UnfinishedWriteError, Phase.BODY, "while a write was not over")
    assert lake.head == before


def _witness(place: Path) -> Path:
    witness = place / "witness"
    witness.mkdir()
    return witness
