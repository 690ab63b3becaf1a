"""The Orchestrator port on the pure engine, over any place that keeps instances.

Invariant: every change of an instance is one load-decide-save inside `InstanceStore.writing()`,
so two processes never decide on the same state. Time-outs have no thread of their own: each call
first settles what is due by the engine's time.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from perago.adapters.embedded.orchestrator.engine.deadlines import plan_wake_up
from perago.adapters.embedded.orchestrator.engine.decide import (
    Event,
    HandBack,
    HandOut,
    Heartbeat,
    Report,
    Terminate,
    TimePassed,
    decide,
    start_instance,
)
from perago.adapters.embedded.orchestrator.engine.definitions import SimpleStep, TaskDefinition
from perago.adapters.embedded.orchestrator.engine.instance import (
    Instance,
    TaskRecord,
    build_polled_task,
    build_snapshot,
    build_workflow_state,
)
from perago.adapters.embedded.orchestrator.engine.parsing import (
    bind_task_definitions,
    parse_task_definition,
    parse_workflow_definition,
)
from perago.adapters.embedded.orchestrator.engine_time import EngineTime
from perago.adapters.embedded.orchestrator.instance_store import InstanceStore
from perago.adapters.embedded.orchestrator.kept_json import clean_text, copy_json
from perago.domain.attempt import Attempt, AttemptSnapshot, AttemptStatus
from perago.domain.errors import NotFoundInOrchestratorError
from perago.domain.ids import TaskId, WorkerId, WorkflowId
from perago.domain.outcome import Completed, JsonObject, Outcome
from perago.domain.reports import SendReport, StaleReport, decide_report
from perago.domain.workflow import LogLine, PolledTask, WorkflowState
from perago.ports.clock import Clock

# The size from which a Conductor server, by default, no longer stores a task's output itself.
MAX_OUTPUT_BYTES = 3072 * 1024
# Between two looks at an empty queue: short against a task, long against a look (some 50 µs).
POLL_INTERVAL_SECONDS = 0.05


class EngineOrchestrator:
    """The Orchestrator port on the engine."""

    def __init__(self, instances: InstanceStore, clock: Clock, *, boot: str = "") -> None:
        """`boot` names the machine's current boot: only within one are two clocks comparable."""
        self._instances = instances
        self._clock = clock
        self._time = EngineTime(clock, boot)

    @property
    def max_output_bytes(self) -> int:
        return MAX_OUTPUT_BYTES

    def register_task(self, definition: JsonObject) -> None:
        source = copy_json(definition, "the task definition")
        name = parse_task_definition(source).name
        with self._instances.writing():
            self._instances.put_task_definition(name, source)

    def register_workflow(self, definition: JsonObject) -> None:
        source = copy_json(definition, "the workflow definition")
        workflow = parse_workflow_definition(source)
        with self._instances.writing():
            self._instances.put_workflow_definition(workflow.name, workflow.version, source)

    def find_task_definition(self, name: str) -> JsonObject | None:
        with self._instances.reading():
            return self._instances.task_definition(name)

    def find_workflow_definition(self, name: str, version: int | None = None) -> JsonObject | None:
        with self._instances.reading():
            return self._instances.workflow_definition(name, version)

    def start_workflow(
        self, name: str, *, workflow_input: JsonObject, version: int | None = None
    ) -> WorkflowId:
        checked_input = copy_json(workflow_input, f"the input of workflow {name!r}")
        workflow_id = WorkflowId(str(uuid.uuid4()))
        with self._time.writing(self._instances) as now:
            definition = parse_workflow_definition(self._bind(name, version))
            self._instances.add(start_instance(workflow_id, definition, checked_input, now))
        return workflow_id

    def poll(
        self,
        task_names: Sequence[str],
        *,
        worker_id: WorkerId,
        count: int,
        wait_seconds: float,
    ) -> list[PolledTask]:
        give_up = self._clock.elapsed() + wait_seconds
        while True:
            taken = self._take(task_names, worker_id, count)
            left = give_up - self._clock.elapsed()
            if taken or left <= 0:
                return taken
            self._clock.sleep(min(POLL_INTERVAL_SECONDS, left))

    def snapshot(self, task_id: TaskId) -> AttemptSnapshot:
        instance = self._look(lambda: self._of_task(task_id))
        return build_snapshot(instance, _require_record(instance, task_id))

    def heartbeat(self, attempt: Attempt) -> None:
        task_id = attempt.task_id
        self._decide(lambda: self._of_task(task_id), Heartbeat(task_id=task_id))

    def hand_back(self, attempt: Attempt) -> None:
        task_id = attempt.task_id
        given = HandBack(
            task_id=task_id, worker_id=attempt.worker_id, poll_count=attempt.poll_count
        )
        self._decide(lambda: self._of_task(task_id), given)

    def report(self, attempt: Attempt, outcome: Outcome) -> str | None:
        task_id = attempt.task_id
        if isinstance(outcome, Completed):
            what = f"the output of task {task_id} ({attempt.reference_name})"
            outcome = Completed(output=copy_json(outcome.output, what, limit=MAX_OUTPUT_BYTES))
        else:
            outcome = replace(outcome, reason=clean_text(outcome.reason))
        with self._time.writing(self._instances) as now:
            before = self._of_task(task_id)
            # Time comes first: what has timed out by now is out.
            settled = decide(before, TimePassed(), now)
            snapshot = build_snapshot(settled, _require_record(settled, task_id))
            decision = decide_report(attempt, snapshot, outcome)
            after = settled
            if isinstance(decision, SendReport):
                after = decide(settled, Report(task_id=task_id, outcome=outcome), now)
            self._instances.update(before, after)
        return decision.reason if isinstance(decision, StaleReport) else None

    def append_log(self, task_id: TaskId, text: str) -> None:
        with self._time.writing(self._instances) as now:
            self._owner_of(task_id)
            self._instances.append_log(task_id, LogLine(at=now, text=clean_text(text)))

    def read_log(self, task_id: TaskId) -> list[LogLine]:
        with self._instances.reading():
            self._owner_of(task_id)
            return self._instances.log(task_id)

    def workflow(self, workflow_id: WorkflowId) -> WorkflowState:
        return build_workflow_state(self._look(lambda: self._of_id(workflow_id)))

    def find_root(self, workflow_id: WorkflowId) -> WorkflowId:
        return self._look(lambda: self._of_id(workflow_id)).id

    def workflows(self, *, limit: int = 50, name: str | None = None) -> list[WorkflowState]:
        return [self.workflow(one) for one in self.workflow_ids(limit=limit, name=name)]

    def workflow_ids(
        self, *, limit: int, unfinished: bool = False, name: str | None = None
    ) -> list[WorkflowId]:
        with self._instances.reading():
            return self._instances.newest(limit, unfinished=unfinished, name=name)

    def terminate(self, workflow_id: WorkflowId, reason: str) -> None:
        self._decide(lambda: self._of_id(workflow_id), Terminate(reason=clean_text(reason)))

    def _take(self, task_names: Sequence[str], worker_id: WorkerId, count: int) -> list[PolledTask]:
        """Hand out what is there now. An idle look only reads, and blocks nobody."""
        with self._time.reading(self._instances) as now:
            is_due = self._instances.due(now) is not None
            is_available = self._instances.next_available(task_names, now) is not None
        if is_due:
            self._settle_due()
        if not is_due and not is_available:
            return []
        with self._time.writing(self._instances) as now:
            return self._hand_out(list(task_names), worker_id, count, now)

    def _settle_due(self) -> None:
        """Let time act on every instance that waits for it, one transaction each."""
        while True:
            with self._time.writing(self._instances) as now:
                workflow_id = self._instances.due(now)
                if workflow_id is None:
                    return
                before = self._of_id(workflow_id)
                self._instances.update(before, decide(before, TimePassed(), now))

    def _hand_out(
        self, task_names: list[str], worker_id: WorkerId, count: int, now: datetime
    ) -> list[PolledTask]:
        taken: list[PolledTask] = []
        while len(taken) < count:
            found = self._instances.next_available(task_names, now)
            if found is None:
                break
            workflow_id, task_id = found
            before = self._of_id(workflow_id)
            waiting = _require_record(before, task_id)
            after = before
            if not self._is_limited(_definition_of(before, waiting), now):
                after = decide(before, HandOut(task_id=task_id, worker_id=worker_id), now)
                self._instances.update(before, after)
            record = _require_record(after, task_id)
            if record.status is AttemptStatus.IN_PROGRESS:
                taken.append(build_polled_task(after, record))
            else:  # held back by a limit, or timed out just now: not in this poll
                task_names = [name for name in task_names if name != record.task_name]
        return taken

    def _is_limited(self, definition: TaskDefinition, now: datetime) -> bool:
        """Whether concurrentExecLimit or the rate limit holds a task back for now."""
        concurrent, rate = definition.concurrent_limit, definition.rate_limit
        if concurrent and self._instances.count_in_progress(definition.name) >= concurrent:
            return True
        since = now - timedelta(seconds=definition.rate_window_seconds)
        return bool(rate) and self._instances.count_started_since(definition.name, since) >= rate

    def _look(self, find: Callable[[], Instance]) -> Instance:
        """The instance as it is now; written only when time has changed it."""
        with self._time.reading(self._instances) as now:
            instance = find()
        wake_up = plan_wake_up(instance)
        if wake_up is None or now < wake_up:
            return instance
        return self._decide(find, TimePassed())

    def _decide(self, find: Callable[[], Instance], event: Event) -> Instance:
        with self._time.writing(self._instances) as now:
            before = find()
            after = decide(before, event, now)
            self._instances.update(before, after)
        return after

    def _bind(self, name: str, version: int | None) -> JsonObject:
        source = self._instances.workflow_definition(name, version)
        if source is None:
            which = f"workflow {name!r}" + (f" version {version}" if version is not None else "")
            raise NotFoundInOrchestratorError(
                f"{which} is not registered", hint="register the workflow, then start it"
            )
        try:
            return bind_task_definitions(source, self._instances.task_definition)
        except KeyError as error:
            raise NotFoundInOrchestratorError(
                f"workflow {name!r} uses task {error.args[0]!r}, which is not registered",
                hint="register the task's definition, then start the workflow",
            ) from None

    def _of_id(self, workflow_id: WorkflowId) -> Instance:
        instance = self._instances.instance(workflow_id)
        if instance is None:
            raise NotFoundInOrchestratorError(
                f"there is no workflow instance {workflow_id!r}",
                hint="look up its id among the workflows of this home",
            )
        return instance

    def _of_task(self, task_id: TaskId) -> Instance:
        return self._of_id(self._owner_of(task_id))

    def _owner_of(self, task_id: TaskId) -> WorkflowId:
        workflow_id = self._instances.owner_of(task_id)
        if workflow_id is None:
            raise NotFoundInOrchestratorError(
                f"there is no task {task_id!r}", hint="look up its id in its workflow instance"
            )
        return workflow_id


def _require_record(instance: Instance, task_id: TaskId) -> TaskRecord:
    record = instance.find(task_id)
    assert record is not None
    return record


def _definition_of(instance: Instance, record: TaskRecord) -> TaskDefinition:
    step = instance.definition.by_reference[record.reference_name]
    assert isinstance(step, SimpleStep)
    return step.definition
