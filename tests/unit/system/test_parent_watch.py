"""When a supervisor is killed, its executors' whole process groups end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import psutil
import pytest

from perago.system.parent_watch import Guardian

SUPERVISOR = """
    import subprocess, sys, time
    from perago.system.parent_watch import Guardian
    leader = subprocess.Popen(
        ["/bin/sh", "-c", "sleep 600 & sleep 600"],
        start_new_session=True,
        stdout=subprocess.DEVNULL,
    )
    guardian = Guardian(leader.pid)
    print(leader.pid, flush=True)
    time.sleep(600)
"""


def members(group: int) -> list[int]:
    """The processes of a group that still run."""
    found = []
    for process in psutil.process_iter():
        try:
            if os.getpgid(process.pid) == group and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
        except (ProcessLookupError, psutil.NoSuchProcess):
            continue
    return found


def test_a_killed_supervisor_takes_the_group_along() -> None:
    supervisor = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(SUPERVISOR)], stdout=subprocess.PIPE, text=True
    )
    assert supervisor.stdout is not None
    group = int(supervisor.stdout.readline())
    assert members(group)

    supervisor.kill()
    supervisor.communicate()

    ends = time.monotonic() + 30
    while members(group):
        assert time.monotonic() < ends, "the group outlived its supervisor"
        time.sleep(0.02)


def test_a_dismissed_guardian_leaves_the_group_alone() -> None:
    leader = subprocess.Popen(["/bin/sh", "-c", "sleep 600"], start_new_session=True)
    try:
        Guardian(leader.pid).dismiss()
        time.sleep(0.1)
        assert leader.poll() is None
    finally:
        os.killpg(leader.pid, signal.SIGKILL)
        leader.wait()


AFTER_CLOSING_ALL = """
    import os, sys
    from perago.system.parent_watch import ParentWatch
    watch = ParentWatch(["/bin/cat"], leads="session")
    os.closerange(3, 64)
    kept = [os.open(sys.argv[1], os.O_RDWR | os.O_CREAT) for _ in range(40)]
    try:
        watch.tell("secret")
    except OSError as error:
        print(error.strerror)
    getattr(watch, sys.argv[2])(*([30] if sys.argv[2] == "act" else []))
    print(watch.is_running, sum(os.fstat(one).st_nlink for one in kept), os.fstat(kept[0]).st_size)
"""


@pytest.mark.parametrize("end", ["act", "dismiss"])
def test_a_body_s_file_with_the_number_of_the_pipe_is_neither_written_nor_closed(
    tmp_path: Path, end: str
) -> None:
    told = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(AFTER_CLOSING_ALL), tmp_path / "body's", end],
        capture_output=True,
        text=True,
        check=False,
    )
    said = "its pipe was closed in this process\nFalse 40 0\n"
    assert (told.stdout, told.stderr) == (said, "")
