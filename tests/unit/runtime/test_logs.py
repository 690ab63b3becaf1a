"""Lines reach the stream whole, and a stream that nobody reads harms nobody."""

from __future__ import annotations

import json
import logging
import os
import pickle
import pty
from collections.abc import Iterator
from pathlib import Path

import pytest

from perago.domain.redaction import Redactor
from perago.runtime.log_context import process_is_about
from perago.runtime.logs import (
    LineHandler,
    LogStream,
    choose_format,
    set_up_executor_logging,
    set_up_worker_logging,
    write_to_attempt_log,
)
from tests.unit.runtime.executions import an_execution

JSON = LogStream(log_format="json", redactor=Redactor(("hunter22",)))


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    # `force=True` closes handlers: those of pytest must survive.
    root.handlers[:] = []
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reading, writing = os.pipe()
    yield reading, writing
    for descriptor in (reading, writing):
        try:
            os.close(descriptor)
        except OSError:
            continue


def lines(descriptor: int) -> list[dict[str, object]]:
    return [json.loads(line) for line in os.read(descriptor, 1 << 20).splitlines()]


def test_a_supervisors_line_is_on_its_standard_error(pipe: tuple[int, int]) -> None:
    set_up_worker_logging("INFO", JSON, descriptor=pipe[1])
    logging.getLogger("perago.x").info("password is %s", "hunter22")
    logging.getLogger("perago.x").debug("not told")

    (line,) = lines(pipe[0])
    assert line["message"] == "password is (not shown)"


def test_what_an_executor_logs_is_in_both_places(
    pipe: tuple[int, int], capfd: pytest.CaptureFixture[str]
) -> None:
    set_up_executor_logging("INFO", JSON, descriptor=pipe[1], redactor=JSON.redactor)
    with process_is_about(an_execution()):
        logging.getLogger("my.module").info("from a body, hunter22")
        write_to_attempt_log("for people")

    (line,) = lines(pipe[0])
    assert (line["message"], line["workflow"]) == ("from a body, (not shown)", "wf-1")
    in_file = capfd.readouterr().err
    assert "my.module: from a body, (not shown)" in in_file
    assert "for people" in in_file


@pytest.mark.parametrize("is_executor", [False, True], ids=["worker", "executor"])
def test_what_libraries_say_of_each_request_is_not_told(
    pipe: tuple[int, int], is_executor: bool
) -> None:
    libraries = [logging.getLogger(name) for name in ("py4j", "httpx", "httpcore", "urllib3")]
    for library in libraries:
        library.setLevel(logging.NOTSET)

    if is_executor:
        set_up_executor_logging("DEBUG", JSON, descriptor=pipe[1])
    else:
        set_up_worker_logging("DEBUG", JSON, descriptor=pipe[1])
    for library in libraries:
        library.info("GET /")
    logging.getLogger("py4j").error("the gateway is gone")
    logging.getLogger("httpx").warning("worth a line")

    assert [line["message"] for line in lines(pipe[0])] == ["worth a line"]


def test_without_a_stream_the_workers_standard_error_is_let_go(pipe: tuple[int, int]) -> None:
    set_up_executor_logging("INFO", None, descriptor=pipe[1])
    logging.getLogger("x").info("only in the attempt's log")

    assert os.read(pipe[0], 10) == b""  # the end of the pipe: nobody holds it any more


def test_a_stream_that_nobody_reads_drops_lines_and_says_so_later(pipe: tuple[int, int]) -> None:
    handler = set_up_worker_logging("INFO", JSON, descriptor=pipe[1])
    log = logging.getLogger("x")
    while not handler.dropped:
        log.info("filling %s", "y" * 1000)
    log.info("lost too")
    assert handler.dropped == 2

    while len(os.read(pipe[0], 1 << 20)) == 1 << 20:
        pass
    log.info("there again")

    told = [str(line["message"]) for line in lines(pipe[0])]
    assert told == ["2 log lines were dropped: nobody read them", "there again"]


def test_a_reader_that_is_gone_fails_nobody(pipe: tuple[int, int]) -> None:
    handler = set_up_worker_logging("INFO", JSON, descriptor=pipe[1])
    os.close(pipe[0])
    logging.getLogger("x").info("nobody hears")

    assert handler.dropped == 1


def test_a_file_that_got_our_descriptor_is_not_written_to(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    handler = LineHandler(writing)
    os.close(writing)
    other = os.open(tmp_path / "data", os.O_CREAT | os.O_WRONLY)
    os.dup2(other, writing)
    try:
        handler.emit(logging.makeLogRecord({"msg": "x"}))
    finally:
        for descriptor in {reading, writing, other}:
            os.close(descriptor)

    assert (tmp_path / "data").read_bytes() == b""


def test_auto_is_for_people_on_a_terminal(pipe: tuple[int, int]) -> None:
    leader, follower = pty.openpty()
    try:
        assert choose_format("auto", follower) == "console"
        assert choose_format("json", follower) == "json"
    finally:
        os.close(leader)
        os.close(follower)
    assert choose_format("auto", pipe[1]) == "json"


def test_a_stream_travels_to_executors_and_shows_no_secret() -> None:
    assert pickle.loads(pickle.dumps(JSON)) == JSON
    assert "hunter22" not in repr(JSON)
