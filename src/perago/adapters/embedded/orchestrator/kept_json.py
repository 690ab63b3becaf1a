"""What the embedded orchestrator keeps, checked where it comes in."""

from __future__ import annotations

import json

from perago.domain.errors import OrchestratorError
from perago.domain.json_limits import explain_unusable_json
from perago.domain.outcome import JsonObject


def copy_json(value: JsonObject, what: str, *, limit: int | None = None) -> JsonObject:
    """The value as JSON would carry it: a copy, or a refusal."""
    problem = explain_unusable_json(value)
    if problem is not None:
        raise OrchestratorError(
            f"{what} is not JSON that can be kept: {problem}",
            hint="use texts, finite numbers, lists and objects, not too many inside each other",
        )
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    size = len(text.encode("utf-8"))
    if limit is not None and size > limit:
        raise OrchestratorError(
            f"{what} is {size:,} bytes of JSON, and {limit:,} is the limit",
            hint="write large data to the workspace and report where it is",
        )
    copy: JsonObject = json.loads(text)
    return copy


def clean_text(text: str) -> str:
    """A text that can be kept: a file name, for one, may be no Unicode."""
    return text.encode("utf-8", "backslashreplace").decode()
