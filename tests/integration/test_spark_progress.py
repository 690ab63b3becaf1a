"""How far Spark is, from a real executor to whoever shows it and to the task's log."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from perago.app.follow import RunRequest, start_run
from perago.authoring import load_pipeline
from perago.bootstrap import ExecutorFactory, open_application, open_worker
from perago.domain.events import Event, SparkProgressed
from perago.domain.ids import BranchName, RepositoryName
from perago.domain.spark_progress import SparkProgress
from perago.domain.workflow import WorkflowStatus
from perago.settings import Settings

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

STAGED = Path(__file__).parents[1] / "acceptance" / "pipelines" / "staged.py"
REPOSITORY, MAIN = RepositoryName("staged"), BranchName("main")


@dataclass(slots=True)
class Onlooker:
    """Lets the body go on once it has seen it in the middle of a stage."""

    gate: Path
    told: list[tuple[SparkProgress, str | None]] = field(default_factory=list)

    def handle(self, event: Event) -> None:
        if isinstance(event, SparkProgressed):
            self.told.append((event.progress, event.line))
            if event.progress.active:
                self.gate.touch()


def test_stages_and_tasks_are_told_while_the_body_runs_and_summed_up_in_its_log(
    tmp_path: Path,
) -> None:
    onlooker = Onlooker(tmp_path / "gate")
    pipeline = load_pipeline(f"{STAGED}:counting", STAGED.parent)
    settings = Settings(home=tmp_path / "home", spark_master="local[2]", spark_memory_mb=1024)
    with open_application(settings, create=True) as application:
        application.store.create_repository(REPOSITORY, branch=MAIN)
        orchestrator = application.orchestrator
        workflow = start_run(
            RunRequest(
                pipeline=pipeline,
                params={"gate": str(onlooker.gate)},
                repository=REPOSITORY,
                branch=MAIN,
            ),
            store=application.store,
            orchestrator=orchestrator,
        )
        factory = ExecutorFactory(
            settings=settings, targets=(str(STAGED),), search_path=STAGED.parent
        )
        with open_worker(application, pipeline.tasks, factory, onlooker) as worker:
            worker.supervisor.run(lambda: orchestrator.workflow(workflow).status.is_terminal)
        state = orchestrator.workflow(workflow)
        assert state.status is WorkflowStatus.COMPLETED, state.tasks[-1].reason
        logged = [line.text for line in orchestrator.read_log(state.tasks[-1].attempt.task_id)]
        (log,) = (settings.logs_directory / workflow).glob("*.log")
        written = log.read_text(encoding="utf-8")

    seen = next(progress for progress, _ in onlooker.told if progress.active)
    assert re.fullmatch(
        r"Spark stage 1 of \d+ \(write at staged\.py:\d+\), 0/4 tasks", seen.describe()
    )
    total, line = onlooker.told[-1]
    assert total.active == ()
    assert total.jobs >= 2
    assert total.stages == total.stages_done >= 3
    assert total.tasks_done > 4
    assert line == total.describe_total()
    # Few lines, however many looks: the last one sums up.
    assert logged == [text for _, text in onlooker.told if text is not None]
    assert logged[-1] == line
    assert f"INFO    perago.app.spark_sampler: {line}" in written
