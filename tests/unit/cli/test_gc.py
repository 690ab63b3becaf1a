"""`perago gc`: what goes, what stays and why."""

from __future__ import annotations

import pytest

from perago.bootstrap import Application
from perago.cli.errors import ExitCode
from perago.domain.attempt import Attempt
from perago.domain.ids import (
    BranchName,
    CommitId,
    ExecutionId,
    RepositoryName,
    WorkerId,
    WorkflowId,
)
from perago.domain.staging import build_staging_name
from tests.unit.cli.conftest import LAB, MAIN, Perago
from tests.unit.cli.runs import attempt

STRANGER = build_staging_name(attempt(), ExecutionId("1" * 32))


@pytest.fixture
def staging(application: Application, run: WorkflowId) -> BranchName:
    """The staging of an attempt that is under way, beside one that nobody here knows."""
    (polled,) = application.orchestrator.poll(
        ["write"], worker_id=WorkerId("w"), count=1, wait_seconds=0
    )
    name = stage(application, LAB, polled.attempt)
    application.store.create_branch(LAB, STRANGER, head_of(application, LAB), hidden=True)
    application.store.create_branch(LAB, BranchName("mine"), head_of(application, LAB))
    return name


def stage(application: Application, repository: RepositoryName, of: Attempt) -> BranchName:
    name = build_staging_name(of, ExecutionId("0" * 32))
    application.store.create_branch(repository, name, head_of(application, repository), hidden=True)
    return name


def head_of(application: Application, repository: RepositoryName) -> CommitId:
    return application.store.head(repository, MAIN).id


def branches(application: Application) -> set[str]:
    return {branch.name for branch in application.store.branches(LAB, hidden=True)}


def test_the_staging_of_an_unfinished_attempt_stays(
    perago: Perago, application: Application, staging: BranchName
) -> None:
    answer = perago("gc", "--staging", "lab")

    assert answer.code == 0
    *left, summary = answer.out.splitlines()
    assert set(left) == {
        f"left {staging} of lab: its attempt is not over",
        f"left {STRANGER} of lab: its attempt is unknown to this orchestrator",
    }
    assert summary == "removed 0 stagings, left 2"
    assert branches(application) == {"main", "mine", staging, STRANGER}


def test_the_staging_of_an_attempt_that_is_over_goes_and_nothing_else(
    perago: Perago, application: Application, staging: BranchName, run: WorkflowId
) -> None:
    application.orchestrator.terminate(run, "enough")

    dry = perago("gc", "--staging", "lab", "--dry-run")
    before = branches(application)
    answer = perago("gc", "--staging", "lab", "--json")

    assert f"would remove {staging} of lab" in dry.out.splitlines()
    assert "would remove 1 staging, left 1" in dry.out.splitlines()
    assert before == {"main", "mine", staging, STRANGER}, "only looked"
    assert answer.json == {
        "dry_run": False,
        "removed": [{"repository": "lab", "branch": staging}],
        "left": [
            {
                "repository": "lab",
                "branch": STRANGER,
                "why": "its attempt is unknown to this orchestrator",
            }
        ],
    }
    assert branches(application) == {"main", "mine", STRANGER}


def test_without_a_repository_it_is_the_one_that_run_works_on(
    perago: Perago,
    application: Application,
    staging: BranchName,
    run: WorkflowId,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    application.orchestrator.terminate(run, "enough")
    missing = perago("gc", "--staging")
    monkeypatch.setenv("PERAGO_REPOSITORY", "lab")
    found = perago("gc", "--staging")

    assert missing.code == ExitCode.BACKEND
    assert "'workspace'" in missing.err
    assert "removed 1 staging, left 1" in found.out


def test_all_repositories_at_once(
    perago: Perago, application: Application, staging: BranchName, run: WorkflowId
) -> None:
    application.store.create_repository(RepositoryName("other"))
    application.orchestrator.terminate(run, "enough")

    assert "removed 1 staging, left 1" in perago("gc", "--staging", "--all").out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "say what to remove"),
        (("lab",), "say what to remove"),
        (("--staging", "--all", "lab"), "exclude each other"),
        (("--staging", "lab@main"), "a repository is wanted"),
    ],
)
def test_wrong_usage_says_what_it_can_do(
    perago: Perago, application: Application, arguments: tuple[str, ...], words: str
) -> None:
    answer = perago("gc", *arguments)

    assert answer.code == ExitCode.USAGE
    assert words in answer.err
