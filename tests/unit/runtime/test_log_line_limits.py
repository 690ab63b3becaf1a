"""How much of a record its line holds, and what no part of a record can do to the line."""

from __future__ import annotations

import json
import logging
import sys

import pytest

from perago.runtime.log_lines import MAX_LINE_BYTES, ConsoleLines, JsonLines

NEWLINE = 1


def record(
    message: object = "x", *args: object, name: str = "some.body", **extra: object
) -> logging.LogRecord:
    made = logging.makeLogRecord({"name": name, "levelname": "WARNING", "msg": message})
    made.args = args
    made.created = 1_900_000_000.25
    made.__dict__.update(extra)
    return made


def raised(error: Exception) -> logging.LogRecord:
    made = record("it failed")
    try:
        raise error
    except type(error):
        made.exc_info = sys.exc_info()
    return made


def parsed(made: logging.LogRecord) -> dict[str, object]:
    """The line, read as strictly as JSON is written down."""

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    line: dict[str, object] = json.loads(JsonLines().format(made), parse_constant=refuse)
    return line


def room(formatter: logging.Formatter) -> int:
    """How long a message may be so that its line is just not too long."""
    return MAX_LINE_BYTES - NEWLINE - len(formatter.format(record("")).encode())


def test_a_line_has_the_length_that_the_documentation_says() -> None:
    assert MAX_LINE_BYTES == 4096


def test_a_json_line_is_cut_when_it_is_one_byte_too_long() -> None:
    most = room(JsonLines())

    assert parsed(record("y" * most))["message"] == "y" * most
    cut = parsed(record("y" * (most + 1)))
    assert cut["truncated"] is True
    assert str(cut["message"]).endswith("y… (cut)")


def test_a_console_line_is_cut_when_it_is_one_byte_too_long() -> None:
    most = room(ConsoleLines())

    whole = ConsoleLines().format(record("y" * most))
    assert whole.endswith("y" * most)
    assert len(whole.encode()) == MAX_LINE_BYTES - NEWLINE
    cut = ConsoleLines().format(record("y" * (most + 1)))
    assert cut.endswith("y… (cut)")
    # As much is kept as there is room for.
    assert MAX_LINE_BYTES - 10 < len(cut.encode()) < MAX_LINE_BYTES


def test_of_a_long_message_half_a_line_is_kept() -> None:
    assert len(str(parsed(record("y" * 100_000))["message"])) > MAX_LINE_BYTES // 2 - 20


def test_a_message_and_a_traceback_share_the_line() -> None:
    made = raised(ValueError("z" * 10_000 + " the point"))
    made.msg = "y" * 10_000

    line = parsed(made)
    assert len(str(line["message"])) > 1000
    assert str(line["exception"]).startswith("(cut) …")
    assert str(line["exception"]).endswith("the point")
    text = ConsoleLines().format(made)
    assert len(text.encode()) < MAX_LINE_BYTES
    assert text.count("y") > 1000
    assert text.endswith("the point")


def test_only_what_is_large_is_left_out_of_a_long_line() -> None:
    line = parsed(record("y" * 10_000, rows=7, note="n" * 900, blob="b" * 1_100))

    assert (line["rows"], line["note"]) == (7, "n" * 900)
    assert "blob" not in line


@pytest.mark.parametrize("formatter", [JsonLines(), ConsoleLines()], ids=["json", "console"])
def test_no_part_of_a_record_makes_a_line_too_long(formatter: logging.Formatter) -> None:
    line = formatter.format(record("x", name="n" * 10_000))

    assert len(line.encode()) < MAX_LINE_BYTES
    if isinstance(formatter, JsonLines):
        assert json.loads(line).keys() == {"time", "level", "truncated"}


def test_no_part_of_a_record_can_pass_for_another_line() -> None:
    line = ConsoleLines().format(record("x", name="a\n2030-01-01 INFO b\x1b[2J\udcff"))

    assert line == r"2030-03-17 17:46:40.250Z WARNING a\n2030-01-01 INFO b\x1b[2J\udcff: x"
    assert line.encode()


def test_a_plain_record_has_no_more_fields_than_it_needs() -> None:
    assert parsed(record()).keys() == {"time", "level", "logger", "message"}


@pytest.mark.parametrize("name", ["time", "logger", "exception", "truncated"])
def test_an_extra_cannot_forge_what_the_line_says_of_itself(name: str) -> None:
    assert parsed(record("x", **{name: "forged"})).get(name) != "forged"


def test_text_is_readable_as_it_is() -> None:
    assert "née" in JsonLines().format(record("née"))
    assert "née" in JsonLines().format(record("née", odd={(1, 2): 3}))


def test_a_field_that_is_no_json_is_told_as_text_and_the_others_as_they_are() -> None:
    line = parsed(record("x", odd={(1, 2): 3}, loss=float("nan"), rows=7))

    assert (line["odd"], line["loss"], line["rows"]) == ("{(1, 2): 3}", "nan", 7)


@pytest.mark.parametrize("formatter", [JsonLines(), ConsoleLines()], ids=["json", "console"])
def test_a_traceback_that_was_made_before_is_shown_once(formatter: logging.Formatter) -> None:
    made = raised(ValueError("bad row"))
    made.exc_text = "made before"
    assert "made before" in formatter.format(made)
    assert "bad row" not in formatter.format(made)

    made.exc_info = None
    assert "made before" in formatter.format(made)


@pytest.mark.parametrize("formatter", [JsonLines(), ConsoleLines()], ids=["json", "console"])
def test_the_stack_is_shown_where_it_was_asked_for(formatter: logging.Formatter) -> None:
    made = record("x", stack_info="Stack (most recent call last): here")
    assert "most recent call last" in formatter.format(made)

    made.exc_text = "made before"
    assert "most recent call last" in formatter.format(made)
    assert "made before" in formatter.format(made)


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")

    __repr__ = __str__


@pytest.mark.parametrize("formatter", [JsonLines(), ConsoleLines()], ids=["json", "console"])
def test_of_an_error_that_cannot_be_printed_the_place_is_shown(
    formatter: logging.Formatter,
) -> None:
    assert "in raised" in formatter.format(raised(UnprintableError()))
