"""Markers: one small file for each attempt directory, which says whose it is.

They lie beside the attempt directories and not in them, in a directory of Perago's own: a body that
writes beside its files does not meet them. What they say is a hint all the same, never a proof: a
body runs as the same user.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import re
from contextlib import suppress
from dataclasses import asdict, dataclass

from perago.domain.attempt import Attempt
from perago.domain.ids import ExecutionId, TaskId, WorkerId, WorkflowId
from perago.system.directories import OwnDirectory
from perago.system.processes import ProcessIdentity
from perago.system.state_files import (
    open_state,
    parse_state,
    read_state_bytes,
    text_of,
    whole_number,
    write_state,
)

_log = logging.getLogger(__name__)

_NAME = re.compile(r"([0-9a-f]{32})\.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """Whose directory this is: enough to tell a living attempt from a dead one."""

    attempt: Attempt
    execution_id: ExecutionId
    process: ProcessIdentity

    def to_json(self) -> str:
        """The marker file's text."""
        return json.dumps(asdict(self), indent=2)

    @classmethod
    def from_json(cls, content: bytes) -> Marker:
        """Read a marker back; whatever else it may be raises `ValueError`."""
        raw = parse_state(content)
        if not isinstance(raw, dict):
            raise ValueError("it is no object")  # noqa: TRY004 - as for any other junk
        return cls(
            attempt=_read_attempt(raw.get("attempt")),
            execution_id=ExecutionId(text_of(raw.get("execution_id"))),
            process=ProcessIdentity.from_json(raw.get("process")),
        )


class HeldMarker:
    """The marker of an execution of this process, open for as long as its directory is there.

    That this process has it open is what a later start kills an orphan by.
    """

    def __init__(self, name: str, descriptor: int) -> None:
        self.name = name
        self._descriptor = descriptor
        self._found = os.fstat(descriptor)

    def let_go(self) -> None:
        """Close it, unless a body did and the number is another file's by now."""
        with suppress(OSError):
            if os.path.samestat(os.fstat(self._descriptor), self._found):
                os.close(self._descriptor)


def marker_name(execution_id: str) -> str:
    """What the marker of an execution is called."""
    return f"{execution_id}.json"


def execution_of_marker(name: str) -> str | None:
    """The execution that a marker's name tells; None for a name that we give to none."""
    match = _NAME.fullmatch(name)
    return None if match is None else match[1]


def write_marker(markers: OwnDirectory, marker: Marker) -> HeldMarker:
    """Write the marker of an execution of this process, and keep it open.

    `FileExistsError` where the execution has one: it is never run twice.
    """
    name = marker_name(marker.execution_id)
    if name in markers.names():
        raise FileExistsError(errno.EEXIST, "the execution has a marker", str(markers.path / name))
    write_state(name, marker.to_json().encode(), directory=markers.descriptor)
    try:
        return HeldMarker(name, open_state(name, directory=markers.descriptor))
    except BaseException:
        with suppress(OSError):
            markers.remove_tree(name)
        raise


def read_marker(markers: OwnDirectory, name: str) -> tuple[Marker | None, os.stat_result] | None:
    """A marker, None in its place where it is damaged, and its file; None for no file of ours."""
    try:
        descriptor = open_state(name, directory=markers.descriptor)
    except (OSError, ValueError) as error:
        _log.warning("%s is no marker and left alone: %s", markers.path / name, error)
        return None
    try:
        found = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    try:
        return Marker.from_json(read_state_bytes(name, directory=markers.descriptor)), found
    except (OSError, ValueError) as error:
        _log.warning("the marker %s tells nothing: %s", markers.path / name, error)
        return None, found


def _read_attempt(raw: object) -> Attempt:
    if not isinstance(raw, dict):
        raise ValueError("its attempt is no object")  # noqa: TRY004 - as for any other junk

    def text(name: str) -> str:
        return text_of(raw.get(name))

    def text_or_none(name: str) -> str | None:
        return None if raw.get(name) is None else text(name)

    def number(name: str) -> int:
        return whole_number(raw.get(name))

    def number_or_none(name: str) -> int | None:
        return None if raw.get(name) is None else number(name)

    worker, retried, root = map(text_or_none, ("worker_id", "retried_task_id", "root_workflow_id"))
    return Attempt(
        workflow_id=WorkflowId(text("workflow_id")),
        task_id=TaskId(text("task_id")),
        task_name=text("task_name"),
        reference_name=text("reference_name"),
        retry_count=number("retry_count"),
        seq=number("seq"),
        iteration=number("iteration"),
        worker_id=None if worker is None else WorkerId(worker),
        poll_count=number_or_none("poll_count"),
        scheduled_time=number_or_none("scheduled_time"),
        retried_task_id=None if retried is None else TaskId(retried),
        root_workflow_id=None if root is None else WorkflowId(root),
    )
