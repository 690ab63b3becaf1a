"""TaskDef and WorkflowDef JSON, as Conductor takes it, to frozen values.

Invariant: what comes out can be run. A type, an expression or a field that would make this
engine behave unlike a Conductor server is refused with `InvalidDefinitionError`, by name;
a field that changes nothing here (descriptions, owners, schemas) is read past.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from perago.adapters.embedded.orchestrator.engine.definitions import (
    ForkStep,
    HumanStep,
    JoinStep,
    RetryLogic,
    SimpleStep,
    Step,
    StepType,
    TaskDefinition,
    TimeoutPolicy,
    WaitStep,
    WorkflowDefinition,
    walk_steps,
)
from perago.adapters.embedded.orchestrator.engine.expressions import find_expressions, parse_path
from perago.adapters.embedded.orchestrator.engine.fields import Fields, show
from perago.adapters.embedded.orchestrator.engine.waits import decide_wait_end, parse_until
from perago.domain.errors import InvalidDefinitionError
from perago.domain.outcome import JsonObject, JsonValue

FindTaskDefinition = Callable[[str], JsonObject | None]

_SUPPORTED = ", ".join(StepType)
_USE_A_SERVER = "use a Conductor server for it, or leave it out"
_UNKNOWN_EPOCH = parse_until("2000-01-01")


def parse_task_definition(source: JsonObject) -> TaskDefinition:
    """Read a TaskDef. `backoffJitterMs` is read past: no jitter is within any jitter."""
    fields = Fields(subject=f"task definition {show(source.get('name'))}", values=source)
    if fields.whole("totalTimeoutSeconds", default=0):
        raise fields.refuse("totalTimeoutSeconds is not supported here", hint=_USE_A_SERVER)
    definition = TaskDefinition(
        name=fields.text("name"),
        retry_count=fields.whole("retryCount", default=3),
        retry_logic=fields.choice("retryLogic", RetryLogic.FIXED),
        retry_delay_seconds=fields.whole("retryDelaySeconds", default=60),
        backoff_scale_factor=fields.whole("backoffScaleFactor", default=1, minimum=1),
        max_retry_delay_seconds=fields.whole("maxRetryDelaySeconds", default=0),
        response_timeout_seconds=fields.whole("responseTimeoutSeconds", default=3600, minimum=1),
        timeout_seconds=fields.whole("timeoutSeconds", default=0),
        poll_timeout_seconds=fields.whole("pollTimeoutSeconds", default=0),
        timeout_policy=fields.choice("timeoutPolicy", TimeoutPolicy.TIME_OUT_WF),
        concurrent_limit=fields.whole("concurrentExecLimit", default=0),
        rate_limit=fields.whole("rateLimitPerFrequency", default=0),
        rate_window_seconds=fields.whole("rateLimitFrequencyInSeconds", default=1, minimum=1),
        input_template=fields.mapping("inputTemplate"),
    )
    if 0 < definition.timeout_seconds < definition.response_timeout_seconds:
        raise fields.refuse(
            f"responseTimeoutSeconds {definition.response_timeout_seconds} exceeds "
            f"timeoutSeconds {definition.timeout_seconds}",
            hint="a lease cannot be longer than the attempt that it is part of",
        )
    return definition


def parse_workflow_definition(source: JsonObject) -> WorkflowDefinition:
    """Read a WorkflowDef. A SIMPLE step without a `taskDefinition` gets one of defaults."""
    fields = Fields(subject=f"workflow {show(source.get('name'))}", values=source)
    name = fields.text("name")
    if fields.values.get("failureWorkflow"):
        raise fields.refuse("failureWorkflow is not supported here", hint=_USE_A_SERVER)
    if fields.whole("schemaVersion", default=2) != 2:
        raise fields.refuse("schemaVersion must be 2", hint="older schemas are not supported")
    steps = _parse_steps(fields.subject, fields.array("tasks"))
    if not steps:
        raise fields.refuse("tasks is empty", hint="give the workflow at least one task")
    definition = WorkflowDefinition(
        name=name,
        version=fields.whole("version", default=1, minimum=1),
        steps=steps,
        by_reference=_index(fields, steps),
        source=source,
        output_parameters=fields.mapping("outputParameters"),
        input_template=fields.mapping("inputTemplate"),
        timeout_seconds=fields.whole("timeoutSeconds", default=0),
        timeout_policy=fields.choice(
            "timeoutPolicy", TimeoutPolicy.ALERT_ONLY, without=(TimeoutPolicy.RETRY,)
        ),
    )
    _check_expressions(fields, definition)
    return definition


def bind_task_definitions(source: JsonObject, find: FindTaskDefinition) -> JsonObject:
    """The WorkflowDef with each SIMPLE task's registered TaskDef inside it.

    A `taskDefinition` that is there already wins, as in Conductor. Raises `KeyError` with the
    name of a task that is not registered.
    """
    return source | {"tasks": [_bind(task, find) for task in _objects(source.get("tasks"))]}


def _bind(task: JsonObject, find: FindTaskDefinition) -> JsonObject:
    if task.get("type", StepType.SIMPLE) == StepType.SIMPLE and not task.get("taskDefinition"):
        name = str(task["name"])
        definition = find(name)
        if definition is None:
            raise KeyError(name)
        return task | {"taskDefinition": definition}
    if not task.get("forkTasks"):
        return task
    branches = task["forkTasks"]
    assert isinstance(branches, list)
    return task | {
        "forkTasks": [[_bind(inner, find) for inner in _objects(branch)] for branch in branches]
    }


def _objects(value: JsonValue) -> list[JsonObject]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _parse_steps(owner: str, tasks: list[JsonValue]) -> tuple[Step, ...]:
    steps: list[Step] = []
    for number, task in enumerate(tasks, start=1):
        if not isinstance(task, dict):
            raise InvalidDefinitionError(
                f"{owner}: task {number} is not an object",
                hint="each entry of tasks is an object with name, taskReferenceName and type",
            )
        subject = f"{owner}, task {show(task.get('taskReferenceName'))}"
        steps.append(_parse_step(Fields(subject=subject, values=task)))
    _check_joins(owner, steps)
    return tuple(steps)


def _parse_step(fields: Fields) -> Step:
    reference, name = fields.text("taskReferenceName"), fields.text("name")
    inputs, optional = fields.mapping("inputParameters"), fields.flag("optional")
    type_ = fields.values.get("type") or StepType.SIMPLE
    match type_:
        case StepType.SIMPLE:
            return _parse_simple(fields, reference, name)
        case StepType.HUMAN:
            return HumanStep(
                reference_name=reference, name=name, input_parameters=inputs, optional=optional
            )
        case StepType.WAIT:
            _check_wait(fields, inputs)
            return WaitStep(
                reference_name=reference, name=name, input_parameters=inputs, optional=optional
            )
        case StepType.FORK_JOIN:
            return ForkStep(reference_name=reference, name=name, branches=_parse_branches(fields))
        case StepType.JOIN:
            return JoinStep(reference_name=reference, name=name, join_on=_parse_join_on(fields))
        case _:
            raise fields.refuse(
                f"its type {show(type_)} does not run here",
                hint=f"this orchestrator runs {_SUPPORTED}; {_USE_A_SERVER}",
            )


def _parse_simple(fields: Fields, reference: str, name: str) -> SimpleStep:
    definition: JsonObject = {"name": name}
    definition.update(fields.mapping("taskDefinition"))
    own_retries = fields.values.get("retryCount") is not None
    return SimpleStep(
        reference_name=reference,
        name=name,
        input_parameters=fields.mapping("inputParameters"),
        definition=parse_task_definition(definition),
        optional=fields.flag("optional"),
        retry_count=fields.whole("retryCount", default=0) if own_retries else None,
        start_delay_seconds=fields.whole("startDelay", default=0),
    )


def _parse_branches(fields: Fields) -> tuple[tuple[Step, ...], ...]:
    branches: list[tuple[Step, ...]] = []
    for number, branch in enumerate(fields.array("forkTasks"), start=1):
        if not isinstance(branch, list) or not branch:
            raise fields.refuse(
                f"branch {number} of forkTasks has no tasks",
                hint="forkTasks is an array of branches, each an array of at least one task",
            )
        branches.append(_parse_steps(fields.subject, branch))
    if not branches:
        raise fields.refuse("forkTasks is empty", hint="give the fork at least one branch")
    return tuple(branches)


def _parse_join_on(fields: Fields) -> tuple[str, ...]:
    names = fields.array("joinOn")
    if not all(isinstance(name, str) for name in names):
        raise fields.refuse("joinOn must hold texts", hint="name tasks by taskReferenceName")
    return tuple(str(name) for name in names)


def _check_wait(fields: Fields, inputs: JsonObject) -> None:
    fixed = {
        key: value
        for key, value in inputs.items()
        if not _find_expressions(fields, "inputParameters", value)
    }
    try:
        decide_wait_end(fixed, _UNKNOWN_EPOCH)
    except ValueError as error:
        raise fields.refuse(str(error), hint="correct the WAIT's inputParameters") from None


def _check_joins(owner: str, steps: Sequence[Step]) -> None:
    """A fork is followed by its join, and a join names steps of that fork's branches alone.

    Anything else would wait for ever, or not at all.
    """
    before: Step | None = None
    for step in [*steps, None]:
        if isinstance(before, ForkStep) and not isinstance(step, JoinStep):
            raise InvalidDefinitionError(
                f"{owner}: no JOIN follows the fork {before.reference_name!r}",
                hint="put a JOIN task right after the FORK_JOIN task",
            )
        if isinstance(step, JoinStep):
            _check_join_on(owner, step, before)
        before = step


def _check_join_on(owner: str, join: JoinStep, fork: Step | None) -> None:
    subject = f"{owner}, task {join.reference_name!r}"
    if not isinstance(fork, ForkStep):
        raise InvalidDefinitionError(
            f"{subject}: no FORK_JOIN stands right before this JOIN",
            hint="put the JOIN right after the FORK_JOIN whose branches it waits for",
        )
    inside = {step.reference_name for branch in fork.branches for step in walk_steps(branch)}
    for name in join.join_on:
        if name not in inside:
            raise InvalidDefinitionError(
                f"{subject}: joinOn names {name!r}, which is no task of the fork "
                f"{fork.reference_name!r}",
                hint="it may name: " + ", ".join(sorted(inside)),
            )


def _index(fields: Fields, steps: tuple[Step, ...]) -> dict[str, Step]:
    index: dict[str, Step] = {}
    for step in walk_steps(steps):
        name = step.reference_name
        if name in index:
            raise fields.refuse(
                f"two tasks have the taskReferenceName {name!r}",
                hint="a reference name stands for one task of the workflow; rename one",
            )
        if name == "workflow":
            raise fields.refuse(
                "a task has the taskReferenceName 'workflow'",
                hint="${workflow…} stands for the workflow itself; rename the task",
            )
        index[name] = step
    return index


def _check_expressions(fields: Fields, definition: WorkflowDefinition) -> None:
    places: list[tuple[str, JsonObject]] = [("outputParameters", definition.output_parameters)]
    for step in definition.by_reference.values():
        if isinstance(step, SimpleStep | HumanStep | WaitStep):
            places.append((f"task {step.reference_name!r}", step.input_parameters))
        if isinstance(step, SimpleStep):
            places.append((f"task definition {step.name!r}", step.definition.input_template))
    known = {"workflow", *definition.by_reference}
    for place, template in places:
        for expression in _find_expressions(fields, place, template):
            _check_expression(fields, place, expression, known)


def _find_expressions(fields: Fields, place: str, template: JsonValue) -> list[str]:
    try:
        return list(find_expressions(template))
    except ValueError as error:
        raise fields.refuse(f"{place}: {error}", hint=_USE_A_SERVER) from None


def _check_expression(fields: Fields, place: str, expression: str, known: set[str]) -> None:
    if _find_expressions(fields, place, expression) or not expression.strip():
        return  # made at run time from another expression, or the empty text
    try:
        root = parse_path(expression)[0]
    except ValueError as error:
        raise fields.refuse(f"{place}: {error}", hint=_USE_A_SERVER) from None
    if root not in known:
        raise fields.refuse(
            f"{place}: ${{{expression}}} speaks of {root!r}, which is no task of this workflow",
            hint="an expression begins with 'workflow' or with a taskReferenceName",
        )
