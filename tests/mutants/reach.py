"""Which tests reach which lines: a run of the suite under coverage, each line with its tests.

Processes that tests start are recorded under the name of the running test, except those that are
killed.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from coverage import Coverage, CoverageData

from tests.mutants.defects import Defect

# After a test's name: the phase, by pytest-cov behind `|` and by pytest in parentheses; and behind
# `@` the group, by xdist.
_DECORATION = re.compile(r"(\|(setup|run|teardown)| \((setup|call|teardown)\))$")
_GROUP = re.compile(r"@[\w -]+$")

_CHILDREN = """\
[run]
source_pkgs = perago
data_file = {data}
branch = true
parallel = true
context = ${{PYTEST_CURRENT_TEST-}}
sigterm = true
patch = _exit
"""


@dataclass(frozen=True, slots=True)
class Reach:
    """The tests of every line that was reached, by file and line."""

    tests: dict[str, dict[int, set[str]]] = field(default_factory=dict)

    def of(self, defect: Defect) -> list[str]:
        """The tests that reach a defect's lines; empty if none does.

        A line that only runs while its file is imported belongs to all tests that reach the file.
        """
        lines = self.tests.get(defect.file, {})
        found: set[str] = set()
        for line in range(defect.first_line, defect.last_line + 1):
            found |= lines.get(line, set())
        if not found - {""} and "" in found:
            found = set().union(*lines.values())
        return sorted(found - {""})

    def without(self, other: Reach) -> Reach:
        """The tests of each line but for those that the other one has there."""
        return Reach(
            {
                file: {
                    line: found - other.tests.get(file, {}).get(line, set()) | found & {""}
                    for line, found in lines.items()
                }
                for file, lines in self.tests.items()
            }
        )


def clean_environment(tree: Path) -> dict[str, str]:
    """Of a run whose `perago` is the tree's, and whose examples are drawn alike every time."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTEST_", "COV_", "COVERAGE_", "PERAGO_"))
    }
    # Each defect's first test also waits for its servers to start: no test is too slow here.
    return kept | {"PYTHONPATH": str(tree / "src"), "CI": "1", "TEST_SECONDS": "inf"}


def record_reach(tree: Path, data: Path, arguments: Sequence[str]) -> Reach:
    """Run these tests in a tree, once. Tests that fail there are left out: they find nothing."""
    data.mkdir(parents=True, exist_ok=True)
    whole = data / "reach"
    if not whole.is_file():
        _run(tree, data, arguments)
        _combine(data, whole)
    told = (data / "failed.txt").read_text(encoding="utf-8")
    failed = set(re.findall(r"^(tests/.*) \((?:setup|call|teardown)\)$", told, re.MULTILINE))
    for test in sorted(failed):
        print(f"left out, since it fails without any defect: {test}")
    return _read(tree, whole, failed)


def _run(tree: Path, data: Path, arguments: Sequence[str]) -> None:
    for old in data.glob(".coverage*"):
        old.unlink()
    children = data / "children.ini"
    children.write_text(_CHILDREN.format(data=data / ".coverage"), encoding="utf-8")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", *arguments, "-p", "no:cacheprovider"),
            *("--cov", "--cov-context=test", "--cov-report=", f"--results={data}"),
        ],
        cwd=tree,
        env=clean_environment(tree)
        | {
            "COVERAGE_FILE": str(data / ".coverage.tests"),
            "COVERAGE_PROCESS_START": str(children),
        },
        check=False,
    )
    if done.returncode not in {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED}:
        sys.exit("mutants: the tests cannot be run")


def _combine(data: Path, whole: Path) -> None:
    coverage = Coverage(data_file=str(data / ".whole"), config_file=False)
    coverage.combine([str(path) for path in data.glob(".coverage*")])
    coverage.save()
    (data / ".whole").replace(whole)


def _read(tree: Path, whole: Path, left_out: set[str]) -> Reach:
    found = CoverageData(basename=str(whole))
    found.read()
    root = tree.resolve()
    return Reach(
        {
            Path(file).relative_to(root).as_posix(): {
                line: tests - left_out for line, tests in _lines(found, file)
            }
            for file in found.measured_files()
            if Path(file).is_relative_to(root)
        }
    )


def _lines(found: CoverageData, file: str) -> Iterator[tuple[int, set[str]]]:
    for line, contexts in found.contexts_by_lineno(file).items():
        yield line, {_GROUP.sub("", _DECORATION.sub("", context)) for context in contexts}
