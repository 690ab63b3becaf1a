"""What a body may leave running when it returns, and what must become of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Event, Thread

import pandas as pd
from pydantic import BaseModel
from pyspark.sql import DataFrame

from perago import RetryPolicy, SparkWorkspace, TaskControls, WorkspaceSpec, task


class Params(BaseModel):
    """`witness` is a directory where rows that are on their way leave a sign."""

    what: str
    witness: str


class Result(BaseModel):
    rows: int = 0


class Straggler:
    """Goes on in a thread of its own, whatever it is answered."""

    def __init__(self) -> None:
        self._enough = Event()
        self._thread: Thread | None = None

    def start(self, acts: Iterable[Callable[[], object]]) -> None:
        def go_on() -> None:
            for act in acts:
                if self._enough.is_set():
                    return
                with suppress(Exception):  # it is told to end, or finds that it may not begin
                    act()

        self._thread = Thread(target=go_on, daemon=True)
        self._thread.start()

    def end(self) -> None:
        self._enough.set()
        if self._thread is not None:
            self._thread.join(120)
            assert not self._thread.is_alive()


_STRAGGLER = Straggler()


@contextmanager
def straggling() -> Iterator[None]:
    """For the length of one attempt; afterwards its thread is gone."""
    global _STRAGGLER  # noqa: PLW0603 - the body of a task takes no arguments but its own
    _STRAGGLER = Straggler()
    try:
        yield
    finally:
        _STRAGGLER.end()


def _slowly(witness: str) -> Callable[[Iterable[pd.DataFrame]], Iterable[pd.DataFrame]]:
    def dawdle(batches: Iterable[pd.DataFrame]) -> Iterable[pd.DataFrame]:
        for batch in batches:
            Path(witness, "begun").touch()
            time.sleep(30)
            yield batch

    return dawdle


def _write(rows: DataFrame, place: str) -> None:
    rows.write.parquet(place)


def _acts(workspace: SparkWorkspace, what: str, witness: str) -> Iterator[Callable[[], object]]:
    rows = workspace.spark.range(0, 4, 1, 1)
    slow = rows.mapInPandas(_slowly(witness), "id bigint")
    match what:
        case "a slow write":
            yield lambda: slow.write.parquet(workspace.uri_out("slow"))
        case "a slow table":
            yield lambda: workspace.write(slow, "slow")
        case "a slow query":
            yield slow.collect
        case "a stream":
            rates = workspace.spark.readStream.format("rate").load()
            place = {"checkpointLocation": f"file:{witness}-checkpoint"}
            stream = rates.writeStream.format("parquet").options(**place)
            yield partial(stream.start, workspace.uri_out("stream"))
            Path(witness, "begun").touch()
        case "nothing":
            Path(witness, "begun").touch()
        case "table after table":
            for number in range(10_000):
                yield partial(_write, rows, workspace.uri_out(f"many/t{number}"))
                Path(witness, "begun").touch()
        case _:
            raise ValueError(what)


@task(
    "straggle",
    owner_email="data@example.com",
    workspace=WorkspaceSpec("out", access="direct"),
    controls=TaskControls(retry=RetryPolicy(count=0)),
)
def straggle(workspace: SparkWorkspace, params: Params) -> Result:
    """Write one table, and leave something else running."""
    workspace.write(workspace.spark.range(3), "mine")
    _STRAGGLER.start(_acts(workspace, params.what, params.witness))
    deadline = time.monotonic() + 120
    while not list(Path(params.witness).iterdir()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return Result(rows=3)
