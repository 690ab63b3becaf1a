"""What the audit of the locked versions ends with, by what pip-audit says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.audit import LOCK, PROJECT, Finding, main

CLEAN = "echo 'No known vulnerabilities found' >&2"
FOUND = "echo 'Found 2 known vulnerabilities in 1 package' >&2; echo 'pip 1.0 PYSEC-1'; exit 1"
NOBODY = "echo 'ERROR:x: Could not connect to PyPI'\"'\"'s vulnerability feed' >&2; exit 1"
UNKNOWN = "echo 'ERROR:x: a: Dependency not found on PyPI and could not be audited: a' >&2; exit 1"
SERVICE = "echo 'pip_audit._service.interface.ServiceError' >&2; exit 1"
BROKEN = "echo 'ERROR:x: invalid requirements input: nowhere.txt' >&2; exit 1"
USAGE = "echo 'usage: pip-audit' >&2; exit 2"


def make_stand_in(directory: Path, act: str) -> str:
    program = directory / "pip-audit"
    program.write_text(f'#!/bin/sh\necho "$@" > {directory}/asked\n{act}\n')
    program.chmod(0o755)
    return str(program)


@pytest.mark.parametrize(
    ("act", "code"),
    [
        (CLEAN, 0),
        (FOUND, 1),
        (NOBODY, 3),
        (UNKNOWN, 3),
        (SERVICE, 3),
        (BROKEN, 2),
        (USAGE, 2),
    ],
)
def test_the_exit_code_says_what_is_known(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], act: str, code: int
) -> None:
    ended = main(["--pip-audit", make_stand_in(tmp_path, act)])

    assert ended == code
    said = capsys.readouterr()
    assert ("no advisory data" in said.err) == (code == Finding.NO_DATA)
    assert ("PYSEC-1" in said.out) == (code == Finding.VULNERABLE)
    asked = (tmp_path / "asked").read_text()
    assert asked.startswith("--strict --require-hashes")
    assert asked.strip().endswith(str(LOCK))


def test_the_audited_lock_has_the_versions_of_all_others() -> None:
    def versions(lock: Path) -> set[str]:
        lines = lock.read_text().splitlines()
        pinned = [line.split(" ")[0] for line in lines if "==" in line and line[0].isalnum()]
        return {re.sub(r"\[.*\]", "", pin) for pin in pinned}

    for lock in (PROJECT / "requirements").glob("*.txt"):
        assert versions(lock) <= versions(LOCK), lock.name
