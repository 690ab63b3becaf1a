"""Ask whether a version that is locked has a known vulnerability: `make audit`.

    python -m tests.audit

Exit codes: 0 none is known, 1 some are, 3 there was no advisory data to be had, 2 the audit itself
is broken. A 3 says nothing about the versions: it is no green light.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from enum import IntEnum
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
LOCK = PROJECT / "requirements" / "dev.txt"
"""The versions of all other locks are among its own."""

ASK = (
    "--strict",
    "--require-hashes",
    "--disable-pip",
    "--progress-spinner",
    "off",
    "-r",
    str(LOCK),
)
_NO_DATA = (
    "Could not connect to",
    "could not be audited",
    "network may be blocking",
    "ServiceError",
    "is not redirecting properly",
)
"""What pip-audit says when its service does not answer, or knows nothing of a package."""


class Finding(IntEnum):
    """What an audit came to."""

    CLEAN = 0
    VULNERABLE = 1
    BROKEN = 2
    NO_DATA = 3


def decide_finding(code: int, said: str) -> Finding:
    """What pip-audit's exit means: it has one code for findings and for every trouble."""
    if code == 0:
        return Finding.CLEAN
    if code == 1 and any(line.startswith("Found ") for line in said.splitlines()):
        return Finding.VULNERABLE
    return Finding.NO_DATA if any(words in said for words in _NO_DATA) else Finding.BROKEN


def main(arguments: Sequence[str] | None = None) -> int:
    """Run pip-audit and tell what it found."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m tests.audit")
    parser.add_argument("--pip-audit", default=str(Path(sys.executable).with_name("pip-audit")))
    command = [parser.parse_args(arguments).pip_audit, *ASK]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    sys.stdout.write(answer.stdout)
    sys.stderr.write(answer.stderr)
    finding = decide_finding(answer.returncode, answer.stderr)
    if finding is Finding.NO_DATA:
        sys.stderr.write("audit: no advisory data to be had; nothing is known of these versions\n")
    return finding


if __name__ == "__main__":
    sys.exit(main())
