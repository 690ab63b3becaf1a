"""Processes of servers: started in a session of their own, ended by what was recorded of them."""

from __future__ import annotations

import os
import random
import signal
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

import psutil

from perago.domain.errors import EnvironmentUnfitError
from perago.system.parent_watch import Tether
from perago.system.processes import ProcessIdentity, identify

LOOPBACK = "127.0.0.1"

_FREE_PORTS = range(18_000, 32_000)
"""Below the ports that systems hand to clients: a client that knocks on a stopped server's port
cannot be given that very port, and answer itself."""

_PAUSE_SECONDS = 0.02
_KILL_SECONDS = 30
_TAIL_BYTES = 16_384


class ChildServer:
    """A server that this process started.

    It outlives this process unless it is tied to it. Until it is reaped its pid is nobody else's.
    """

    def __init__(self, identity: ProcessIdentity, tether: Tether | None) -> None:
        self.identity = identity
        self._tether = tether
        self._exit_code: int | None = None

    def reap(self) -> int:
        """Wait for the end of one that ended or was told to; the exit code, negative for a signal.

        Something else in this process may have waited for it, and alone knows how it ended.
        """
        if self._exit_code is None:
            try:
                _, status = os.waitpid(self.identity.pid, 0)
            except ChildProcessError:
                status = 0
            self._exit_code = os.waitstatus_to_exitcode(status)
            if self._tether is not None:
                self._tether.dismiss()
        return self._exit_code


def spawn_server(
    command: list[str], *, environment: Mapping[str, str], log: Path, tied: bool
) -> ChildServer:
    """Start a server whose output goes to a new log; it reads no terminal and hears no Ctrl-C."""
    if not tied:
        return ChildServer(_spawn(command, environment, log, None), None)
    tether = Tether()
    try:
        return ChildServer(_spawn(command, environment, log, tether.group), tether)
    except BaseException:
        tether.dismiss()
        raise


def _spawn(
    command: list[str], environment: Mapping[str, str], log: Path, group: int | None
) -> ProcessIdentity:
    """Start a process in a group that is there, or else in a session of its own."""
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    # Not Popen: it takes a child that it does not wait for as a mistake.
    spawn = os.posix_spawn
    start = partial(spawn, setsid=True) if group is None else partial(spawn, setpgroup=group)
    try:
        pid = start(
            command[0],
            command,
            environment,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, descriptor, 1),
                (os.POSIX_SPAWN_DUP2, descriptor, 2),
            ],
            setsigdef=[signal.SIGPIPE],
        )
    except OSError as error:
        raise EnvironmentUnfitError(
            f"cannot start {command[0]}: {error.strerror}",
            hint="see that the file is a program for this machine",
        ) from error
    finally:
        os.close(descriptor)
    return identify(pid)


def end_process(identity: ProcessIdentity, *, grace_seconds: float) -> None:
    """Ask a process to stop, and kill it when it does not; one with its pid alone is left alone."""
    if grace_seconds > 0:
        _signal(identity, signal.SIGTERM)
        if _wait_until_ended(identity, grace_seconds):
            return
    _signal(identity, signal.SIGKILL)
    if not _wait_until_ended(identity, _KILL_SECONDS):
        raise EnvironmentUnfitError(
            f"process {identity.pid} did not end, not even when it was killed",
            hint="it waits for its disk or its file system; see to that",
        )


def choose_free_port() -> int:
    """A port that nobody listens on right now."""
    for port in random.sample(_FREE_PORTS, 100):
        if is_port_free(port):
            return port
    raise EnvironmentUnfitError(
        f"no free port between {_FREE_PORTS[0]} and {_FREE_PORTS[-1]}",
        hint="name one that is free",
    )


def is_port_free(port: int) -> bool:
    """Whether a server could listen on a loopback port."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As servers do: connections that were closed a moment ago are no reason to refuse.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def read_tail(log: Path, lines: int = 12) -> str:
    """The last lines of a log, or nothing where there is none."""
    with suppress(FileNotFoundError), log.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
        text = file.read().decode("utf-8", "replace")
        return "\n".join([line for line in text.splitlines() if line.strip()][-lines:])
    return ""


def _signal(identity: ProcessIdentity, number: signal.Signals) -> None:
    if identity.is_alive:
        with suppress(ProcessLookupError):
            os.kill(identity.pid, number)


def _wait_until_ended(identity: ProcessIdentity, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not _has_ended(identity):
        if time.monotonic() >= deadline:
            return False
        time.sleep(_PAUSE_SECONDS)
    return True


def _has_ended(identity: ProcessIdentity) -> bool:
    """Whether nothing of it is left that holds a lock or a port.

    The first thread of a killed process may be a zombie while the others are still ending.
    """
    if identity.is_alive:
        return False
    try:
        process = psutil.Process(identity.pid)
        return process.status() != psutil.STATUS_ZOMBIE or process.num_threads() <= 1
    except psutil.NoSuchProcess:
        return True
