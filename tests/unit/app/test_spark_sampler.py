"""What is told of how far Spark is, how often, and that no trouble with it matters."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import cast

import pytest

from perago.app.spark_sampler import SparkSampler, SparkTeller
from perago.domain.errors import EnvironmentUnfitError
from perago.domain.spark_progress import SparkProgress, SparkStage
from perago.ports import AttemptObserver, SparkLease, SparkWatch
from perago.testing import FakeClock

LOOKS = 0.01
PATIENCE = 30.0


def progress(done: int) -> SparkProgress:
    stage = SparkStage(name="count at a.py:1", tasks=1000, tasks_done=done)
    return SparkProgress(jobs=1, stages=1, tasks_done=done, active=(stage,))


class Told:
    """The one method of an observer that matters here."""

    def __init__(self) -> None:
        self.heard: list[tuple[SparkProgress, str | None]] = []
        self.event = threading.Event()

    def spark_progressed(self, progress: SparkProgress, line: str | None) -> None:
        self.heard.append((progress, line))
        self.event.set()

    @property
    def lines(self) -> list[str]:
        return [line for _, line in self.heard if line is not None]

    @property
    def as_observer(self) -> AttemptObserver:
        return cast(AttemptObserver, self)


class FakeWatch:
    """Answers from a list, the last answer for ever; an error is raised."""

    def __init__(self, *answers: SparkProgress | Exception) -> None:
        self._answers = list(answers)
        self.asked: list[str] = []
        self.threads: set[int] = set()

    def look(self) -> SparkProgress:
        return self._answer("look")

    def total(self) -> SparkProgress:
        return self._answer("total")

    def _answer(self, asked: str) -> SparkProgress:
        self.asked.append(asked)
        self.threads.add(threading.get_ident())
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


class FakeLease:
    def __init__(self, watch: Callable[[], SparkWatch]) -> None:
        self.watch = watch


def sampler(watch: Callable[[], SparkWatch], told: Told) -> SparkSampler:
    lease = cast(SparkLease, FakeLease(watch))
    return SparkSampler(lease, told.as_observer, FakeClock(), every_seconds=LOOKS)


def hear_every_second(told: Told, looks: Sequence[SparkProgress]) -> SparkTeller:
    teller = SparkTeller(told.as_observer, 0.0)
    for second, look in enumerate(looks, start=1):
        teller.hear(look, float(second))
    return teller


def test_looks_are_told_as_they_change_and_a_line_every_ten_seconds() -> None:
    told = Told()

    hear_every_second(told, [progress(second // 2) for second in range(1, 31)])

    assert len(told.heard) == 16  # the first, and each change
    assert told.lines == [
        f"Spark stage 1 of 1 (count at a.py:1), {done}/1000 tasks" for done in (5, 10, 15)
    ]


def test_a_long_body_writes_ever_fewer_lines() -> None:
    told = Told()

    hear_every_second(told, [progress(second) for second in range(24 * 3600)])

    assert 100 < len(told.lines) < 200


def test_nothing_new_is_no_line() -> None:
    told = Told()

    hear_every_second(told, [progress(7)] * 600)

    assert len(told.heard) == 2
    assert len(told.lines) == 1


def test_a_body_that_has_not_come_to_spark_says_nothing() -> None:
    told = Told()

    hear_every_second(told, [SparkProgress()] * 60)

    assert told.heard == []


def test_the_total_is_always_a_line_unless_spark_did_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    told = Told()
    teller = hear_every_second(told, [progress(1)])

    with caplog.at_level(logging.INFO):
        teller.hear_total(SparkProgress(jobs=1, stages=1, stages_done=1, tasks_done=1000))

    assert told.lines == caplog.messages == ["Spark: 1 job, 1 stage, 1000 tasks"]
    SparkTeller(told.as_observer, 0.0).hear_total(SparkProgress())
    assert len(told.lines) == 1


def test_it_looks_beside_the_body_and_asks_for_the_total_at_its_end() -> None:
    told, watch = Told(), FakeWatch(progress(1), progress(2))

    with sampler(lambda: watch, told):
        assert told.event.wait(PATIENCE)

    assert watch.asked[0] == "look"
    assert watch.asked[-1] == "total"
    assert watch.asked.count("total") == 1
    assert threading.get_ident() not in watch.threads
    assert told.lines == ["Spark: 1 job, 0 stages, 2 tasks"]
    asked = len(watch.asked)
    assert [thread.name for thread in threading.enumerate()].count("spark-progress") == 0
    assert len(watch.asked) == asked


def test_a_body_that_fails_has_its_total_and_fails_as_it_would() -> None:
    told = Told()

    with pytest.raises(ValueError, match="mine"), sampler(lambda: FakeWatch(progress(3)), told):
        raise ValueError("mine")

    assert told.lines == ["Spark: 1 job, 0 stages, 3 tasks"]


def test_an_error_ends_the_looks_and_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    told, watch = Told(), FakeWatch(progress(1), EnvironmentUnfitError("the body stopped Spark"))

    with caplog.at_level(logging.DEBUG), sampler(lambda: watch, told) as running:
        assert running._thread is not None
        running._thread.join(PATIENCE)
        assert not running._thread.is_alive()

    assert watch.asked == ["look", "look"]  # Spark is left alone then, the total included
    assert caplog.messages == ["cannot see how far Spark is any more"]
    assert [record.levelno for record in caplog.records] == [logging.DEBUG]
    assert len(told.heard) == 1


def test_a_watch_that_cannot_begin_costs_the_display_only(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail() -> SparkWatch:
        raise EnvironmentUnfitError("no")

    told = Told()
    with caplog.at_level(logging.DEBUG), sampler(fail, told):
        pass

    assert caplog.messages == ["cannot see how far Spark is"]
    assert told.heard == []


def test_a_spark_that_does_not_answer_is_not_waited_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("perago.app.spark_sampler._END_SECONDS", 0.05)
    asked, answered, told = threading.Event(), threading.Event(), Told()

    class Stuck(FakeWatch):
        def look(self) -> SparkProgress:
            asked.set()
            answered.wait(PATIENCE)
            return super().look()

    watch = Stuck(progress(1))
    with sampler(lambda: watch, told) as running:
        assert asked.wait(PATIENCE)
    answered.set()

    assert running._thread is not None
    running._thread.join(PATIENCE)
    assert watch.asked == ["look"]
    assert told.heard == []


def test_no_spark_is_no_thread() -> None:
    before = threading.active_count()

    with SparkSampler(None, Told().as_observer, FakeClock()):
        assert threading.active_count() == before
