"""When a supervisor is killed, its executors' whole process groups end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time

import psutil

from perago.runtime.guardian import Guardian

SUPERVISOR = """
    import subprocess, sys, time
    from perago.runtime.guardian import Guardian
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
