"""kill -9 at random moments of a real pipeline, then `--continue`: nothing lost, nothing doubled.

The long version (`make torture`) kills 200 times; the short one runs with every `make test`.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from perago.adapters.embedded.orchestrator import EmbeddedOrchestrator
from perago.adapters.embedded.store import EmbeddedWorkspaceStore
from perago.adapters.localfs.clock import SystemClock
from perago.domain.ids import BranchName, CommitId, ObjectPath, RepositoryName
from perago.domain.publication import Commit

PIPELINE = Path(__file__).parent / "pipelines" / "tally.py"
REPOSITORY = RepositoryName("tally")
MAIN = BranchName("main")
WRITING_STEPS = ["make", "double", "pair"]
CRASH_WINDOW = ("published", "verified")
"""The failpoints between publication and report."""


@dataclass(slots=True)
class Tormentor:
    """Runs the pipeline's command line, kills it, and keeps count."""

    home: Path
    dice: random.Random
    kills: int = 0
    kills_in_window: int = 0
    heads_seen: set[CommitId] = field(default_factory=set)
    replacements: int = 0

    def run_to_the_end(self, *, rows: int, kills: int) -> list[Commit]:
        """Finish one workflow instance in spite of so many kills; return its history."""
        before = self.head()
        target = self.kills + kills
        started = self.runs()
        while self.kills < target:
            arguments = self.arguments(rows, is_started=self.runs() > started)
            if self.torment(arguments):
                break  # it finished first: the next instance gets the rest of the kills
        if self.runs() == started or self.last_status() == "RUNNING":
            arguments = self.arguments(rows, is_started=self.runs() > started)
            finished = self.spawn(arguments, "")
            output = finished.communicate(timeout=120)[0]
            assert finished.returncode == 0, output
        return self.history_since(before)

    def arguments(self, rows: int, *, is_started: bool) -> list[str]:
        common = [str(PIPELINE), "--repo", REPOSITORY, "--param", f"rows={rows}"]
        return [*common, "--continue", "last"] if is_started else common

    def torment(self, arguments: list[str]) -> bool:
        """Start the command and kill it; say whether it ended before it could be killed."""
        in_window = self.dice.random() < 0.5
        point = self.dice.choice(CRASH_WINDOW)
        process = self.spawn(arguments, f"{point}=kill-worker" if in_window else "")
        try:
            timeout = 60 if in_window else self.dice.uniform(0.2, 3.0)
            output = process.communicate(timeout=timeout)[0]
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            self.count_kill(in_window=False)
            return False
        if process.returncode == -signal.SIGKILL:
            self.count_kill(in_window=True)
            return False
        assert process.returncode == 0, output
        return True

    def spawn(self, arguments: list[str], failpoints: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "perago", "run", *arguments],
            env={**os.environ, "PERAGO_HOME": str(self.home), "PERAGO_FAILPOINTS": failpoints},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def count_kill(self, *, in_window: bool) -> None:
        self.kills += 1
        self.kills_in_window += in_window
        self.heads_seen.add(self.head())

    # -- what is in the store and at the orchestrator

    def store(self) -> EmbeddedWorkspaceStore:
        return EmbeddedWorkspaceStore(self.home, SystemClock())

    def head(self) -> CommitId:
        with self.store() as store:
            if REPOSITORY not in store.repositories():
                return CommitId("")
            return store.head(REPOSITORY, MAIN).id

    def history_since(self, base: CommitId) -> list[Commit]:
        """The commits after `base`, oldest first; counts what was replaced on the way."""
        with self.store() as store:
            log = list(store.log(REPOSITORY, store.head(REPOSITORY, MAIN).id))
        ids = [commit.id for commit in log]
        self.replacements += len(self.heads_seen - set(ids) - {CommitId("")})
        self.heads_seen.clear()
        since = ids.index(base) if base in ids else len(ids) - 1
        return log[:since][::-1]

    def runs(self) -> int:
        with EmbeddedOrchestrator(self.home, SystemClock()) as orchestrator:
            return len(orchestrator.workflows(limit=10_000))

    def last_status(self) -> str:
        with EmbeddedOrchestrator(self.home, SystemClock()) as orchestrator:
            return str(orchestrator.workflows(limit=1)[0].status)

    def rows(self) -> bytes:
        """The bytes of the final table: the writer is deterministic."""
        with (
            self.store() as store,
            store.open_object(
                REPOSITORY,
                store.head(REPOSITORY, MAIN).id,
                ObjectPath("tally/paired.parquet"),
            ) as stream,
        ):
            return stream.read()


def undisturbed(home: Path, rows: int) -> bytes:
    """What one run that nobody kills leaves."""
    calm = Tormentor(home=home, dice=random.Random(0))
    calm.run_to_the_end(rows=rows, kills=0)
    return calm.rows()


def torture(tmp_path: Path, *, kills: int, seed: int) -> Tormentor:
    tormentor = Tormentor(home=tmp_path / "home", dice=random.Random(seed))
    rows = 0
    while tormentor.kills < kills:
        rows += 100  # another number of rows for every instance, so that each step publishes
        history = tormentor.run_to_the_end(rows=rows, kills=min(12, kills - tormentor.kills))
        steps = [commit.metadata["perago.reference"] for commit in history]
        assert steps == WRITING_STEPS, "one commit for each writing step, in order"
        assert all(len(commit.parents) == 1 for commit in history), "linear"
        assert tormentor.rows() == undisturbed(tmp_path / f"calm-{rows}", rows)
    verified = subprocess.run(
        [sys.executable, "-m", "perago", "store", "verify", "--json"],
        env={**os.environ, "PERAGO_HOME": str(tormentor.home)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert json.loads(verified.stdout)
    return tormentor


def test_a_few_kills(tmp_path: Path) -> None:
    tormentor = torture(tmp_path, kills=8, seed=7)

    assert tormentor.kills_in_window > 0
    assert tormentor.replacements > 0


@pytest.mark.torture
@pytest.mark.timeout(3600)
def test_two_hundred_kills(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    seed = time.time_ns()
    tormentor = torture(tmp_path, kills=200, seed=seed)

    with capsys.disabled():
        sys.stdout.write(
            f"\nseed {seed}: {tormentor.kills} kills, {tormentor.kills_in_window} between "
            f"publication and report, {tormentor.replacements} replacements\n"
        )
    assert tormentor.kills_in_window >= 30
    assert tormentor.replacements >= 30
