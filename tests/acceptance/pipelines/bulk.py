"""Big files and many files, and what the executor's memory was at its peak: for tests of scale."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

from pydantic import BaseModel

from perago import Pipeline, WorkspaceSpec, task

OWNER = "data@example.com"
CHUNK = 1 << 20
PER_DIRECTORY = 1000


class Params(BaseModel):
    files: int = 1
    megabytes: int = 0


class Result(BaseModel):
    files: int
    peak_mib: int


@task("fill", owner_email=OWNER, workspace=WorkspaceSpec(prefix="bulk"))
def fill(workspace: Path, params: Params) -> Result:
    """Write so many files, the first of so many MiB."""
    for number in range(params.files):
        directory = workspace / f"d{number // PER_DIRECTORY}"
        directory.mkdir(exist_ok=True)
        (directory / f"f{number}").write_text(str(number))
    if params.megabytes:
        with (workspace / "big").open("wb") as stream:
            for number in range(params.megabytes):
                stream.write(number.to_bytes(8, "little") * (CHUNK // 8))
    return measure(workspace)


@task("change_one", owner_email=OWNER, workspace=WorkspaceSpec(prefix="bulk"))
def change_one(workspace: Path, params: Params) -> Result:
    """Change one small file."""
    (workspace / "d0" / "f0").write_text("changed")
    return measure(workspace)


@task("look", owner_email=OWNER, workspace=WorkspaceSpec(prefix="bulk", read_only=True))
def look(workspace: Path, params: Params) -> Result:
    """Count what is there; the peak includes everything this executor did before."""
    return measure(workspace)


def measure(workspace: Path) -> Result:
    """The number of files, and the most memory that this process ever had."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    unit = 1 << 20 if sys.platform == "darwin" else 1 << 10
    files = sum(1 for path in workspace.rglob("*") if path.is_file())
    return Result(files=files, peak_mib=peak // unit)


bulk = Pipeline("bulk", 1, [fill, change_one, look], params=Params)
