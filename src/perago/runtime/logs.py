"""Where a worker's log lines go: the standard error of the supervisor, from all its processes.

Executors write to it directly, over a copy of the descriptor that they inherit, and not through
the pipe to the supervisor: a talkative body then costs the supervisor nothing, which has leases to
keep, and the last words of an executor that dies are not lost with a queue. A line goes out in one
piece, so lines of several processes do not mix.

Invariant: logging never blocks for long and never fails an attempt. Where nobody reads the stream,
lines are dropped, and counted.
"""

from __future__ import annotations

import logging
import os
import select
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from perago.domain.redaction import NOTHING_KNOWN, Redactor
from perago.runtime.log_lines import LogFormat, line_formatter

_PATIENCE_MILLISECONDS = 50
"""How long a line waits for a reader that is slow; after a line was dropped, none waits."""

_QUIET = {
    # py4j logs every command at DEBUG and a broken gateway at ERROR; the body's error says it.
    "py4j": logging.CRITICAL,
    # One line for each request, with its address, at INFO.
    "httpx": logging.WARNING,
    "httpcore": logging.WARNING,
    "urllib3": logging.WARNING,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LogStream:
    """How lines look on the worker's standard error, and what they never show. Pickles."""

    log_format: LogFormat
    redactor: Redactor = NOTHING_KNOWN


def choose_format(wanted: Literal["auto", "console", "json"], descriptor: int) -> LogFormat:
    """The format in force: `auto` is for people on a terminal, and for machines elsewhere."""
    if wanted != "auto":
        return wanted
    return "console" if os.isatty(descriptor) else "json"


class LineHandler(logging.Handler):
    """Writes each record as one piece to a descriptor."""

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._identity = _identity(descriptor)
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLOUT)
        self.dropped = 0
        """How many lines nobody took since the last one that was written."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write the line, or drop it: a stalled reader must not stall the worker."""
        try:
            # A body that closed our descriptor may have given its number to a file.
            if _identity(self._descriptor) != self._identity:
                return
            if self._is_taken():
                self._write(self.format(record))
            else:
                self.dropped += 1
        except OSError:  # the reader is gone, or the disk is full
            self.dropped += 1

    def _is_taken(self) -> bool:
        """Whether the stream takes a line now, without waiting for its reader."""
        ready = self._poll.poll(0 if self.dropped else _PATIENCE_MILLISECONDS)
        return bool(ready) and bool(ready[0][1] & select.POLLOUT)

    def _write(self, line: str) -> None:
        if self.dropped:
            lost, self.dropped = self.dropped, 0
            note = logging.makeLogRecord(
                {
                    "name": __name__,
                    "levelno": logging.WARNING,
                    "levelname": "WARNING",
                    "msg": f"{lost} log lines were dropped: nobody read them",
                }
            )
            os.write(self._descriptor, f"{self.format(note)}\n".encode())
        os.write(self._descriptor, f"{line}\n".encode())


def set_up_worker_logging(level: str, stream: LogStream, *, descriptor: int = 2) -> LineHandler:
    """Send what the supervisor's process logs to its standard error, and only there."""
    handler = _line_handler(stream, descriptor)
    logging.basicConfig(level=level, handlers=[handler], force=True)
    _quieten()
    return handler


def set_up_executor_logging(
    level: str, stream: LogStream | None, *, descriptor: int, redactor: Redactor = NOTHING_KNOWN
) -> None:
    """Send what an executor logs to the attempt's log and, if there is a stream, also there.

    `descriptor` is a copy of the standard error that the executor inherited.
    """
    in_attempt = logging.StreamHandler()
    in_attempt.setFormatter(_AttemptLogLines(redactor))
    handlers: list[logging.Handler] = [in_attempt]
    if stream is None:
        os.close(descriptor)
    else:
        handlers.append(_line_handler(stream, descriptor))
    logging.basicConfig(level=level, handlers=handlers, force=True)
    _quieten()


def write_to_attempt_log(text: str) -> None:
    """Write a line to the log of the attempt that this executor runs, and nowhere else.

    Each attempt has two of them, and each would cost a quarter of what a small attempt does if it
    went through `logging`.
    """
    now = time.time()
    stamp = f"{time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(now))},{int(now % 1 * 1000):03}"
    with suppress(OSError):  # a full disk must not cost an attempt
        os.write(2, f"{stamp} INFO    perago.attempt: {text}\n".encode("utf-8", "replace"))


def _line_handler(stream: LogStream, descriptor: int) -> LineHandler:
    handler = LineHandler(descriptor)
    handler.setFormatter(line_formatter(stream.log_format, stream.redactor))
    return handler


def _quieten() -> None:
    for name, level in _QUIET.items():
        logging.getLogger(name).setLevel(level)


def _identity(descriptor: int) -> tuple[int, int] | None:
    try:
        found = os.fstat(descriptor)
    except OSError:
        return None
    return found.st_dev, found.st_ino


class _AttemptLogLines(logging.Formatter):
    """What `perago logs` shows; the file is one attempt's, so no line names it."""

    def __init__(self, redactor: Redactor) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s: %(message)s")
        self._redactor = redactor

    def format(self, record: logging.LogRecord) -> str:
        return self._redactor.apply(super().format(record))
