"""Calls beside the loop: answers come to the loop's thread, errors too, order where it matters."""

from __future__ import annotations

import select
import threading

import pytest

from perago.domain.errors import OrchestratorError, OrchestratorUnavailableError, PeragoError
from perago.runtime.calls import CallThreads, Inbox


@pytest.fixture
def inbox() -> Inbox:
    return Inbox()


def take_one(inbox: Inbox) -> None:
    """Wait as the loop does, then take what is there."""
    ready, _, _ = select.select([inbox.fileno()], [], [], 30)
    assert ready, "nothing woke the loop"
    inbox.take_all()


def test_an_answer_is_taken_on_the_loops_thread(inbox: Inbox) -> None:
    calls = CallThreads(inbox, "test", threads=2)
    made_on: list[str] = []
    taken: list[tuple[str, int | PeragoError]] = []

    def call() -> int:
        made_on.append(threading.current_thread().name)
        return 7

    calls.submit(call, lambda answer: taken.append((threading.current_thread().name, answer)))
    take_one(inbox)

    assert taken == [(threading.current_thread().name, 7)]
    assert made_on == ["perago-test-1"]


def test_an_error_of_ours_is_an_answer(inbox: Inbox) -> None:
    calls = CallThreads(inbox, "test", threads=1)
    error = OrchestratorUnavailableError("no answer")
    taken: list[PeragoError | None] = []

    def call() -> None:
        raise error

    calls.submit(call, taken.append)
    take_one(inbox)
    assert taken == [error]


def test_a_defect_is_an_answer_too_and_its_traceback_is_logged(
    inbox: Inbox, caplog: pytest.LogCaptureFixture
) -> None:
    """What a server sent may hit a defect of ours: it ends that call, never the worker."""
    calls = CallThreads(inbox, "test", threads=1)
    taken: list[int | PeragoError] = []
    calls.submit(lambda: {"a": 1}["b"], taken.append)
    take_one(inbox)
    calls.submit(lambda: 7, taken.append)
    take_one(inbox)

    defect, after = taken
    assert isinstance(defect, OrchestratorError)
    assert defect.message == "a defect of Perago: KeyError: 'b'"
    assert defect.hint is not None
    assert [record.exc_info is not None for record in caplog.records] == [True]
    assert after == 7


def test_no_more_threads_are_started_than_are_needed(inbox: Inbox) -> None:
    calls = CallThreads(inbox, "test", threads=2)
    names: list[str | PeragoError] = []
    for _ in range(3):
        calls.submit(lambda: threading.current_thread().name, names.append)
        take_one(inbox)
    assert names == ["perago-test-1"] * 3


def test_no_more_threads_are_started_than_allowed(inbox: Inbox) -> None:
    calls = CallThreads(inbox, "test", threads=2)
    go = threading.Event()
    names: list[str | PeragoError] = []

    def call() -> str:
        go.wait(30)
        return threading.current_thread().name

    for _ in range(5):
        calls.submit(call, names.append)
    go.set()
    while len(names) < 5:
        take_one(inbox)
    assert set(names) <= {"perago-test-1", "perago-test-2"}


def test_one_thread_keeps_the_order(inbox: Inbox) -> None:
    calls = CallThreads(inbox, "test", threads=1)
    made: list[int] = []
    done = threading.Event()
    for number in range(50):
        calls.submit(lambda number=number: made.append(number), lambda _: None)  # type: ignore[misc]
    calls.submit(done.set, lambda _: None)
    assert done.wait(30)
    assert made == list(range(50))


def test_several_threads_do_not_wait_for_each_other(inbox: Inbox) -> None:
    calls = CallThreads(inbox, "test", threads=2)
    both = threading.Barrier(2, timeout=30)
    taken: list[int | PeragoError] = []
    calls.submit(both.wait, taken.append)
    calls.submit(both.wait, taken.append)
    while len(taken) < 2:
        take_one(inbox)


def test_a_wake_up_is_felt_however_many_there_were(inbox: Inbox) -> None:
    for _ in range(100_000):
        inbox.wake()
    take_one(inbox)
    assert select.select([inbox.fileno()], [], [], 0)[0] == []


def test_where_the_system_refuses_a_thread_the_call_has_an_error_for_an_answer(
    inbox: Inbox,
) -> None:
    class Refused(CallThreads):
        def _start_thread(self) -> bool:
            return False

    calls = Refused(inbox, "test", threads=1)
    taken: list[int | PeragoError] = []
    calls.submit(lambda: 1, taken.append)
    take_one(inbox)
    assert isinstance(taken[0], PeragoError)
    assert "another thread" in taken[0].message
