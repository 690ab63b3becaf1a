"""A big file in flat memory, and a great many files, through whole attempts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from perago.adapters.embedded.orchestrator import EmbeddedOrchestrator
from perago.adapters.localfs.clock import SystemClock
from perago.app.follow import list_published

PIPELINE = Path(__file__).parent / "pipelines" / "bulk.py"
MEMORY_SLACK_MIB = 64
"""What allocators, threads and buffers may differ by; far less than the files' difference."""


def run(home: Path, **params: int) -> tuple[int, int, list[str]]:
    """Run the pipeline; return the files seen, the executor's peak MiB, and the steps published."""
    arguments = [f"--param={name}={value}" for name, value in params.items()]
    done = subprocess.run(
        [sys.executable, "-m", "perago", "run", str(PIPELINE), *arguments],
        env={**os.environ, "PERAGO_HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    with EmbeddedOrchestrator(home, SystemClock()) as orchestrator:
        state = orchestrator.workflow(orchestrator.workflows(limit=1)[0].id)
    result = state.tasks[-1].output["result"]
    assert isinstance(result, dict)
    published = [task.attempt.reference_name for task, _ in list_published(state)]
    return int(str(result["files"])), int(str(result["peak_mib"])), published


def check_flat_memory(tmp_path: Path, *, small: int, big: int) -> None:
    _, baseline, _ = run(tmp_path / "small", megabytes=small)
    files, peak, published = run(tmp_path / "big", megabytes=big)

    assert files == 2
    assert published == ["fill", "change_one"]
    assert peak < baseline + MEMORY_SLACK_MIB, f"{peak} MiB for {big} MiB, {baseline} for {small}"


def check_many_files(home: Path, count: int) -> None:
    files, _, published = run(home, files=count)

    assert files == count
    assert published == ["fill", "change_one"]


def test_memory_is_flat_in_the_size_of_a_file(tmp_path: Path) -> None:
    check_flat_memory(tmp_path, small=1, big=300)


def test_many_files(tmp_path: Path) -> None:
    check_many_files(tmp_path / "home", 3000)


@pytest.mark.torture
@pytest.mark.timeout(1800)
def test_memory_is_flat_for_several_gigabytes(tmp_path: Path) -> None:
    check_flat_memory(tmp_path, small=1, big=5 * 1024)


@pytest.mark.torture
@pytest.mark.timeout(1800)
def test_a_hundred_thousand_files(tmp_path: Path) -> None:
    check_many_files(tmp_path / "home", 100_000)
