"""Everybody hears everything, and who fails harms nobody."""

from __future__ import annotations

import inspect
import logging

import pytest

from perago.domain.changes import ChangeCount
from perago.domain.outcome import Completed, Phase
from perago.domain.spark_progress import SparkProgress
from perago.runtime.events import FanOutEvents, IgnoredEvents, WorkerEvents
from tests.unit.runtime.executions import an_execution

EXECUTION = an_execution()
ATTEMPT = EXECUTION.attempt
CALLS: list[tuple[str, tuple[object, ...]]] = [
    ("execution_began", (EXECUTION,)),
    ("attempt_started", (ATTEMPT,)),
    ("phase_started", (ATTEMPT, Phase.BODY)),
    ("phase_ended", (ATTEMPT, Phase.BODY, 1.0)),
    ("transferred", (ATTEMPT, 1, 10)),
    ("progressed", (ATTEMPT, "half", 0.5)),
    ("spark_progressed", (ATTEMPT, SparkProgress(jobs=1), "Spark: 1 job")),
    ("changes_found", (ATTEMPT, ChangeCount(written=1, deleted=2))),
    ("attempt_ended", (ATTEMPT, Completed(output={}))),
    ("executor_died", (None, "exit code 1")),
    ("polled", (3,)),
    ("poll_failed", ("no answer",)),
    ("heartbeat_failed", (ATTEMPT, "no answer")),
    ("lease_lost", (ATTEMPT, "stale")),
]


class Recorder(IgnoredEvents):
    def __init__(self) -> None:
        self.heard: list[tuple[str, tuple[object, ...]]] = []

    def __getattribute__(self, name: str) -> object:
        if name in dict(CALLS):
            return lambda *args: self.heard.append((name, args))
        return super().__getattribute__(name)


class Broken(IgnoredEvents):
    def __getattribute__(self, name: str) -> object:
        if name in dict(CALLS):
            raise RuntimeError("a bug")
        return super().__getattribute__(name)


def tell_all(events: WorkerEvents) -> None:
    for name, args in CALLS:
        getattr(events, name)(*args)


def test_the_calls_are_all_there_are() -> None:
    declared = {n for n, _ in inspect.getmembers(WorkerEvents, inspect.isfunction) if n[0] != "_"}

    assert declared == dict(CALLS).keys()


def test_a_broken_consumer_is_logged_once_and_the_others_hear_all(
    caplog: pytest.LogCaptureFixture,
) -> None:
    first, last = Recorder(), Recorder()
    with caplog.at_level(logging.ERROR):
        tell_all(FanOutEvents([first, Broken(), last]))

    assert first.heard == last.heard == CALLS
    assert len(caplog.records) == 1
    assert "Broken failed" in caplog.text
    assert "a bug" in caplog.text
