"""What a body leaves running, each on a Spark Connect server: nothing may differ."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from perago.domain.outcome import Completed, Failed
from tests.integration.direct.lake import DirectLake
from tests.integration.direct.test_stragglers import (  # noqa: F401 - pytest runs them
    pytestmark,
    test_one_that_reads_is_ended,
    test_one_that_writes_publishes_nothing,
)
from tests.stragglers import Params, straggle, straggling


def test_a_thread_that_goes_on_writing_is_found_out_or_has_written_whole_tables(
    lake: DirectLake, tmp_path: Path
) -> None:
    """Between two tables nothing is under way, and a session lets it begin no other."""
    before, witness = lake.head, tmp_path / "witness"
    witness.mkdir()
    with straggling():
        params = Params(what="table after table", witness=str(witness))
        attempted = lake.attempt(straggle, params)

    match attempted.outcome:
        case Completed():
            tables = defaultdict[str, list[int]](list)
            for name, size in lake.files(attempted.output_ref, "out/many/").items():
                tables[name.split("/")[2]].append(size)
            assert len(tables) > 0
            assert all(sizes == tables["t0"] for sizes in tables.values()), tables
        case Failed(reason=reason):
            assert "while a write was not over" in reason
            assert lake.head == before
        case other:
            raise AssertionError(other)
