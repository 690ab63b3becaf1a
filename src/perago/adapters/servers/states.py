"""What is remembered of a server between two calls: its process, its port and what else it needs.

Invariant: only the owner can read it, and it is replaced whole.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Self, TypeVar

from perago.adapters.localfs.processes import ProcessIdentity
from perago.adapters.servers.processes import LOOPBACK
from perago.domain.errors import EnvironmentUnfitError

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
        document = json.loads(path.read_text(encoding="utf-8"))
        process = document.pop("process")
        return kind(**document, process=None if process is None else ProcessIdentity(**process))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise EnvironmentUnfitError(
            f"{path} is no state of a server",
            hint=f"see that no server runs on {directory}, then remove that directory",
        ) from error


def write_state(directory: Path, state: ServerState) -> None:
    """Replace the state; the caller holds the directory's lock."""
    path = directory / _STATE_NAME
    fresh = path.with_suffix(".new")
    with suppress(FileNotFoundError):
        fresh.unlink()
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(asdict(state), file, indent=2)
    fresh.replace(path)
