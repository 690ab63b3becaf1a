"""What Spark's own pages say about whose work a job is."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.request import urlopen

import pytest
from pydantic import BaseModel

from perago import RetryPolicy, SparkWorkspace, TaskContext, TaskControls, WorkspaceSpec, task
from perago.domain.outcome import Completed
from tests.integration.direct.lake import DirectLake

pytestmark = [pytest.mark.lakefs, pytest.mark.spark]


class Params(BaseModel):
    answers: str


class Result(BaseModel):
    workflow: str


@task(
    "look_at_names",
    owner_email="data@example.com",
    workspace=WorkspaceSpec("out", access="direct"),
    controls=TaskControls(retry=RetryPolicy(count=0)),
)
def look_at_names(workspace: SparkWorkspace, params: Params, context: TaskContext) -> Result:
    """Do some work, and keep what Spark's REST API says of it."""
    workspace.write(workspace.spark.range(10), "numbers")
    workspace.spark.sql("SELECT count(*) FROM range(10)").collect()
    spark = workspace.spark.sparkContext
    # Its pages lag behind its work.
    spark._jsc.sc().listenerBus().waitUntilEmpty(30_000)
    api = f"{spark.uiWebUrl}/api/v1/applications/{spark.applicationId}"
    # Of queries, it shows the oldest twenty unless told otherwise.
    for name, asked in (("jobs", ""), ("sql", "?length=10000")):
        with urlopen(f"{api}/{name}{asked}", timeout=30) as answer:
            (Path(params.answers) / name).write_bytes(answer.read())
    return Result(workflow=context.attempt.workflow_id)


def test_task_step_and_workflow_are_named_on_sparks_pages(lake: DirectLake, tmp_path: Path) -> None:
    attempted = lake.attempt(look_at_names, Params(answers=str(tmp_path)))

    assert isinstance(attempted.outcome, Completed), attempted.outcome
    result = attempted.outcome.output["result"]
    assert isinstance(result, dict)
    name = f"look_at_names as look_at_names, workflow {result['workflow']}"
    jobs = json.loads((tmp_path / "jobs").read_text())
    ours = [job for job in jobs if job.get("description") == name]
    assert len(ours) >= 2
    assert {job["jobGroup"] for job in ours} == {ours[0]["jobGroup"]}
    queries = json.loads((tmp_path / "sql").read_text())
    assert [query["description"] for query in queries].count(name) >= 2
