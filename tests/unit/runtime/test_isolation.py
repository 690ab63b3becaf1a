"""What a body does to its process is undone, whatever it is."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from typing import Any

import pytest

from perago.runtime.isolation import flush_output

CHANGES = {
    "closes_standard_files": ["descriptors"],
    "replaces_standard_files": ["descriptors"],
    "prints_into_a_file_of_its_own": ["descriptors"],
    "replaces_streams": ["streams"],
    "changes_the_environment": ["environment"],
    "changes_the_directory": ["directory"],
    "changes_the_mask": ["mask"],
    "lowers_limits": ["soft limits"],
    "handles_signals": ["signals"],
    "sets_timers": ["timers"],
    "sets_an_alarm": ["timers"],
    "changes_logging": ["log handlers", "log level", "log disabled"],
    "forks_and_returns": [],
    "raises": ["directory"],
}

Told = dict[str, Any]


@pytest.fixture(scope="module")
def told() -> Told:
    """What each body changed, and what was not put back; in a process that may be spoilt."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.unit.runtime.isolated_bodies"],
        env={name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
        | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    answer: Told = json.loads(done.stdout)
    return answer


@pytest.mark.parametrize("body", CHANGES)
def test_what_a_body_changes_is_put_back(told: Told, body: str) -> None:
    assert told[body]["found"] == []
    assert told[body]["changed"] == CHANGES[body]
    assert told[body]["left"] == []


def test_what_a_body_prints_goes_where_it_said(told: Told) -> None:
    assert told["printed"] == "said by a body"


def test_a_hard_limit_that_cannot_be_raised_again_fails_nothing(told: Told) -> None:
    assert set(told["lowers_a_hard_limit"]["left"]) <= {"soft limits", "hard limits"}


def test_output_is_flushed_at_the_end_of_a_body() -> None:
    raw, errors = io.BytesIO(), io.BytesIO()
    with (
        redirect_stdout(io.TextIOWrapper(raw, write_through=False)),
        redirect_stderr(io.TextIOWrapper(errors, write_through=False)),
    ):
        sys.stdout.write("said")
        sys.stderr.write("warned")
        flush_output()
        assert (raw.getvalue(), errors.getvalue()) == (b"said", b"warned")


class Full(io.StringIO):
    def flush(self) -> None:
        raise OSError("no space left on device")


@pytest.mark.parametrize("stream", [Full(), None], ids=["full", "none"])
def test_output_that_cannot_be_flushed_fails_nothing(stream: io.StringIO | None) -> None:
    with redirect_stdout(stream), redirect_stderr(stream):
        flush_output()
