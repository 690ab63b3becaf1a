"""One execution of one attempt, with everything that names it in logs, traces and commits."""

from __future__ import annotations

from dataclasses import dataclass

from perago.domain.attempt import Attempt
from perago.domain.ids import BranchName, CommitId, ExecutionId
from perago.domain.outcome import read_ref
from perago.domain.staging import build_staging_name
from perago.domain.workflow import PolledTask


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """An attempt that was handed to an executor.

    Without a workspace there are no `input_ref` and no `staging_branch`; with one, the branch is
    made only if the attempt changes something.
    """

    attempt: Attempt
    execution_id: ExecutionId
    input_ref: CommitId | None
    staging_branch: BranchName | None


def execution_of(polled: PolledTask, execution_id: ExecutionId) -> Execution:
    """The execution of a polled task; an input that is not valid may name no ref."""
    attempt, input_ref = polled.attempt, read_ref(polled.input)
    return Execution(
        attempt=attempt,
        execution_id=execution_id,
        input_ref=input_ref,
        staging_branch=None if input_ref is None else build_staging_name(attempt, execution_id),
    )
