"""Declarations -> the JSON that Conductor takes.

Field names and rules are those of Conductor OSS (`TaskDef`, `WorkflowDef`, `SchemaDef`).
"""

from __future__ import annotations

from dataclasses import dataclass

from perago.authoring.payload import input_schema, output_schema
from perago.authoring.tasks import AnyTask
from perago.authoring.wiring import Wiring
from perago.domain.budget import explain_short_lease
from perago.domain.outcome import JsonObject

SCHEMA_VERSION = 2
"""The only version of workflow definitions that Conductor takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowOutline:
    """What a workflow definition is made of."""

    name: str
    version: int
    description: str
    owner_email: str
    wiring: Wiring
    input_schema: JsonObject


def build_task_definition(task: AnyTask) -> JsonObject:
    """The TaskDef of a task."""
    has_workspace = task.workspace is not None
    keys = ["workspace"] if has_workspace else []
    retry, timeout, limits = task.controls.retry, task.controls.timeout, task.controls.limits
    optional = {
        "concurrentExecLimit": limits.concurrent,
        "rateLimitPerFrequency": limits.rate_per_frequency,
        "rateLimitFrequencyInSeconds": limits.frequency_seconds,
    }
    return {
        "name": task.name,
        "description": task.description,
        "ownerEmail": task.owner_email,
        "retryCount": retry.count,
        "retryLogic": retry.logic,
        "retryDelaySeconds": retry.delay_seconds,
        "backoffScaleFactor": retry.backoff_scale_factor,
        # 0 is no bound.
        "timeoutSeconds": timeout.total_seconds or 0,
        "timeoutPolicy": timeout.policy,
        "responseTimeoutSeconds": timeout.response_seconds,
        "pollTimeoutSeconds": timeout.poll_seconds or 0,
        **{name: value for name, value in optional.items() if value is not None},
        "inputKeys": [*keys, "params"],
        "outputKeys": [*keys, "result"],
        "inputSchema": _schema(
            f"{task.name}_input", input_schema(task.body.params, has_workspace=has_workspace)
        ),
        "outputSchema": _schema(
            f"{task.name}_output", output_schema(task.body.result, has_workspace=has_workspace)
        ),
    }


def build_workflow_definition(outline: WorkflowOutline) -> JsonObject:
    """The WorkflowDef of a pipeline."""
    wiring = outline.wiring
    output: JsonObject = {"results": dict(wiring.results)}
    if wiring.workspace is not None:
        output["workspace"] = wiring.workspace
    return {
        "name": outline.name,
        "version": outline.version,
        "description": outline.description,
        "ownerEmail": outline.owner_email,
        "schemaVersion": SCHEMA_VERSION,
        "tasks": list(wiring.tasks),
        "inputParameters": ["params"] if wiring.workspace is None else ["workspace", "params"],
        "outputParameters": output,
        "timeoutPolicy": "ALERT_ONLY",
        "timeoutSeconds": 0,
        # Restarting a completed writer would run it again on the old input ref and put its
        # own publication aside; a new run starts from the current head instead.
        "restartable": not wiring.writes_workspace,
        "inputSchema": _schema(
            f"{outline.name}_input", outline.input_schema, version=outline.version
        ),
    }


def warnings_of(task: AnyTask) -> list[str]:
    """What is allowed but unwise about a task's declaration."""
    if not task.writes_workspace:
        return []
    problem = explain_short_lease(
        task.controls.timeout.response_seconds, task.controls.publish_budget
    )
    return [] if problem is None else [f"task {task.name!r} ({task.location}): {problem}"]


def _schema(name: str, data: JsonObject, *, version: int = 1) -> JsonObject:
    return {"name": name, "version": version, "type": "JSON", "data": data}
