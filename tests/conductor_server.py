"""The Conductor server of the tests: found, never fetched, and one for all processes of a session.

`perago dev build` fetches it; `make test` does that first. The server takes 10 s to start and
needs half a gigabyte, so pytest's parallel workers share one. A process of its own keeps it, for as
long as a worker holds a lock that the operating system releases when the worker dies.
"""

from __future__ import annotations

import fcntl
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from perago.adapters.servers import ConductorProgram, find_conductor, throwaway_conductor
from perago.adapters.servers.processes import read_tail, spawn_server
from perago.domain.errors import EnvironmentUnfitError
from perago.settings import resolve_settings
from perago.system.file_lock import hold_file_lock

MISSING = "needs a Conductor server: run `perago dev build conductor`, which needs Maven"
PROJECT = Path(__file__).parent.parent

_PAUSE_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class SharedConductor:
    """A running server; leave it running, and name what you register after your test."""

    endpoint: str
    log: Path

    @property
    def api(self) -> str:
        """The base of its API."""
        return f"{self.endpoint}/api"


@cache
def look_for_conductor() -> ConductorProgram | str:
    """The server's jar in the user's cache and a Java for it, or why there is none."""
    settings = resolve_settings().settings
    try:
        found = find_conductor(cache=settings.cache_directory, environment=os.environ)
    except EnvironmentUnfitError as error:
        return error.message
    return found or MISSING


@contextmanager
def share_conductor(directory: Path) -> Iterator[SharedConductor]:
    """Use the server of a directory, which is started for the first user and ends with the last."""
    directory.mkdir(exist_ok=True)
    with (directory / "users").open("w") as users:
        # Waits while the keeper of the last users, if there were any, ends their server.
        fcntl.flock(users, fcntl.LOCK_SH)
        with hold_file_lock(directory / "start.lock"):
            if not (directory / "endpoint").exists():
                _start_keeper(directory)
        endpoint = (directory / "endpoint").read_text()
        yield SharedConductor(endpoint, directory / "server" / "conductor.log")


def _start_keeper(directory: Path) -> None:
    paths = [str(PROJECT), str(PROJECT / "src"), os.environ.get("PYTHONPATH", "")]
    log = directory / "keeper.log"
    keeper = spawn_server(
        [sys.executable, "-m", "tests.conductor_server", str(directory)],
        environment={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        log=log,
        tied=False,
    )
    while not (directory / "endpoint").exists():
        if not keeper.identity.is_alive:
            raise EnvironmentUnfitError(f"the tests' Conductor did not start:\n{read_tail(log)}")
        time.sleep(_PAUSE_SECONDS)


def _keep(directory: Path) -> None:
    """Run the server until nobody uses it."""
    program = look_for_conductor()
    assert isinstance(program, ConductorProgram), program
    endpoint = directory / "endpoint"
    # The lock is left last: whoever comes next finds neither a server nor an endpoint.
    with (
        (directory / "users").open("w") as users,
        throwaway_conductor(directory / "server", program) as server,
    ):
        fresh = endpoint.with_suffix(".new")
        fresh.write_text(server.endpoint)
        fresh.replace(endpoint)
        while not _is_alone(users.fileno()):
            time.sleep(_PAUSE_SECONDS)
        endpoint.unlink()


def _is_alone(users: int) -> bool:
    try:
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


if __name__ == "__main__":
    _keep(Path(sys.argv[1]))
