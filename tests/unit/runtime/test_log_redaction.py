"""What others wrote into a log keeps its length and loses its secrets."""

from __future__ import annotations

import os
from pathlib import Path

from perago.domain.redaction import Redactor
from perago.runtime.log_redaction import redact_log

SECRET = "hunter2-hunter2"
REDACTOR = Redactor((SECRET,))


def test_a_secret_is_overwritten_where_it_is(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(f"before {SECRET} after\nhttp://joe:pass@host\n")

    assert redact_log(log, REDACTOR) == log.stat().st_size
    assert log.read_text() == "before *************** after\nhttp://joe:****@host\n"


def test_a_log_without_secrets_is_not_written(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("nothing to hide\n")
    before = log.stat().st_mtime_ns

    redact_log(log, REDACTOR)

    assert log.stat().st_mtime_ns == before


def test_secrets_across_the_pieces_in_which_a_long_log_is_read(tmp_path: Path) -> None:
    log = tmp_path / "log"
    piece = 1 << 20
    with log.open("wb") as file:
        for place in range(piece - 8, 3 * piece, piece - 1):
            file.seek(place)
            file.write(SECRET.encode())

    redact_log(log, REDACTOR)

    assert SECRET.encode() not in log.read_bytes()
    assert log.read_bytes().count(b"*" * len(SECRET)) == 4 - 1


def test_a_log_that_grows_is_gone_on_with(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("hunter2-")
    end = redact_log(log, REDACTOR)
    writer = os.open(log, os.O_WRONLY | os.O_APPEND)
    os.write(writer, b"hunter2\n")
    redact_log(log, REDACTOR, start=end)
    os.write(writer, b"more\n")
    os.close(writer)

    assert log.read_text() == "***************\nmore\n", "also what was written in two pieces"


def test_what_is_no_log_is_left_alone(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text(SECRET)
    (tmp_path / "link").symlink_to(target)
    os.mkfifo(tmp_path / "fifo")

    for name in ("link", "fifo", "missing", "."):
        assert redact_log(tmp_path / name, REDACTOR) == 0
    assert target.read_text() == SECRET


def test_what_is_hidden_already_is_not_written_again(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("http://joe:pass@host\n")
    redact_log(log, REDACTOR)
    before = log.stat().st_mtime_ns
    redact_log(log, REDACTOR)
    assert log.stat().st_mtime_ns == before
