"""A process that runs bodies which spoil it, and prints what each changed and what of that is left.

python -m tests.unit.runtime.isolated_bodies
"""

from __future__ import annotations

import io
import json
import logging
import os
import resource
import signal
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress

from perago.runtime.isolation import ProcessIsolation

OUTPUT = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the process
TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)


def closes_standard_files() -> None:
    for number in (0, 1, 2):
        os.close(number)


def replaces_standard_files() -> None:
    with tempfile.TemporaryFile() as file:
        for number in (0, 1, 2):
            os.dup2(file.fileno(), number)


def prints_into_a_file_of_its_own() -> None:
    os.dup2(OUTPUT.fileno(), 1)
    sys.stdout.write("said by a body")


def replaces_streams() -> None:
    sys.stdout, sys.stderr = io.StringIO(), io.StringIO()


def changes_the_environment() -> None:
    os.environ["PERAGO_BODY"] = "was here"
    os.environ["HOME"] = "/nowhere"
    del os.environ["PATH"]
    os.environb[b"\xff"] = b"\xfe"


def changes_the_directory() -> None:
    os.chdir("/")


def changes_the_mask() -> None:
    os.umask(0o077)


def lowers_limits() -> None:
    for kind in (resource.RLIMIT_NOFILE, resource.RLIMIT_CORE):
        _, hard = resource.getrlimit(kind)
        resource.setrlimit(kind, (0, hard))


def lowers_a_hard_limit() -> None:
    # Not even one's own limit can be raised again, unless as root: nothing fails by that.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def handles_signals() -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)


def sets_timers() -> None:
    for timer in TIMERS:
        signal.setitimer(timer, 1000.0)


def sets_an_alarm() -> None:
    signal.alarm(1000)


def changes_logging() -> None:
    root = logging.getLogger()
    root.handlers[:] = [logging.NullHandler(), logging.NullHandler()]
    root.setLevel(logging.CRITICAL)
    logging.disable(logging.ERROR)


def forks_and_returns() -> None:
    child = os.fork()
    if child == 0:
        return
    _, status = os.waitpid(child, 0)
    assert status == 0, f"the child ended with {status}"


def raises() -> None:
    os.chdir("/")
    raise ValueError("a body that fails")


BODIES: tuple[Callable[[], None], ...] = (
    closes_standard_files,
    replaces_standard_files,
    prints_into_a_file_of_its_own,
    replaces_streams,
    changes_the_environment,
    changes_the_directory,
    changes_the_mask,
    lowers_limits,
    handles_signals,
    sets_timers,
    sets_an_alarm,
    changes_logging,
    forks_and_returns,
    raises,
    lowers_a_hard_limit,
)


def look() -> dict[str, object]:
    """The state of the process, by parts."""
    mask = os.umask(0)
    os.umask(mask)
    root = logging.getLogger()
    return {
        "descriptors": [identity(number) for number in (0, 1, 2)],
        "streams": (id(sys.stdout), id(sys.stderr)),
        "environment": dict(os.environb),
        "directory": os.getcwd(),  # noqa: PTH109 - as the process has it
        "mask": mask,
        "soft limits": [resource.getrlimit(kind)[0] for kind in limits()],
        "hard limits": [resource.getrlimit(kind)[1] for kind in limits()],
        "signals": [signal.getsignal(number) for number in signal.Signals],
        "timers": [signal.getitimer(timer)[0] > 0 for timer in TIMERS],
        "log handlers": list(root.handlers),
        "log level": root.level,
        "log disabled": logging.root.manager.disable,
    }


def limits() -> list[int]:
    return [value for name, value in vars(resource).items() if name.startswith("RLIMIT_")]


def identity(number: int) -> tuple[int, int] | None:
    try:
        state = os.fstat(number)
    except OSError:
        return None
    return state.st_dev, state.st_ino


def open_descriptors() -> int:
    return len(os.listdir("/dev/fd"))  # noqa: PTH208 - as few descriptors as can be


def compare(before: dict[str, object], after: dict[str, object]) -> list[str]:
    return [part for part in before if before[part] != after[part]]


def main() -> None:
    """Run each body, and print what was changed before it, by it, and after it was over."""
    told: dict[str, object] = {}
    for body in BODIES:
        before, opened = look(), open_descriptors()
        began: dict[str, object] = {}
        during: dict[str, object] = {}
        with suppress(ValueError), ProcessIsolation().around_body():
            began = look()
            try:
                body()
            finally:
                during = look()
        left = compare(before, look())
        if open_descriptors() != opened:
            left.append("open descriptors")
        told[body.__name__] = {
            "found": compare(before, began),
            "changed": compare(began, during),
            "left": left,
        }
    OUTPUT.seek(0)
    told["printed"] = OUTPUT.read().decode()
    sys.stdout.write(json.dumps(told))


if __name__ == "__main__":
    main()
