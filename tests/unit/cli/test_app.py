import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import typer

from perago import __version__
from perago.cli.app import app
from perago.cli.context import GlobalOptions, help_text
from perago.cli.errors import ExitCode
from tests.unit.cli.conftest import Perago


def commands() -> Iterator[tuple[str, ...]]:
    """The words of every command, groups included."""

    def walk(command: object, words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        yield words
        for name, inner in getattr(command, "commands", {}).items():
            yield from walk(inner, (*words, name))

    yield from walk(typer.main.get_command(app), ())


@pytest.mark.parametrize("words", list(commands()), ids=" ".join)
def test_every_help_begins_with_examples_and_ends_with_exit_codes(
    perago: Perago, words: tuple[str, ...]
) -> None:
    answer = perago(*words, "--help")
    text = " ".join(answer.out.split())

    assert answer.code == 0
    assert "Examples: perago " in text
    assert text.index("Examples:") < text.index("─ Options")
    assert "Exit codes: 0 success, 1 the run failed" in text
    assert " ".join(("perago", *words)) in text.partition("Options")[0].partition("Examples:")[2]


def test_the_version(perago: Perago) -> None:
    assert perago("--version").out == f"perago {__version__}\n"


@pytest.mark.parametrize("words", [(), ("store",)])
def test_without_a_command_there_is_help(perago: Perago, words: tuple[str, ...]) -> None:
    answer = perago(*words)

    assert (answer.code, answer.out) == (0, perago(*words, "--help").out)


@pytest.mark.parametrize(
    ("arguments", "says", "helps"),
    [
        (("frobnicate",), "No such command 'frobnicate'", "`perago --help`"),
        (("run",), "Missing argument 'TARGET'", "`perago run --help`"),
        (("run", "x", "--frob"), "No such option: --frob", "`perago run --help`"),
        (("run", "x", "-j", "0"), "-j' / '--executors'", "`perago run --help`"),
        (("store", "log"), "Missing argument", "`perago store log --help`"),
    ],
)
def test_a_wrong_command_line_is_one_error_and_a_hint(
    perago: Perago, arguments: tuple[str, ...], says: str, helps: str
) -> None:
    answer = perago(*arguments)

    assert answer.code == ExitCode.USAGE
    assert answer.out == ""
    error, hint = answer.err.splitlines()
    assert error.startswith("error: ")
    assert says in error
    assert helps in hint


def test_a_wrong_command_line_with_json_is_a_document(perago: Perago) -> None:
    answer = perago("status", "--json", "--frob")

    assert answer.code == ExitCode.USAGE
    assert answer.err == ""
    assert answer.json["error"] == {
        "type": "UsageError",
        "message": "No such option: --frob",
        "hint": "`perago status --help` shows how it is used",
        "exit_code": 2,
    }


def test_bad_settings_are_a_usage_error(perago: Perago, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERAGO_EXECUTORS", "many")

    answer = perago("status")

    assert answer.code == ExitCode.USAGE
    assert "executors (from PERAGO_EXECUTORS)" in answer.err


def test_a_question_where_there_is_no_home_makes_none(perago: Perago) -> None:
    answer = perago("status")

    assert answer.code == ExitCode.USAGE
    assert "there is no Perago home at" in answer.err
    assert "--home" in answer.err
    assert perago("status").err == answer.err


def test_a_misspelt_variable_is_wrong_usage(
    perago: Perago, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERAGO_LAKEFS_ENDPIONT", "http://127.0.0.1:8000")

    answer = perago("store", "repos")

    assert answer.code == ExitCode.USAGE
    assert "unknown variable PERAGO_LAKEFS_ENDPIONT" in answer.err
    assert "did you mean PERAGO_LAKEFS_ENDPOINT?" in answer.err


def test_a_traceback_is_shown_on_request_only(
    perago: Perago, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = perago("status")
    flagged = perago("--debug", "status")
    monkeypatch.setenv("PERAGO_DEBUG", "1")
    wished = perago("status")

    assert "Traceback" not in plain.err
    assert "Traceback" in flagged.err
    assert "Traceback" in wished.err
    assert plain.code == flagged.code == wished.code


@contextmanager
def command(name: str, function: Callable[[], None]) -> Iterator[None]:
    """One more command, for as long as it is needed."""
    app.command(name, hidden=True)(function)
    try:
        yield
    finally:
        app.registered_commands.pop()


def raise_bug() -> None:
    raise ZeroDivisionError("division by zero")


def raise_interrupt() -> None:
    raise KeyboardInterrupt


def test_an_unforeseen_exception_exits_with_70(perago: Perago) -> None:
    with command("break", raise_bug):
        plain, debug = perago("break"), perago("--debug", "break")

    assert plain.code == debug.code == ExitCode.BUG
    assert plain.err.startswith("error: ZeroDivisionError: division by zero (this is a bug")
    assert debug.err.startswith("Traceback")


def test_ctrl_c_outside_a_run_exits_with_130(perago: Perago) -> None:
    with command("interrupted", raise_interrupt):
        assert perago("interrupted").code == ExitCode.INTERRUPTED


def test_shown_commands_carry_the_home() -> None:
    assert GlobalOptions().command("logs", "a b") == "perago logs 'a b'"
    assert GlobalOptions(home=Path("/h")).command("status") == "perago --home /h status"


def test_help_puts_notes_below_commands_that_leave_no_room() -> None:
    text = help_text("Do.", {"perago x": "n" * 80, "perago [y]": ""}, "More [z].")

    assert "x[/cyan]\n    nnn" in text
    assert r"perago \[y]" in text
    assert r"More \[z]." in text


@pytest.mark.parametrize("argument", ["--help", "--version"])
def test_what_needs_nothing_imports_nothing_heavy(argument: str) -> None:
    script = (
        "import sys\nfrom perago.cli.app import run_app\n"
        f"run_app([{argument!r}])\n"
        "print([m for m in ('pyarrow', 'pyspark', 'pandas', 'sqlite3', 'perago.bootstrap')"
        " if m in sys.modules], file=sys.stderr)"
    )

    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )

    assert done.stderr == "[]\n"


def test_a_reader_that_goes_away_is_no_error() -> None:
    script = "import sys; from perago.cli import main; sys.argv = ['perago', '--help']; main()"
    with subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        errors = process.stderr.read()

    assert process.returncode == ExitCode.BROKEN_PIPE
    assert errors == ""
