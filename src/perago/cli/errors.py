"""Every way a command can end badly: its exit code, and how it is put to the reader.

Invariant: people get one `error:` line and a `hint:` on stderr, programs one JSON document on
stdout, and nobody a traceback who did not ask for it.
"""

from __future__ import annotations

import json
import sys
import traceback
from enum import IntEnum

import typer

from perago.cli.known_secrets import current_redactor
from perago.domain.errors import (
    EnvironmentUnfitError,
    InsufficientDiskError,
    InvalidInputError,
    OrchestratorError,
    PeragoError,
    StoreError,
    UsageError,
)
from perago.domain.outcome import JsonObject
from perago.domain.visible_text import indent_rest, visible_lines

DEBUG_VARIABLE = "PERAGO_DEBUG"
"""Set it to see tracebacks. No setting: it must work when the settings are what is broken."""


class ExitCode(IntEnum):
    """What a command's exit says; docs/reference/cli.md has the long version."""

    SUCCESS = 0
    FAILED = 1
    USAGE = 2
    UNFIT = 3
    BACKEND = 4
    BUG = 70
    INTERRUPTED = 130
    BROKEN_PIPE = 141

    @property
    def meaning(self) -> str:
        """In a few words."""
        return _MEANINGS[self]


_MEANINGS = {
    ExitCode.SUCCESS: "success",
    ExitCode.FAILED: "the run failed or problems were found",
    ExitCode.USAGE: "wrong usage",
    ExitCode.UNFIT: "unfit machine",
    ExitCode.BACKEND: "store or orchestrator error",
    ExitCode.BUG: "a bug in Perago",
    ExitCode.INTERRUPTED: "interrupted",
    ExitCode.BROKEN_PIPE: "output closed",
}


def decide_exit_code(error: PeragoError) -> ExitCode:
    """The exit code by what a reader does about the error."""
    match error:
        case UsageError() | InvalidInputError():
            return ExitCode.USAGE
        case EnvironmentUnfitError() | InsufficientDiskError():
            return ExitCode.UNFIT
        case StoreError() | OrchestratorError():
            return ExitCode.BACKEND
        case _:
            return ExitCode.FAILED


def report_error(error: PeragoError, *, as_json: bool) -> ExitCode:
    """Show one of Perago's own errors."""
    code = decide_exit_code(error)
    _show(type(error).__name__, error.message, error.hint, code, as_json=as_json)
    return code


def report_usage(error: typer.TyperException, command: str, *, as_json: bool) -> ExitCode:
    """Show what Typer found wrong with the command line."""
    hint = f"`{command} --help` shows how it is used"
    _show("UsageError", error.format_message(), hint, ExitCode.USAGE, as_json=as_json)
    return ExitCode.USAGE


def report_os_error(error: OSError, *, as_json: bool) -> ExitCode:
    """Show what the operating system refused."""
    place = "" if error.filename is None else f"{error.filename}: "
    hint = "look at that path, its permissions and its disk; --debug shows where it happened"
    message = f"{place}{error.strerror or error}"
    _show(type(error).__name__, message, hint, ExitCode.UNFIT, as_json=as_json)
    return ExitCode.UNFIT


def report_bug(error: Exception, *, as_json: bool) -> ExitCode:
    """Show an exception that nobody foresaw."""
    text = "".join(traceback.format_exception_only(error)).strip()
    _show(
        type(error).__name__,
        f"{text} (this is a bug in Perago)",
        f"run it again with --debug or {DEBUG_VARIABLE}=1 for the traceback, and report it",
        ExitCode.BUG,
        as_json=as_json,
    )
    return ExitCode.BUG


def show_traceback() -> None:
    """Show where the exception that is being handled came from, without secrets."""
    sys.stderr.write(visible_lines(current_redactor().apply(traceback.format_exc())))


def describe_error(error: PeragoError) -> JsonObject:
    """One of Perago's own errors, for programs."""
    return _describe(type(error).__name__, error.message, error.hint, decide_exit_code(error))


def _describe(kind: str, message: str, hint: str | None, code: ExitCode) -> JsonObject:
    return {"type": kind, "message": message, "hint": hint, "exit_code": int(code)}


def _show(kind: str, message: str, hint: str | None, code: ExitCode, *, as_json: bool) -> None:
    # What a server said, or an exception, may quote a secret.
    hide = current_redactor().apply
    message, hint = hide(message), None if hint is None else hide(hint)
    if as_json:
        sys.stdout.write(json.dumps({"error": _describe(kind, message, hint, code)}) + "\n")
        return
    sys.stderr.write(f"error: {indent_rest(visible_lines(message))}\n")
    if hint:
        sys.stderr.write(f"hint: {indent_rest(visible_lines(hint))}\n")
