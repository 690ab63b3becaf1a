r"""The names of staging branches: legal, unique per execution, and readable both ways.

lakeFS allows `^\w[-\w]*$` in ASCII. Free text is escaped reversibly: a character outside
`[A-Za-z0-9-]` becomes `_` and two hexadecimal digits per UTF-8 byte. A `_` that cannot be
mistaken for such an escape stays as it is, so `clean_flights` stays `clean_flights`.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from perago.domain.attempt import Attempt
from perago.domain.ids import BranchName, ExecutionId, TaskId

STAGING_PREFIX = "perago-staging-"

_MAX_LABEL = 64
_PLAIN = re.compile(r"[A-Za-z0-9-]", re.ASCII)
_ALL_PLAIN = re.compile(r"[A-Za-z0-9-]*", re.ASCII)
_ESCAPE = re.compile(r"_([0-9a-f]{2})")
_EXECUTION_ID = re.compile(r"[0-9a-f]{32}")
_NAME = re.compile(
    STAGING_PREFIX
    + r".*-task-id-(?P<task>[\w-]*)-retry-(?P<retry>\d{1,9})-exec-(?P<exec>[0-9a-f]{32})",
    re.ASCII,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StagingName:
    """What can be read back from the name of a staging branch."""

    task_id: TaskId
    retry_count: int
    execution_id: ExecutionId


def build_staging_name(attempt: Attempt, execution_id: ExecutionId) -> BranchName:
    """Name the staging branch of one execution."""
    if not _EXECUTION_ID.fullmatch(execution_id):
        raise ValueError(f"an execution id is 32 hexadecimal digits, not {execution_id!r}")
    task_id = escape_label(attempt.task_id)
    if "-task-id-" in f"-{task_id}-":
        # Such an id would make the name ambiguous to read: hide its dashes.
        task_id = task_id.replace("-", "_2d")
    return BranchName(
        f"{STAGING_PREFIX}{_label(attempt.workflow_id)}-{_label(attempt.reference_name)}"
        f"-seq-{attempt.seq}-iteration-{attempt.iteration}"
        f"-task-id-{task_id}-retry-{attempt.retry_count}-exec-{execution_id}"
    )


def parse_staging_name(name: str) -> StagingName | None:
    """Read a name back; None when it is not one of ours."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    try:
        task_id = TaskId(_unescape(match["task"]))
    except UnicodeDecodeError:  # somebody else's branch that merely looks like ours
        return None
    return StagingName(
        task_id=task_id,
        retry_count=int(match["retry"]),
        execution_id=ExecutionId(match["exec"]),
    )


def _label(text: str) -> str:
    """Escape free text; what is too long is cut, with a hash so that it stays distinct."""
    escaped = escape_label(text)
    if len(escaped) <= _MAX_LABEL:
        return escaped
    tag = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return f"{escaped[: _MAX_LABEL - 13]}-{tag}"


def escape_label(text: str) -> str:
    """Make any text safe in a branch or directory name; different texts stay different."""
    if _ALL_PLAIN.fullmatch(text):  # nearly every id
        return text
    out: list[str] = []
    for position, character in enumerate(text):
        following = text[position + 1 : position + 3]
        if _PLAIN.fullmatch(character) or (
            character == "_" and not re.fullmatch(r"[0-9a-f]{2}", following, re.ASCII)
        ):
            out.append(character)
        else:
            out.extend(f"_{byte:02x}" for byte in character.encode("utf-8", "surrogatepass"))
    return "".join(out)


def _unescape(text: str) -> str:
    out = bytearray()
    position = 0
    while position < len(text):
        match = _ESCAPE.match(text, position)
        if match is None:
            out += text[position].encode("ascii")
            position += 1
        else:
            out.append(int(match[1], 16))
            position = match.end()
    return out.decode("utf-8", "surrogatepass")
