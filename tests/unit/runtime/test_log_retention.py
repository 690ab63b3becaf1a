"""Old logs go, young ones and those that are still written stay."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from perago.runtime.log_retention import LogRetention
from perago.system.directories import make_own_directory
from perago.system.tags import LOGS_TAG
from tests.unit.runtime.inline_calls import InlineCalls

DAY = 86_400


def make_log(
    logs: Path, workflow: str, *, days_old: float, name: str = "step.0.12345678.log"
) -> Path:
    path = logs / workflow / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("line\n")
    at = time.time() - days_old * DAY
    os.utime(path, (at, at))
    os.utime(path.parent, (at, at))
    return path


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    make_own_directory(tmp_path / "logs", LOGS_TAG).close()
    return tmp_path / "logs"


def test_what_is_too_old_goes_and_nothing_else(logs: Path) -> None:
    old = make_log(logs, "old", days_old=8)
    young = make_log(logs, "young", days_old=6)
    written = make_log(logs, "written", days_old=8)
    os.utime(written)
    at = time.time() - 8 * DAY
    os.utime(written.parent, (at, at))
    executor = logs / "executor-0.log"
    executor.write_text("line\n")
    os.utime(executor, (at, at))

    LogRetention(logs, InlineCalls(), days=7).sweep_if_due(0.0)

    assert not old.parent.exists()
    assert young.exists()
    assert written.exists()
    assert executor.exists()


def test_it_looks_once_an_hour(logs: Path) -> None:
    retention = LogRetention(logs, InlineCalls(), days=7)
    retention.sweep_if_due(0.0)
    old = make_log(logs, "old", days_old=8)

    retention.sweep_if_due(3_599.0)
    assert old.exists()
    retention.sweep_if_due(3_600.0)
    assert not old.exists()


def test_logs_that_are_not_there_yet_are_no_error(tmp_path: Path) -> None:
    LogRetention(tmp_path / "none", InlineCalls(), days=7).sweep_if_due(0.0)


def test_logs_of_another_program_are_left_alone(tmp_path: Path) -> None:
    stranger = make_log(tmp_path / "logs", "web", days_old=8)

    LogRetention(tmp_path / "logs", InlineCalls(), days=7).sweep_if_due(0.0)

    assert stranger.exists()


def test_what_is_not_named_like_a_log_of_ours_stays(logs: Path) -> None:
    notes = make_log(logs, "wf", days_old=8, name="notes.txt")
    old = make_log(logs, "wf", days_old=8)

    LogRetention(logs, InlineCalls(), days=7).sweep_if_due(0.0)

    assert notes.exists()
    assert not old.exists()


def test_a_link_among_the_logs_is_not_followed(tmp_path: Path, logs: Path) -> None:
    outside = make_log(tmp_path, "outside", days_old=8)
    (logs / "link").symlink_to(outside.parent)

    LogRetention(logs, InlineCalls(), days=7).sweep_if_due(0.0)

    assert outside.exists()
    assert (logs / "link").is_symlink()
