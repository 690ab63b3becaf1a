"""The task as the peer declares it. Runs in the peer's environment, where `perago` is the peer."""
# mypy: ignore-errors

from pathlib import Path

from pydantic import BaseModel

from bench.transfer.workload import Scenario, Workspace, run_body
from perago import WorkspaceSpec, task


class Params(BaseModel):
    """What the body is to do."""

    scenario: str
    seed: int
    count: int
    size: int


class Result(BaseModel):
    """How long the body took."""

    seconds: float


@task(name="transfer", owner_email="bench@example.com", workspace=WorkspaceSpec(prefix="/"))
def transfer(workspace: Path, params: Params) -> Result:
    """Change as much as the scenario says."""
    files = Workspace(name="", count=params.count, size=params.size)
    return Result(seconds=run_body(workspace, Scenario(params.scenario), params.seed, files))
