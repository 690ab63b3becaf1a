"""A lakeFS server on loopback, with its database and blocks in one directory.

Invariant: its credentials are remembered before a database is made with them, so that a database
never lacks them.
"""

from __future__ import annotations

import secrets
from base64 import b64encode
from dataclasses import dataclass, field

from perago.adapters.servers.answers import ask_server
from perago.adapters.servers.local_server import Invocation, LocalServer
from perago.adapters.servers.processes import LOOPBACK
from perago.adapters.servers.program_cache import Binary
from perago.adapters.servers.states import ServerState
from perago.domain.errors import EnvironmentUnfitError


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeFSState(ServerState):
    """A lakeFS server, with its administrator's credentials."""

    access_key_id: str
    secret_access_key: str = field(repr=False)
    encryption_key: str = field(repr=False)


class LakeFSServer(LocalServer[Binary, LakeFSState]):
    """The lakeFS server of one directory."""

    name = "lakefs"
    title = "lakeFS"
    start_seconds = 60.0
    stop_seconds = 35.0  # lakeFS itself gives calls under way 30 seconds
    port_taken = "address already in use"
    _state_kind = LakeFSState

    def _new_state(self, port: int) -> LakeFSState:
        return LakeFSState(
            port=port,
            access_key_id="PERAGO" + secrets.token_hex(7).upper(),
            secret_access_key=secrets.token_urlsafe(30),
            encryption_key=secrets.token_urlsafe(30),
        )

    def _prepare(self, program: Binary, state: LakeFSState) -> Invocation:
        configuration = self.directory / "lakefs.yaml"
        # An empty one of its own: without it the server would read one of the user's.
        configuration.touch(mode=0o600)
        return Invocation(
            command=[str(program.path), "--config", str(configuration), "run"],
            variables=self._variables(state),
        )

    def _variables(self, state: LakeFSState) -> dict[str, str]:
        return {
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

    def _answers(self, state: LakeFSState) -> bool:
        answer = ask_server(state.port, "/_health")
        return answer is not None and answer.status == 200

    def _confirm(self, state: LakeFSState) -> None:
        # Another server on this port would be healthy too, but it would not know this key.
        pair = b64encode(f"{state.access_key_id}:{state.secret_access_key}".encode()).decode()
        answer = ask_server(state.port, "/api/v1/user", headers={"Authorization": f"Basic {pair}"})
        if answer is None or answer.status != 200:
            said = None if answer is None else answer.status
            raise EnvironmentUnfitError(
                f"lakeFS at {state.endpoint} does not accept its own credentials ({said})",
                hint=f"another server listens there, or the database in {self.directory} was made "
                "with credentials that are lost: remove the directory to begin anew",
            )
