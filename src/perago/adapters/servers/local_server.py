"""A server on loopback that keeps everything in one directory, whichever server it is.

Invariant: at most one server runs on a directory, and what is ended is the process that was
recorded, never one that merely got its pid.
"""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import ClassVar, Generic, TypeVar

from perago.adapters.servers.processes import (
    LOOPBACK,
    ChildServer,
    choose_free_port,
    end_process,
    is_port_free,
    read_tail,
    spawn_server,
)
from perago.adapters.servers.programs import Runnable
from perago.adapters.servers.states import ServerState, StateT, read_state, write_state
from perago.domain.errors import EnvironmentUnfitError, UsageError
from perago.system.directories import make_own_directory, remove_own_directory
from perago.system.file_lock import hold_file_lock
from perago.system.tags import Tag

_GIVE_UP_SECONDS = 5.0
_PAUSE_SECONDS = 0.05
_PORT_ATTEMPTS = 3

SERVER_TAG = Tag(
    purpose="a server's data",
    advice="choose another home (--home or PERAGO_HOME), or move the directory away: an earlier "
    "version of Perago, or another program, made it",
)

_KEPT_VARIABLES = ("HOME", "PATH", "TMPDIR", "TZ")


def environment_of_server(given: Mapping[str, str]) -> dict[str, str]:
    """Keep what a server needs of its caller's environment: no settings of others, no secrets."""
    return {name: given[name] for name in _KEPT_VARIABLES if name in given}


ProgramT = TypeVar("ProgramT", bound=Runnable)
SomeStateT_co = TypeVar("SomeStateT_co", bound=ServerState, covariant=True)


class ServerStatus(StrEnum):
    """Whether a server runs. `STALE`: it ended without being stopped."""

    RUNNING = "running"
    STOPPED = "not running"
    STALE = "stale"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerReport(Generic[SomeStateT_co]):
    """How a server was found. `state` is None where none was ever started."""

    status: ServerStatus
    state: SomeStateT_co | None
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
class StartedServer(Generic[SomeStateT_co]):
    """A server that can be used, and whether it was this call that started it."""

    state: SomeStateT_co
    fresh: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """A command, and the variables it gets beside the few that every server gets."""

    command: list[str]
    variables: dict[str, str] = field(default_factory=dict)


class LocalServer(ABC, Generic[ProgramT, StateT]):
    """The server of one directory; any process of this user may start, stop and look at it.

    `tied` ends it with this process, however that ends; else it goes on until it is stopped.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    start_seconds: ClassVar[float]
    stop_seconds: ClassVar[float]
    port_taken: ClassVar[str]
    """What it prints last when somebody else listens on its port."""

    _state_kind: type[StateT]

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
        return self.directory / f"{self.name}.log"

    @abstractmethod
    def _new_state(self, port: int) -> StateT:
        """A server that has never run."""

    @abstractmethod
    def _prepare(self, program: ProgramT, state: StateT) -> Invocation:
        """How it is started; what its directory needs for that is made here."""

    @abstractmethod
    def _answers(self, state: StateT) -> bool:
        """Whether it can be used, as far as one call tells."""

    def _confirm(self, state: StateT) -> None:
        """Refuse a server that answers and still is not to be used."""

    def start(self, program: ProgramT, *, port: int | None = None) -> StartedServer[StateT]:
        """Start it unless it runs, and wait until it answers.

        Without a port it takes the one it had, or a free one where that is taken.
        """
        self._make_directory()
        with self._lock():
            state = self._read_state()
            if state is not None and state.process is not None and state.process.is_alive:
                if port not in (None, state.port):
                    raise UsageError(
                        f"{self.title} already runs at {state.endpoint}, "
                        f"on another port than {port}",
                        hint="stop it first, or use it where it is",
                    )
                if self._wait_until_usable(state):
                    return StartedServer(state=state, fresh=False)
            self._stop(0)  # one that was killed a moment ago may still hold its database
            for _ in range(_PORT_ATTEMPTS):
                chosen = self._choose_port(port, state)
                state = replace(
                    state or self._new_state(chosen), port=chosen, version=program.version
                )
                started = self._launch(program, state)
                if started is not None:
                    return StartedServer(state=started, fresh=True)
            raise EnvironmentUnfitError(
                f"every port that {self.title} was given was taken before it could listen",
                hint="choose one that nobody else takes",
            )

    def stop(self, *, grace_seconds: float | None = None) -> bool:
        """Stop it if it runs; say whether it did. The data stay."""
        if not self.directory.is_dir():
            return False
        with self._lock():
            return self._stop(self.stop_seconds if grace_seconds is None else grace_seconds)

    def kill(self) -> bool:
        """End it as a power failure would."""
        return self.stop(grace_seconds=0)

    def purge(self) -> bool:
        """Stop it and remove everything that it kept; say whether there was anything."""
        if not self.directory.is_dir():
            return False
        with self._lock():
            self._stop(self.stop_seconds)
            return remove_own_directory(self.directory, SERVER_TAG)

    def report(self) -> ServerReport[StateT]:
        """Look at it without changing anything."""
        state = self._read_state()
        if state is None or state.process is None:
            return ServerReport(status=ServerStatus.STOPPED, state=state, answers=False)
        if not state.process.is_alive:
            return ServerReport(status=ServerStatus.STALE, state=state, answers=False)
        answers = self._answers(state)
        return ServerReport(status=ServerStatus.RUNNING, state=state, answers=answers)

    def _read_state(self) -> StateT | None:
        return read_state(self.directory, self._state_kind)

    def _lock(self) -> AbstractContextManager[None]:
        # Beside the directory, for purging removes that.
        return hold_file_lock(self.directory.with_name(f"{self.directory.name}.lock"))

    def _make_directory(self) -> None:
        try:
            make_own_directory(self.directory, SERVER_TAG).close()
        except OSError as error:
            raise EnvironmentUnfitError(
                f"cannot create {self.directory}: {error.strerror}",
                hint="make its parent writable, or choose another home (--home or PERAGO_HOME)",
            ) from error

    def _choose_port(self, wanted: int | None, state: StateT | None) -> int:
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

    def _launch(self, program: ProgramT, state: StateT) -> StateT | None:
        """Start a process and wait until it can be used; None when its port was taken."""
        write_state(self.directory, state.stopped())
        if self.log.exists():
            self.log.replace(self.log.with_suffix(".log.1"))
        kept = environment_of_server(self._environment)
        invocation = self._prepare(program, state)
        child = spawn_server(
            invocation.command,
            environment=kept | invocation.variables,
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
        if self.port_taken in said:
            return None
        raise EnvironmentUnfitError(
            f"{self.title} ended with exit code {code} as it started:\n{said}",
            hint=f"the whole log is {self.log}",
        )

    def _end_child(self, child: ChildServer, state: StateT) -> int:
        """Undo a start that failed, and give the exit code."""
        end_process(child.identity, grace_seconds=_GIVE_UP_SECONDS)
        code = child.reap()
        write_state(self.directory, state.stopped())
        return code

    def _stop(self, grace_seconds: float) -> bool:
        state = self._read_state()
        if state is None or state.process is None:
            return False
        was_alive = state.process.is_alive
        end_process(state.process, grace_seconds=grace_seconds)
        if self._child is not None and self._child.identity == state.process:
            self._child.reap()
        write_state(self.directory, state.stopped())
        return was_alive

    def _wait_until_usable(self, state: StateT) -> bool:
        """Wait until it answers; False when its process ended instead."""
        deadline = time.monotonic() + self.start_seconds
        while not self._answers(state):
            if state.process is None or not state.process.is_alive:
                return False
            if time.monotonic() > deadline:
                raise EnvironmentUnfitError(
                    f"{self.title} at {state.endpoint} gave no answer for "
                    f"{self.start_seconds:.0f} s:\n{read_tail(self.log)}",
                    hint=f"the whole log is {self.log}",
                )
            time.sleep(_PAUSE_SECONDS)
        self._confirm(state)
        return True
