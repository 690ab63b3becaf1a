"""Killed at any moment, out of space, in a crowd: nothing acknowledged is lost or broken."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

Numbers = dict[str, int]


def drive(root: Path, command: str, *wrapper: str, **arguments: object) -> dict[str, object]:
    answer = subprocess.run(
        [
            *(*wrapper, sys.executable, "-m", "tests.integration.store.driver"),
            *(command, json.dumps(arguments)),
        ],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    outcome: dict[str, object] = json.loads(answer.stdout)
    return outcome


def assert_killed_everywhere(outcome: dict[str, object]) -> None:
    """Before, between and after the two acknowledgements; and some left a file half-written."""
    acknowledged = outcome["acknowledged"]
    assert isinstance(acknowledged, dict)
    assert set(acknowledged) == {"0", "1", "2"}
    assert isinstance(outcome["debris"], int)
    assert outcome["debris"] > 0


def test_an_attempt_may_be_killed_at_any_call(project_root: Path) -> None:
    assert_killed_everywhere(drive(project_root, "kill-at-every-call", first=2, stride=6))


@pytest.mark.torture
def test_an_attempt_may_be_killed_at_every_call(project_root: Path) -> None:
    assert_killed_everywhere(drive(project_root, "kill-at-every-call", first=1, stride=1))


@pytest.mark.parametrize("rounds", [15, pytest.param(300, marks=pytest.mark.torture)])
def test_a_writer_may_be_killed_at_any_moment(project_root: Path, rounds: int) -> None:
    outcome = drive(project_root, "kill-at-random", rounds=rounds)
    assert isinstance(outcome["acknowledged"], int)
    assert outcome["acknowledged"] > rounds // 5


def test_a_full_disk_loses_nothing_and_can_be_emptied(project_root: Path) -> None:
    limits = [0, 8_000, 60_000, 100_000, 150_000, 300_000, 450_000, 4_000_000]
    outcome = drive(project_root, "fill-the-disk", limits=limits)
    assert outcome["committed"]
    assert outcome["InsufficientDiskError"]
    assert set(outcome) <= {
        *("committed", "InsufficientDiskError", "StoreError", "OutcomeUnknownError")
    }


@pytest.mark.torture
def test_a_small_disk_loses_nothing_and_can_be_emptied(project_root: Path) -> None:
    wrapper = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"])]
    probe = [*wrapper, "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    if shutil.which("unshare") is None or subprocess.run(probe, check=False).returncode:
        pytest.skip("needs the right to mount a tmpfs in a namespace of its own")
    sizes = [0, *range(10_000, 1_000_000, 30_000), 4_000_000]
    outcome = drive(project_root, "fill-a-small-disk", *wrapper, sizes=sizes)
    assert set(outcome) == {"committed", "InsufficientDiskError"}


@pytest.mark.parametrize("publications", [6, pytest.param(100, marks=pytest.mark.torture)])
def test_many_processes_publish_while_one_collects_garbage(
    project_root: Path, publications: int
) -> None:
    outcome = drive(project_root, "crowd", authors=3, publications=publications)
    assert outcome == {"acknowledged": 3 * publications}


@pytest.mark.parametrize("megabytes", [200, pytest.param(2_500, marks=pytest.mark.torture)])
def test_a_large_file_takes_little_memory(project_root: Path, megabytes: int) -> None:
    answer = subprocess.run(
        [sys.executable, "-m", "tests.integration.store.footprint", str(megabytes)],
        cwd=project_root,
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(answer.stdout) < 32 * 1024
