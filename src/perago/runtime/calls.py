"""Calls to the orchestrator beside the supervisor's loop, which never waits for a server.

Invariant: a call is made on a thread of its own, and its answer is taken on the loop's thread. So
everything that a supervisor knows is touched by one thread only.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Protocol, TypeVar

from perago.domain.errors import PeragoError

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
            except BaseException as error:  # noqa: BLE001 - a defect must end the loop, not a thread
                self._inbox.put(lambda error=error: _raise(error))  # type: ignore[misc]
                return
            self._inbox.put(lambda: take(answer))

        def take(answer: T | PeragoError) -> None:
            self._open -= 1
            then(answer)

        self._open += 1
        if self._count < min(self._open, self._most):
            self._count += 1
            threading.Thread(
                target=self._work, name=f"perago-{self._name}-{self._count}", daemon=True
            ).start()
        self._jobs.put(make)

    def _work(self) -> None:
        while True:
            self._jobs.get()()


def _raise(error: BaseException) -> None:
    raise error
