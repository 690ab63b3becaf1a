"""`perago dev`: the servers that development needs, on this machine."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

from perago.cli.context import JsonFlag, help_text, options_of
from perago.cli.errors import ExitCode
from perago.cli.output import Output
from perago.domain.errors import EnvironmentUnfitError
from perago.domain.outcome import JsonObject
from perago.settings import Settings

if TYPE_CHECKING:
    from perago.adapters.servers import Binary, LakeFSServer, LakeFSState, Progress, StartedLakeFS

UP_HELP = help_text(
    "Start a lakeFS server for development, on loopback.",
    {
        "perago dev up": "a second time it says that the server is up",
        'eval "$(perago dev env)"': "then this shell's commands use it",
    },
    "Takes `lakefs` from PATH; without one, builds the version that Perago is tested with into the "
    "cache, once. It needs Go and a few minutes. Data stay in `<home>/dev/lakefs` between starts.",
)
DOWN_HELP = help_text(
    "Stop the development server.",
    {
        "perago dev down": "its data stay for the next start",
        "perago dev down --purge": "remove them, and the server's credentials",
    },
)
STATUS_HELP = help_text(
    "Say whether the development server runs.",
    {"perago dev status": "exits with 1 when it does not"},
    "It is stale when it ended without being stopped; `perago dev up` starts it again.",
)
ENV_HELP = help_text(
    "Print the settings of the development server, for a shell.",
    {
        "perago dev env": "see them",
        'eval "$(perago dev env)"': "use the server in this shell",
    },
    "This prints the secret of a server that listens on loopback only. No other command does.",
)
BUILD_HELP = help_text(
    "Make sure that there is a lakeFS binary, and start nothing.",
    {"perago dev build": "for an image, or before tests without a network"},
)

_SECRET = "PERAGO_LAKEFS_SECRET_ACCESS_KEY"  # noqa: S105 - its name

Port = Annotated[
    int | None,
    typer.Option(
        "--port",
        min=1,
        max=65535,
        help="Listen here; without it on the port of the last time, or a free one.",
        show_default=False,
    ),
]


def up(context: typer.Context, port: Port = None, as_json: JsonFlag = False) -> None:
    """Start the server."""
    from perago.adapters.localfs.home import make_home

    output, options = Output(as_json=as_json), options_of(context)
    settings = options.settings()
    make_home(settings.home)
    server = _server_of(settings)
    started = _start(server, settings, port, output)
    state = started.state
    said = "started" if started.fresh else "is already up"
    output.answer({"servers": [{**_describe(server, state), "started": started.fresh}]})
    output.say(f"lakeFS {state.version} {said}: {state.endpoint} ({_process(state)})")
    output.say(f"its data and its log are in {server.directory}")
    output.say(f'use it in this shell with: eval "$({options.command("dev", "env")})"')
    output.say("which sets")
    for name, value in _settings_of(state).items():
        output.say(f"  {name}" if name == _SECRET else f"  {name}={shlex.quote(value)}")


def down(
    context: typer.Context,
    purge: Annotated[bool, typer.Option("--purge", help="Also remove its data.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Stop the server."""
    output = Output(as_json=as_json)
    server = _server_of(options_of(context).settings())
    stopped = server.stop()
    purged = purge and server.purge()
    output.answer({"servers": [{"name": "lakefs", "stopped": stopped, "purged": purged}]})
    output.say("lakeFS stopped" if stopped else "lakeFS was not running")
    if purged:
        output.say(f"removed {server.directory}")
    elif server.directory.is_dir():
        output.say(f"its data stay in {server.directory}")


def status(context: typer.Context, as_json: JsonFlag = False) -> None:
    """Say whether the server runs."""
    output = Output(as_json=as_json)
    server = _server_of(options_of(context).settings())
    report = server.report()
    shown = _describe(server, report.state)
    shown |= {"status": str(report.status), "answers": report.answers}
    output.answer({"servers": [shown]})
    endpoint = "" if report.state is None else report.state.endpoint
    process = "" if report.state is None else _process(report.state)
    output.table(
        ("server", "status", "endpoint", "process"), [("lakefs", report.summary, endpoint, process)]
    )
    if not report.is_up:
        raise typer.Exit(ExitCode.FAILED)


def env(context: typer.Context, as_json: JsonFlag = False) -> None:
    """Print settings for a shell."""
    output, options = Output(as_json=as_json), options_of(context)
    report = _server_of(options.settings()).report()
    if report.state is None or not report.is_up:
        raise EnvironmentUnfitError(
            f"the development server is not up ({report.summary})",
            hint=f"start it with `{options.command('dev', 'up')}`",
        )
    variables = _settings_of(report.state)
    output.answer({"environment": {**variables}})
    for name, value in variables.items():
        output.say(f"export {name}={shlex.quote(value)}")


def build(context: typer.Context, as_json: JsonFlag = False) -> None:
    """Make sure that there is a binary."""
    output = Output(as_json=as_json)
    binary = _provide(options_of(context).settings(), output)
    output.answer(
        {
            "binaries": [
                {
                    "name": binary.program.name,
                    "version": binary.version,
                    "path": str(binary.path),
                    "source": binary.source,
                }
            ]
        }
    )
    output.say(f"lakeFS {binary.version}: {binary.path} ({binary.source})")


def _server_of(settings: Settings) -> LakeFSServer:
    from perago.adapters.servers import LakeFSServer

    return LakeFSServer(settings.home / "dev" / "lakefs")


def _start(
    server: LakeFSServer, settings: Settings, port: int | None, output: Output
) -> StartedLakeFS:
    from perago.adapters.servers import StartedLakeFS

    report = server.report()
    if report.is_up and report.state is not None and port in (None, report.state.port):
        return StartedLakeFS(state=report.state, fresh=False)  # nothing to build for
    started = server.start(_provide(settings, output), port=port)
    if report.state is not None and started.state.port != report.state.port:
        output.note(
            f"warning: it had port {report.state.port} before: renew the settings of shells"
        )
    return started


def _provide(settings: Settings, output: Output) -> Binary:
    from perago.adapters.servers import LAKEFS, provide_binary

    with _show_progress(output) as progress:
        binary = provide_binary(
            LAKEFS, cache=settings.cache_directory, environment=os.environ, progress=progress
        )
    if binary.warning is not None:
        output.note(f"warning: {binary.warning}")
    return binary


@contextmanager
def _show_progress(output: Output) -> Iterator[Progress]:
    """A line that is redrawn on a terminal; else a line now and then. Always on stderr."""
    from perago.adapters.servers import Progress

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


def _settings_of(state: LakeFSState) -> dict[str, str]:
    return {
        "PERAGO_STORE": "lakefs",
        "PERAGO_LAKEFS_ENDPOINT": state.endpoint,
        "PERAGO_LAKEFS_ACCESS_KEY_ID": state.access_key_id,
        _SECRET: state.secret_access_key,
    }


def _describe(server: LakeFSServer, state: LakeFSState | None) -> JsonObject:
    """A server for programs, without its secret."""
    process = None if state is None else state.process
    return {
        "name": "lakefs",
        "version": None if state is None else state.version,
        "endpoint": None if state is None else state.endpoint,
        "access_key_id": None if state is None else state.access_key_id,
        "pid": None if process is None else process.pid,
        "directory": str(server.directory),
        "log": str(server.log),
    }


def _process(state: LakeFSState) -> str:
    return "" if state.process is None else f"process {state.process.pid}"
