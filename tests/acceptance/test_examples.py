"""The tests that stand beside the examples pass, run the way a reader would run them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize(
    "directory",
    sorted({path.parent for path in EXAMPLES.glob("*/test_*.py")}),
    ids=lambda p: p.name,
)
def test_the_tests_of_an_example_pass(directory: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "/dev/null", "."],
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
