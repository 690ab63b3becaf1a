"""A real supervisor with real executor processes, and bodies that misbehave."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import ByteSize

from perago.adapters.localfs.home import make_logs_directory
from perago.authoring import load_pipeline
from perago.bootstrap import ExecutorFactory, Worker, open_application, open_worker
from perago.domain.attempt import AttemptStatus
from perago.domain.errors import WorkspaceRootLockedError
from perago.domain.workflow import WorkflowStatus
from perago.settings import Settings
from tests.integration.worker_bench import (
    MAIN,
    REPOSITORY,
    TROUBLE,
    Bench,
    assert_gone,
    wait_for,
)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    settings = Settings(home=tmp_path / "home", shutdown_grace_seconds=0.5)
    with open_application(settings, create=True) as application:
        application.store.create_repository(REPOSITORY, branch=MAIN)
        yield Bench(application=application)


def test_a_task_that_keeps_killing_executors_fails_for_good(bench: Bench) -> None:
    state = bench.run("dying")

    statuses = [task.status for task in state.tasks]
    assert state.status is WorkflowStatus.FAILED
    assert statuses == [
        AttemptStatus.FAILED,
        AttemptStatus.FAILED,
        AttemptStatus.FAILED_WITH_TERMINAL_ERROR,
    ]
    assert "killed 3 executors" in (state.tasks[-1].reason or "")
    assert bench.recorder.died == ["exit code 7"] * 3


def test_a_killed_executor_is_replaced_and_its_directory_collected(bench: Bench) -> None:
    state = bench.run("recovering")

    assert state.status is WorkflowStatus.COMPLETED
    assert [task.status for task in state.tasks] == [
        AttemptStatus.FAILED,
        AttemptStatus.COMPLETED,
    ]
    assert "killed by SIGKILL" in (state.tasks[0].reason or "")
    attempts = bench.application.settings.attempts_root / "attempts"
    assert list(attempts.glob("*-*/")) == []
    history = list(
        bench.application.store.log(REPOSITORY, bench.application.store.head(REPOSITORY, MAIN).id)
    )
    assert len(history) == 2


def test_what_a_body_prints_goes_to_its_log_and_what_it_changes_does_not_stay(
    bench: Bench, tmp_path: Path
) -> None:
    state = bench.run("chatting", {"file": str(tmp_path / "cwd")})

    assert state.status is WorkflowStatus.COMPLETED, state.reason
    log = bench.log_of(state.id, "chatter")
    for line in ("on stdout", "on stderr", "from the logger", "from a child", "binary"):
        assert line in log
    assert "attempt COMPLETED" in log
    assert "body=" in log
    assert Path((tmp_path / "cwd").read_text()) != Path("/")
    assert bench.recorder.progress == ["half way"]
    lines = bench.application.orchestrator.read_log(state.tasks[0].attempt.task_id)
    assert [line.text for line in lines] == ["half way"]


def test_a_body_that_never_lets_go_cannot_stall_its_lease(bench: Bench) -> None:
    state = bench.run("holding", {"seconds": 4.0})

    assert state.status is WorkflowStatus.COMPLETED, state.reason


@pytest.mark.parametrize("stubborn", [0.0, 1.0], ids=["looks at cancelled", "ignores it"])
def test_a_cancelled_attempt_ends_with_all_it_started(
    bench: Bench, tmp_path: Path, stubborn: float
) -> None:
    pids = tmp_path / "pids"
    workflow = bench.start("lingering", {"file": str(pids), "seconds": stubborn})

    def cancel(_: Worker) -> None:
        wait_for(pids)
        bench.application.orchestrator.terminate(workflow, "enough")

    bench.work("lingering", workflow, cancel)

    assert bench.state(workflow).status is WorkflowStatus.TERMINATED
    assert bench.state(workflow).tasks[0].status is AttemptStatus.CANCELED
    assert_gone(pids)
    head = bench.application.store.head(REPOSITORY, MAIN)
    assert head.parents == (), "nothing was published"


def test_a_stopped_worker_drains_then_reports_what_it_ended(bench: Bench, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    workflow = bench.start("lingering", {"file": str(pids), "seconds": 1.0})

    def stop(worker: Worker) -> None:
        wait_for(pids)
        worker.supervisor.request_stop()

    bench.work("lingering", workflow, stop)

    task = bench.state(workflow).tasks[0]
    assert task.status is AttemptStatus.FAILED
    assert task.reason == "the worker was stopped"
    assert_gone(pids)


def test_a_body_that_breaks_the_process_breaks_neither_the_store_nor_the_next_body(
    bench: Bench, tmp_path: Path
) -> None:
    state = bench.run("vandal", {"file": str(tmp_path / "state")})

    assert state.status is WorkflowStatus.COMPLETED, state.reason
    assert bench.recorder.died == []
    assert bench.application.embedded_store.verify().is_clean
    seen = json.loads((tmp_path / "state").read_text())
    assert seen == {
        "environment": None,
        "umask": seen["umask"],
        "handlers": 1,
        "logging": 0,
        "sigterm": True,
        "alarm": 0,
        "stdout": "TextIOWrapper",
        "stdin": "",
    }
    assert seen["umask"] != 0o077


def test_a_death_is_noticed_though_a_forked_child_lives_on(bench: Bench, tmp_path: Path) -> None:
    pids = tmp_path / "pids"

    state = bench.run("orphaning", {"file": str(pids)})

    assert "killed by SIGKILL" in (state.tasks[0].reason or "")
    assert_gone(pids)


def test_of_a_body_that_forks_only_the_parent_is_the_attempt(bench: Bench) -> None:
    state = bench.run("splitting")

    assert state.status is WorkflowStatus.COMPLETED, state.reason
    head = bench.application.store.head(REPOSITORY, MAIN)
    assert len(list(bench.application.store.log(REPOSITORY, head.id))) == 2


def test_a_body_that_talks_without_pause_cannot_stall_its_lease(bench: Bench) -> None:
    state = bench.run("flooding", {"seconds": 4.0})

    assert state.status is WorkflowStatus.COMPLETED, state.reason
    lines = bench.application.orchestrator.read_log(state.tasks[0].attempt.task_id)
    assert 0 < len(lines) < 200
    assert all(len(line.text) < 1000 for line in lines)


def test_what_is_no_exception_fails_the_attempt_and_not_the_executor(bench: Bench) -> None:
    state = bench.run("raising")

    assert bench.recorder.died == []
    assert state.tasks[0].status is AttemptStatus.FAILED
    assert "CancelledError" in (state.tasks[0].reason or "")


def test_without_a_log_an_attempt_fails_and_says_so(bench: Bench) -> None:
    workflow = bench.start("chatting", {"file": "unused"})
    logs = bench.application.settings.logs_directory
    make_logs_directory(logs)
    (logs / workflow).write_text("a file where a directory must be")

    bench.work("chatting", workflow, lambda _: None)

    first = bench.state(workflow).tasks[0]
    assert first.status is AttemptStatus.FAILED
    assert "cannot open the attempt's log" in (first.reason or "")
    assert bench.recorder.died == []


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("babbling", "the attempt's log has"),
        ("breeding", "the attempt runs"),
        ("hoarding", "the attempt has too many files open"),
    ],
)
def test_an_attempt_that_takes_too_much_fails_and_says_of_what(
    tmp_path: Path, name: str, sentence: str
) -> None:
    settings = Settings(
        home=tmp_path / "home",
        attempt_log_bytes=ByteSize(100_000),
        attempt_processes=20,
        attempt_open_files=200,
    )
    file = tmp_path / "file"
    with open_application(settings, create=True) as application:
        application.store.create_repository(REPOSITORY, branch=MAIN)
        bench = Bench(application=application)
        state = bench.run(name, {"file": str(file)})

    (task,) = state.tasks
    assert task.status is AttemptStatus.FAILED
    assert sentence in (task.reason or "")
    assert "PERAGO_ATTEMPT_" in (task.reason or "")
    if name == "breeding":
        assert_gone(file)
    if name == "hoarding":
        assert file.read_text() == "(0, 0)", "no core dumps"


def test_a_second_worker_on_one_root_is_refused(bench: Bench) -> None:
    pipeline = load_pipeline(f"{TROUBLE}:dying", TROUBLE.parent)
    factory = ExecutorFactory(
        settings=bench.application.settings, targets=(str(TROUBLE),), search_path=TROUBLE.parent
    )
    with (
        open_worker(bench.application, pipeline.tasks, factory, bench.recorder),
        pytest.raises(WorkspaceRootLockedError),
        open_worker(bench.application, pipeline.tasks, factory, bench.recorder),
    ):
        pass
