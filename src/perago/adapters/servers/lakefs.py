"""A lakeFS server on loopback, with its database and blocks in one directory.

Invariant: at most one server runs on a directory, and what is ended is the process that was
recorded, never one that merely got its pid.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from perago.adapters.servers.binaries import Binary
from perago.adapters.servers.file_lock import hold_file_lock
from perago.adapters.servers.lakefs_answers import ask_server
from perago.adapters.servers.lakefs_state import LakeFSState, new_state, read_state, write_state
from perago.adapters.servers.processes import (
    LOOPBACK,
    ChildServer,
    choose_free_port,
    end_process,
    is_port_free,
    read_tail,
    spawn_server,
)
from perago.domain.errors import EnvironmentUnfitError, UsageError

_START_SECONDS = 60.0
_GIVE_UP_SECONDS = 5.0
_PAUSE_SECONDS = 0.05
_STOP_SECONDS = 35.0
"""lakeFS itself gives calls under way 30 seconds."""

_PORT_ATTEMPTS = 3
_PORT_TAKEN = "address already in use"

_KEPT_VARIABLES = ("HOME", "PATH", "TMPDIR", "TZ")
"""Nothing else of the caller's environment is for the server: no other lakeFS's settings, and no
secrets."""


class ServerStatus(StrEnum):
    """Whether a server runs. `STALE`: it ended without being stopped."""

    RUNNING = "running"
    STOPPED = "not running"
    STALE = "stale"


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeFSReport:
    """How a server was found. `state` is None where none was ever started."""

    status: ServerStatus
    state: LakeFSState | None
    answers: bool

    @property
    def is_up(self) -> bool:
        """Whether it can be used."""
        return self.status is ServerStatus.RUNNING and self.answers

    @property
    def summary(self) -> str:
        """In words."""
        mute = self.status is ServerStatus.RUNNING and not self.answers
        return f"{self.status}, without answering" if mute else str(self.status)


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedLakeFS:
    """A server that can be used, and whether it was this call that started it."""

    state: LakeFSState
    fresh: bool


class LakeFSServer:
    """The server of one directory; any process of this user may start, stop and look at it.

    `tied` ends it with this process, however that ends; else it goes on until it is stopped.
    """

    def __init__(
        self,
        directory: Path,
        *,
        environment: Mapping[str, str] | None = None,
        tied: bool = False,
    ) -> None:
        self.directory = directory.absolute()
        self._environment = os.environ if environment is None else environment
        self._tied = tied
        self._child: ChildServer | None = None

    @property
    def log(self) -> Path:
        """What the server prints; the one of the start before is kept beside it."""
        return self.directory / "lakefs.log"

    def start(self, binary: Binary, *, port: int | None = None) -> StartedLakeFS:
        """Start it unless it runs, and wait until it answers.

        Without a port it takes the one it had, or a free one where that is taken.
        """
        self._make_directory()
        with self._lock():
            state = read_state(self.directory)
            if state is not None and state.process is not None and state.process.is_alive:
                if port not in (None, state.port):
                    raise UsageError(
                        f"lakeFS already runs at {state.endpoint}, on another port than {port}",
                        hint="stop it first, or use it where it is",
                    )
                if self._wait_until_usable(state):
                    return StartedLakeFS(state=state, fresh=False)
            self._stop(0)  # one that was killed a moment ago may still hold its database
            for _ in range(_PORT_ATTEMPTS):
                chosen = self._choose_port(port, state)
                state = replace(state or new_state(chosen), port=chosen, version=binary.version)
                started = self._launch(binary, state)
                if started is not None:
                    return StartedLakeFS(state=started, fresh=True)
            raise EnvironmentUnfitError(
                "every port that lakeFS was given was taken before it could listen",
                hint="choose one that nobody else takes",
            )

    def stop(self, *, grace_seconds: float = _STOP_SECONDS) -> bool:
        """Stop it if it runs; say whether it did. The data stay."""
        if not self.directory.is_dir():
            return False
        with self._lock():
            return self._stop(grace_seconds)

    def kill(self) -> bool:
        """End it as a power failure would."""
        return self.stop(grace_seconds=0)

    def purge(self) -> bool:
        """Stop it and remove everything that it kept; say whether there was anything."""
        if not self.directory.is_dir():
            return False
        with self._lock():
            self._stop(_STOP_SECONDS)
            shutil.rmtree(self.directory)
            return True

    def report(self) -> LakeFSReport:
        """Look at it without changing anything."""
        state = read_state(self.directory)
        if state is None or state.process is None:
            return LakeFSReport(status=ServerStatus.STOPPED, state=state, answers=False)
        if not state.process.is_alive:
            return LakeFSReport(status=ServerStatus.STALE, state=state, answers=False)
        answers = ask_server(state, "/_health") == 200
        return LakeFSReport(status=ServerStatus.RUNNING, state=state, answers=answers)

    def _lock(self) -> AbstractContextManager[None]:
        # Beside the directory, for purging removes that.
        return hold_file_lock(self.directory.with_name(f"{self.directory.name}.lock"))

    def _make_directory(self) -> None:
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise EnvironmentUnfitError(
                f"cannot create {self.directory}: {error.strerror}",
                hint="make its parent writable, or choose another home (--home or PERAGO_HOME)",
            ) from error

    def _choose_port(self, wanted: int | None, state: LakeFSState | None) -> int:
        if wanted is not None:
            if not is_port_free(wanted):
                raise EnvironmentUnfitError(
                    f"port {wanted} of {LOOPBACK} is taken, or not for this user",
                    hint="choose another port, or none for a free one",
                )
            return wanted
        if state is not None and is_port_free(state.port):
            return state.port
        return choose_free_port()

    def _launch(self, binary: Binary, state: LakeFSState) -> LakeFSState | None:
        """Start a process and wait until it can be used; None when its port was taken."""
        write_state(self.directory, state.stopped())
        if self.log.exists():
            self.log.replace(self.log.with_suffix(".log.1"))
        configuration = self.directory / "lakefs.yaml"
        # An empty one of its own: without it the server would read one of the user's.
        configuration.touch(mode=0o600)
        child = spawn_server(
            [str(binary.path), "--config", str(configuration), "run"],
            environment=self._server_environment(state),
            log=self.log,
            tied=self._tied,
        )
        self._child = child
        running = replace(state, process=child.identity)
        try:
            write_state(self.directory, running)
            usable = self._wait_until_usable(running)
        except BaseException:
            self._end_child(child, state)
            raise
        if usable:
            return running
        code = self._end_child(child, state)
        said = read_tail(self.log)
        if _PORT_TAKEN in said:
            return None
        raise EnvironmentUnfitError(
            f"lakeFS ended with exit code {code} as it started:\n{said}",
            hint=f"the whole log is {self.log}",
        )

    def _end_child(self, child: ChildServer, state: LakeFSState) -> int:
        """Undo a start that failed, and give the exit code."""
        end_process(child.identity, grace_seconds=_GIVE_UP_SECONDS)
        code = child.reap()
        write_state(self.directory, state.stopped())
        return code

    def _stop(self, grace_seconds: float) -> bool:
        state = read_state(self.directory)
        if state is None or state.process is None:
            return False
        was_alive = state.process.is_alive
        end_process(state.process, grace_seconds=grace_seconds)
        if self._child is not None and self._child.identity == state.process:
            self._child.reap()
        write_state(self.directory, state.stopped())
        return was_alive

    def _wait_until_usable(self, state: LakeFSState) -> bool:
        """Wait until it answers; False when its process ended instead."""
        deadline = time.monotonic() + _START_SECONDS
        while ask_server(state, "/_health") != 200:
            if state.process is None or not state.process.is_alive:
                return False
            if time.monotonic() > deadline:
                raise EnvironmentUnfitError(
                    f"lakeFS at {state.endpoint} gave no answer for {_START_SECONDS:.0f} s:\n"
                    f"{read_tail(self.log)}",
                    hint=f"the whole log is {self.log}",
                )
            time.sleep(_PAUSE_SECONDS)
        # Another server on this port would be healthy too, but it would not know this key.
        if (answer := ask_server(state, "/api/v1/user", authorized=True)) != 200:
            raise EnvironmentUnfitError(
                f"lakeFS at {state.endpoint} does not accept its own credentials ({answer})",
                hint=f"another server listens there, or the database in {self.directory} was made "
                "with credentials that are lost: remove the directory to begin anew",
            )
        return True

    def _server_environment(self, state: LakeFSState) -> dict[str, str]:
        given = self._environment
        return {name: given[name] for name in _KEPT_VARIABLES if name in given} | {
            "LAKEFS_LISTEN_ADDRESS": f"{LOOPBACK}:{state.port}",
            "LAKEFS_DATABASE_TYPE": "local",
            "LAKEFS_DATABASE_LOCAL_PATH": str(self.directory / "database"),
            "LAKEFS_BLOCKSTORE_TYPE": "local",
            "LAKEFS_BLOCKSTORE_LOCAL_PATH": str(self.directory / "blocks"),
            # By default all servers of a user share one cache, which lakeFS does not support.
            "LAKEFS_COMMITTED_LOCAL_CACHE_DIR": str(self.directory / "cache"),
            "LAKEFS_AUTH_ENCRYPT_SECRET_KEY": state.encryption_key,
            "LAKEFS_INSTALLATION_USER_NAME": "perago",
            "LAKEFS_INSTALLATION_ACCESS_KEY_ID": state.access_key_id,
            "LAKEFS_INSTALLATION_SECRET_ACCESS_KEY": state.secret_access_key,
            "LAKEFS_STATS_ENABLED": "false",
            "LAKEFS_SECURITY_CHECK_LATEST_VERSION": "false",
        }
