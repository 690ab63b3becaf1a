"""Keeps one body from changing the process under the next one, or under Perago itself.

A body may close standard files, replace `sys.stdout`, edit the environment, the working directory,
the file mode mask, signal handlers and logging, or set an alarm. All of that is put back as soon as
it returns, before anything is staged: a file of the store must never get descriptor 2.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

STANDARD_DESCRIPTORS = (0, 1, 2)


class ProcessIsolation:
    """The `BodyIsolation` of an executor process."""

    @contextmanager
    def around_body(self) -> Iterator[None]:
        """Save the state of the process, run the block, and put the state back."""
        process = os.getpid()
        with _descriptors(), _surroundings(), _signals(), _logging():
            try:
                yield
            finally:
                if os.getpid() != process:
                    # The body forked and let the child return: only the parent is the attempt.
                    os._exit(0)


@contextmanager
def _descriptors() -> Iterator[None]:
    saved = {number: os.dup(number) for number in STANDARD_DESCRIPTORS}
    streams = sys.stdout, sys.stderr
    try:
        yield
    finally:
        sys.stdout, sys.stderr = streams
        flush_output()
        for number, copy in saved.items():
            os.dup2(copy, number)
            os.close(copy)


@contextmanager
def _surroundings() -> Iterator[None]:
    environment, directory = dict(os.environ), Path.cwd()
    mask = os.umask(0)
    os.umask(mask)
    try:
        yield
    finally:
        os.umask(mask)
        os.chdir(directory)
        if dict(os.environ) != environment:
            os.environ.clear()
            os.environ.update(environment)


@contextmanager
def _signals() -> Iterator[None]:
    handlers = {
        number: signal.getsignal(number)
        for number in signal.valid_signals()
        if number not in (signal.SIGKILL, signal.SIGSTOP)
    }
    try:
        yield
    finally:
        signal.alarm(0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in handlers.items():
            # None is a handler that C code installed: it cannot be asked for, nor put back.
            if handler is not None and signal.getsignal(number) is not handler:
                signal.signal(number, handler)


@contextmanager
def _logging() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level, disabled = list(root.handlers), root.level, logging.root.manager.disable
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
        logging.disable(disabled)


def flush_output() -> None:
    """Flush what Python buffers; a full disk or a closed stream must not cost an attempt."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
