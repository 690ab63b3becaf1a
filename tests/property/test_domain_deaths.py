"""Deaths of executors are counted along the retries of one logical task, and nothing else is."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from perago.domain.attempt import Attempt, AttemptStatus
from perago.domain.deaths import count_executor_deaths
from perago.domain.ids import TaskId, WorkflowId
from perago.domain.outcome import WORKER_DIED, Phase, decide_executor_death
from perago.domain.workflow import TaskState

START = datetime(2030, 1, 1, tzinfo=UTC)
DEATHS = (
    decide_executor_death(
        reference_name="clean", phase=Phase.BODY, deaths=1, limit=3, how="killed by SIGKILL"
    ).reason,
    decide_executor_death(
        reference_name="clean", phase=Phase.BODY, deaths=3, limit=3, how="killed by SIGKILL"
    ).reason,
)
OTHER_REASONS = (
    WORKER_DIED,
    "ValueError: the executor died in phase body",
    "the lease is lost",
    None,
)
reasons = st.lists(st.sampled_from([*DEATHS, *OTHER_REASONS]), max_size=6)


def milliseconds(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def build_chain(
    ended_for: Sequence[str | None], *, reference: str = "clean", has_chain: bool = True
) -> list[TaskState]:
    """One failed attempt for each reason, and the one that runs now."""
    tasks: list[TaskState] = []
    for number in range(len(ended_for) + 1):
        is_last = number == len(ended_for)
        scheduled = START + timedelta(seconds=60 * number)
        before = f"{reference}-{number - 1}" if number and has_chain else None
        attempt = Attempt(
            workflow_id=WorkflowId("w"),
            task_id=TaskId(f"{reference}-{number}"),
            task_name="clean_flights",
            reference_name=reference,
            retry_count=number,
            seq=number + 1,
            scheduled_time=milliseconds(scheduled),
            retried_task_id=TaskId(before) if before is not None else None,
        )
        tasks.append(
            TaskState(
                attempt=attempt,
                task_type="SIMPLE",
                status=AttemptStatus.IN_PROGRESS if is_last else AttemptStatus.FAILED,
                input={},
                output={},
                reason=None if is_last else ended_for[number],
                scheduled_at=scheduled,
                ended_at=None if is_last else scheduled + timedelta(seconds=60),
            )
        )
    return tasks


def count_in(ended_for: Sequence[str | None]) -> int:
    return sum(reason in DEATHS for reason in ended_for)


@given(reasons, reasons, st.booleans(), st.randoms(use_true_random=False))
def test_every_earlier_death_of_the_same_step_counts_once_in_any_order(
    ended_for: list[str | None],
    of_another_step: list[str | None],
    has_chain: bool,
    chance: random.Random,
) -> None:
    own = build_chain(ended_for, has_chain=has_chain)
    tasks = [*own, *build_chain(of_another_step, reference="other")]
    current = own[-1].attempt
    chance.shuffle(tasks)
    assert count_executor_deaths(tasks, current) == count_in(ended_for)


@given(reasons, reasons)
def test_what_came_before_a_rerun_does_not_count(
    before: list[str | None], after: list[str | None]
) -> None:
    tasks = build_chain([*before, *after])
    pause = timedelta(hours=1)
    rerun = [
        replace(
            task,
            attempt=replace(
                task.attempt, scheduled_time=(task.attempt.scheduled_time or 0) + 3_600_000
            ),
            ended_at=task.ended_at and task.ended_at + pause,
        )
        for task in tasks[len(before) :]
    ]
    counted = count_executor_deaths([*tasks[: len(before)], *rerun], rerun[-1].attempt)
    assert counted == count_in(after)


@given(reasons)
def test_a_later_attempt_and_another_iteration_do_not_count(ended_for: list[str | None]) -> None:
    tasks = build_chain(ended_for)
    elsewhere = [
        replace(task, attempt=replace(task.attempt, iteration=2, task_id=TaskId(f"i-{number}")))
        for number, task in enumerate(build_chain([DEATHS[0]] * 3))
    ]
    assert count_executor_deaths([*tasks, *elsewhere], tasks[0].attempt) == 0
    assert count_executor_deaths([*tasks, *elsewhere], tasks[-1].attempt) == count_in(ended_for)


@given(reasons)
def test_only_what_failed_counts(ended_for: list[str | None]) -> None:
    tasks = build_chain(ended_for)
    completed = [replace(task, status=AttemptStatus.COMPLETED) for task in tasks]
    assert count_executor_deaths(completed, tasks[-1].attempt) == 0


def test_a_chain_that_leads_back_to_itself_ends() -> None:
    first, second = build_chain([DEATHS[0]])
    loop = replace(first, attempt=replace(first.attempt, retried_task_id=second.attempt.task_id))
    assert count_executor_deaths([loop, second], second.attempt) == 1


def test_a_predecessor_that_is_gone_ends_the_count() -> None:
    *_, last = build_chain([DEATHS[0], DEATHS[1]])
    assert count_executor_deaths([last], last.attempt) == 0


def test_where_no_times_are_told_there_was_no_rerun() -> None:
    first, last = build_chain([DEATHS[0]])
    untold = replace(first, ended_at=None)
    assert count_executor_deaths([untold, last], last.attempt) == 1
    unscheduled = replace(last.attempt, scheduled_time=None)
    assert count_executor_deaths([first, last], unscheduled) == 1
