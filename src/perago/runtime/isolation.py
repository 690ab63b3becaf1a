"""Keeps one body from changing the process under the next one, or under Perago itself.

A body may close standard files, replace `sys.stdout`, edit the environment, the working directory,
the file mode mask, resource limits, signal handlers and logging, or set a timer. All of that is
put back as soon as it returns, before anything is staged: a file of the store must never get
descriptor 2.
"""

from __future__ import annotations

import logging
import os
import resource
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

STANDARD_DESCRIPTORS = (0, 1, 2)

_LIMITS = tuple(value for name, value in vars(resource).items() if name.startswith("RLIMIT_"))
_HANDLED_SIGNALS = tuple(
    int(number)
    for number in signal.Signals
    if number not in (signal.SIGKILL, signal.SIGSTOP) and not number.name.startswith("SIGRT")
)
"""Those that anybody sends: each costs a look for each body, and real-time signals, which only a
program sends to itself, are half of all."""

_TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
"""Each ends a process that does not handle its signal; `alarm` sets the first."""


class ProcessIsolation:
    """The `BodyIsolation` of an executor process."""

    @contextmanager
    def around_body(self) -> Iterator[None]:
        """Save the state of the process, run the block, and put the state back."""
        process = os.getpid()
        with _descriptors(), _surroundings(), _limits(), _signals(), _logging():
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
    # As bytes, which is what the process has: decoding them all costs more than the rest here.
    environment, directory = dict(os.environb), Path.cwd()
    mask = os.umask(0)
    os.umask(mask)
    try:
        yield
    finally:
        os.umask(mask)
        os.chdir(directory)
        if dict(os.environb) != environment:
            os.environb.clear()
            os.environb.update(environment)


@contextmanager
def _limits() -> Iterator[None]:
    before = {kind: resource.getrlimit(kind) for kind in _LIMITS}
    try:
        yield
    finally:
        for kind, limits in before.items():
            if resource.getrlimit(kind) != limits:
                # Only root may raise a hard limit: one that the body lowered stays.
                with suppress(ValueError, OSError):
                    resource.setrlimit(kind, limits)


@contextmanager
def _signals() -> Iterator[None]:
    handlers = _first_handlers()
    try:
        yield
    finally:
        for timer in _TIMERS:
            signal.setitimer(timer, 0)
        for number, handler in handlers.items():
            # None is a handler that C code installed: it cannot be asked for, nor put back.
            if handler is not None and signal.getsignal(number) is not handler:
                signal.signal(number, handler)


@cache
def _first_handlers() -> dict[int, signal.Handlers | Callable[..., object] | int | None]:
    """As they were before the first body: nothing but a body, or what it uses, changes them."""
    return {number: signal.getsignal(number) for number in _HANDLED_SIGNALS}


@contextmanager
def _logging() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level, disabled = list(root.handlers), root.level, logging.root.manager.disable
    try:
        yield
    finally:
        root.handlers[:] = handlers
        # Only what was changed: each of the two has every logger forget what it is enabled for.
        if root.level != level:
            root.setLevel(level)
        if logging.root.manager.disable != disabled:
            logging.disable(disabled)


def flush_output() -> None:
    """Flush what Python buffers; a full disk or a closed stream must not cost an attempt."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
