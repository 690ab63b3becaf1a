"""The task that the README shows."""

from pydantic import BaseModel

from perago import SparkWorkspace, WorkspaceSpec, require_file, require_rows, task


class TidyParams(BaseModel):
    longest_delay: int = 600


class TidyResult(BaseModel):
    rows: int


@task(
    "tidy_flights",
    owner_email="data@example.com",
    workspace=WorkspaceSpec(
        prefix="flights",
        pre=[require_file("raw.csv")],
        post=[require_rows("tidy", min=1)],
    ),
)
def tidy_flights(workspace: SparkWorkspace, params: TidyParams) -> TidyResult:
    raw = workspace.read.csv("raw.csv", header=True, inferSchema=True)
    tidy = raw.dropna().where(raw.delay <= params.longest_delay)
    workspace.write(tidy, "tidy", partition_by=["month"], sort_by=["flight"])
    return TidyResult(rows=tidy.count())
