"""Attempts of all contestants on the same workspaces, taking turns."""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from bench.place import remove_large
from bench.store import level_field, make_files
from bench.transfer.child import Job, Run
from bench.transfer.contestants import Contestant, Publishes
from bench.transfer.server import Server
from bench.transfer.workload import MIB, Scenario, Workspace, changed_files, file_name, new_content

MAIN = "main"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One attempt that was run, and what it cost the server.

    `stored` is how many objects it left in the block store.
    """

    workspace: str
    scenario: Scenario
    contestant: str
    round: int
    run: Run
    server_cpu_seconds: float
    stored: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Seeded:
    """A repository that holds a workspace, and the files that were imported."""

    workspace: Workspace
    repository: str
    ref: str
    source: Path


class Contest:
    """Runs attempts on one server and checks what each left there."""

    def __init__(self, server: Server, place: Path) -> None:
        self._server = server
        self._place = place
        self._numbers = count(1)

    def run(
        self,
        seeded: Seeded,
        contestants: Mapping[str, Contestant],
        scenarios: Sequence[Scenario],
        rounds: int,
    ) -> Iterator[Attempt]:
        """Each contestant in each scenario, so many times; who goes first changes."""
        names = list(contestants)
        for number in range(rounds):
            for scenario in scenarios:
                turn = number % len(names)
                for name in names[turn:] + names[:turn]:
                    job = self._new_job(seeded, scenario)
                    run, cpu_seconds, stored = self._run_one(job, contestants[name])
                    yield Attempt(
                        workspace=seeded.workspace.name,
                        scenario=scenario,
                        contestant=name,
                        round=number,
                        run=run,
                        server_cpu_seconds=cpu_seconds,
                        stored=stored,
                    )

    def _new_job(self, seeded: Seeded, scenario: Scenario) -> Job:
        seed = next(self._numbers)
        return Job(
            workspace=seeded.workspace,
            scenario=scenario,
            seed=seed,
            repository=seeded.repository,
            branch=f"attempt-{seed}",
            ref=seeded.ref,
            source=seeded.source,
            place=self._place / f"attempt-{seed}",
        )

    def _run_one(self, job: Job, contestant: Contestant) -> tuple[Run, float, int]:
        """One attempt on a branch and in a directory of its own; what takes room is removed."""
        job.place.mkdir()
        known = self._server.stored_files(job.repository)
        self._server.create_branch(job.repository, job.branch, job.ref)
        contestant.prepare(job)
        level_field(2 * job.workspace.total)
        before = self._server.cpu_seconds
        run = contestant.attempt(job)
        cpu_seconds = self._server.cpu_seconds - before
        if contestant.publishes is not Publishes.NOTHING:
            self._check(job, exactly=contestant.publishes is Publishes.CHANGES)
        self._server.delete_branch(job.repository, job.branch)
        remove_large(job.place.rglob("*"))
        return run, cpu_seconds, self._server.forget_files(job.repository, known)

    def _check(self, job: Job, *, exactly: bool) -> None:
        """What the body changed is on the branch, and one file is looked into."""
        changed = changed_files(job.scenario, job.workspace.count)
        expected = {file_name(index) for index in changed}
        head = self._server.head(job.repository, job.branch)
        paths = self._server.changed_paths(job.repository, job.ref, head)
        if not expected <= paths or (exactly and paths != expected):
            raise RuntimeError(f"{job.scenario}: {len(paths)} objects changed on the branch")
        if changed and job.workspace.size <= 64 * MIB:
            index = changed[-1]
            found = self._server.read_object(job.repository, head, file_name(index))
            if found != b"".join(new_content(job.seed, index, job.workspace.size)):
                raise RuntimeError(f"{job.scenario}: {file_name(index)} has another content")


def make_source(workspace: Workspace, place: Path) -> Path:
    """The files of a workspace, the same in every run."""
    return make_files(place / f"source-{workspace.name}", workspace.count, workspace.size)


def median_of(attempts: Sequence[Attempt], phase: str | None = None) -> float:
    """The median of whole attempts, or of one phase of theirs."""
    return statistics.median(
        a.run.seconds if phase is None else a.run.phases.get(phase, 0.0) for a in attempts
    )
