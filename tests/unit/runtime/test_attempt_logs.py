import os
from pathlib import Path

from perago.domain.attempt import Attempt
from perago.domain.ids import ExecutionId, TaskId, WorkflowId
from perago.runtime.attempt_logs import attempt_log_path, find_attempt_logs


def attempt(reference: str, retry: int = 0) -> Attempt:
    return Attempt(
        workflow_id=WorkflowId("w [1]"),
        task_id=TaskId("t"),
        task_name="x",
        reference_name=reference,
        retry_count=retry,
    )


def test_the_logs_of_every_execution_oldest_first(tmp_path: Path) -> None:
    wanted = attempt("a*b")
    older, newer = (attempt_log_path(tmp_path, wanted, ExecutionId(letter * 32)) for letter in "fe")
    for other in (attempt("a.b"), attempt("a*b", retry=1), attempt("aXb")):
        path = attempt_log_path(tmp_path, other, ExecutionId("d" * 32))
        path.parent.mkdir(exist_ok=True)
        path.touch()
    for time, path in enumerate((older, newer)):
        path.touch()
        os.utime(path, ns=(time, time))

    assert find_attempt_logs(tmp_path, wanted) == [older, newer]


def test_an_attempt_that_never_ran_has_no_logs(tmp_path: Path) -> None:
    assert find_attempt_logs(tmp_path, attempt("a")) == []
