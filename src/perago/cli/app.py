"""The commands, put together, and the one place where a call of `perago` begins and ends."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated

import typer

from perago.cli import (
    check,
    control,
    demo,
    dev,
    doctor,
    extract,
    gc,
    jars,
    logs,
    register,
    run,
    start,
    status,
    store,
    store_transfer,
)
from perago.cli.context import EXIT_CODES, GlobalOptions, help_text
from perago.cli.errors import (
    DEBUG_VARIABLE,
    ExitCode,
    report_bug,
    report_error,
    report_os_error,
    report_usage,
    show_traceback,
)
from perago.cli.known_secrets import forget_secrets
from perago.cli.output import Output
from perago.cli.warned import warnings_to
from perago.domain.errors import PeragoError

PROGRAM = "perago"

ROOT_HELP = help_text(
    "Run typed Python data tasks over versioned workspaces; each writing step is one commit.",
    {
        "perago demo": "a Spark pipeline on real data, from nothing",
        "perago run flights.py": "your own pipeline, here",
        "perago status last": "what the last run did",
        "perago store log flights": "what it made of the data",
    },
)
STORE_HELP = help_text(
    "Repositories, their objects and their history.",
    {
        "perago store init flights": "create a repository",
        "perago store import ./raw flights --prefix raw": "commit files to it",
        "perago store log flights": "see its history",
    },
    "A place is written REPO or REPO@REF; REF is a branch, a commit, or the first 8 or more "
    "digits of one. Without REF it is the default branch.",
    "The store is the embedded one in the home, or on a lakeFS server where the settings name one "
    "(PERAGO_LAKEFS_ENDPOINT, or PERAGO_STORE=lakefs with what lakectl has). Two racing writers of "
    "a branch exclude each other on the embedded store (atomic fence); on lakeFS they are found "
    "out afterwards (soft fence).",
)
DEV_HELP = help_text(
    "The servers that development needs, on this machine.",
    {
        "perago dev up": "start lakeFS and Conductor on loopback",
        'eval "$(perago dev env)"': "use them in this shell",
        "perago dev down": "stop them",
    },
)

app = typer.Typer(
    help=ROOT_HELP,
    epilog=EXIT_CODES,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    add_completion=False,
)
store_app = typer.Typer(help=STORE_HELP, epilog=EXIT_CODES, rich_markup_mode="rich")
app.add_typer(store_app, name="store")
dev_app = typer.Typer(help=DEV_HELP, epilog=EXIT_CODES, rich_markup_mode="rich")
app.add_typer(dev_app, name="dev")


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    home: Annotated[
        Path | None,
        typer.Option(
            "--home",
            help="Where Perago keeps everything (PERAGO_HOME, else .perago).",
            show_default=False,
        ),
    ] = None,
    version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False,
    debug: Annotated[  # noqa: ARG001 - read before anything is parsed
        bool, typer.Option("--debug", help=f"Show tracebacks (or set {DEBUG_VARIABLE}=1).")
    ] = False,
) -> None:
    """The options of every command."""
    if version:
        from perago import __version__

        typer.echo(f"{PROGRAM} {__version__}")
        raise typer.Exit
    context.obj = GlobalOptions(home=home)
    _help_without_command(context)


@store_app.callback(invoke_without_command=True)
def store_root(context: typer.Context) -> None:
    """The commands on the store."""
    _help_without_command(context)


@dev_app.callback(invoke_without_command=True)
def dev_root(context: typer.Context) -> None:
    """The commands on development servers."""
    _help_without_command(context)


def _help_without_command(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit


app.command("run", help=run.HELP, epilog=EXIT_CODES)(run.run)
app.command("start", help=start.HELP, epilog=EXIT_CODES)(start.start)
app.command("demo", help=demo.HELP, epilog=EXIT_CODES)(demo.demo)
app.command("check", help=check.HELP, epilog=EXIT_CODES)(check.check)
app.command("extract", help=extract.HELP, epilog=EXIT_CODES)(extract.extract)
app.command("register", help=register.HELP, epilog=EXIT_CODES)(register.register)
app.command("status", help=status.HELP, epilog=EXIT_CODES)(status.status)
app.command("logs", help=logs.HELP, epilog=EXIT_CODES)(logs.logs)
app.command("cancel", help=control.CANCEL_HELP, epilog=EXIT_CODES)(control.cancel)
app.command("complete", help=control.COMPLETE_HELP, epilog=EXIT_CODES)(control.complete)
app.command("gc", help=gc.HELP, epilog=EXIT_CODES)(gc.gc)
app.command("jars", help=jars.HELP, epilog=EXIT_CODES)(jars.jars)
app.command("doctor", help=doctor.HELP, epilog=EXIT_CODES)(doctor.doctor)

for name, help_, command in (
    ("init", store.INIT_HELP, store.init),
    ("import", store_transfer.IMPORT_HELP, store_transfer.import_files),
    ("export", store_transfer.EXPORT_HELP, store_transfer.export_files),
    ("ls", store.LS_HELP, store.ls),
    ("log", store.LOG_HELP, store.log),
    ("diff", store.DIFF_HELP, store.diff),
    ("repos", store.REPOS_HELP, store.repos),
    ("branches", store.BRANCHES_HELP, store.branches),
    ("branch", store.BRANCH_HELP, store.branch),
    ("verify", store_transfer.VERIFY_HELP, store_transfer.verify),
    ("gc", store_transfer.GC_HELP, store_transfer.gc),
):
    store_app.command(name, help=help_, epilog=EXIT_CODES)(command)

dev_app.command("up", help=dev.UP_HELP, epilog=EXIT_CODES)(dev.up)
dev_app.command("down", help=dev.DOWN_HELP, epilog=EXIT_CODES)(dev.down)
dev_app.command("status", help=dev.STATUS_HELP, epilog=EXIT_CODES)(dev.status)
dev_app.command("env", help=dev.ENV_HELP, epilog=EXIT_CODES)(dev.env)
dev_app.command("build", help=dev.BUILD_HELP, epilog=EXIT_CODES)(dev.build)


def run_app(arguments: Sequence[str]) -> int:
    """Carry out one call; whatever happens becomes an exit code."""
    _let_every_character_through()
    forget_secrets()
    as_json, is_debug = _is_given("--json", arguments), _is_debug(arguments)
    try:
        with warnings_to(_note_warning):
            answer = typer.main.get_command(app).main(
                args=list(arguments), prog_name=PROGRAM, standalone_mode=False
            )
        sys.stdout.flush()
    except typer.TyperException as error:
        return report_usage(error, _command_of(error), as_json=as_json)
    except PeragoError as error:
        if is_debug:
            show_traceback()
        return report_error(error, as_json=as_json)
    except (typer.Abort, KeyboardInterrupt):
        return ExitCode.INTERRUPTED
    except (BrokenPipeError, SystemExit):  # the latter is what Typer makes of the former
        _forget_stdout()
        return ExitCode.BROKEN_PIPE
    except OSError as error:
        if is_debug:
            show_traceback()
        return report_os_error(error, as_json=as_json)
    except Exception as error:  # noqa: BLE001 - the last line of defence between a bug and a user
        if is_debug:
            show_traceback()
        return report_bug(error, as_json=as_json)
    return answer if isinstance(answer, int) else ExitCode.SUCCESS


def _note_warning(text: str) -> None:
    Output().note(f"warning: {text}")


def _is_given(flag: str, arguments: Sequence[str]) -> bool:
    """Whether a flag stands on the command line, also on one that cannot be parsed."""
    before_end = list(arguments)
    if "--" in before_end:
        before_end = before_end[: before_end.index("--")]
    return flag in before_end


def _is_debug(arguments: Sequence[str]) -> bool:
    return _is_given("--debug", arguments) or bool(os.environ.get(DEBUG_VARIABLE))


def _command_of(error: typer.TyperException) -> str:
    path = getattr(getattr(error, "ctx", None), "command_path", None)
    return path if isinstance(path, str) else PROGRAM


def _forget_stdout() -> None:
    """Python flushes stdout once more at exit, and would complain about the closed pipe."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def _let_every_character_through() -> None:
    """A terminal that cannot show a character gets its escape, not an exception."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
