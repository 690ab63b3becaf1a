"""The demo, as a newcomer runs it: what it prints is what the README shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.docs_blocks import ROOT

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]

# What differs from run to run: ids, times, durations, and where the home is.
CHANGING = re.compile(
    r"run [0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|run [0-9a-f]{8}|[0-9a-f]{12}"
    r"|\d{4}-\d\d-\d\d|\d\d:\d\d:\d\d|[\d.]+ m?s\b|\d+ m \d\d s|\S*\.perago\S*"
)
WRITING_STEPS = ["ingest", "clean", "join", "features", "report"]


def demo(home: Path, *arguments: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-m", "perago", "demo", *arguments],
        cwd=ROOT,
        env=os.environ | {"PERAGO_HOME": str(home)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout.splitlines()


def blur(line: str) -> str:
    return CHANGING.sub("…", line).strip()


def shown_in(readme: Path) -> list[str]:
    """The lines that a README shows below `make demo`, but for the gaps."""
    text = readme.read_text(encoding="utf-8")
    block = text.partition("$ make demo\n")[2].partition("```")[0]
    return [blur(line) for line in block.splitlines() if line.strip() not in ("", "…")]


def steps_in(lines: list[str], title: str) -> list[str]:
    """The steps of the history that is printed below a title, oldest first, retries cut off."""
    start = lines.index(title) + 2
    rows = lines[start : lines.index("", start)]
    return [row.split()[3] for row in rows if " Run " in row][::-1]


def test_the_demo_on_all_the_data(tmp_path: Path) -> None:
    """One test for three runs, for each takes half a minute: the first, a second, and a crash."""
    home = tmp_path / "first" / ".perago"

    first = demo(home)

    printed = [blur(line) for line in first]
    for readme in sorted(ROOT.glob("README*.md")):
        missing = [line for line in shown_in(readme) if line not in printed]
        assert missing == [], f"{readme.name} shows what is not printed"
    assert steps_in(first, "history of flights@main") == WRITING_STEPS
    report = (home / "demo" / "flights" / "index.html").read_text(encoding="utf-8")
    assert "336,776" in report

    second = demo(home)

    assert "nothing changed: no commit" in second
    assert steps_in(second, "history of flights@main") == WRITING_STEPS

    crash = demo(tmp_path / "crash" / ".perago", "--crash")

    assert any("an executor died in features" in line for line in crash)
    assert steps_in(crash, "history of flights-crash@main") == WRITING_STEPS
    story = " ".join(crash[crash.index("the crash") :])
    assert "replaced it" in story
    assert "The history is linear: 5 commits" in story
