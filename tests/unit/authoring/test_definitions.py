"""TaskDef and WorkflowDef JSON, whole."""

# mypy: disable-error-code="empty-body"

import dataclasses
from pathlib import Path

from pydantic import BaseModel

from perago import (
    Limits,
    Pipeline,
    PublishBudget,
    RetryPolicy,
    TaskControls,
    TimeoutPolicy,
    WorkspaceSpec,
    task,
)
from perago.authoring import build_task_definition, warnings_of

OWNER = "data@example.com"
BUDGET = PublishBudget(
    observed_merge_p99_seconds=10,
    safety_factor=2,
    conductor_completion_reserve_seconds=60,
    heartbeat_interval_seconds=5,
    shutdown_grace_seconds=60,
)


class Params(BaseModel):
    year: int = 2013


class Result(BaseModel):
    rows: int = 0


@task(
    "clean_flights",
    owner_email=OWNER,
    workspace=WorkspaceSpec(prefix="flights"),
    controls=TaskControls(
        retry=RetryPolicy(
            count=5, delay_seconds=7, logic="EXPONENTIAL_BACKOFF", backoff_scale_factor=2
        ),
        timeout=TimeoutPolicy(
            response_seconds=100, total_seconds=3600, poll_seconds=60, policy="TIME_OUT_WF"
        ),
        limits=Limits(concurrent=4, rate_per_frequency=10, frequency_seconds=60),
        publish_budget=BUDGET,
    ),
)
def clean_flights(workspace: Path, params: Params) -> Result:
    """Clean the flights."""
    raise NotImplementedError


@task("note", owner_email=OWNER)
def note(params: Params) -> Result: ...


WORKSPACE_SCHEMA = {
    "additionalProperties": False,
    "description": "The commit that a task reads, and the branch that it may advance.",
    "properties": {
        "repository": {"minLength": 1, "title": "Repository", "type": "string"},
        "branch": {"minLength": 1, "title": "Branch", "type": "string"},
        "ref_type": {"const": "commit", "title": "Ref Type", "type": "string"},
        "ref": {"minLength": 1, "title": "Ref", "type": "string"},
    },
    "required": ["repository", "branch", "ref_type", "ref"],
    "title": "Workspace",
    "type": "object",
}


def test_a_task_definition_says_everything_that_was_declared() -> None:
    assert build_task_definition(clean_flights) == {
        "name": "clean_flights",
        "description": "Clean the flights.",
        "ownerEmail": OWNER,
        "retryCount": 5,
        "retryLogic": "EXPONENTIAL_BACKOFF",
        "retryDelaySeconds": 7,
        "backoffScaleFactor": 2,
        "timeoutSeconds": 3600,
        "timeoutPolicy": "TIME_OUT_WF",
        "responseTimeoutSeconds": 100,
        "pollTimeoutSeconds": 60,
        "concurrentExecLimit": 4,
        "rateLimitPerFrequency": 10,
        "rateLimitFrequencyInSeconds": 60,
        "inputKeys": ["workspace", "params"],
        "outputKeys": ["workspace", "result"],
        "inputSchema": {
            "name": "clean_flights_input",
            "version": 1,
            "type": "JSON",
            "data": {
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                "type": "object",
                "properties": {
                    "workspace": {"$ref": "#/$defs/Workspace"},
                    "params": {"$ref": "#/$defs/Params"},
                },
                "required": ["workspace", "params"],
                "additionalProperties": False,
                "$defs": {
                    "Params": {
                        "properties": {
                            "year": {"default": 2013, "title": "Year", "type": "integer"}
                        },
                        "title": "Params",
                        "type": "object",
                    },
                    "Workspace": WORKSPACE_SCHEMA,
                },
            },
        },
        "outputSchema": {
            "name": "clean_flights_output",
            "version": 1,
            "type": "JSON",
            "data": {
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                "type": "object",
                "properties": {
                    "workspace": {"$ref": "#/$defs/Workspace"},
                    "result": {"$ref": "#/$defs/Result"},
                },
                "required": ["workspace", "result"],
                "additionalProperties": False,
                "$defs": {
                    "Result": {
                        "properties": {"rows": {"default": 0, "title": "Rows", "type": "integer"}},
                        "title": "Result",
                        "type": "object",
                    },
                    "Workspace": WORKSPACE_SCHEMA,
                },
            },
        },
    }


def test_a_task_without_workspace_and_limits_says_less() -> None:
    definition = build_task_definition(note)
    assert definition["inputKeys"] == ["params"]
    assert definition["outputKeys"] == ["result"]
    assert definition["timeoutSeconds"] == definition["pollTimeoutSeconds"] == 0
    absent = {
        "concurrentExecLimit",
        "rateLimitPerFrequency",
        "rateLimitFrequencyInSeconds",
        "inputTemplate",
    }
    assert absent.isdisjoint(definition)


def test_two_models_of_one_name_keep_their_schemas_apart() -> None:
    class Workspace(BaseModel):
        desks: int

    @task("office", owner_email=OWNER, workspace=WorkspaceSpec())
    def office(workspace: Path, params: Workspace) -> Result: ...

    schema = build_task_definition(office)["inputSchema"]
    assert isinstance(schema, dict)
    data = schema["data"]
    assert isinstance(data, dict)
    assert isinstance(data["$defs"], dict)
    assert len(data["$defs"]) == 2


def test_a_workflow_definition_is_whole() -> None:
    pipeline = Pipeline(
        "flights", 4, [clean_flights], params=Params, description="All of it.", owner_email=OWNER
    )
    definition = pipeline.workflow_definition()
    schema = definition.pop("inputSchema")
    assert definition == {
        "name": "flights",
        "version": 4,
        "description": "All of it.",
        "ownerEmail": OWNER,
        "schemaVersion": 2,
        "tasks": [
            {
                "name": "clean_flights",
                "taskReferenceName": "clean_flights",
                "type": "SIMPLE",
                "inputParameters": {
                    "workspace": "${workflow.input.workspace}",
                    "params": {"year": "${workflow.input.params.year}"},
                },
            }
        ],
        "inputParameters": ["workspace", "params"],
        "outputParameters": {
            "workspace": "${clean_flights.output.workspace}",
            "results": {"clean_flights": "${clean_flights.output.result}"},
        },
        "timeoutPolicy": "ALERT_ONLY",
        "timeoutSeconds": 0,
        "restartable": False,
    }
    assert isinstance(schema, dict)
    assert (schema["name"], schema["version"], schema["type"]) == ("flights_input", 4, "JSON")


def test_a_lease_below_the_publish_budget_is_a_warning() -> None:
    (warning,) = warnings_of(clean_flights)
    assert "task 'clean_flights'" in warning
    assert "shorter than the publish budget of 145 s" in warning


def test_a_reader_and_a_long_lease_give_no_warning() -> None:
    long = TaskControls(timeout=TimeoutPolicy(response_seconds=600), publish_budget=BUDGET)
    assert warnings_of(dataclasses.replace(clean_flights, controls=long)) == []
    reader = WorkspaceSpec(prefix="flights", read_only=True)
    assert warnings_of(dataclasses.replace(clean_flights, workspace=reader)) == []
    assert warnings_of(note) == []
