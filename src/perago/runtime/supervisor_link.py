"""An executor's end of the connection to its supervisor.

A body shares the process, so it can close the connection, or open a file of its own under the same
number. Invariant: nothing is written before the descriptor was seen to be the connection still. An
executor without a connection ends at once: nobody could hear how its attempt went.
"""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Sequence
from multiprocessing.connection import Connection

from perago.runtime.frames import FrameReader, build_frame
from perago.runtime.messages import (
    FromExecutor,
    Reported,
    RunAttempt,
    ToExecutor,
    decode_from_supervisor,
    encode_from_executor,
)

LOST_CONNECTION = 76
"""The exit code of an executor whose body took its connection away."""

_READ_BYTES = 1 << 16


class SupervisorLink:
    """Tells and hears the supervisor; safe to use from many threads."""

    def __init__(self, connection: Connection, nonce: bytes) -> None:
        self._connection = connection  # keeps it open
        self._descriptor = connection.fileno()
        self._identity = _identify(self._descriptor)
        self._reader = FrameReader()
        self._nonce = nonce
        self._process = os.getpid()
        self._is_open = True
        self._lock = threading.Lock()

    def tell(self, messages: Sequence[FromExecutor], *, is_last: bool = False) -> None:
        """Send messages in one piece. After the last ones of an attempt nothing more is sent until
        the next one: a thread that the body left behind does not speak for others. A child that
        the body forked says nothing at all: it could outlive its attempt.
        """
        if os.getpid() != self._process:
            return
        payload = encode_from_executor(messages)
        with self._lock:
            if self._is_open:
                self._write(build_frame(self._nonce, payload))
            self._is_open = self._is_open and not is_last

    def hear(self) -> ToExecutor:
        """Wait for the next message; `EOFError` when the supervisor is gone."""
        while True:
            payload = self._reader.next(self._nonce)
            if payload is not None:
                break
            self.require_connection()
            try:
                data = os.read(self._descriptor, _READ_BYTES)
            except ConnectionResetError:  # it ended without having read all
                data = b""
            if not data:
                raise EOFError
            self._reader.feed(data)
        message = decode_from_supervisor(payload)
        if isinstance(message, RunAttempt):
            with self._lock:
                self._nonce, self._is_open = message.nonce, True
        return message

    def hear_report(self, seconds: float) -> Reported | None:
        """Wait so long for what became of a report; None where the supervisor still tries."""
        self.require_connection()
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        if not poll.poll(seconds * 1000):
            return None
        message = self.hear()
        return message if isinstance(message, Reported) else None

    def require_connection(self) -> None:
        """End the process at once if its connection was taken away."""
        if _identify(self._descriptor) != self._identity:
            os._exit(LOST_CONNECTION)

    def _write(self, frame: bytes) -> None:
        self.require_connection()
        view = memoryview(frame)
        while view:
            view = view[os.write(self._descriptor, view) :]


def _identify(descriptor: int) -> tuple[int, int] | None:
    try:
        found = os.fstat(descriptor)
    except OSError:
        return None
    return found.st_dev, found.st_ino
