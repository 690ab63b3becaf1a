"""What mypy makes of a task: its signature is that of the function."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

# One run of mypy is enough.
pytestmark = pytest.mark.xdist_group("typing")

SOURCE = """\
from pathlib import Path
from typing import reveal_type

from pydantic import BaseModel

from perago import Pipeline, Task, TaskContext, WorkspaceSpec, parallel, step, task
from perago.authoring import AnyTask


class Params(BaseModel):
    year: int


class Result(BaseModel):
    rows: int


@task("clean", owner_email="data@example.com", workspace=WorkspaceSpec(prefix="flights"))
def clean(workspace: Path, params: Params, context: TaskContext) -> Result:
    return Result(rows=params.year)


@task("count", owner_email="data@example.com")
def count(params: Params) -> Result:
    return Result(rows=params.year)


reveal_type(clean)  # note: Task[[workspace: Path, params: Params, context: TaskContext], Result]
reveal_type(count(Params(year=1)))  # note: Result
reveal_type(count.function)  # note: def (params: Params) -> Result
reveal_type(clean.name)  # note: str
anything: AnyTask = clean
one: Task[[Params], Result] = count
Pipeline("flights", 1, [clean, step(count, params={"year": 1}), parallel(count, [count])])

count(1)  # error: arg-type
count()  # error: call-arg
clean(Path("."), Params(year=1))  # error: call-arg
clean.name = "other"  # error: misc
count(Params(year=1)).row  # error: attr-defined
Pipeline("flights", 1, [count.function])  # error: list-item
step("count")  # error: arg-type
task("nobody")  # error: call-arg
WorkspaceSpec(prefix=3)  # error: arg-type
other: Task[[int], Result] = count  # error: assignment
"""


@pytest.fixture(scope="module")
def verdicts(project_root: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[int, list[str]]:
    """What mypy says, by line."""
    file = tmp_path_factory.mktemp("typing") / "author.py"
    file.write_text(SOURCE)
    answer = subprocess.run(
        [sys.executable, "-m", "mypy", "--no-error-summary", "--hide-error-context", str(file)],
        cwd=project_root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert not answer.stderr, answer.stderr
    said: dict[int, list[str]] = {}
    for line in answer.stdout.splitlines():
        name, number, verdict = line.split(":", 2)
        assert name.endswith("author.py"), line
        said.setdefault(int(number), []).append(verdict)
    return said


LINES = list(enumerate(SOURCE.splitlines(), start=1))


@pytest.mark.parametrize(
    ("number", "revealed"),
    [(number, line.partition("# note: ")[2]) for number, line in LINES if "# note: " in line],
)
def test_types_are_kept(verdicts: dict[int, list[str]], number: int, revealed: str) -> None:
    (verdict,) = verdicts[number]
    without_modules = re.sub(r"\b([a-z]+\.)+(?=\w)", "", verdict)
    assert without_modules == f' note: Revealed type is "{revealed}"'


@pytest.mark.parametrize(
    ("number", "code"),
    [(number, line.partition("# error: ")[2]) for number, line in LINES if "# error: " in line],
)
def test_wrong_use_is_an_error(verdicts: dict[int, list[str]], number: int, code: str) -> None:
    assert any(verdict.endswith(f"[{code}]") for verdict in verdicts.get(number, []))


def test_right_use_is_none(verdicts: dict[int, list[str]]) -> None:
    expected = {number for number, line in LINES if "# error: " in line or "# note: " in line}
    assert set(verdicts) <= expected
