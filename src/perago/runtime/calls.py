"""Calls to the orchestrator beside the supervisor's loop, which never waits for a server.

Invariant: a call is made on a thread of its own, and its answer is taken on the loop's thread. So
everything that a supervisor knows is touched by one thread only.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Protocol, TypeVar

from perago.domain.errors import OrchestratorError, PeragoError
from perago.domain.outcome import describe_error

_log = logging.getLogger(__name__)

T = TypeVar("T")


class Calls(Protocol):
    """Makes calls; each answer is delivered later."""

    def submit(self, call: Callable[[], T], then: Callable[[T | PeragoError], None]) -> None:
        """Make the call soon; `then` gets what it returned, or the error that it raised."""
        ...


class Inbox:
    """Answers that wait for the loop, and a pipe that wakes it."""

    def __init__(self) -> None:
        self._answers: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._reading, False)
        os.set_blocking(self._writing, False)

    def fileno(self) -> int:
        """What the loop waits for."""
        return self._reading

    def put(self, take: Callable[[], None]) -> None:
        """Have the loop call this."""
        self._answers.put(take)
        self.wake()

    def wake(self) -> None:
        """Have the loop turn at once. Safe in a signal handler."""
        # A full pipe wakes it just as well; a closed one has nobody to wake.
        with suppress(BlockingIOError, BrokenPipeError):
            os.write(self._writing, b"!")

    def take_all(self) -> None:
        """Take every answer that is there; on the loop's thread."""
        with suppress(BlockingIOError):
            while os.read(self._reading, 1 << 16):
                pass
        while True:
            try:
                take = self._answers.get_nowait()
            except Empty:
                return
            take()


class CallThreads:
    """Makes calls on up to so many threads; on one, calls are made in their order.

    The threads are daemons: a server that does not answer cannot keep a worker from ending.
    """

    def __init__(self, inbox: Inbox, name: str, *, threads: int) -> None:
        self._inbox = inbox
        self._name = name
        self._most = threads
        self._count = 0
        self._open = 0
        self._jobs: SimpleQueue[Callable[[], None]] = SimpleQueue()

    def submit(self, call: Callable[[], T], then: Callable[[T | PeragoError], None]) -> None:
        """Make the call on a thread; called on the loop's thread only."""

        def make() -> None:
            answer: T | PeragoError
            try:
                answer = call()
            except PeragoError as error:
                answer = error
            # What a server sent may hit a defect of ours. It ends that call, never the worker.
            except Exception as error:  # noqa: BLE001
                _log.exception("a call to the orchestrator failed unexpectedly")
                answer = OrchestratorError(
                    f"a defect of Perago: {describe_error(error)}",
                    hint="the worker's log has the traceback; please report it",
                )
            self._inbox.put(lambda: take(answer))

        def take(answer: T | PeragoError) -> None:
            self._open -= 1
            then(answer)

        self._open += 1
        if self._count < min(self._open, self._most) and not self._start_thread():
            refused = OrchestratorError(
                "the system refuses another thread",
                hint="raise the limit of processes, or find what uses them up",
            )
            self._inbox.put(lambda: take(refused))
            return
        self._jobs.put(make)

    def _start_thread(self) -> bool:
        """Have one thread more; whether there is any."""
        name = f"perago-{self._name}-{self._count + 1}"
        try:
            threading.Thread(target=self._work, name=name, daemon=True).start()
        except RuntimeError as error:  # a body may have used up what the system allows
            _log.warning("%s", error)
        else:
            self._count += 1
        return self._count > 0

    def _work(self) -> None:
        while True:
            self._jobs.get()()
