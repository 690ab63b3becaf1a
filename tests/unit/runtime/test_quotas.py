"""What an attempt may take of the machine, seen from outside it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from perago.runtime.quotas import (
    QuotaWatch,
    _groups_by_asking,
    _groups_from_proc,
    count_processes_by_group,
)


@contextmanager
def a_group_of(processes: int) -> Iterator[int]:
    """A process group with so many in it: a shell, and what it started."""
    children = "sleep 600 & " * (processes - 1)
    shell = subprocess.Popen(
        ["/bin/sh", "-c", f"{children} echo; read _; kill %% 2>/dev/null; kill -9 0"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        process_group=0,
    )
    assert shell.stdin is not None
    assert shell.stdout is not None
    shell.stdout.readline()
    try:
        yield shell.pid
    finally:
        shell.stdin.close()
        shell.wait()
        shell.stdout.close()


@pytest.mark.parametrize("processes", [1, 3])
def test_processes_are_counted_by_their_group(processes: int) -> None:
    with a_group_of(processes) as group:
        assert count_processes_by_group()[group] == processes


@pytest.mark.parametrize("groups", [_groups_by_asking, _groups_from_proc])
def test_both_ways_to_find_the_groups_agree(groups: Callable[[], list[int]]) -> None:
    if groups is _groups_from_proc and sys.platform != "linux":
        return
    with a_group_of(3) as group:
        assert groups().count(group) == 3


def test_a_group_that_is_gone_has_none() -> None:
    with a_group_of(1) as group:
        pass
    assert group not in count_processes_by_group()


def test_an_attempt_with_too_many_processes_is_told_so(tmp_path: Path) -> None:
    with a_group_of(3) as group, a_group_of(2) as other:
        watch = QuotaWatch(most_log_bytes=None, most_processes=2)
        assert watch.find_excess(other, tmp_path / "log", 0.0) is None
        assert watch.find_excess(group, tmp_path / "log", 0.0) == (
            "the attempt runs 3 processes, and 2 are allowed: start fewer, or raise "
            "attempt_processes (PERAGO_ATTEMPT_PROCESSES)"
        )


def test_processes_are_counted_once_a_second_for_all(tmp_path: Path) -> None:
    watch = QuotaWatch(most_log_bytes=None, most_processes=1)
    assert watch.find_excess(-1, tmp_path, 0.0) is None
    with a_group_of(2) as group:
        assert watch.find_excess(group, tmp_path, 0.9) is None
        assert watch.find_excess(group, tmp_path, 1.0) is not None
    assert watch.find_excess(group, tmp_path, 1.9) is not None
    assert watch.find_excess(group, tmp_path, 2.0) is None


def test_a_group_that_is_gone_has_not_too_many(tmp_path: Path) -> None:
    watch = QuotaWatch(most_log_bytes=None, most_processes=0)
    assert watch.find_excess(-1, tmp_path, 0.0) is None


def test_a_log_that_is_too_long_is_told_of(tmp_path: Path) -> None:
    log = tmp_path / "attempt.log"
    watch = QuotaWatch(most_log_bytes=10, most_processes=None)
    assert watch.find_excess(1, log, 0.0) is None, "not written yet"
    log.write_bytes(b"x" * 10)
    assert watch.find_excess(1, log, 0.0) is None
    log.write_bytes(b"x" * 11)
    assert watch.find_excess(1, log, 0.0) == (
        "the attempt's log has 11 bytes, and 10 are allowed: write less, or raise "
        "attempt_log_bytes (PERAGO_ATTEMPT_LOG_BYTES)"
    )


def test_where_nothing_is_bounded_nothing_is_too_much(tmp_path: Path) -> None:
    log = tmp_path / "attempt.log"
    log.write_bytes(b"x" * 11)
    watch = QuotaWatch(most_log_bytes=None, most_processes=None)
    with a_group_of(2) as group:
        assert watch.find_excess(group, log, 0.0) is None


def test_both_bounds_hold_at_once(tmp_path: Path) -> None:
    log = tmp_path / "attempt.log"
    log.write_bytes(b"x")
    watch = QuotaWatch(most_log_bytes=10, most_processes=1)
    with a_group_of(2) as group:
        reason = watch.find_excess(group, log, 0.0)
        assert reason is not None
        assert "processes" in reason
