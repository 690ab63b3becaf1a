"""What a worker demands of the orchestrator's definitions before it takes work."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import BaseModel

from perago import TaskControls, TimeoutPolicy, WorkspaceSpec, task
from perago.app.worker_checks import find_task_differences, require_task_definitions
from perago.authoring import build_task_definition
from perago.domain.errors import InvalidDefinitionError, NotFoundInOrchestratorError
from perago.testing import FakeClock, MemoryOrchestrator


class Params(BaseModel):
    """Nothing."""


class Result(BaseModel):
    """Nothing."""


@task("free", owner_email="data@example.com")
def free(params: Params) -> Result:
    return Result()


@task(
    "writer",
    owner_email="data@example.com",
    workspace=WorkspaceSpec(prefix="/"),
    controls=TaskControls(timeout=TimeoutPolicy(response_seconds=120)),
)
def writer(workspace: Path, params: Params) -> Result:
    return Result()


@pytest.fixture
def orchestrator() -> MemoryOrchestrator:
    made = MemoryOrchestrator(FakeClock())
    for one in (free, writer):
        made.register_task(build_task_definition(one))
    return made


def test_what_is_registered_as_declared_is_fine(orchestrator: MemoryOrchestrator) -> None:
    definitions = require_task_definitions([free, writer], orchestrator)
    assert find_task_differences([free, writer], definitions) == {}


def test_every_task_that_is_not_registered_is_named() -> None:
    with pytest.raises(NotFoundInOrchestratorError, match="free, writer") as caught:
        require_task_definitions([writer, free], MemoryOrchestrator(FakeClock()))
    assert "perago register" in str(caught.value)


def test_a_registered_lease_that_is_too_short_to_publish_is_refused(
    orchestrator: MemoryOrchestrator,
) -> None:
    for one in (free, writer):
        short = {**build_task_definition(one), "responseTimeoutSeconds": 30}
        orchestrator.register_task(short)
    with pytest.raises(InvalidDefinitionError, match=r"writer: .*no attempt could ever publish"):
        require_task_definitions([free, writer], orchestrator)
    require_task_definitions([free], orchestrator)


def test_what_differs_is_named_by_its_fields(orchestrator: MemoryOrchestrator) -> None:
    changed = {**build_task_definition(free), "retryCount": 9, "description": "other"}
    orchestrator.register_task(changed)
    definitions = require_task_definitions([free, writer], orchestrator)
    differences = find_task_differences([free, writer], definitions)
    assert {name: sorted(paths) for name, paths in differences.items()} == {
        "free": ["description", "retryCount"]
    }
