"""A record becomes one line that machines can parse, without secrets and never too long."""

from __future__ import annotations

import json
import logging
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

import pytest

from perago.domain.redaction import Redactor
from perago.runtime.log_context import ATTEMPT_FIELDS, about, current_fields, process_is_about
from perago.runtime.log_lines import MAX_LINE_BYTES, ConsoleLines, JsonLines
from tests.unit.runtime.executions import an_execution


def record(message: object = "hello %s", *args: object, **extra: object) -> logging.LogRecord:
    logger = logging.getLogger("some.body")
    made = logger.makeRecord("some.body", logging.WARNING, __file__, 1, message, args, None)
    made.__dict__.update(extra)
    return made


def failed(error: BaseException) -> logging.LogRecord:
    try:
        raise error
    except type(error):
        made = record("it failed")
        made.exc_info = sys.exc_info()
        return made


class Unprintable:
    def __str__(self) -> str:
        raise RuntimeError("no")

    __repr__ = __str__


def test_a_json_line_has_the_fields_of_its_attempt() -> None:
    execution = an_execution()
    with about(execution):
        line = json.loads(JsonLines().format(record("hello %s", "you", rows=7)))

    assert line["message"] == "hello you"
    assert line["level"] == "WARNING"
    assert line["logger"] == "some.body"
    assert line["rows"] == 7
    assert {name: line[name] for name in ATTEMPT_FIELDS} == {
        "workflow": "wf-1",
        "task": "t-1",
        "task_name": "clean",
        "reference": "clean_ref",
        "retry": 2,
        "execution": execution.execution_id,
        "input_ref": "c0ffee",
        "staging_branch": execution.staging_branch,
    }
    assert line["time"].endswith("Z")
    assert datetime.fromisoformat(line["time"]).tzinfo is not None


def test_outside_of_attempts_a_line_has_none_of_their_fields() -> None:
    assert not set(ATTEMPT_FIELDS) & json.loads(JsonLines().format(record("x"))).keys()


def test_threads_of_an_executor_log_as_its_attempt() -> None:
    with process_is_about(an_execution()), ThreadPoolExecutor(1) as pool:
        fields = pool.submit(current_fields).result()

    assert fields["workflow"] == "wf-1"
    assert current_fields() == {}


def test_a_block_goes_before_the_process() -> None:
    with process_is_about(an_execution("t-1")), about(an_execution("t-2")):
        assert current_fields()["task"] == "t-2"


def test_a_console_line_names_the_attempt_too() -> None:
    with about(an_execution()):
        line = ConsoleLines().format(record("hello %s", "you"))

    assert "WARNING some.body: hello you [workflow=wf-1 task=t-1" in line
    assert "staging_branch=perago-staging-" in line


def test_a_message_cannot_pass_for_another_line_or_steer_a_terminal() -> None:
    line = ConsoleLines().format(record("one\n2030-01-01 INFO fake\x1b[2J\rtwo"))

    assert "\x1b" not in line
    assert "\r" not in line
    assert all(part.startswith("    ") for part in line.split("\n")[1:])
    assert "\n" not in JsonLines().format(record("one\ntwo"))


def test_a_traceback_is_part_of_the_line() -> None:
    made = failed(ValueError("bad row"))

    assert "ValueError: bad row" in json.loads(JsonLines().format(made))["exception"]
    assert "ValueError: bad row" in ConsoleLines().format(made)


@pytest.mark.parametrize(
    "made",
    [
        record("%d rows", "no number"),
        record("too few %s %s", 1),
        record("x", thing=Unprintable()),
        record("x", circle={"a": {1: object()}}),
        record("surrogate \udcff"),
        record(Unprintable()),
        failed(KeyError(Unprintable())),
    ],
    ids=["type", "count", "extra", "nested", "surrogate", "message", "exception"],
)
def test_whatever_a_body_logs_is_one_line(made: logging.LogRecord) -> None:
    assert json.loads(JsonLines().format(made))["level"] == "WARNING"
    assert ConsoleLines().format(made).encode()


def test_an_extra_cannot_replace_what_the_line_says_of_itself() -> None:
    with about(an_execution()):
        line = json.loads(JsonLines().format(record("x", workflow="other", level="DEBUG")))

    assert (line["workflow"], line["level"]) == ("wf-1", "WARNING")


@pytest.mark.parametrize("formatter", [JsonLines(), ConsoleLines()])
@pytest.mark.parametrize(
    "made",
    [
        record("é" * 100_000),
        record("x", blob="y" * 100_000),
        record('"\\\n' * 10_000),
        failed(ValueError("z" * 100_000)),
    ],
    ids=["message", "extra", "escapes", "exception"],
)
def test_a_long_record_is_cut(formatter: logging.Formatter, made: logging.LogRecord) -> None:
    with about(an_execution()):
        line = formatter.format(made)

    assert len(line.encode()) < MAX_LINE_BYTES
    assert "wf-1" in line
    if isinstance(formatter, JsonLines):
        assert json.loads(line)["truncated"] is True


def test_the_end_of_a_long_traceback_is_kept() -> None:
    made = failed(ValueError("z" * 10_000 + " the point"))

    assert json.loads(JsonLines().format(made))["exception"].endswith("the point")


@pytest.mark.parametrize("formatter", [JsonLines, ConsoleLines])
@pytest.mark.parametrize(
    ("message", "hidden"),
    [
        ("the key is s3cr3t/+key", "s3cr3t/+key"),
        ('tricky qu"o\\te', 'qu"o\\te'),
        ("GET http://x/y?X-Amz-Signature=abcdef0123&a=b", "abcdef0123"),
        ("{'Authorization': 'Bearer abcdef0123'}", "abcdef0123"),
        ('{"X-Authorization": "abcdef0123"}', "abcdef0123"),
        ("authorization: Basic abcdef0123", "abcdef0123"),
    ],
)
def test_secrets_are_not_shown(
    formatter: type[JsonLines | ConsoleLines], message: str, hidden: str
) -> None:
    line = formatter(Redactor(("s3cr3t/+key", 'qu"o\\te', ""))).format(record(message))

    shown = json.loads(line)["message"] if formatter is JsonLines else line
    assert hidden not in shown
    assert "(not shown)" in shown
