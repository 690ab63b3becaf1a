"""Servers for the length of a test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Generic

from perago.adapters.servers.conductor import ConductorServer, ConductorState
from perago.adapters.servers.conductor_program import ConductorProgram
from perago.adapters.servers.lakefs import LakeFSServer, LakeFSState
from perago.adapters.servers.local_server import LocalServer, ProgramT
from perago.adapters.servers.program_cache import Binary
from perago.adapters.servers.states import StateT

_STOP_SECONDS = 5.0


class Throwaway(Generic[ProgramT, StateT]):
    """A server that ends with this process, and that a test may stop, kill and start again."""

    def __init__(self, server: LocalServer[ProgramT, StateT], program: ProgramT) -> None:
        self._server = server
        self._program = program
        self._state = server.start(program).state

    @property
    def endpoint(self) -> str:
        """Where it listens, also after another start."""
        return self._state.endpoint

    @property
    def port(self) -> int:
        """The port of the endpoint."""
        return self._state.port

    @property
    def pid(self) -> int | None:
        """The process, while there is one."""
        return None if self._state.process is None else self._state.process.pid

    @property
    def log(self) -> Path:
        """What it printed since the last start."""
        return self._server.log

    def start(self) -> None:
        """Start it again: same port, same data. Nothing happens while it runs."""
        self._state = self._server.start(self._program, port=self.port).state

    def stop(self) -> None:
        """Stop it in order."""
        self._server.stop(grace_seconds=_STOP_SECONDS)
        self._state = self._state.stopped()

    def kill(self) -> None:
        """End it as a power failure would."""
        self._server.kill()
        self._state = self._state.stopped()


class ThrowawayLakeFS(Throwaway[Binary, LakeFSState]):
    """A lakeFS server of a test's own."""

    def __init__(self, directory: Path, binary: Binary) -> None:
        super().__init__(LakeFSServer(directory, tied=True), binary)

    @property
    def access_key_id(self) -> str:
        """The administrator's key."""
        return self._state.access_key_id

    @property
    def secret_access_key(self) -> str:
        """The secret that goes with it."""
        return self._state.secret_access_key


class ThrowawayConductor(Throwaway[ConductorProgram, ConductorState]):
    """A Conductor server of a test's own."""

    def __init__(self, directory: Path, program: ConductorProgram) -> None:
        super().__init__(ConductorServer(directory, tied=True), program)

    @property
    def api(self) -> str:
        """The base of its API."""
        return self._state.api


@contextmanager
def throwaway_lakefs(directory: Path, binary: Binary) -> Iterator[ThrowawayLakeFS]:
    """Start a server that keeps everything in a directory, and stop it at the end of the block."""
    server = ThrowawayLakeFS(directory, binary)
    try:
        yield server
    finally:
        server.stop()


@contextmanager
def throwaway_conductor(directory: Path, program: ConductorProgram) -> Iterator[ThrowawayConductor]:
    """Start a server that keeps everything in a directory, and stop it at the end of the block."""
    server = ThrowawayConductor(directory, program)
    try:
        yield server
    finally:
        server.stop()
