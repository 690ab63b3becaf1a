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
    """What became of a defect: the test that failed, or how many let it live."""

    defect: Defect
    tests: int
    killer: str | None

    def __str__(self) -> str:
        if self.killer is not None:
            return f"killed by {self.killer}\n    {self.defect}"
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
    verdicts = _try_all(drawn, trees, record_reach(trees[0], data / "quick", QUICK))
    if asked.all:
        survivors = [verdict for verdict in verdicts if verdict.killer is None]
        print(f"\n{len(survivors)} survived `make quick`; with all tests:\n")
        reach = record_reach(trees[0], data / "all", ALL)
        again = _try_all([verdict.defect for verdict in survivors], trees, reach)
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


def _try_all(defects: Sequence[Defect], trees: Sequence[Path], reach: Reach) -> list[Verdict]:
    free: queue.SimpleQueue[Path] = queue.SimpleQueue()
    for tree in trees:
        free.put(tree)

    def attempt(defect: Defect) -> Verdict:
        tree = free.get()
        try:
            verdict = _try(defect, tree, reach.of(defect))
        finally:
            free.put(tree)
        print(verdict, flush=True)
        return verdict

    with ThreadPoolExecutor(len(trees)) as pool:
        return list(pool.map(attempt, defects))


def _try(defect: Defect, tree: Path, tests: list[str]) -> Verdict:
    if not tests:
        return Verdict(defect=defect, tests=0, killer=None)
    sound = (tree / defect.file).read_bytes()
    chosen = tree.with_suffix(".tests")
    chosen.write_text("\n".join(tests), encoding="utf-8")
    defect.plant(tree)
    try:
        return Verdict(defect=defect, tests=len(tests), killer=_first_failure(tree, chosen))
    finally:
        (tree / defect.file).write_bytes(sound)


def _first_failure(tree: Path, chosen: Path) -> str | None:
    command = [
        *(sys.executable, "-B", "-m", "pytest", f"@{chosen}"),
        *("-x", "-q", "--tb=no", "-p", "no:cacheprovider", f"--timeout={_TEST_SECONDS}"),
    ]
    try:
        done = subprocess.run(
            command,
            cwd=tree,
            env=clean_environment(tree) | {"PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            check=False,
            timeout=_DEFECT_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return "a test that never ended"
    if done.returncode == 0:
        return None
    return _name_of_failure(done.stdout.splitlines()) or done.stdout.strip()[-300:]


def _name_of_failure(lines: Iterable[str]) -> str | None:
    for line in lines:
        if line.startswith(("FAILED ", "ERROR ")):
            return line.split(" ", 1)[1].partition(" - ")[0]
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
    # Some tests ask for the project's interpreter and git's list of its files by these names.
    (tree / ".venv").symlink_to(PROJECT / ".venv")
    return tree


if __name__ == "__main__":
    sys.exit(main())
