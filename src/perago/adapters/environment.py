"""Which variables the programs that Perago starts get: none of Perago's own or of its servers.

What they hold is for Perago alone, keys among it. A task that prints its environment, a Spark whose
page shows it, or a tool that sends it in a crash report must not have it. This keeps accidents from
happening; it stops no body that looks for secrets on purpose.
"""

from __future__ import annotations

import ctypes
import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from fnmatch import fnmatchcase
from pathlib import Path

_OWN_PATTERNS = (
    "PERAGO_*",
    "LAKECTL_*",
    "LAKEFS_*",
    "CONDUCTOR_*",
    # Telemetry is the supervisor's business, and these hold the keys of its collector.
    "OTEL_EXPORTER_OTLP_HEADERS",
    "OTEL_EXPORTER_OTLP_*_HEADERS",
)

_PR_GET_DUMPABLE = 3
_PR_SET_DUMPABLE = 4
_NOT_DUMPABLE, _DUMPABLE = 0, 1

_ENVIRONMENT_BEGIN, _ENVIRONMENT_END = 50, 51
"""Fields of /proc/PID/stat, counted from 1: where the kernel keeps the start's environment."""
_FIRST_FIELD_AFTER_NAME = 3

Prctl = Callable[[int, int, int, int, int], int]
"""The system call: an option and its four arguments; below 0 is a refusal."""

_log = logging.getLogger(__name__)


def is_own(name: str) -> bool:
    """Whether a variable is Perago's own or one of its servers'."""
    return any(fnmatchcase(name, pattern) for pattern in _OWN_PATTERNS)


def without_own_variables(
    environment: Mapping[str, str], keep: Iterable[str] = ()
) -> dict[str, str]:
    """The environment for a program that Perago starts; `keep` are patterns of names that stay."""
    kept = tuple(keep)
    return {
        name: value
        for name, value in environment.items()
        if not is_own(name) or any(fnmatchcase(name, pattern) for pattern in kept)
    }


@contextmanager
def hidden_environment(keep: Iterable[str] = ()) -> Iterator[None]:
    """Until the end of the block, whatever this process starts gets none of these variables, and
    neither /proc nor `ps` shows what this process itself was started with.
    """
    stay = without_own_variables(os.environ, keep)
    hidden = {name: value for name, value in os.environ.items() if name not in stay}
    for name in hidden:
        del os.environ[name]
    _wipe_start_environment(hidden)
    try:
        with _without_dumps():
            yield
    finally:
        os.environ.update(hidden)


@contextmanager
def not_dumpable(prctl: Prctl) -> Iterator[None]:
    """Keep other processes of this user, but root, from reading this one's memory and environment.

    Its children are not concerned: what a program may be is decided when it starts.
    """
    before = prctl(_PR_GET_DUMPABLE, 0, 0, 0, 0)
    if before != _NOT_DUMPABLE and prctl(_PR_SET_DUMPABLE, _NOT_DUMPABLE, 0, 0, 0) != 0:
        _log.warning(
            "the kernel refuses to hide this process's memory and environment: other processes of "
            "its user can read them (%s)",
            os.strerror(ctypes.get_errno()),
        )
        yield
        return
    try:
        yield
    finally:
        if before == _DUMPABLE:  # of what else it may have been the kernel sets nothing
            prctl(_PR_SET_DUMPABLE, _DUMPABLE, 0, 0, 0)


def _without_dumps() -> AbstractContextManager[None]:
    if sys.platform != "linux":
        return nullcontext()
    return not_dumpable(ctypes.CDLL(None, use_errno=True).prctl)


def _wipe_start_environment(names: Iterable[str]) -> None:
    """Overwrite values where the kernel shows them: removing a variable leaves them there."""
    if sys.platform != "linux":
        return
    begin, end = _start_environment()
    entries = ctypes.string_at(begin, end - begin) if end > begin else b""
    wiped = {os.fsencode(name) for name in names}
    at = begin
    for entry in entries.split(b"\0"):
        name, equals, value = entry.partition(b"=")
        if equals and value and name in wiped:
            ctypes.memset(at + len(name) + 1, ord("*"), len(value))
        at += len(entry) + 1


def _start_environment() -> tuple[int, int]:
    """Where in this process's memory it is; nowhere, if the kernel does not say."""
    # The name of the program is in brackets, and may hold brackets and spaces.
    fields = Path("/proc/self/stat").read_text(encoding="utf-8", errors="replace")
    numbers = fields.rpartition(")")[2].split()
    begin, end = (
        int(numbers[field - _FIRST_FIELD_AFTER_NAME])
        for field in (_ENVIRONMENT_BEGIN, _ENVIRONMENT_END)
    )
    return begin, end
