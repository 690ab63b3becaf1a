"""A Conductor server on loopback, with its SQLite database in one directory.

Invariant: it reaches no other machine of its own accord, reads no settings but those it is given
here, and writes nowhere but into its directory.
"""

from __future__ import annotations

import json
import secrets
from contextlib import suppress
from dataclasses import dataclass

from perago.adapters.servers.answers import ask_server
from perago.adapters.servers.conductor_program import CONDUCTOR_PROPERTIES, ConductorProgram
from perago.adapters.servers.local_server import SERVER_TAG, Invocation, LocalServer
from perago.adapters.servers.states import ServerState
from perago.domain.errors import EnvironmentUnfitError
from perago.system.directories import make_own_directory

_DATABASE_OPTIONS = "busy_timeout=15000&journal_mode=WAL&synchronous=NORMAL"
"""The server's own choice, and no wait for the disk at every commit: a killed server loses nothing,
a power failure the last moments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConductorState(ServerState):
    """A Conductor server; `instance` is what it calls itself."""

    instance: str

    @property
    def api(self) -> str:
        """The base of its API."""
        return f"{self.endpoint}/api"


class ConductorServer(LocalServer[ConductorProgram, ConductorState]):
    """The Conductor server of one directory."""

    name = "conductor"
    title = "Conductor"
    start_seconds = 300.0  # 10 on an idle machine, 150 seen on one with ten times its load
    stop_seconds = 35.0  # Spring itself gives calls under way 30 seconds
    port_taken = "was already in use"
    _state_kind = ConductorState

    def _new_state(self, port: int) -> ConductorState:
        return ConductorState(port=port, instance=secrets.token_hex(16))

    def _prepare(self, program: ConductorProgram, state: ConductorState) -> Invocation:
        database = self.directory / "conductor.db"
        if "?" in str(database):
            raise EnvironmentUnfitError(
                f"Conductor cannot keep a database in {self.directory}: a question mark is in it",
                hint="choose another home (--home or PERAGO_HOME)",
            )
        scratch = self.directory / "tmp"
        with make_own_directory(self.directory, SERVER_TAG) as own:
            # A killed server leaves what it unpacked.
            with suppress(OSError):
                own.remove_tree(scratch.name)
            own.below(scratch.name).close()
        properties = CONDUCTOR_PROPERTIES | {
            "server.port": str(state.port),
            "spring.datasource.url": f"jdbc:sqlite:{database}?{_DATABASE_OPTIONS}",
            "info.instance": state.instance,
        }
        command = [
            str(program.java),
            "-Xmx512m",
            "-XX:-UsePerfData",
            f"-XX:ErrorFile={self.directory / 'java-crash.log'}",
            f"-Djava.io.tmpdir={scratch}",
            f"-Duser.home={self.directory}",
            *program.launch,
            *(f"--{name}={value}" for name, value in properties.items()),
        ]
        return Invocation(command=command)

    def _answers(self, state: ConductorState) -> bool:
        # It listens late: until then another server may be healthy on its port.
        return self._is_ours(state) and self._is_healthy(state)

    def _is_ours(self, state: ConductorState) -> bool:
        answer = ask_server(state.port, "/actuator/info")
        try:
            return answer is not None and json.loads(answer.body)["instance"] == state.instance
        except (ValueError, KeyError, TypeError):
            return False

    def _is_healthy(self, state: ConductorState) -> bool:
        answer = ask_server(state.port, "/health")
        return answer is not None and answer.status == 200
