"""`perago dev`: the servers that development needs, on this machine."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from perago.cli.context import JsonFlag, help_text, options_of
from perago.cli.errors import ExitCode, describe_error, report_error
from perago.cli.output import Output
from perago.domain.errors import EnvironmentUnfitError, UsageError
from perago.domain.outcome import JsonObject, JsonValue

if TYPE_CHECKING:
    from perago.adapters.servers import ServerState
    from perago.cli.dev_servers import AnyDevServer, AnyReport

UP_HELP = help_text(
    "Start lakeFS and Conductor for development, on loopback.",
    {
        "perago dev up": "a second time it says that the servers are up",
        "perago dev up lakefs": "this one only",
        'eval "$(perago dev env)"': "then this shell's commands use them",
    },
    "Takes `lakefs` from PATH; without one, builds the version that Perago is tested with into the "
    "cache, once. It needs Go and a few minutes. Conductor is fetched into the cache with Maven, "
    "once, and needs Java 21 or newer. Where one cannot be had the other starts all the same, and "
    "the command ends with 3. Data stay in `<home>/dev` between starts.",
)
DOWN_HELP = help_text(
    "Stop the development servers.",
    {
        "perago dev down": "their data stay for the next start",
        "perago dev down conductor": "this one only",
        "perago dev down --purge": "remove the data, and the servers' credentials",
    },
)
STATUS_HELP = help_text(
    "Say whether the development servers run.",
    {
        "perago dev status": "exits with 1 when none does, or one is stale",
        "perago dev status conductor": "exits with 1 when it does not run",
    },
    "One is stale when it ended without being stopped; `perago dev up` starts it again.",
)
ENV_HELP = help_text(
    "Print the settings of the development servers, for a shell.",
    {
        "perago dev env": "see those of the servers that run",
        'eval "$(perago dev env)"': "use them in this shell",
    },
    "This prints the secret of a server that listens on loopback only. No other command does.",
)
BUILD_HELP = help_text(
    "Make sure that there is a lakeFS binary and a Conductor jar, and start nothing.",
    {
        "perago dev build": "for an image, or before tests without a network",
        "perago dev build conductor": "this one only",
    },
)


class ServerName(StrEnum):
    """The servers that can be named."""

    LAKEFS = "lakefs"
    CONDUCTOR = "conductor"


Servers = Annotated[
    list[ServerName] | None,
    typer.Argument(
        metavar="[SERVER]...", help="`lakefs`, `conductor`; without one both.", show_default=False
    ),
]
Port = Annotated[
    int | None,
    typer.Option(
        "--port",
        min=1,
        max=65535,
        help="Listen here; without it on the port of the last time, or a free one. "
        "For one server only.",
        show_default=False,
    ),
]


def up(
    context: typer.Context, servers: Servers = None, port: Port = None, as_json: JsonFlag = False
) -> None:
    """Start the servers."""
    from perago.adapters.localfs.home import make_home

    output, options = Output(as_json=as_json), options_of(context)
    chosen = _chosen(context, servers)
    if port is not None and len(chosen) > 1:
        raise UsageError(
            "--port is for one server, and two are to start",
            hint=f"name it: `{options.command('dev', 'up', str(chosen[0].name))} --port {port}`",
        )
    make_home(options.settings().home)
    variables: dict[str, str] = {}

    def start(dev: AnyDevServer) -> JsonObject:
        started = dev.start(port, output)
        said = "started" if started.fresh else "is already up"
        state = started.state
        output.say(f"{dev.title} {state.version} {said}: {state.endpoint} ({_process(state)})")
        output.say(f"its data and its log are in {dev.server.directory}")
        variables.update(dev.variables(state))
        return {**dev.describe(state), "started": started.fresh}

    with_all = _Each(chosen, output)
    answers = with_all.do(start)
    output.answer({"servers": answers})
    if variables:
        _tell_settings(output, options.command("dev", "env"), variables)
    with_all.exit_honestly()


def down(
    context: typer.Context,
    servers: Servers = None,
    purge: Annotated[bool, typer.Option("--purge", help="Also remove their data.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Stop the servers."""
    output = Output(as_json=as_json)

    def stop(dev: AnyDevServer) -> JsonObject:
        stopped = dev.server.stop()
        purged = purge and dev.server.purge()
        output.say(f"{dev.title} stopped" if stopped else f"{dev.title} was not running")
        if purged:
            output.say(f"removed {dev.server.directory}")
        elif dev.server.directory.is_dir():
            output.say(f"its data stay in {dev.server.directory}")
        return {"name": dev.name, "stopped": stopped, "purged": purged}

    with_all = _Each(_chosen(context, servers), output)
    output.answer({"servers": with_all.do(stop)})
    with_all.exit_honestly()


def status(context: typer.Context, servers: Servers = None, as_json: JsonFlag = False) -> None:
    """Say whether the servers run."""
    output = Output(as_json=as_json)
    found = [(dev, dev.server.report()) for dev in _chosen(context, servers)]
    output.answer(
        {
            "servers": [
                dev.describe(report.state)
                | {"status": str(report.status), "answers": report.answers}
                for dev, report in found
            ]
        }
    )
    rows = [
        (
            str(dev.name),
            report.summary,
            "" if report.state is None else report.state.endpoint,
            "" if report.state is None else _process(report.state),
        )
        for dev, report in found
    ]
    output.table(("server", "status", "endpoint", "process"), rows)
    if not _in_use(found, named=bool(servers)):
        raise typer.Exit(ExitCode.FAILED)


def env(context: typer.Context, servers: Servers = None, as_json: JsonFlag = False) -> None:
    """Print settings for a shell."""
    # The one command that is asked for secrets.
    output, options = Output(as_json=as_json, secrets=True), options_of(context)
    found = [(dev, dev.server.report()) for dev in _chosen(context, servers)]
    in_use = _in_use(found, named=bool(servers))
    if not in_use:
        said = ", ".join(f"{dev.title} is {report.summary}" for dev, report in found)
        raise EnvironmentUnfitError(
            f"the development servers are not up: {said}",
            hint=f"start with `{options.command('dev', 'up', *map(str, servers or []))}`",
        )
    variables: dict[str, str] = {}
    for dev, report in in_use:
        variables |= dev.variables(report.state)
    output.answer({"environment": {**variables}})
    for name, value in variables.items():
        output.say(f"export {name}={shlex.quote(value)}")


def build(context: typer.Context, servers: Servers = None, as_json: JsonFlag = False) -> None:
    """Make sure that there are programs."""
    output = Output(as_json=as_json)

    def provide(dev: AnyDevServer) -> JsonObject:
        binary = dev.binary_of(dev.get(output))
        output.say(f"{dev.title} {binary.version}: {binary.path} ({binary.source})")
        return {
            "name": dev.name,
            "version": binary.version,
            "path": str(binary.path),
            "source": binary.source,
        }

    with_all = _Each(_chosen(context, servers), output)
    output.answer({"binaries": with_all.do(provide)})
    with_all.exit_honestly()


class _Each:
    """One deed on every server: what stops one of several does not stop the others."""

    def __init__(self, servers: list[AnyDevServer], output: Output) -> None:
        self._servers = servers
        self._output = output
        self._failed = False

    def do(self, deed: Callable[[AnyDevServer], JsonObject]) -> list[JsonValue]:
        """What the deed gave for each, or the error in its place."""
        if len(self._servers) == 1:
            return [deed(self._servers[0])]
        return [self._try(deed, dev) for dev in self._servers]

    def exit_honestly(self) -> None:
        """End the command with the code of an unfit machine where one was."""
        if self._failed:
            raise typer.Exit(ExitCode.UNFIT)

    def _try(self, deed: Callable[[AnyDevServer], JsonObject], dev: AnyDevServer) -> JsonObject:
        try:
            return deed(dev)
        except EnvironmentUnfitError as error:
            self._failed = True
            if not self._output.as_json:
                report_error(error, as_json=False)
            return {"name": dev.name, "error": describe_error(error)}


def _chosen(context: typer.Context, names: list[ServerName] | None) -> list[AnyDevServer]:
    from perago.cli.dev_servers import dev_servers

    return dev_servers(options_of(context).settings(), names or [])


def _in_use(
    found: list[tuple[AnyDevServer, AnyReport]], *, named: bool
) -> list[tuple[AnyDevServer, AnyReport]]:
    """The servers that run, or nothing where one that should does not.

    One that nobody started, or that was stopped, should run only where it was named.
    """
    from perago.adapters.servers import ServerStatus

    wanted = [
        (dev, report) for dev, report in found if named or report.status is not ServerStatus.STOPPED
    ]
    return wanted if all(report.is_up for _, report in wanted) else []


def _tell_settings(output: Output, command: str, variables: dict[str, str]) -> None:
    from perago.cli.dev_servers import SECRETS

    output.say(f'use it in this shell with: eval "$({command})"')
    output.say("which sets")
    for name, value in variables.items():
        output.say(f"  {name}" if name in SECRETS else f"  {name}={shlex.quote(value)}")


def _process(state: ServerState) -> str:
    return "" if state.process is None else f"process {state.process.pid}"
