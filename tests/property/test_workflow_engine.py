"""Laws of the workflow engine, over random workflows and random interleavings of events."""

import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

from hypothesis import event, given, settings
from hypothesis import strategies as st

from perago.adapters.embedded.orchestrator.database import Database
from perago.adapters.embedded.orchestrator.engine.deadlines import plan_wake_up
from perago.adapters.embedded.orchestrator.engine.decide import (
    Event,
    HandOut,
    Heartbeat,
    Report,
    Terminate,
    TimePassed,
    decide,
    start_instance,
)
from perago.adapters.embedded.orchestrator.engine.definitions import (
    SimpleStep,
    WorkflowDefinition,
)
from perago.adapters.embedded.orchestrator.engine.instance import Instance
from perago.adapters.embedded.orchestrator.engine.parsing import parse_workflow_definition
from perago.adapters.embedded.orchestrator.engine.rules import settle
from perago.adapters.embedded.orchestrator.sqlite_instances import SqliteInstances
from perago.domain.attempt import AttemptStatus
from perago.domain.ids import WorkerId, WorkflowId
from perago.domain.outcome import (
    Completed,
    Failed,
    JsonObject,
    JsonValue,
    Outcome,
    Phase,
    TerminalFailure,
)
from perago.domain.workflow import WorkflowStatus

START = datetime(2030, 1, 1, tzinfo=UTC)
WORKFLOW = WorkflowId("workflow-1")

COMPLETED = Completed(output={"n": 1})
FAILED = Failed(reason="failed", phase=Phase.BODY)
TERMINAL = TerminalFailure(reason="failed for good", phase=Phase.BODY)


@dataclass(frozen=True)
class Move:
    """One thing that happens; an even `index` picks an open attempt, an odd one any of all."""

    kind: str
    index: int
    outcome: Outcome
    seconds: int


moves = st.builds(
    Move,
    kind=st.sampled_from(["poll", "poll", "report", "report", "heartbeat", "time", "terminate"]),
    index=st.integers(0, 30),
    outcome=st.sampled_from([COMPLETED] * 5 + [FAILED] * 2 + [TERMINAL]),
    seconds=st.sampled_from([1, 5, 10, 30, 100]),
)


scripts = st.lists(moves, max_size=60)


@st.composite
def definitions(draw: st.DrawFn) -> WorkflowDefinition:
    """A workflow of up to a dozen steps, forks inside forks included."""
    names = (f"step-{number}" for number in range(1000))

    def simple() -> JsonObject:
        return {
            "name": "task",
            "taskReferenceName": next(names),
            "type": "SIMPLE",
            "optional": draw(st.booleans()),
            "startDelay": draw(st.sampled_from([0, 0, 3])),
            "inputParameters": {"in": "${step-0.output.n}"},
            "taskDefinition": {
                "name": "task",
                "retryCount": draw(st.integers(0, 2)),
                "retryDelaySeconds": draw(st.sampled_from([0, 5])),
                "retryLogic": draw(
                    st.sampled_from(["FIXED", "LINEAR_BACKOFF", "EXPONENTIAL_BACKOFF"])
                ),
                "responseTimeoutSeconds": draw(st.sampled_from([5, 20])),
                "timeoutSeconds": draw(st.sampled_from([0, 25])),
                "timeoutPolicy": draw(st.sampled_from(["RETRY", "TIME_OUT_WF", "ALERT_ONLY"])),
                "pollTimeoutSeconds": draw(st.sampled_from([0, 0, 60])),
            },
        }

    def human() -> JsonObject:
        return {"name": "h", "taskReferenceName": next(names), "type": "HUMAN"}

    def wait() -> JsonObject:
        return {
            "name": "w",
            "taskReferenceName": next(names),
            "type": "WAIT",
            "inputParameters": {"duration": "7 seconds"},
        }

    def fork(depth: int) -> list[JsonValue]:
        branches = [steps(depth + 1) for _ in range(draw(st.integers(1, 2)))]
        last: list[JsonValue] = [_reference(branch[-1]) for branch in branches]
        forked: list[JsonValue] = [*branches]
        return [
            {
                "name": "f",
                "taskReferenceName": next(names),
                "type": "FORK_JOIN",
                "forkTasks": forked,
            },
            {"name": "j", "taskReferenceName": next(names), "type": "JOIN", "joinOn": last},
        ]

    def steps(depth: int) -> list[JsonValue]:
        found: list[JsonValue] = []
        for _ in range(draw(st.integers(1, 3 - depth))):
            kind = draw(st.sampled_from(["simple", "simple", "human", "wait", "fork"]))
            if kind == "fork" and depth < 2:
                found.extend(fork(depth))
            else:
                found.append({"human": human, "wait": wait}.get(kind, simple)())
        return found

    return parse_workflow_definition(
        {
            "name": "workflow",
            "tasks": [simple(), *steps(0)],
            "timeoutSeconds": draw(st.sampled_from([0, 0, 300])),
            "timeoutPolicy": "TIME_OUT_WF",
        }
    )


def _reference(task: JsonValue) -> JsonValue:
    assert isinstance(task, dict)
    return task["taskReferenceName"]


def choose(instance: Instance, move: Move) -> Event:
    open_ones = [record for record in instance.tasks if record.is_open]
    records = open_ones if open_ones and move.index % 2 == 0 else instance.tasks
    attempt = records[move.index // 2 % len(records)].task_id
    match move.kind:
        case "poll":
            return HandOut(task_id=attempt, worker_id=WorkerId("w"))
        case "report":
            return Report(task_id=attempt, outcome=move.outcome)
        case "heartbeat":
            return Heartbeat(task_id=attempt)
        case "terminate":
            # Rare, or no workflow would ever get far.
            return Terminate(reason="enough") if move.index == 30 else TimePassed()
        case _:
            return TimePassed()


def play(definition: WorkflowDefinition, script: list[Move]) -> list[tuple[Instance, datetime]]:
    """Every state that the script leads through, with its time."""
    now = START
    instance = start_instance(WORKFLOW, definition, {}, now)
    states = [(instance, now)]
    for move in script:
        if move.kind == "time":
            now += timedelta(seconds=move.seconds)
        instance = decide(instance, choose(instance, move), now)
        states.append((instance, now))
    return states


@given(definition=definitions(), script=scripts)
def test_every_state_is_sound(definition: WorkflowDefinition, script: list[Move]) -> None:
    states = play(definition, script)
    event(f"ends {states[-1][0].status}")
    for instance, now in states:
        assert_attempts_are_sound(instance)
        assert_status_fits(instance)
        assert settle(instance, now) is instance, "nothing is left to follow from the state"
        wake_up = plan_wake_up(instance)
        assert wake_up is None or wake_up > now


def assert_attempts_are_sound(instance: Instance) -> None:
    assert [record.seq for record in instance.tasks] == list(range(1, len(instance.tasks) + 1))
    assert len({record.task_id for record in instance.tasks}) == len(instance.tasks)
    for reference, step in instance.definition.by_reference.items():
        attempts = [record for record in instance.tasks if record.reference_name == reference]
        assert [record.retry_count for record in attempts] == list(range(len(attempts)))
        assert not any(record.is_open or record.is_done for record in attempts[:-1])
        for failed, retry in pairwise(attempts):
            assert retry.retried_task_id == failed.task_id
            assert failed.status in (AttemptStatus.FAILED, AttemptStatus.TIMED_OUT)
            assert isinstance(step, SimpleStep)
            assert retry.retry_count <= step.max_retries


def assert_status_fits(instance: Instance) -> None:
    current = instance.current()
    all_done = all(
        name in current and current[name].is_done for name in instance.definition.by_reference
    )
    assert (instance.status is WorkflowStatus.COMPLETED) == all_done
    assert instance.status.is_terminal == (instance.ended_at is not None)
    if instance.status.is_terminal:
        assert not any(record.is_open for record in instance.tasks)
    for name, record in current.items():
        if record.status is AttemptStatus.COMPLETED_WITH_ERRORS:
            assert instance.definition.by_reference[name].optional


@given(definition=definitions(), script=scripts)
def test_what_is_over_never_changes(definition: WorkflowDefinition, script: list[Move]) -> None:
    states = play(definition, script)
    for (before, _), (after, _) in pairwise(states):
        if before.status.is_terminal:
            assert after == before
        kept = after.tasks[: len(before.tasks)]
        for old, new in zip(before.tasks, kept, strict=True):
            assert old.is_open or new == old


@given(definition=definitions(), script=scripts)
def test_a_running_workflow_can_always_be_brought_to_its_end(
    definition: WorkflowDefinition, script: list[Move]
) -> None:
    instance, now = play(definition, script)[-1]
    for _ in range(200):
        if instance.status.is_terminal:
            break
        instance = serve_everything(instance, now)
        now += timedelta(seconds=1)
        instance = decide(instance, TimePassed(), now)
    event(f"ends {instance.status}")
    assert instance.status.is_terminal


def serve_everything(instance: Instance, now: datetime) -> Instance:
    """Hand out and complete every task that a worker or a person can complete now."""
    for record in instance.tasks:
        hand_out = HandOut(task_id=record.task_id, worker_id=WorkerId("w"))
        instance = decide(instance, hand_out, now)
        handed = instance.find(record.task_id)
        assert handed is not None
        if handed.status is AttemptStatus.IN_PROGRESS and record.task_type in ("SIMPLE", "HUMAN"):
            instance = decide(instance, Report(task_id=record.task_id, outcome=COMPLETED), now)
    return instance


@settings(max_examples=30)
@given(definition=definitions(), script=scripts)
def test_sqlite_gives_back_what_it_was_given(
    definition: WorkflowDefinition, script: list[Move]
) -> None:
    states = [instance for instance, _ in play(definition, script)]
    with tempfile.TemporaryDirectory() as directory:
        database = Database(Path(directory) / "orchestrator.db")
        store = SqliteInstances(database)
        with store.writing():
            store.add(states[0])
        for before, after in pairwise(states):
            with store.writing():
                store.update(before, after)
            with store.reading():
                assert store.instance(WORKFLOW) == after
        database.close()
