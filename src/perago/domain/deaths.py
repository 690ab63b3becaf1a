"""How many executors a logical task has killed so far, by the orchestrator's own record.

So it is counted across workers, and a worker that was restarted does not begin anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

from perago.domain.attempt import Attempt, AttemptStatus
from perago.domain.outcome import EXECUTOR_DIED
from perago.domain.workflow import TaskState

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_LONGEST_GAP = timedelta(minutes=5)
"""An orchestrator schedules a retry when it hears of the failure, or when it looks at the instance
next, which takes Conductor two minutes. What was scheduled later, somebody ran again."""


def count_executor_deaths(tasks: Sequence[TaskState], attempt: Attempt) -> int:
    """The earlier attempts of the same logical task whose executor died.

    `tasks` are all attempts of its instance. What came before a rerun by hand does not count, where
    the times tell that there was one.
    """
    return sum(_is_death(task) for task in _find_earlier(tasks, attempt))


def _find_earlier(tasks: Sequence[TaskState], attempt: Attempt) -> Iterator[TaskState]:
    """What the attempt retries, and what that retried, and so on."""
    left = [
        task
        for task in tasks
        if task.attempt.logical_task == attempt.logical_task
        and task.attempt.task_id != attempt.task_id
    ]
    later = attempt
    while (found := _find_retried(left, later)) is not None and not _is_new_start(found, later):
        yield found
        left.remove(found)
        later = found.attempt


def _find_retried(tasks: Sequence[TaskState], later: Attempt) -> TaskState | None:
    if later.retried_task_id is not None:
        named = (task for task in tasks if task.attempt.task_id == later.retried_task_id)
        return next(named, None)
    # An orchestrator that does not say: the one before, if there must be one.
    before = [task for task in tasks if task.attempt.retry_count < later.retry_count]
    return max(before, key=lambda task: task.attempt.retry_count, default=None)


def _is_new_start(retried: TaskState, later: Attempt) -> bool:
    if retried.ended_at is None or later.scheduled_time is None:
        return False
    return later.scheduled_time > (retried.ended_at + _LONGEST_GAP - _EPOCH) / _MILLISECOND


def _is_death(task: TaskState) -> bool:
    failed = task.status in (AttemptStatus.FAILED, AttemptStatus.FAILED_WITH_TERMINAL_ERROR)
    return failed and (task.reason or "").startswith(EXECUTOR_DIED)
