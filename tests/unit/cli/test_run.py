"""`perago run` up to the point where an executor would start, and what it says at the end."""

from pathlib import Path

import pytest

from perago.adapters.localfs.root_lock import WorkspaceRootLock
from perago.bootstrap import Application
from perago.cli.errors import ExitCode
from perago.domain.ids import WorkflowId
from tests.unit.cli.conftest import LAB, MAIN, Perago


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("--param", "text"), ExitCode.USAGE, "is not of the form key=value"),
        (("--param", "text=[1]"), ExitCode.USAGE, "params.text: input should be a valid string"),
        (("--param", "texd=x"), ExitCode.USAGE, "did you mean 'text'?"),
        (("--params-file", "none.json"), ExitCode.USAGE, "none.json: No such file"),
        (("--repo", "nowhere", "--ref", "main"), ExitCode.BACKEND, "nowhere"),
        (("--repo", "lab", "--ref", "ffffffffffff"), ExitCode.BACKEND, "ffffffffffff"),
        (("--repo", "lab", "--branch", "none"), ExitCode.BACKEND, "none"),
        (("-j", "1000"), ExitCode.USAGE, "executors (from flag --executors)"),
    ],
)
def test_what_cannot_run_starts_nothing(
    perago: Perago,
    application: Application,
    module: str,
    arguments: tuple[str, ...],
    code: ExitCode,
    says: str,
) -> None:
    application.store.create_repository(LAB)

    answer = perago("run", module, *arguments)

    assert answer.code == code
    assert says in answer.err
    assert application.orchestrator.workflows() == []
    assert application.store.repositories() == [LAB]


def test_a_second_worker_on_one_root_is_refused_and_starts_nothing(
    perago: Perago, application: Application, module: str
) -> None:
    with WorkspaceRootLock(application.settings.attempts_root):
        answer = perago("run", module)

    assert answer.code == ExitCode.UNFIT
    assert "is held by process" in answer.err
    assert application.orchestrator.workflows() == []
    assert application.store.repositories() == []


def test_a_branch_with_an_unfinished_run_is_refused(
    perago: Perago, application: Application, module: str, run: WorkflowId
) -> None:
    answer = perago("run", module, "--repo", "lab")

    assert answer.code == ExitCode.USAGE
    assert f"run {run} (flow) on lab/main is not finished" in answer.err
    assert f"--continue {run}" in answer.err
    assert f"perago cancel {run}" in answer.err
    assert len(application.orchestrator.workflows()) == 1


def test_a_run_that_is_over_is_reported_again(
    perago: Perago, application: Application, module: str, run: WorkflowId
) -> None:
    application.orchestrator.terminate(run, "wrong year")

    answer = perago("run", module, "--continue", "last")
    as_json = perago("run", module, "--continue", run[:8], "--json")

    assert answer.code == as_json.code == ExitCode.FAILED
    assert f"run {run[:8]} terminated in" in answer.out
    assert "wrong year" in answer.out
    assert as_json.json["event"] == "run_ended"
    assert as_json.json["status"] == "TERMINATED"
    assert as_json.json["commits"] == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--repo", "other"), "another --repo"),
        (("--branch", "other"), "another --branch"),
        (("--param", "text=other"), "another --param"),
    ],
)
def test_a_run_keeps_what_it_was_started_with(
    perago: Perago,
    application: Application,
    module: str,
    run: WorkflowId,
    arguments: tuple[str, ...],
    says: str,
) -> None:
    application.orchestrator.terminate(run, "enough")

    contradiction = perago("run", module, "--continue", "last", *arguments)
    same = perago(
        "run",
        module,
        *("--continue", "last", "--repo", "lab", "--branch", "main"),
        *("--param", "text=hello", "--ref", application.store.head(LAB, MAIN).id[:12]),
    )

    assert contradiction.code == ExitCode.USAGE
    assert says in contradiction.err
    assert same.code == ExitCode.FAILED
    assert "enough" in same.out


def test_a_run_goes_on_with_its_own_code_only(
    perago: Perago, module: str, project: Path, run: WorkflowId
) -> None:
    answer = perago("run", f"{module}:think", "--continue", "last")

    assert answer.code == ExitCode.USAGE
    assert "is a run of 'flow'" in answer.err
    assert "is 'think'" in answer.err


def test_there_must_be_a_run_to_continue(
    perago: Perago, application: Application, module: str
) -> None:
    answer = perago("run", module, "--continue", "last")

    assert answer.code == ExitCode.BACKEND
    assert "there is no run 'last'" in answer.err


def test_a_home_below_a_file_is_unfit(perago: Perago, module: str, project: Path) -> None:
    (project / "file").write_text("")

    answer = perago("--home", "file/home", "run", module)

    assert answer.code == ExitCode.UNFIT
    assert "cannot create the home" in answer.err


def test_a_workspace_root_below_a_file_is_unfit(
    perago: Perago, module: str, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "file").write_text("")
    monkeypatch.setenv("PERAGO_WORKSPACE_ROOT", str(project / "file" / "root"))

    answer = perago("run", module)

    assert answer.code == ExitCode.UNFIT
    assert "PERAGO_WORKSPACE_ROOT" in answer.err
