"""A log line for a console or a machine commands no terminal, whoever wrote its words."""

from __future__ import annotations

import json
import logging

import pytest

from perago.runtime.log_lines import ConsoleLines, JsonLines

COMMANDS = "\x1b[2J\x9b1A\u202egnp\u2066\u200f\u2028\x7f"
UNSAFE = set("\x1b\x9b\u202e\u2066\u200f\u2028\x7f")


@pytest.fixture
def record() -> logging.LogRecord:
    return logging.makeLogRecord(
        {"name": f"a{COMMANDS}", "levelname": "INFO", "msg": f"said{COMMANDS}\nINFO forged: line"}
    )


def test_a_console_line_is_one_record_and_commands_nothing(record: logging.LogRecord) -> None:
    shown = ConsoleLines().format(record)

    assert not set(shown) & UNSAFE
    assert [line.startswith("    ") for line in shown.splitlines()] == [False, True]


def test_a_json_line_means_what_was_logged_and_commands_nothing(record: logging.LogRecord) -> None:
    shown = JsonLines().format(record)

    assert not set(shown) & UNSAFE
    assert json.loads(shown)["message"] == record.msg
