"""The development servers as `perago dev` sees them: what each is made from, says and sets.

Invariant: what describes a server holds no secret; what sets a shell up does.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Generic

from rich.console import Console
from rich.text import Text

from perago.adapters.servers import (
    LAKEFS,
    Binary,
    ConductorProgram,
    ConductorServer,
    ConductorState,
    LakeFSServer,
    LakeFSState,
    LocalServer,
    Progress,
    ServerReport,
    ServerState,
    StartedServer,
    provide_binary,
    provide_conductor,
)
from perago.adapters.servers.local_server import ProgramT
from perago.adapters.servers.states import StateT
from perago.cli.output import Output
from perago.domain.outcome import JsonObject
from perago.settings import Settings

SECRETS = frozenset({"PERAGO_LAKEFS_SECRET_ACCESS_KEY"})
"""Variables whose values only `perago dev env` prints."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DevServer(Generic[ProgramT, StateT]):
    """A server of a home. `provide` finds its program, or makes it; that can take minutes."""

    server: LocalServer[ProgramT, StateT]
    provide: Callable[[Progress], ProgramT]
    binary_of: Callable[[ProgramT], Binary]
    variables: Callable[[StateT], dict[str, str]]
    """What a shell sets to use it."""
    shown: tuple[str, ...] = field(default=())
    """Fields of its state that programs are told, beside those of every server."""

    @property
    def name(self) -> str:
        """As the command line calls it."""
        return self.server.name

    @property
    def title(self) -> str:
        """As people call it."""
        return self.server.title

    def get(self, output: Output) -> ProgramT:
        """Its program, with progress shown."""
        with show_progress(output) as progress:
            program = self.provide(progress)
        if (warning := self.binary_of(program).warning) is not None:
            output.note(f"warning: {warning}")
        return program

    def start(self, port: int | None, output: Output) -> StartedServer[StateT]:
        """Start it unless it is up."""
        report = self.server.report()
        if report.is_up and report.state is not None and port in (None, report.state.port):
            return StartedServer(state=report.state, fresh=False)  # nothing to make it from
        program = self.get(output)
        with show_progress(output) as progress:
            progress.say(f"starting {self.title} {program.version} …")
            started = self.server.start(program, port=port)
        if report.state is not None and started.state.port != report.state.port:
            output.note(
                f"warning: it had port {report.state.port} before: renew the settings of shells"
            )
        return started

    def describe(self, state: StateT | None) -> JsonObject:
        """It, for programs."""
        process = None if state is None else state.process
        return {
            "name": self.name,
            "version": None if state is None else state.version,
            "endpoint": None if state is None else state.endpoint,
            **{name: getattr(state, name, None) for name in self.shown},
            "pid": None if process is None else process.pid,
            "directory": str(self.server.directory),
            "log": str(self.server.log),
        }


AnyDevServer = DevServer[Any, Any]
AnyReport = ServerReport[ServerState]


def dev_servers(settings: Settings, names: Sequence[str]) -> list[AnyDevServer]:
    """The servers of these names, or all of them."""
    every: list[AnyDevServer] = [_lakefs(settings), _conductor(settings)]
    return [server for server in every if not names or server.name in names]


def _lakefs(settings: Settings) -> DevServer[Binary, LakeFSState]:
    def provide(progress: Progress) -> Binary:
        return provide_binary(
            LAKEFS, cache=settings.cache_directory, environment=os.environ, progress=progress
        )

    return DevServer(
        server=LakeFSServer(settings.home / "dev" / "lakefs"),
        provide=provide,
        binary_of=lambda binary: binary,
        variables=lambda state: {
            "PERAGO_STORE": "lakefs",
            "PERAGO_LAKEFS_ENDPOINT": state.endpoint,
            "PERAGO_LAKEFS_ACCESS_KEY_ID": state.access_key_id,
            "PERAGO_LAKEFS_SECRET_ACCESS_KEY": state.secret_access_key,
        },
        shown=("access_key_id",),
    )


def _conductor(settings: Settings) -> DevServer[ConductorProgram, ConductorState]:
    def provide(progress: Progress) -> ConductorProgram:
        return provide_conductor(
            cache=settings.cache_directory, environment=os.environ, progress=progress
        )

    return DevServer(
        server=ConductorServer(settings.home / "dev" / "conductor"),
        provide=provide,
        binary_of=lambda program: program.jar,
        variables=lambda state: {"PERAGO_CONDUCTOR_URL": state.api},
        shown=("api",),
    )


@contextmanager
def show_progress(output: Output) -> Iterator[Progress]:
    """A line that is redrawn on a terminal; else a line now and then. Always on stderr."""
    console = Console(stderr=True)
    if not console.is_terminal or console.is_dumb_terminal:
        yield Progress(say=output.note)
        return
    line = console.status("")

    def redraw(text: str) -> None:
        line.update(Text(text))
        line.start()

    try:
        yield Progress(say=redraw, every_seconds=1.0)
    finally:
        line.stop()
