"""What Perago starts gets none of its own variables, nor can it read them elsewhere."""

from __future__ import annotations

import ctypes
import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from perago.adapters.environment import (
    hidden_environment,
    is_own,
    not_dumpable,
    without_own_variables,
)

SECRET = "hunter2-hunter2"
GET_DUMPABLE = 3
SET_DUMPABLE = 4
LOOK = """
import json, os
from pathlib import Path
parent = Path(f"/proc/{os.getppid()}/environ")
shown = parent.read_text() if parent.exists() else ""
print(json.dumps({"own": dict(os.environ), "parent": shown}))
"""
HIDE = f"""
import os, subprocess, sys
from pathlib import Path
from perago.adapters.environment import hidden_environment
with hidden_environment(["LAKECTL_KEPT", "PERAGO_KEPT_*"]):
    subprocess.run([sys.executable, "-c", {LOOK!r}], check=True)
assert os.environ["PERAGO_LAKEFS_SECRET_ACCESS_KEY"] == {SECRET!r}
"""


@pytest.mark.parametrize(
    "name",
    [
        "PERAGO_HOME",
        "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY",
        "LAKEFS_AUTH_ENCRYPT_SECRET_KEY",
        "CONDUCTOR_AUTH_SECRET",
        "OTEL_EXPORTER_OTLP_HEADERS",
        "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
    ],
)
def test_perago_s_own_variables_and_those_of_its_servers(name: str) -> None:
    assert is_own(name)
    assert without_own_variables({name: "x", "PATH": "/bin"}) == {"PATH": "/bin"}
    assert without_own_variables({name: "x"}, keep=[f"{name[:6]}*"]) == {name: "x"}


@pytest.mark.parametrize("name", ["PATH", "AWS_SECRET_ACCESS_KEY", "PERAGON", "OTEL_SERVICE_NAME"])
def test_what_a_task_reads_by_itself_stays(name: str) -> None:
    assert not is_own(name)


def test_a_program_that_is_started_finds_them_nowhere() -> None:
    given = {
        "PERAGO_LAKEFS_SECRET_ACCESS_KEY": SECRET,
        "CONDUCTOR_AUTH_SECRET": f"{SECRET} {SECRET}",
        "LAKECTL_KEPT": "kept",
        "PERAGO_KEPT_TOO": "kept, too",
        "MINE": "a=b\nc",
    }
    answer = subprocess.run(
        [sys.executable, "-c", HIDE],
        env=dict(os.environ) | given,
        capture_output=True,
        text=True,
        check=True,
    )

    seen = json.loads(answer.stdout)
    assert SECRET not in answer.stdout
    assert seen["own"].items() >= {"LAKECTL_KEPT": "kept", "PERAGO_KEPT_TOO": "kept, too"}.items()
    assert "CONDUCTOR_AUTH_SECRET" not in seen["own"]
    if seen["parent"]:  # where the kernel shows it at all, to root
        assert "MINE=a=b\nc\0" in seen["parent"], "nothing else was overwritten"
        assert "LAKECTL_KEPT=kept\0" in seen["parent"]


def test_everything_is_as_before_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERAGO_HOME", "here")
    before = dict(os.environ)

    def fail_inside() -> None:
        with hidden_environment():
            assert "PERAGO_HOME" not in os.environ
            raise KeyError

    with pytest.raises(KeyError):
        fail_inside()
    assert dict(os.environ) == before


def test_other_processes_of_this_user_cannot_look_into_this_one() -> None:
    if sys.platform != "linux":
        return  # no other system has this switch
    prctl = ctypes.CDLL(None).prctl
    before = prctl(GET_DUMPABLE, 0, 0, 0, 0)

    with hidden_environment():
        assert prctl(GET_DUMPABLE, 0, 0, 0, 0) == 0
        assert Path("/proc/self/environ").stat().st_uid == 0, "the kernel shows it to root alone"

    assert prctl(GET_DUMPABLE, 0, 0, 0, 0) == before


class Kernel:
    """One that is asked for nothing but this switch."""

    def __init__(self, dumpable: int, *, refuses: bool = False) -> None:
        self.dumpable = dumpable
        self.refuses = refuses
        self.sets: list[int] = []

    def prctl(self, option: int, value: int, *_: int) -> int:
        """As Linux does: of the three values that there are, it sets two."""
        if option == GET_DUMPABLE:
            return self.dumpable
        assert option == SET_DUMPABLE
        self.sets.append(value)
        if self.refuses or value not in (0, 1):
            return -1
        self.dumpable = value
        return 0


@pytest.mark.parametrize(("before", "after"), [(0, 0), (1, 1), (2, 0)])
def test_the_kernel_is_asked_for_no_value_that_it_cannot_set(
    before: int, after: int, caplog: pytest.LogCaptureFixture
) -> None:
    kernel = Kernel(before)

    with not_dumpable(kernel.prctl):
        assert kernel.dumpable == 0

    assert kernel.dumpable == after
    assert 2 not in kernel.sets
    assert caplog.messages == []


def test_a_refusal_to_hide_the_memory_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    kernel = Kernel(1, refuses=True)

    with caplog.at_level(logging.WARNING), not_dumpable(kernel.prctl):
        pass

    (message,) = caplog.messages
    assert "refuses to hide" in message
    assert kernel.sets == [0], "nothing is to be restored"
