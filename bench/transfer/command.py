"""What `python -m bench transfer` does, from its flags to its tables."""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from bench.place import make_place
from bench.transfer.contest import MAIN, Attempt, Contest, Seeded, make_source
from bench.transfer.contestants import Cache, Contestant, Copy, Lakectl, Peer, Perago
from bench.transfer.environment import make_peer_environment, provide
from bench.transfer.options import MEMORY, MEMORY_SIZES, Options, parse_options
from bench.transfer.perago_store import import_with_perago
from bench.transfer.report import show_memory, show_workspace, write_json
from bench.transfer.server import Server, start_server
from bench.transfer.workload import WORKSPACES, Scenario, Workspace
from perago.adapters.servers import LAKECTL, LAKEFS
from perago.domain.errors import EnvironmentUnfitError


def run(arguments: Sequence[str]) -> None:
    """Start the server, run everything, and free the disk."""
    options = parse_options(arguments)
    try:
        lakefs, lakectl = provide(LAKEFS), provide(LAKECTL)
    except EnvironmentUnfitError as error:
        print(f"skipped: {error}")
        return
    with make_place(options.place) as place, start_server(lakefs, place / "server") as server:
        bench = TransferBench(options, server, lakectl.path, place)
        for workspace in options.workspaces:
            if workspace == MEMORY:
                bench.measure_memory()
            else:
                bench.compare(WORKSPACES[workspace])
    if options.json is not None:
        conditions = {"lakefs": lakefs.version, "seed_with": options.seed_with}
        write_json(options.json, conditions, bench.attempts)


class TransferBench:
    """Prepares workspaces on a server and has the contestants run on them."""

    def __init__(self, options: Options, server: Server, lakectl: Path, place: Path) -> None:
        self.attempts: list[Attempt] = []
        self._options = options
        self._server = server
        self._lakectl = Lakectl(server=server, binary=lakectl)
        self._place = place
        self._contest = Contest(server, place)

    def compare(self, workspace: Workspace) -> None:
        """All contestants on one workspace, and its tables."""
        options = self._options
        contestants = self._contestants()
        seeded = self._seed(workspace)
        attempts = []
        for attempt in self._contest.run(seeded, contestants, options.scenarios, options.rounds):
            attempts.append(attempt)
            print(
                f"  {attempt.workspace} {attempt.scenario:12} {attempt.contestant:12}"
                f"{attempt.run.seconds:8.2f} s",
                flush=True,
            )
        self._remove(seeded)
        self.attempts += attempts
        show_workspace(workspace, attempts)

    def measure_memory(self) -> None:
        """Rewrite one file of several sizes, each in an attempt of its own."""
        attempts = []
        for size in MEMORY_SIZES:
            workspace = Workspace(name=f"M{size}", count=1, size=size)
            seeded = self._seed(workspace)
            only = {"perago": self._contestant("perago")}
            attempts += list(self._contest.run(seeded, only, [Scenario.REWRITE_ALL], 1))
            self._remove(seeded)
        self.attempts += attempts
        show_memory(attempts)

    def _contestants(self) -> dict[str, Contestant]:
        """Those that were asked for; without a network the first time, the peer is left out."""
        found: dict[str, Contestant] = {}
        for name in self._options.contestants:
            try:
                found[name] = self._contestant(name)
            except subprocess.CalledProcessError as error:
                print(f"{name} is left out, it could not be installed: {error}")
        return found

    def _contestant(self, name: str) -> Contestant:
        server, concurrency = self._server, self._options.concurrency
        match name:
            case "peer":
                return Peer(server=server, python=make_peer_environment())
            case "lakectl":
                return self._lakectl
            case "cp":
                return Copy()
            case "perago-off":
                return Perago(server=server, cache=Cache.OFF, concurrency=concurrency)
            case "perago-warm":
                return Perago(server=server, cache=Cache.WARM, concurrency=concurrency)
            case _:
                return Perago(server=server, cache=Cache.COLD, concurrency=concurrency)

    def _seed(self, workspace: Workspace) -> Seeded:
        """Make the files and import them into a repository of their own."""
        source = make_source(workspace, self._place)
        repository = f"bench-{workspace.name.lower()}"
        self._server.create_repository(repository)
        if self._options.seed_with == "perago":
            import_with_perago(self._server, source, repository)
        else:
            self._lakectl.import_directory(source, repository)
        return Seeded(
            workspace=workspace,
            repository=repository,
            ref=self._server.head(repository, MAIN),
            source=source,
        )

    def _remove(self, seeded: Seeded) -> None:
        self._server.delete_repository(seeded.repository)
        shutil.rmtree(seeded.source)
