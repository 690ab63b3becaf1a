import inspect
import json
from itertools import chain

import pytest

from perago.cli.errors import (
    ExitCode,
    decide_exit_code,
    report_bug,
    report_error,
    report_os_error,
    show_traceback,
)
from perago.domain import errors
from perago.domain.errors import (
    DeclarationError,
    EnvironmentUnfitError,
    InsufficientDiskError,
    InvalidInputError,
    NotFoundInOrchestratorError,
    NotFoundInStoreError,
    PeragoError,
    SettingsError,
    StoreUnavailableError,
    TargetError,
    TaskFailed,
    UnmappableObjectError,
    WorkspaceRootLockedError,
)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (SettingsError("x"), 2),
        (TargetError("x"), 2),
        (DeclarationError("x"), 2),
        (InvalidInputError("x"), 2),
        (EnvironmentUnfitError("x"), 3),
        (WorkspaceRootLockedError("x"), 3),
        (InsufficientDiskError("x"), 3),
        (NotFoundInStoreError("x"), 4),
        (StoreUnavailableError("x"), 4),
        (NotFoundInOrchestratorError("x"), 4),
        (UnmappableObjectError("a", "b"), 1),
        (TaskFailed("x"), 1),
    ],
)
def test_the_exit_code_says_what_to_do(error: PeragoError, code: int) -> None:
    assert decide_exit_code(error) == code


def test_no_error_exits_with_success() -> None:
    kinds = [kind for _, kind in inspect.getmembers(errors, inspect.isclass)]
    ours = [kind for kind in kinds if issubclass(kind, PeragoError)]
    blank = [kind.__new__(kind) for kind in ours]

    assert all(decide_exit_code(error) != ExitCode.SUCCESS for error in chain(blank))


def test_people_get_an_error_line_and_a_hint(capsys: pytest.CaptureFixture[str]) -> None:
    code = report_error(NotFoundInStoreError("no repository 'x'", hint="init it"), as_json=False)

    said = capsys.readouterr()
    assert code is ExitCode.BACKEND
    assert said.out == ""
    assert said.err == "error: no repository 'x'\nhint: init it\n"


def test_programs_get_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    report_error(NotFoundInStoreError("no repository 'x'", hint="init it"), as_json=True)

    said = capsys.readouterr()
    assert said.err == ""
    assert json.loads(said.out) == {
        "error": {
            "type": "NotFoundInStoreError",
            "message": "no repository 'x'",
            "hint": "init it",
            "exit_code": 4,
        }
    }


def test_without_a_hint_there_is_no_hint(capsys: pytest.CaptureFixture[str]) -> None:
    report_error(NotFoundInStoreError("gone"), as_json=False)

    assert capsys.readouterr().err == "error: gone\n"


def test_an_unforeseen_exception_is_a_bug(capsys: pytest.CaptureFixture[str]) -> None:
    code = report_bug(ZeroDivisionError("division by zero"), as_json=False)

    error, hint = capsys.readouterr().err.splitlines()
    assert code == 70
    assert error == "error: ZeroDivisionError: division by zero (this is a bug in Perago)"
    assert "PERAGO_DEBUG=1" in hint


def test_what_the_system_refuses_is_no_bug(capsys: pytest.CaptureFixture[str]) -> None:
    code = report_os_error(PermissionError(13, "Permission denied", "/x/y"), as_json=False)

    assert code is ExitCode.UNFIT
    assert capsys.readouterr().err.startswith("error: /x/y: Permission denied\n")


def test_every_exit_code_has_a_meaning() -> None:
    assert all(code.meaning for code in ExitCode)


def test_a_traceback_commands_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        raise StoreUnavailableError("the server said: \x1b[2J\u202eok\ud800")

    try:
        fail()
    except StoreUnavailableError:
        show_traceback()

    said = capsys.readouterr().err
    assert said.startswith("Traceback (most recent call last):\n")
    assert said.endswith("the server said: \\x1b[2J\\u202eok\\ud800\n")
