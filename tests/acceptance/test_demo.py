"""The demo, as a newcomer runs it: what it prints is what the README shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from perago.adapters.servers import ThrowawayLakeFS
from tests.architecture.docs_blocks import ROOT
from tests.flights_sample import write_sample
from tests.lakefs_server import settings_of

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]

# What differs from run to run: ids, times, durations, and where the home is.
CHANGING = re.compile(
    r"run [0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|run [0-9a-f]{8}|[0-9a-f]{12}"
    r"|\d{4}-\d\d-\d\d|\d\d:\d\d:\d\d|[\d.]+ m?s\b|\d+ m \d\d s|\S*\.perago\S*"
)
PIPELINE = Path(__file__).parent / "pipelines" / "flights.py"
WRITING_STEPS = ["ingest", "clean", "join", "features", "report"]


def demo(home: Path, *arguments: str, settings: Mapping[str, str] | None = None) -> list[str]:
    return perago(home, "demo", *arguments, settings=settings)


def perago(home: Path, *arguments: str, settings: Mapping[str, str] | None = None) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-m", "perago", *arguments],
        cwd=ROOT,
        env={
            **os.environ,
            "PERAGO_HOME": str(home),
            **(settings or {}),
        },
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
    return steps_of(lines[start : lines.index("", start)])


def steps_of(rows: list[str]) -> list[str]:
    """The steps that made the commits of a log, oldest first."""
    return [row.split()[3] for row in rows if " Run " in row][::-1]


def tables_in(directory: Path) -> dict[str, pa.Table]:
    """Every Parquet file below a directory, its rows in an order of their own."""
    tables = {}
    for path in sorted(directory.rglob("*.parquet")):
        table = pq.read_table(path, partitioning=None)
        order = [(name, "ascending") for name in table.column_names]
        tables[path.relative_to(directory).as_posix()] = table.sort_by(order)
    return tables


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


@pytest.mark.lakefs
@pytest.mark.parametrize("data", ["sample", pytest.param("all", marks=pytest.mark.torture)])
def test_the_same_pipeline_on_lakefs_makes_the_same_tables(
    lakefs_server: ThrowawayLakeFS, tmp_path: Path, data: str
) -> None:
    search = [str(ROOT), *([str(write_sample(tmp_path / "sample"))] if data == "sample" else [])]
    everywhere = {"PYTHONPATH": os.pathsep.join(search[::-1])}
    places = {
        "embedded": everywhere,
        "lakefs": everywhere
        | settings_of(lakefs_server)
        | {"PERAGO_CACHE_DIRECTORY": str(tmp_path / "cache")},
    }
    for place, settings in places.items():
        home = tmp_path / f"home of {place}"
        perago(home, "run", str(PIPELINE), "--repo", "flights", settings=settings)
        log = perago(home, "store", "log", "flights", settings=settings)
        assert steps_of(log) == [f"{step}_flights" for step in WRITING_STEPS]
        perago(home, "store", "export", "flights", str(tmp_path / place), settings=settings)

    ours, theirs = tables_in(tmp_path / "embedded"), tables_in(tmp_path / "lakefs")
    assert ours.keys() == theirs.keys()
    assert len(ours) > 10
    for path, table in ours.items():
        assert table.schema.equals(theirs[path].schema), path
        assert table.equals(theirs[path]), path
        # Perago's Spark writer is stable, so it is not only the same rows: they are the same bytes.
        here, there = tmp_path / "embedded" / path, tmp_path / "lakefs" / path
        assert here.read_bytes() == there.read_bytes(), path
