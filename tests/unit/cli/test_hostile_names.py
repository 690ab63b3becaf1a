"""What others named, wrote or answered is printed without commanding the terminal it is read on."""

from __future__ import annotations

from datetime import timedelta
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from perago.bootstrap import Application
from perago.cli.board import Board, StepLine
from perago.cli.errors import report_error
from perago.cli.lines import PlainView
from perago.cli.live import LiveView
from perago.cli.output import Output, dump_json
from perago.domain.attempt import Attempt
from perago.domain.errors import StoreError
from perago.domain.execution import Execution, execution_of
from perago.domain.ids import ExecutionId, ObjectPath, RepositoryName
from perago.domain.outcome import Failed, Phase
from perago.domain.workflow import PolledTask
from perago.testing import FakeClock
from perago.testing.store_contract import StoreBench
from tests.unit.cli.conftest import LAB, MAIN, Perago
from tests.unit.cli.runs import BEGAN, attempt
from tests.unit.runtime.told_attempt import ToldAttempt

COMMANDS = "\x1b[2J\x9b1A\u202egnp\u2066\u200f\u2028\x7f\udcff"
FORGED = f"data/a\n      12 B  0123456789ab  data/forged{COMMANDS}"
UNSAFE = set("\x1b\x9b\u202e\u2066\u200f\u2028\x7f\udcff")


@pytest.fixture
def named(application: Application, tmp_path: Path) -> RepositoryName:
    """A repository with an object of a hostile name, by a commit with a hostile message."""
    store = application.store
    bench = StoreBench(store=store, second=store, directory=tmp_path)
    store.create_repository(LAB)
    store.commit_changes(
        LAB,
        MAIN,
        writes={ObjectPath(FORGED): bench.file(b"x")},
        deletes=[],
        message=f"a message{COMMANDS}\nand more",
        metadata={
            "perago.reference": f"step\nforged{COMMANDS}",
            "perago.retry": "9" * 5000,
        },
        on_transfer=lambda _objects, _size: None,
    )
    return LAB


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        (("store", "ls", LAB), 1),
        (("store", "ls", LAB, "-l"), 1),
        (("store", "log", LAB), 3),
    ],
)
def test_a_name_makes_one_row_and_commands_nothing(
    perago: Perago, named: RepositoryName, arguments: tuple[str, ...], lines: int
) -> None:
    assert named
    said = perago(*arguments)

    assert said.code == 0, said.err
    assert len(said.out.splitlines()) == lines
    assert r"\x1b[2J\x9b1A\u202egnp" in said.out
    assert not set(said.out) & UNSAFE


def test_a_difference_is_one_row_too(
    perago: Perago, application: Application, named: RepositoryName
) -> None:
    store = application.store
    head = store.head(named, MAIN)
    said = perago("store", "diff", named, head.parents[0], head.id)

    assert said.out.startswith("A data/a\\n")
    assert len(said.out.splitlines()) == 1


@pytest.mark.parametrize("arguments", [("store", "ls", LAB), ("store", "log", LAB)])
def test_json_says_what_there_is_and_commands_nothing(
    perago: Perago, named: RepositoryName, arguments: tuple[str, ...]
) -> None:
    assert named
    said = perago(*arguments, "--json")

    assert COMMANDS in _texts(said.json)
    assert not set(said.out) & UNSAFE


def _texts(document: object) -> str:
    match document:
        case dict():
            return "".join(map(_texts, document.values()))
        case list():
            return "".join(map(_texts, document))
        case _:
            return str(document)


def execution_of_attempt(of: Attempt) -> Execution:
    polled = PolledTask(attempt=of, input={}, lease_seconds=60.0)
    return execution_of(polled, ExecutionId("0" * 32))


def test_an_error_cannot_speak_for_perago(capsys: pytest.CaptureFixture[str]) -> None:
    error = StoreError(f"the server said: no{COMMANDS}\nhint: run rm -rf /", hint="look\nthere")

    report_error(error, as_json=False)

    said = capsys.readouterr().err
    assert not set(said) & UNSAFE
    assert [line for line in said.splitlines() if line.startswith("hint: ")] == ["hint: look"]


def test_a_line_of_a_run_cannot_look_like_two(capsys: pytest.CaptureFixture[str]) -> None:
    view = PlainView(Output(), lambda: BEGAN + timedelta(seconds=1))
    told = ToldAttempt(view, execution_of_attempt(attempt()))
    told.start()
    reason = f"ValueError: no{COMMANDS}\n12:00:00 clean: completed in 1 s"
    told.end(Failed(reason=reason, phase=Phase.BODY))
    view.warn("one\ntwo")

    said = capsys.readouterr()
    assert not set(said.out + said.err) & UNSAFE
    assert sum(not line.startswith("    ") for line in said.out.splitlines()) == 2
    assert said.err == "warning: one\n    two\n"


def test_the_live_display_shows_a_hostile_step_as_one_row() -> None:
    clock = FakeClock()
    console = Console(
        file=StringIO(), force_terminal=False, width=200, markup=False, highlight=False
    )
    name = f"clean\n✓ forged{COMMANDS}"
    board = Board([StepLine(reference=name)], clock.elapsed)
    view = LiveView(console, board)
    told = ToldAttempt(view, execution_of_attempt(attempt(name)))
    told.start()
    told.say(f"half{COMMANDS}\nway", 0.5)

    console.print(view._draw())

    assert isinstance(console.file, StringIO)
    shown = console.file.getvalue()
    assert not set(shown) & UNSAFE
    assert len(shown.splitlines()) == 1


def test_json_for_any_terminal_is_still_json() -> None:
    assert dump_json({"name": "é\x9b2J\u202e\udcff"}) == r'{"name": "é\u009b2J\u202e\udcff"}'
