"""What an attempt costs beyond its body: one file of 1000 changed, on the embedded store.

The attempts are whole ones, in this process, over the real embedded ports; only the body's own
time is left out. `cp -r` of the same 1000 files in the same run is the measure of the machine.
"""

import shutil
import statistics
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel

from bench.store import CP, make_files
from perago import Pipeline, WorkspaceSpec, task
from perago.adapters.embedded.orchestrator import EmbeddedOrchestrator
from perago.adapters.embedded.store import EmbeddedWorkspaceStore
from perago.adapters.guardrails import LocalGuardrailEvaluator
from perago.adapters.localfs.clock import SystemClock
from perago.adapters.localfs.directories import LocalAttemptDirectories
from perago.adapters.localfs.scan import scan_directory
from perago.adapters.localfs.tree_index import TreeIndex
from perago.adapters.spark import LocalSparkSessions, SparkGuardrailEvaluator, SparkSettings
from perago.app.attempt_ports import AttemptPorts
from perago.app.follow import RunRequest, start_run
from perago.app.run_attempt import AttemptRun
from perago.app.transfer import ImportRequest, import_directory
from perago.domain.ids import BranchName, ExecutionId, RepositoryName, WorkerId
from perago.domain.outcome import Phase
from perago.domain.spark_progress import SparkProgress
from perago.domain.workspace import Prefix
from perago.runtime.failpoints import RuleFailpoints
from perago.runtime.isolation import ProcessIsolation

ATTEMPTS = 21
REPOSITORY, MAIN = RepositoryName("bench"), BranchName("main")
AFTER_THE_BODY = (Phase.POST_CHECK, Phase.DIFF, Phase.STAGE, Phase.PUBLISH, Phase.REPORT)
AIM_MS = 50


class Params(BaseModel):
    """What to write."""

    text: str


class Result(BaseModel):
    """Nothing of interest."""


@task("change_one", owner_email="bench@example.com", workspace=WorkspaceSpec(prefix="/"))
def change_one(workspace: Path, params: Params) -> Result:
    """Change one file of many."""
    (workspace / "part-00500").write_text(params.text)
    return Result()


@dataclass(slots=True)
class Stopwatch:
    """Adds up the phases of every attempt."""

    deadline: float = float("inf")
    is_lost: bool = False
    poll_count: int | None = None
    phases: dict[Phase, list[float]] = field(default_factory=dict)

    def phase_started(self, phase: Phase) -> None:
        """A phase begins."""

    def phase_ended(self, phase: Phase, seconds: float) -> None:
        """Take its time."""
        self.phases.setdefault(phase, []).append(seconds)

    def transferred(self, objects: int, size: int) -> None:
        """Not of interest here."""

    def progressed(self, message: str, fraction: float | None) -> None:
        """Not of interest here."""

    def spark_progressed(self, progress: SparkProgress, line: str | None) -> None:
        """Not of interest here."""


def main() -> None:
    """Run the attempts and print the phases."""
    with tempfile.TemporaryDirectory(prefix="perago-bench-") as name:
        root = Path(name)
        source = make_files(root / "source", 1000, 10 * 1024)
        clock = SystemClock()
        with (
            EmbeddedWorkspaceStore(root / "home", clock) as store,
            EmbeddedOrchestrator(root / "home", clock) as orchestrator,
        ):
            ports = AttemptPorts(
                store=store,
                orchestrator=orchestrator,
                directories=LocalAttemptDirectories(root / "work"),
                guardrails=LocalGuardrailEvaluator(),
                spark=LocalSparkSessions(SparkSettings(), root / "spark"),
                spark_guardrails=SparkGuardrailEvaluator(),
                isolation=ProcessIsolation(),
                clock=clock,
                failpoints=RuleFailpoints(),
            )
            watch, copies = measure(ports, source, root)
    show(watch, copies)


def measure(ports: AttemptPorts, source: Path, root: Path) -> tuple[Stopwatch, list[float]]:
    """Publish a change of one file again and again, a copy of the tree in between."""
    ports.store.create_repository(REPOSITORY, branch=MAIN)
    request = ImportRequest(
        directory=source, repository=REPOSITORY, branch=MAIN, prefix=Prefix(), message="1000 files"
    )
    import_directory(
        request,
        store=ports.store,
        scan=lambda path: scan_directory(path, TreeIndex()),
        on_transfer=lambda _objects, _size: None,
    )
    watch, copies = Stopwatch(), []
    for number in range(ATTEMPTS):
        publish(ports, watch, number)
        began = time.perf_counter()
        subprocess.run([CP, "-r", str(source), str(root / "copy")], check=True)
        copies.append(time.perf_counter() - began)
        shutil.rmtree(root / "copy")
    return watch, copies


def publish(ports: AttemptPorts, watch: Stopwatch, number: int) -> None:
    """One whole attempt."""
    run = RunRequest(
        pipeline=Pipeline.of_task(change_one),
        params={"text": f"attempt {number}"},
        repository=REPOSITORY,
        branch=MAIN,
    )
    start_run(run, store=ports.store, orchestrator=ports.orchestrator)
    (polled,) = ports.orchestrator.poll(
        [change_one.name], worker_id=WorkerId("bench"), count=1, wait_seconds=0
    )
    execution = ExecutionId(f"{number:032x}")
    end = AttemptRun(change_one, polled, execution, ports=ports, lease=watch, observer=watch).run()
    if end.outcome.status != "COMPLETED":
        raise SystemExit(f"the attempt failed: {end.outcome}")


def show(watch: Stopwatch, copies: list[float]) -> None:
    """Print the medians, and the two figures that matter."""
    medians = {phase: statistics.median(seconds) for phase, seconds in watch.phases.items()}
    for phase, seconds in medians.items():
        print(f"{phase:12}{seconds * 1000:9.2f} ms")
    copy = statistics.median(copies)
    publishing = sum(medians[phase] for phase in AFTER_THE_BODY)
    own = sum(seconds for phase, seconds in medians.items() if phase is not Phase.BODY)
    print(f"cp -r of the same tree       {copy * 1000:8.2f} ms")
    print(f"all but the body             {own * 1000:8.2f} ms, {own / copy:.2f} x cp -r")
    verdict = "met" if publishing * 1000 < AIM_MS else "MISSED"
    print(
        f"from body to report          {publishing * 1000:8.2f} ms "
        f"(aim: under {AIM_MS} ms, {verdict}), {publishing / copy:.2f} x cp -r"
    )


if __name__ == "__main__":
    main()
