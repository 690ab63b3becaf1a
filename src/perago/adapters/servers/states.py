"""What is remembered of a server between two calls: its process, its port and what else it needs.

Invariant: only the owner can read it, and it is replaced whole.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Self, TypeVar

from perago.adapters.servers.processes import LOOPBACK
from perago.domain.errors import EnvironmentUnfitError
from perago.system import state_files
from perago.system.processes import ProcessIdentity

_STATE_NAME = "state.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerState:
    """A server on loopback. `process` is the one that was started last, and not stopped since."""

    port: int
    version: str | None = None
    process: ProcessIdentity | None = None

    @property
    def endpoint(self) -> str:
        """Where it listens."""
        return f"http://{LOOPBACK}:{self.port}"

    def stopped(self) -> Self:
        """The same server without a process."""
        return replace(self, process=None)


StateT = TypeVar("StateT", bound=ServerState)


def read_state(directory: Path, kind: type[StateT]) -> StateT | None:
    """The state, or None where no server was ever started."""
    path = directory / _STATE_NAME
    try:
        return _parse_state(state_files.read_state(path), kind)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise EnvironmentUnfitError(
            f"{path} is no state of a server",
            hint=f"see that no server runs on {directory}, then remove that directory",
        ) from error


def _parse_state(document: object, kind: type[StateT]) -> StateT:
    if not isinstance(document, dict):
        raise TypeError("it is no object")
    process = document.pop("process")
    state_files.whole_number(document["port"], least=1, most=65535)
    for name in document.keys() - {"port"}:
        if document[name] is not None:
            state_files.text_of(document[name])
    identity = None if process is None else ProcessIdentity.from_json(process)
    return kind(**document, process=identity)


def write_state(directory: Path, state: ServerState) -> None:
    """Replace the state; the caller holds the directory's lock."""
    opened = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        content = json.dumps(asdict(state), indent=2).encode()
        state_files.write_state(_STATE_NAME, content, directory=opened)
    finally:
        os.close(opened)
