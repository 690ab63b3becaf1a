"""Attempt directories: one per execution, with a marker that says whose it is.

Layout of a workspace root::

    <root>/
      .perago-root.lock      held by the supervisor that owns the root
      attempts/<task id>-<execution id>/
        .perago-attempt.json the marker
        files/               what the body gets and what is published
        input/               for Spark: the input ref, untouched
        scratch/             for Spark: unfinished writes

Invariant: nothing in an attempt directory is shared with another execution.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from perago.adapters.localfs.disks import folds_case, free_bytes
from perago.adapters.localfs.processes import ProcessIdentity, current_process, end_process_group
from perago.adapters.localfs.scan import scan_directory
from perago.adapters.localfs.tree_index import TreeIndex
from perago.domain.attempt import Attempt
from perago.domain.ids import Digest, ExecutionId, RelativePath, TaskId, WorkerId, WorkflowId
from perago.domain.staging import escape_label
from perago.domain.workspace import MARKER_NAME
from perago.ports import LocalTree

ATTEMPTS = "attempts"


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
    def from_json(cls, text: str) -> Marker:
        """Read a marker back; a damaged one raises `ValueError`."""
        try:
            raw = json.loads(text)
            fields = dict(raw["attempt"])
            attempt = Attempt(
                workflow_id=WorkflowId(fields["workflow_id"]),
                task_id=TaskId(fields["task_id"]),
                task_name=str(fields["task_name"]),
                reference_name=str(fields["reference_name"]),
                retry_count=int(fields["retry_count"]),
                seq=int(fields["seq"]),
                iteration=int(fields["iteration"]),
                worker_id=WorkerId(fields["worker_id"]) if fields["worker_id"] else None,
                poll_count=fields["poll_count"],
            )
            process = ProcessIdentity(
                pid=int(raw["process"]["pid"]),
                boot=str(raw["process"]["boot"]),
                born=float(raw["process"]["born"]),
            )
            return cls(
                attempt=attempt, execution_id=ExecutionId(raw["execution_id"]), process=process
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"not an attempt marker: {error}") from error


class LocalAttemptDirectory:
    """The directory of one execution."""

    def __init__(self, root: Path, *, folds_case: bool) -> None:
        self._root = root
        self._folds_case = folds_case
        self._index = TreeIndex()

    @property
    def root(self) -> Path:
        """The attempt directory; the marker lies in it."""
        return self._root

    @property
    def files(self) -> Path:
        """What a body gets."""
        return self._root / "files"

    @property
    def folds_case(self) -> bool:
        """Whether this file system takes `A` and `a` for the same name."""
        return self._folds_case

    @property
    def free_bytes(self) -> int:
        """What an unprivileged process may still write here."""
        return free_bytes(self._root)

    def make_directories(self, paths: Iterable[RelativePath]) -> None:
        """Create directories below `files`."""
        for path in paths:
            (self.files / path).mkdir(parents=True, exist_ok=True)

    def copy_input(self) -> Path:
        """A private copy of `files`; a file system with reflinks shares the blocks."""
        target = self._root / "input"
        shutil.copytree(self.files, target, copy_function=shutil.copyfile)
        return target

    def remember(self, digests: Mapping[RelativePath, Digest]) -> None:
        """Index what was just checked out."""
        self._index.remember(self.files, digests, self._root / ".perago-clock")

    def scan(self) -> LocalTree:
        """Read the tree as it is now."""
        return scan_directory(self.files, self._index)

    def remove(self) -> None:
        """Delete the directory, also where the body took away its own permissions."""
        remove_tree(self._root)


class LocalAttemptDirectories:
    """Makes attempt directories under one workspace root, and finds old ones."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._folds_case: bool | None = None

    def create(self, attempt: Attempt, execution_id: ExecutionId) -> LocalAttemptDirectory:
        """Make the directory of one execution and write its marker."""
        name = f"{escape_label(attempt.task_id)}-{execution_id}"
        directory = self._root / ATTEMPTS / name
        directory.mkdir(parents=True)
        marker = Marker(attempt=attempt, execution_id=execution_id, process=current_process())
        (directory / MARKER_NAME).write_text(marker.to_json(), encoding="utf-8")
        (directory / "files").mkdir()
        if self._folds_case is None:
            self._folds_case = folds_case(directory)
        return LocalAttemptDirectory(directory, folds_case=self._folds_case)

    def collect(self, execution_id: ExecutionId) -> None:
        """Delete the directory of a dead execution, if there is one."""
        for directory in (self._root / ATTEMPTS).glob(f"*-{execution_id}"):
            remove_tree(directory)

    def sweep(self) -> list[Attempt]:
        """End what earlier supervisors left running, delete every attempt directory, and say
        whose they were.
        """
        attempts = self._root / ATTEMPTS
        found: list[Attempt] = []
        for directory in sorted(attempts.iterdir()) if attempts.is_dir() else []:
            marker = _read_marker(directory)
            if marker is not None:
                end_process_group(marker.process)
                found.append(marker.attempt)
            remove_tree(directory)
        return found


def _read_marker(directory: Path) -> Marker | None:
    """The marker, or None where a kill left none or half of one: then nothing ran in there yet."""
    try:
        return Marker.from_json((directory / MARKER_NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def remove_tree(root: Path) -> None:
    """Delete a directory tree; follow no link; restore permissions that stand in the way."""
    if not root.is_dir() or root.is_symlink():
        # Not one of ours, such as what a file browser leaves behind.
        root.unlink(missing_ok=True)
        return
    try:
        shutil.rmtree(root)
    except PermissionError:
        for parent, directories, _ in os.walk(root):
            for name in directories:
                path = Path(parent, name)
                if not path.is_symlink():
                    path.chmod(stat.S_IRWXU)
        root.chmod(stat.S_IRWXU)
        shutil.rmtree(root)
