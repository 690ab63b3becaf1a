"""Which process is which, whatever the wall clock says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from perago.system.processes import current_process, identify

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="reads and stands in for /proc")


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    yield process
    process.kill()
    process.wait()


def test_a_process_is_alive_until_it_ends(child: subprocess.Popen[bytes]) -> None:
    identity = identify(child.pid)

    assert identity.is_alive
    child.kill()
    child.wait()
    assert not identity.is_alive


def test_a_process_that_ended_and_was_not_waited_for_is_not_alive(
    child: subprocess.Popen[bytes],
) -> None:
    identity = identify(child.pid)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)

    assert not identity.is_alive


def test_one_that_was_born_at_another_time_is_another(child: subprocess.Popen[bytes]) -> None:
    identity = identify(child.pid)

    assert not replace(identity, born=identity.born - 10).is_alive


def test_one_that_was_born_at_the_same_time_after_another_boot_is_another() -> None:
    assert not replace(current_process(), boot="another boot").is_alive


@on_linux
@pytest.mark.parametrize("seconds", [3600, -3600])
def test_it_stays_the_same_when_the_clock_is_set(
    child: subprocess.Popen[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: int
) -> None:
    identity = identify(child.pid)
    seen_before = psutil.Process(child.pid).create_time()

    # What the kernel says once the clock was set: the machine booted at another time.
    (tmp_path / str(child.pid)).mkdir()
    for name in ("stat", "status"):
        source = Path(f"/proc/{child.pid}/{name}")
        (tmp_path / str(child.pid) / name).write_bytes(source.read_bytes())
    shifted = re.sub(
        r"^btime (\d+)$",
        lambda line: f"btime {int(line[1]) + seconds}",
        Path("/proc/stat").read_text(),
        flags=re.MULTILINE,
    )
    (tmp_path / "stat").write_text(shifted)
    monkeypatch.setattr(psutil, "PROCFS_PATH", str(tmp_path))

    assert psutil.Process(child.pid).create_time() == pytest.approx(seen_before + seconds)
    assert identity.is_alive
