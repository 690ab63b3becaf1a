"""`perago register` on the embedded orchestrator: the same planner and port as on a server."""

from pathlib import Path
from typing import Any

import pytest

from perago.bootstrap import Application
from perago.cli.errors import ExitCode
from tests.unit.cli.conftest import Perago


def test_definitions_are_registered_once(
    perago: Perago, application: Application, module: str
) -> None:
    first, second = perago("register", module), perago("register", module)

    assert first.code == second.code == 0
    assert first.out.splitlines()[1:] == [
        "+ task write",
        "+ task look",
        "+ task think",
        "+ workflow flow v3",
        "registered 4 definitions (4 new, 0 changed, 0 unchanged)",
    ]
    assert second.out.splitlines()[-1] == "nothing to do: 4 definitions registered as declared"
    assert application.orchestrator.find_workflow_definition("flow", 3) is not None


def test_a_dry_run_writes_nothing(perago: Perago, application: Application, module: str) -> None:
    answer = perago("register", module, "--dry-run")

    assert answer.code == 0
    assert "would register 4 definitions" in answer.out
    assert application.orchestrator.find_task_definition("write") is None
    assert application.orchestrator.find_workflow_definition("flow") is None


def test_what_differs_is_shown_by_field(
    perago: Perago, application: Application, module: str, project: Path
) -> None:
    perago("register", module)
    registered = application.orchestrator.find_task_definition("think")
    workflow = application.orchestrator.find_workflow_definition("flow")
    assert registered is not None
    assert workflow is not None
    application.orchestrator.register_task({**registered, "retryCount": 8})
    application.orchestrator.register_workflow({**workflow, "description": "by hand"})

    answer = perago("register", module)

    assert answer.code == 0
    assert answer.out.splitlines()[1:] == [
        "= task write",
        "= task look",
        "~ task think",
        "    retryCount: 8 -> 3",
        "~ workflow flow v3: a registered version changes; runs under way keep theirs",
        '    description: "by hand" -> ""',
        "registered 2 definitions (0 new, 2 changed, 2 unchanged)",
    ]
    assert application.orchestrator.find_task_definition("think") == registered


def test_a_newer_version_on_the_server_is_not_lowered(
    perago: Perago, application: Application, module: str
) -> None:
    perago("register", module)
    workflow = application.orchestrator.find_workflow_definition("flow")
    assert workflow is not None
    application.orchestrator.register_workflow({**workflow, "version": 4})

    answer = perago("register", module)
    dry_run = perago("register", module, "--dry-run")
    as_json = perago("register", module, "--json")

    assert answer.code == dry_run.code == as_json.code == ExitCode.USAGE
    assert "workflow flow v3: the server has version 4, newer than the code" in answer.err
    assert "raise the version of 'flow' above 4" in answer.err
    definitions: Any = as_json.json["definitions"]
    assert [one["refused"] is None for one in definitions] == [True, True, True, False]
    assert as_json.json["written"] == 0


def test_a_program_gets_the_whole_plan(
    perago: Perago, application: Application, module: str
) -> None:
    answer = perago("register", module, "--json").json
    again = perago("register", module, "--json").json

    definitions: Any = answer["definitions"]
    assert [(one["kind"], one["name"], one["change"]) for one in definitions] == [
        ("task", "write", "new"),
        ("task", "look", "new"),
        ("task", "think", "new"),
        ("workflow", "flow", "new"),
    ]
    assert (answer["written"], again["written"]) == (4, 0)


_BUDGET = """
from pathlib import Path

from pydantic import BaseModel

from perago import PublishBudget, TaskControls, TimeoutPolicy, WorkspaceSpec, task


class Empty(BaseModel):
    pass


@task(
    "slow",
    owner_email="data@example.com",
    workspace=WorkspaceSpec("out"),
    controls=TaskControls(
        timeout=TimeoutPolicy(response_seconds=SECONDS),
        publish_budget=PublishBudget(
            observed_merge_p99_seconds=10,
            safety_factor=2,
            conductor_completion_reserve_seconds=30,
            heartbeat_interval_seconds=5,
            shutdown_grace_seconds=30,
        ),
    ),
)
def slow(workspace: Path, params: Empty) -> Empty:
    return params
"""


@pytest.mark.parametrize(
    ("seconds", "code", "says"),
    [
        (60, 0, "warning: task 'slow'"),
        (20, ExitCode.USAGE, "no attempt could ever publish"),
    ],
)
def test_a_lease_is_held_against_the_publish_budget(
    perago: Perago,
    application: Application,
    project: Path,
    seconds: int,
    code: int,
    says: str,
) -> None:
    (project / f"slow_{seconds}.py").write_text(_BUDGET.replace("SECONDS", str(seconds)))

    answer = perago("register", f"slow_{seconds}.py")

    assert answer.code == code
    assert says in answer.err
    assert (application.orchestrator.find_task_definition("slow") is not None) == (code == 0)


def test_extract_writes_what_register_registers(
    perago: Perago, application: Application, module: str
) -> None:
    extracted: Any = perago("extract", f"{module}:flow").json
    perago("register", f"{module}:flow")

    orchestrator = application.orchestrator
    assert [one["name"] for one in extracted["taskdefs"]] == ["write", "look", "think"]
    for definition in extracted["taskdefs"]:
        assert orchestrator.find_task_definition(definition["name"]) == definition
    [workflow] = extracted["workflows"]
    assert orchestrator.find_workflow_definition("flow", 3) == workflow
