"""What is sent to change a task, always by its own id."""

from __future__ import annotations

import json

from perago.domain.attempt import Attempt
from perago.domain.errors import OrchestratorError
from perago.domain.json_limits import explain_unusable_json
from perago.domain.outcome import Completed, JsonObject, JsonValue, Outcome

_MAX_REASON_CHARACTERS = 500
"""The server cuts a reason here, without a sign."""
_CUT = "… (cut)"


def build_heartbeat(attempt: Attempt) -> bytes:
    """Starts the lease anew; the server takes nothing else from it."""
    return _encode(_update(attempt, "IN_PROGRESS") | {"extendLease": True})


def build_hand_back(attempt: Attempt) -> bytes:
    """Puts the task back as SCHEDULED: what an update in progress without a lease does."""
    update = _update(attempt, "IN_PROGRESS") | {"callbackAfterSeconds": 0}
    del update["workerId"]
    return _encode(update)


def build_report(attempt: Attempt, outcome: Outcome, *, max_output_bytes: int) -> bytes:
    """Ends the task; an output over the limit is refused here, before it is sent."""
    update = _update(attempt, outcome.status.value)
    if not isinstance(outcome, Completed):
        return _encode(update | {"reasonForIncompletion": cut_reason(outcome.reason)})
    what = f"the output of task {attempt.task_id} ({attempt.reference_name})"
    output = encode_json(outcome.output, what)
    if len(output) > max_output_bytes:
        raise OrchestratorError(
            f"{what} is {len(output):,} bytes of JSON, and {max_output_bytes:,} is the limit",
            hint="write large data to the workspace and report where it is",
        )
    # Spliced in rather than encoded a second time: an output can be megabytes.
    return _encode(update)[:-1] + b',"outputData":' + output + b"}"


def encode_json(value: JsonValue, what: str) -> bytes:
    """The value as UTF-8 JSON, or a refusal."""
    problem = explain_unusable_json(value)
    if problem is not None:
        raise OrchestratorError(
            f"{what} cannot be sent as JSON: {problem}",
            hint="use texts, finite numbers, lists and objects, not too many inside each other",
        )
    return _encode(value)


def cut_reason(reason: str) -> str:
    """A reason that the server keeps whole, with a sign where some is missing."""
    reason = reason.encode("utf-8", "backslashreplace").decode()
    if len(reason) <= _MAX_REASON_CHARACTERS:
        return reason
    return reason[: _MAX_REASON_CHARACTERS - len(_CUT)] + _CUT


def _update(attempt: Attempt, status: str) -> JsonObject:
    return {
        "workflowInstanceId": attempt.workflow_id,
        "taskId": attempt.task_id,
        "status": status,
        # Without it the server forgets who held the task.
        "workerId": attempt.worker_id,
    }


def _encode(value: JsonValue) -> bytes:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
