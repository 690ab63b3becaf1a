"""An orchestrator that is told no secrets: the one way out for reasons and lines of task logs."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from perago.domain.attempt import Attempt
from perago.domain.ids import TaskId, WorkflowId
from perago.domain.outcome import Outcome
from perago.domain.redaction import Redactor
from perago.ports import Orchestrator


def without_secrets(orchestrator: Orchestrator, redactor: Redactor) -> Orchestrator:
    """The orchestrator, with secrets hidden in the texts that it is given."""
    # What is not about texts goes to the orchestrator itself, whatever the port has.
    return cast("Orchestrator", _RedactedOrchestrator(orchestrator, redactor))


class _RedactedOrchestrator:
    """Hides secrets in reasons and log lines; an output is the body's own and stays."""

    def __init__(self, orchestrator: Orchestrator, redactor: Redactor) -> None:
        self._orchestrator = orchestrator
        self._redactor = redactor

    def report(self, attempt: Attempt, outcome: Outcome) -> str | None:
        return self._orchestrator.report(attempt, self._redactor.apply_to_outcome(outcome))

    def append_log(self, task_id: TaskId, text: str) -> None:
        self._orchestrator.append_log(task_id, self._redactor.apply(text))

    def terminate(self, workflow_id: WorkflowId, reason: str) -> None:
        self._orchestrator.terminate(workflow_id, self._redactor.apply(reason))

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            return getattr(self._orchestrator, name)
