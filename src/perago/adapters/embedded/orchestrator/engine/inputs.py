"""What a task gets as its input and a workflow gives as its output: expressions, evaluated."""

from __future__ import annotations

from datetime import datetime

from perago.adapters.embedded.orchestrator.engine.definitions import HumanStep, SimpleStep, WaitStep
from perago.adapters.embedded.orchestrator.engine.expressions import resolve_object
from perago.adapters.embedded.orchestrator.engine.instance import Instance, TaskRecord
from perago.domain.outcome import JsonObject


def build_task_input(instance: Instance, step: SimpleStep | HumanStep | WaitStep) -> JsonObject:
    """The input of a step's next attempt; the TaskDef's inputTemplate fills gaps and nulls."""
    template = step.definition.input_template if isinstance(step, SimpleStep) else {}
    values = resolve_object(template | step.input_parameters, _build_scope(instance))
    return {key: template.get(key) if value is None else value for key, value in values.items()}


def build_workflow_output(instance: Instance, last: TaskRecord | None) -> JsonObject:
    """`outputParameters`, evaluated; where there are none, the output of the last task."""
    if instance.definition.output_parameters:
        return resolve_object(instance.definition.output_parameters, _build_scope(instance))
    return last.output if last is not None else {}


def _build_scope(instance: Instance) -> JsonObject:
    scope: JsonObject = {
        name: _describe(instance, record) for name, record in instance.current().items()
    }
    scope["workflow"] = {
        "input": instance.input,
        "output": instance.output,
        "status": instance.status.value,
        "workflowId": instance.id,
        "workflowType": instance.definition.name,
        "version": instance.definition.version,
        "reasonForIncompletion": instance.reason,
    }
    return scope


def _describe(instance: Instance, record: TaskRecord) -> JsonObject:
    return {
        "input": record.input,
        "output": record.output,
        "status": record.status.value,
        "taskType": record.task_type.value,
        "referenceTaskName": record.reference_name,
        "taskDefName": record.task_name,
        "taskId": record.task_id,
        "workflowInstanceId": instance.id,
        "retryCount": record.retry_count,
        "pollCount": record.poll_count,
        "workerId": record.worker_id,
        "iteration": 0,
        "reasonForIncompletion": record.reason,
        "scheduledTime": _milliseconds(record.scheduled_at),
        "startTime": _milliseconds(record.started_at),
        "endTime": _milliseconds(record.ended_at),
    }


def _milliseconds(moment: datetime | None) -> int:
    return 0 if moment is None else int(moment.timestamp() * 1000)
