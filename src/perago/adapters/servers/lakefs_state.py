"""What is remembered of a lakeFS server between two calls: its process, port and credentials.

Invariant: only the owner can read it, it is replaced whole, and it is written before a database is
made with its credentials, so that a database never lacks them.
"""

from __future__ import annotations

import json
import os
import secrets
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from perago.adapters.localfs.processes import ProcessIdentity
from perago.adapters.servers.processes import LOOPBACK
from perago.domain.errors import EnvironmentUnfitError

_STATE_NAME = "state.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeFSState:
    """A server on loopback. `process` is the one that was started last, and not stopped since."""

    port: int
    access_key_id: str
    secret_access_key: str = field(repr=False)
    encryption_key: str = field(repr=False)
    version: str | None = None
    process: ProcessIdentity | None = None

    @property
    def endpoint(self) -> str:
        """Where it listens."""
        return f"http://{LOOPBACK}:{self.port}"

    def stopped(self) -> LakeFSState:
        """The same server without a process."""
        return replace(self, process=None)


def new_state(port: int) -> LakeFSState:
    """A server that has never run, with credentials of its own."""
    return LakeFSState(
        port=port,
        access_key_id="PERAGO" + secrets.token_hex(7).upper(),
        secret_access_key=secrets.token_urlsafe(30),
        encryption_key=secrets.token_urlsafe(30),
    )


def read_state(directory: Path) -> LakeFSState | None:
    """The state, or None where no server was ever started."""
    path = directory / _STATE_NAME
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        process = document.pop("process")
        return LakeFSState(
            **document, process=None if process is None else ProcessIdentity(**process)
        )
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise EnvironmentUnfitError(
            f"{path} is no state of a server",
            hint=f"see that no server runs on {directory}, then remove that directory",
        ) from error


def write_state(directory: Path, state: LakeFSState) -> None:
    """Replace the state; the caller holds the directory's lock."""
    path = directory / _STATE_NAME
    fresh = path.with_suffix(".new")
    with suppress(FileNotFoundError):
        fresh.unlink()
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(asdict(state), file, indent=2)
    fresh.replace(path)
