"""Plant single defects and see whether a test fails: `make mutants`.

    python -m tests.mutants --count 60 --seed 1         with the tests of `make quick`
    python -m tests.mutants --count 60 --seed 1 --all   what survived those, with all of `make test`

The seed draws the defects from `domain`, `app` and `runtime`, as many of each kind. A defect is
planted in a copy of the project, never in the project itself, and meets only the tests that reach
its line. The first run of a suite finds out which those are: it takes as long as the suite, and its
result is kept until the code changes.

Why not mutmut 3.8 or cosmic-ray 8.7: neither leaves out a statement (a fence that is skipped),
draws by a seed, or chooses tests by the line.
"""

from __future__ import annotations

import argparse
import hashlib
import queue
import random
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.mutants.defects import KINDS, Defect, find_defects
from tests.mutants.reach import Reach, clean_environment, record_reach

PROJECT = Path(__file__).resolve().parents[2]
PARTS = ("domain", "app", "runtime")
QUICK_PATHS = ("tests/unit", "tests/property", "tests/contract", "tests/architecture")
QUICK = [
    *QUICK_PATHS,
    *("-n", "2", "--dist", "loadgroup"),
    *("-m", "not (slow or spark or lakefs or conductor or torture)"),
]
ALL = ["-n", "4", "--dist", "loadgroup"]

_TEST_SECONDS = 120
"""What one test may take with a defect: some wait for ever with one."""

_DEFECT_SECONDS = 1800


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The test that found a defect, or how many ran without finding it."""

    defect: Defect
    tests: int
    killer: str | None
    trouble: str | None = None
    """Why the tests could not be run to their end."""

    def __str__(self) -> str:
        if self.killer is not None:
            return f"killed by {self.killer}\n    {self.defect}"
        if self.trouble is not None:
            return f"NOT JUDGED: {self.trouble}\n    {self.defect}"
        if self.tests == 0:
            return f"SURVIVED: no test reaches it\n    {self.defect}"
        return f"SURVIVED {self.tests} tests\n    {self.defect}"


def main() -> int:
    """Run the command; 1 if a defect survived."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--count", type=int, default=60, help="defects to draw (default: 60)")
    parser.add_argument("--seed", type=int, default=1, help="which ones are drawn (default: 1)")
    parser.add_argument("--all", action="store_true", help="try the survivors on all tests")
    parser.add_argument("--only", default="", help="only defects of files with this in their name")
    asked = parser.parse_args()
    base = PROJECT / "build" / "mutants"
    base.mkdir(parents=True, exist_ok=True)
    data = base / _fingerprint()
    trees = [_copy_project(base / f"tree-{number}") for number in range(2)]
    drawn = draw(trees[0], count=asked.count, seed=asked.seed, only=asked.only)
    quick = record_reach(trees[0], data / "quick", QUICK)
    verdicts = _try_all(drawn, trees, quick)
    if asked.all:
        survivors = [verdict for verdict in verdicts if verdict.killer is None]
        print(f"\n{len(survivors)} survived `make quick`; with all tests:\n")
        rest = record_reach(trees[0], data / "all", ALL).without(quick)
        again = _try_all([verdict.defect for verdict in survivors], trees[:1], rest, ALL)
        verdicts = [verdict for verdict in verdicts if verdict.killer is not None] + again
    killed = sum(verdict.killer is not None for verdict in verdicts)
    print(f"\nseed {asked.seed}: {killed} of {len(verdicts)} defects were found")
    return 0 if killed == len(verdicts) else 1


def draw(tree: Path, *, count: int, seed: int, only: str = "") -> list[Defect]:
    """So many defects, as many of each kind as there can be; the same for the same code."""
    chance = random.Random(seed)
    files = [
        path.relative_to(tree).as_posix()
        for part in PARTS
        for path in sorted((tree / "src" / "perago" / part).rglob("*.py"))
    ]
    found = [defect for file in files if only in file for defect in find_defects(tree, file)]
    drawn = []
    for number, kind in enumerate(KINDS):
        share = count // len(KINDS) + (number < count % len(KINDS))
        candidates = [defect for defect in found if defect.kind == kind]
        drawn += chance.sample(candidates, min(share, len(candidates)))
    return drawn


def _try_all(
    defects: Sequence[Defect], trees: Sequence[Path], reach: Reach, options: Sequence[str] = ()
) -> list[Verdict]:
    free: queue.SimpleQueue[Path] = queue.SimpleQueue()
    for tree in trees:
        free.put(tree)

    def attempt(defect: Defect) -> Verdict:
        tree = free.get()
        try:
            verdict = _try(defect, tree, reach.of(defect), options)
        finally:
            free.put(tree)
        print(verdict, flush=True)
        return verdict

    with ThreadPoolExecutor(len(trees)) as pool:
        return list(pool.map(attempt, defects))


def _try(defect: Defect, tree: Path, tests: list[str], options: Sequence[str]) -> Verdict:
    if not tests:
        return Verdict(defect=defect, tests=0, killer=None)
    sound = (tree / defect.file).read_bytes()
    chosen = tree.with_suffix(".tests")
    chosen.write_text("\n".join(tests), encoding="utf-8")
    defect.plant(tree)
    try:
        killer = _first_failure(tree, chosen, options)
        return Verdict(defect=defect, tests=len(tests), killer=killer)
    except _NotJudgedError as trouble:
        return Verdict(defect=defect, tests=len(tests), killer=None, trouble=str(trouble))
    finally:
        (tree / defect.file).write_bytes(sound)


class _NotJudgedError(Exception):
    """The tests of a defect could not be run to their end."""


def _first_failure(tree: Path, chosen: Path, options: Sequence[str]) -> str | None:
    command = [
        *(sys.executable, "-m", "pytest", f"@{chosen}", *options),
        *("-x", "-q", "--tb=no", "-p", "no:cacheprovider", f"--timeout={_TEST_SECONDS}"),
    ]
    try:
        done = subprocess.run(
            command,
            cwd=tree,
            env=clean_environment(tree),
            capture_output=True,
            text=True,
            check=False,
            timeout=_DEFECT_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise _NotJudgedError(f"its tests take more than {_DEFECT_SECONDS} s") from None
    if done.returncode == 0:
        return None
    if (name := name_of_failure(done.stdout.splitlines())) is not None:
        return name
    if done.returncode not in set(pytest.ExitCode):
        return f"the end of pytest itself, with code {done.returncode}"
    raise _NotJudgedError(f"pytest ended with code {done.returncode}: {done.stderr[-300:]}")


def name_of_failure(lines: Iterable[str]) -> str | None:
    """The first test or module in pytest's summary that failed."""
    for line in lines:
        kind, _, rest = line.partition(" ")
        if kind in {"FAILED", "ERROR"} and rest.startswith("tests/"):
            return rest.partition(" - ")[0]
    return None


def _files() -> list[Path]:
    """The project's files, as git knows them: changed and new ones, too."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=True,
    )
    paths = (Path(name) for name in listed.stdout.split("\0") if name)
    return sorted(path for path in paths if (PROJECT / path).is_file())


def _fingerprint() -> str:
    """Of everything that a test could see."""
    seen = hashlib.sha256()
    for path in _files():
        seen.update(f"{path}\0".encode())
        seen.update(hashlib.sha256((PROJECT / path).read_bytes()).digest())
    return seen.hexdigest()[:12]


def _copy_project(tree: Path) -> Path:
    shutil.rmtree(tree, ignore_errors=True)
    for path in _files():
        target = tree / path
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(PROJECT / path, target)
    # Some tests run the interpreter that they find there.
    (tree / ".venv").symlink_to(PROJECT / ".venv")
    return tree


if __name__ == "__main__":
    sys.exit(main())
