"""Old logs go, young ones and those that are still written stay."""

from __future__ import annotations

import os
import time
from pathlib import Path

from perago.runtime.log_retention import LogRetention
from tests.unit.runtime.inline_calls import InlineCalls

DAY = 86_400


def make_log(logs: Path, workflow: str, *, days_old: float) -> Path:
    path = logs / workflow / "step.0.12345678.log"
    path.parent.mkdir(parents=True)
    path.write_text("line\n")
    at = time.time() - days_old * DAY
    os.utime(path, (at, at))
    os.utime(path.parent, (at, at))
    return path


def test_what_is_too_old_goes_and_nothing_else(tmp_path: Path) -> None:
    old = make_log(tmp_path, "old", days_old=8)
    young = make_log(tmp_path, "young", days_old=6)
    written = make_log(tmp_path, "written", days_old=8)
    os.utime(written)
    at = time.time() - 8 * DAY
    os.utime(written.parent, (at, at))
    executor = tmp_path / "executor-0.log"
    executor.write_text("line\n")
    os.utime(executor, (at, at))

    LogRetention(tmp_path, InlineCalls(), days=7).sweep_if_due(0.0)

    assert not old.parent.exists()
    assert young.exists()
    assert written.exists()
    assert executor.exists()


def test_it_looks_once_an_hour(tmp_path: Path) -> None:
    retention = LogRetention(tmp_path, InlineCalls(), days=7)
    retention.sweep_if_due(0.0)
    old = make_log(tmp_path, "old", days_old=8)

    retention.sweep_if_due(3_599.0)
    assert old.exists()
    retention.sweep_if_due(3_600.0)
    assert not old.exists()


def test_logs_that_are_not_there_yet_are_no_error(tmp_path: Path) -> None:
    LogRetention(tmp_path / "none", InlineCalls(), days=7).sweep_if_due(0.0)
