"""A command line in this process, and a home of its own."""

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from perago.adapters.localfs.home import make_home
from perago.app.follow import RunRequest, start_run
from perago.authoring import load_pipeline
from perago.bootstrap import Application, open_application
from perago.cli.app import run_app
from perago.domain.ids import BranchName, RepositoryName, WorkflowId
from perago.domain.outcome import JsonObject
from perago.settings import Settings

LAB = RepositoryName("lab")
MAIN = BranchName("main")

MODULE = '''
from pathlib import Path

from pydantic import BaseModel

from perago import (
    Pipeline, PublishBudget, TaskControls, TimeoutPolicy, WorkspaceSpec, parallel, require_file,
    require_glob, task,
)
from perago.authoring import human

print("imported")


class Params(BaseModel):
    """What to write."""

    text: str = "hello"


class Result(BaseModel):
    """How much was written."""

    size: int


@task(
    "write",
    owner_email="data@example.com",
    workspace=WorkspaceSpec("out", post=[require_file("a.txt")]),
)
def write(workspace: Path, params: Params) -> Result:
    """Write a file."""
    return Result(size=(workspace / "a.txt").write_text(params.text))


@task(
    "look",
    owner_email="data@example.com",
    workspace=WorkspaceSpec("out", read_only=True, pre=[require_glob("*.txt", min=1)]),
    controls=TaskControls(timeout=TimeoutPolicy(response_seconds=30, total_seconds=60)),
)
def look(workspace: Path, params: Params) -> Result:
    """Look at it."""
    return Result(size=1)


@task("think", owner_email="data@example.com")
def think(params: Params) -> Result:
    """Do without a workspace."""
    return Result(size=2)


approve = human("approve", writes_workspace=True)
flow = Pipeline("flow", 3, [write, approve, parallel(look, think)], params=Params)
'''


@dataclass(frozen=True, slots=True)
class Answer:
    """How a call ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> JsonObject:
        document: JsonObject = json.loads(self.out)
        return document


Perago = Callable[..., Answer]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory with a home of its own."""
    for name in os.environ:
        if name.startswith(("PERAGO_", "CONDUCTOR_")) or name == "FORCE_COLOR":
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def module(project: Path) -> str:
    """A TARGET; its file has a name of its own, for modules are imported once."""
    name = f"module_{abs(hash(project)):x}"
    (project / f"{name}.py").write_text(MODULE, encoding="utf-8")
    return f"{name}.py"


@pytest.fixture
def perago(project: Path, capfd: pytest.CaptureFixture[str]) -> Perago:
    """Call `perago` with these arguments."""

    def call(*arguments: str) -> Answer:
        capfd.readouterr()
        code = run_app(arguments)
        said = capfd.readouterr()
        return Answer(int(code), said.out, said.err)

    return call


@pytest.fixture
def application(project: Path) -> Iterator[Application]:
    make_home(project / ".perago")
    with open_application(Settings(home=project / ".perago")) as opened:
        yield opened


@pytest.fixture
def run(application: Application, module: str, project: Path) -> WorkflowId:
    """A run of `flow` on a new repository; nothing of it has been polled."""
    application.store.create_repository(LAB)
    request = RunRequest(
        pipeline=load_pipeline(module, project), params={}, repository=LAB, branch=MAIN
    )
    return start_run(request, store=application.store, orchestrator=application.orchestrator)
