import json
from datetime import UTC, datetime

import pytest

from perago.cli.output import (
    Output,
    dump_json,
    plural,
    printable,
    show_bytes,
    show_seconds,
    show_time,
)
from perago.domain.outcome import JsonObject


@pytest.mark.parametrize(
    ("size", "shown"),
    [(0, "0 B"), (999, "999 B"), (1_000, "1.0 kB"), (4_250_000, "4.2 MB"), (10**15, "1000.0 TB")],
)
def test_sizes(size: int, shown: str) -> None:
    assert show_bytes(size) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0.42, "0.42 s"), (12.34, "12.3 s"), (65, "1 m 05 s"), (7_380, "2 h 03 m")],
)
def test_durations(seconds: float, shown: str) -> None:
    assert show_seconds(seconds) == shown


def test_a_moment_that_never_was_is_empty() -> None:
    assert show_time(None) == ""
    assert show_time(datetime(2030, 1, 1, tzinfo=UTC)).startswith("20")


def test_plurals() -> None:
    assert plural(1, "file") == "1 file"
    assert plural(2, "file") == "2 files"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain é %#+", "plain é %#+"),
        ("\x1b[2Jgone", r"\x1b[2Jgone"),
        ("a\x00b", r"a\x00b"),
        ("two\nlines\tand", "two\nlines\tand"),
        ("\udcff", r"\udcff"),
        ("csi \x9b2J", r"csi \x9b2J"),
        ("turned \u202egnp.exe", r"turned \u202egnp.exe"),
        ("next\u2028line", r"next\u2028line"),
        ("👩\u200d🔬 مرحبا", "👩\u200d🔬 مرحبا"),
    ],
)
def test_what_would_command_a_terminal_is_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_a_name_cannot_forge_a_row_of_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    Output().table(("name", "#size"), [("a\nb  1", "2")])

    assert capsys.readouterr().out.splitlines()[1:] == [r"a\nb  1     2"]


def test_json_commands_no_terminal_either(capsys: pytest.CaptureFixture[str]) -> None:
    document: JsonObject = {"name": "é\x9b2J\u202e\x85\x1b"}
    output = Output(as_json=True)
    output.answer(document)

    said = capsys.readouterr().out
    assert json.loads(said) == document
    assert said.replace("\n", "").isprintable()


def test_a_piped_table_is_aligned_text_and_never_cut(capsys: pytest.CaptureFixture[str]) -> None:
    long_name = "x" * 300

    Output().table(("name", "#size"), [(long_name, "1"), ("[b]", "22")])

    header, first, second = capsys.readouterr().out.splitlines()
    assert header.split() == ["NAME", "SIZE"]
    assert first == f"{long_name}     1"
    assert second == "[b]" + " " * 297 + "    22"


def test_with_json_people_output_is_silent(capsys: pytest.CaptureFixture[str]) -> None:
    output = Output(as_json=True)
    output.say("hello")
    output.table(("a",), [("b",)])
    output.answer({"ok": True})
    output.note("beside")

    said = capsys.readouterr()
    assert json.loads(said.out) == {"ok": True}
    assert said.err == "beside\n"


def test_without_json_the_document_is_silent(capsys: pytest.CaptureFixture[str]) -> None:
    Output().answer({"ok": True})

    assert capsys.readouterr().out == ""


def test_json_survives_names_that_are_no_text() -> None:
    assert json.loads(dump_json({"name": "a\udcffé"})) == {"name": "a\udcffé"}


def test_colour_is_for_terminals_that_want_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    Output().say("good", style="green")
    coloured = capsys.readouterr().out
    monkeypatch.setenv("NO_COLOR", "1")
    Output().say("good", style="green")

    assert "\x1b[32m" in coloured
    assert "\x1b[32m" not in capsys.readouterr().out
