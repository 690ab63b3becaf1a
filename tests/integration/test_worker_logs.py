"""What real executors log reaches the worker's standard error as lines that machines read."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from perago.app.follow import RunRequest, start_run
from perago.authoring import load_pipeline
from perago.bootstrap import ExecutorFactory, open_application, open_worker
from perago.domain.ids import BranchName, RepositoryName
from perago.domain.redaction import Redactor
from perago.runtime.events import FanOut
from perago.runtime.executor import ExecutorKit
from perago.runtime.log_context import ATTEMPT_FIELDS
from perago.runtime.logs import LogStream
from perago.settings import Settings

SPEAKING = Path(__file__).parents[1] / "acceptance" / "pipelines" / "speaking.py"
REPOSITORY, MAIN = RepositoryName("speaking"), BranchName("main")


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamingFactory(ExecutorFactory):
    """Builds executors that also log to the worker's standard error."""

    def __call__(self, number: int) -> ExecutorKit:
        # Named: the decorator made another class of this one, which `super()` does not know.
        kit = ExecutorFactory.__call__(self, number)
        redactor = Redactor(("hunter22",))
        stream = LogStream(log_format="json", redactor=redactor)
        return replace(kit, log_stream=stream, redactor=redactor)


def test_a_bodys_own_lines_carry_its_attempt(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    settings = Settings(home=tmp_path / "home")
    pipeline = load_pipeline(f"{SPEAKING}:speaking", SPEAKING.parent)
    factory = StreamingFactory(
        settings=settings, targets=(str(SPEAKING),), search_path=SPEAKING.parent
    )
    with open_application(settings, create=True) as application:
        application.store.create_repository(REPOSITORY, branch=MAIN)
        request = RunRequest(pipeline=pipeline, params={}, repository=REPOSITORY, branch=MAIN)
        orchestrator = application.orchestrator
        run = start_run(request, store=application.store, orchestrator=orchestrator)
        with open_worker(application, pipeline.tasks, factory, FanOut()) as worker:
            worker.supervisor.run(lambda: orchestrator.workflow(run).status.is_terminal)
        (task,) = orchestrator.workflow(run).tasks

    stream = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
    told = {line["message"]: line for line in stream}
    assert told.keys() >= {"from the body", "from a thread", "a secret: (not shown)"}
    for message in ("from the body", "from a thread"):
        line = told[message]
        assert line.keys() >= set(ATTEMPT_FIELDS)
        assert (line["workflow"], line["task"]) == (run, task.attempt.task_id)
        assert line["logger"] == "speaking"
    (log,) = (settings.logs_directory / run).glob("*.log")
    text = log.read_text()
    assert "from the body" in text
    assert "printed" in text
    assert "attempt COMPLETED" in text
    assert "hunter22" not in text
    assert not any("printed" in message or "attempt COMPLETED" in message for message in told)


def test_everything_below_the_home_is_for_its_user_alone(tmp_path: Path) -> None:
    """Whatever the umask is that a worker was started with."""
    settings = Settings(home=tmp_path / "home")
    pipeline = load_pipeline(f"{SPEAKING}:speaking", SPEAKING.parent)
    factory = ExecutorFactory(
        settings=settings, targets=(str(SPEAKING),), search_path=SPEAKING.parent
    )
    before = os.umask(0)
    try:
        with open_application(settings, create=True) as application:
            application.store.create_repository(REPOSITORY, branch=MAIN)
            request = RunRequest(pipeline=pipeline, params={}, repository=REPOSITORY, branch=MAIN)
            orchestrator = application.orchestrator
            run = start_run(request, store=application.store, orchestrator=orchestrator)
            with open_worker(application, pipeline.tasks, factory, FanOut()) as worker:
                worker.supervisor.run(lambda: orchestrator.workflow(run).status.is_terminal)
            found = [settings.home, *settings.home.rglob("*")]
            open_to_others = [
                str(path.relative_to(tmp_path))
                for path in found
                if path.stat().st_mode & 0o077 and path.name != ".gitignore"
            ]
    finally:
        os.umask(before)

    assert open_to_others == []
    assert list((settings.logs_directory / run).glob("*.log"))
