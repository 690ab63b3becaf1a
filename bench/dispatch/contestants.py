"""Who is measured, each as a command line: Perago, the public peer, and the bare loop."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.dispatch.options import BARE, PEER, PERAGO
from bench.process_tree import PROJECT
from bench.transfer.environment import make_peer_environment

EXECUTORS = "2"


@dataclass(frozen=True, slots=True, kw_only=True)
class Contestant:
    """A worker for tasks of one name."""

    name: str
    task_name: str
    command: list[str]
    environment: Mapping[str, str]

    @property
    def is_worker(self) -> bool:
        """Whether it is more than a loop, and may be idle."""
        return self.name in (PERAGO, PEER)


def make_contestant(name: str, api: str, place: Path) -> Contestant:
    """One of `CONTESTANTS`; the peer is installed first, once."""
    match name:
        case "perago":
            return _perago(api, place)
        case "peer":
            return _peer(api, place)
        case _:
            return _bare_loop(name, api)


def _perago(api: str, place: Path) -> Contestant:
    target = "bench.dispatch.perago_task"
    return Contestant(
        name=PERAGO,
        task_name="dispatch_perago",
        command=[sys.executable, "-m", "perago", "start", target, "-j", EXECUTORS],
        environment={"PERAGO_HOME": str(place / "home"), "PERAGO_CONDUCTOR_URL": api},
    )


def _peer(api: str, place: Path) -> Contestant:
    python = make_peer_environment()
    command = [str(python.with_name("perago")), "start", "bench.dispatch.peer_task"]
    return Contestant(
        name=PEER,
        task_name="dispatch_peer",
        command=[*command, "-j", EXECUTORS],
        environment={
            "PYTHONPATH": str(PROJECT),
            "CONDUCTOR_SERVER_URL": api,
            "PERAGO_WORKSPACE_ROOT": str(place / "peer-workspaces"),
            "PERAGO_LOG_ROOT": str(place / "peer-logs"),
            "PERAGO_WORKER_ID_PREFIX": "bench",
        },
    )


def _bare_loop(name: str, api: str) -> Contestant:
    task_name = "dispatch_bare"
    loop = [sys.executable, "-m", "bench.dispatch.bare_loop", api, task_name, str(BARE[name])]
    return Contestant(name=name, task_name=task_name, command=loop, environment={})
