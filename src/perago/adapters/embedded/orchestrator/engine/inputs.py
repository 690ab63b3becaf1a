"""What a task gets as its input and a workflow gives as its output: expressions, evaluated."""

from __future__ import annotations

from datetime import datetime

from perago.adapters.embedded.orchestrator.engine.definitions import HumanStep, SimpleStep, WaitStep
from perago.adapters.embedded.orchestrator.engine.expressions import MAX_CHARACTERS, resolve_object
from perago.adapters.embedded.orchestrator.engine.instance import (
    Instance,
    TaskRecord,
    to_milliseconds,
)
from perago.domain.json_limits import (
    MAX_DEPTH,
    build_unreadable,
    explain_unusable_json,
    is_larger_json,
)
from perago.domain.outcome import JsonObject

_JOIN_CHARACTERS = 16 * MAX_CHARACTERS


def build_task_input(instance: Instance, step: SimpleStep | HumanStep | WaitStep) -> JsonObject:
    """The input of a step's next attempt; the TaskDef's inputTemplate fills gaps and nulls.

    Raises `ValueError` where what the expressions make of it is more than a task can be given.
    """
    template = step.definition.input_template if isinstance(step, SimpleStep) else {}
    values = _resolve(template | step.input_parameters, instance)
    return {key: template.get(key) if value is None else value for key, value in values.items()}


def build_workflow_output(instance: Instance, last: TaskRecord | None) -> JsonObject:
    """`outputParameters`, evaluated; where there are none, the output of the last task."""
    if not instance.definition.output_parameters:
        return last.output if last is not None else {}
    try:
        return _resolve(instance.definition.output_parameters, instance)
    except ValueError as error:
        # An instance must be able to end, however it ends.
        return build_unreadable(str(error))


def build_join_output(outputs: JsonObject) -> JsonObject:
    """The outputs of the steps that a JOIN waited for, by reference name.

    Raises `ValueError` where they are too much together. No worker gets them as they are.
    """
    _refuse_unfit(outputs, _JOIN_CHARACTERS)
    return outputs


def _resolve(template: JsonObject, instance: Instance) -> JsonObject:
    try:
        values = resolve_object(template, _build_scope(instance))
    except RecursionError:
        raise ValueError(f"it is nested deeper than {MAX_DEPTH} levels") from None
    _refuse_unfit(values, MAX_CHARACTERS)
    return values


def _refuse_unfit(values: JsonObject, characters: int) -> None:
    """Raise where values cannot be kept together, although each of them could."""
    if is_larger_json(values, characters):
        raise ValueError(f"it has over {characters:,} characters")
    problem = explain_unusable_json(values)
    if problem is not None:
        raise ValueError(problem)


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
    return 0 if moment is None else to_milliseconds(moment)
