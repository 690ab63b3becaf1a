"""Attempt directories: one per execution, with a marker that says whose it is.

Layout of a workspace root::

    <root>/
      .perago-root.lock      held by the supervisor that owns the root
      markers/<execution id>.json
      attempts/<task id>-<execution id>/
        files/               what the body gets and what is published
        input/               for Spark: the input ref, untouched
        scratch/             for Spark: unfinished writes

`markers` and `attempts` are directories of Perago's own (`perago.system.directories`).

Invariants: nothing in an attempt directory is shared with another execution. What is deleted has a
name that we give and a marker of ours, or belongs to an execution that the caller names.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from perago.adapters.localfs.disk_errors import disk_errors
from perago.adapters.localfs.disks import FileSystemTraits, free_bytes, probe_traits
from perago.adapters.localfs.markers import (
    HeldMarker,
    Marker,
    execution_of_marker,
    marker_name,
    read_marker,
    write_marker,
)
from perago.adapters.localfs.scan import scan_directory
from perago.adapters.localfs.tree_index import TreeIndex
from perago.domain.attempt import Attempt
from perago.domain.errors import EnvironmentUnfitError, UnpublishableFileError
from perago.domain.ids import Digest, ExecutionId, RelativePath
from perago.domain.staging import escape_label
from perago.ports import LocalTree
from perago.system.directories import OwnDirectory, make_own_directory, open_own_directory
from perago.system.processes import current_process, end_process_group
from perago.system.state_files import is_unfinished
from perago.system.tags import Tag
from perago.system.tree_removal import OPEN_DIRECTORY, require_same

ATTEMPTS = "attempts"
MARKERS = "markers"

_FILES = "files"
_ADVICE = (
    "set PERAGO_WORKSPACE_ROOT to another directory, or move it away: an earlier version of "
    "Perago, or another program, made it"
)
ATTEMPTS_TAG = Tag(purpose="attempt directories", advice=_ADVICE)
MARKERS_TAG = Tag(purpose="attempt markers", advice=_ADVICE)

_LABEL_BYTES = 200
"""Of a task's id, in a name: file systems take 255 bytes, and the execution has 33 of them."""
_DIRECTORY_NAME = re.compile(r".+-([0-9a-f]{32})", re.DOTALL)

_log = logging.getLogger(__name__)


class LocalAttemptDirectory:
    """The directory of one execution."""

    def __init__(
        self, root: Path, *, traits: FileSystemTraits, marker: HeldMarker | None = None
    ) -> None:
        self._root = root
        self._found = os.lstat(root)
        self._traits = traits
        self._marker = marker
        self._index = TreeIndex(trusts_stamps=traits.tells_mapped_writes)

    @property
    def root(self) -> Path:
        """The attempt directory."""
        return self._root

    @property
    def files(self) -> Path:
        """What a body gets."""
        return self._root / _FILES

    @property
    def folds_case(self) -> bool:
        """Whether this file system takes `A` and `a` for the same name."""
        return self._traits.folds_case

    @property
    def normalises(self) -> bool:
        """Whether this file system takes two spellings of `é` for the same name."""
        return self._traits.normalises

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
        with self._open_files() as descriptor:
            return scan_directory(self.files, self._index, descriptor)

    def remove(self) -> None:
        """Delete the directory, also where the body took away its own permissions."""
        root = self._root.parent.parent
        try:
            _remove_below(root / ATTEMPTS, ATTEMPTS_TAG, self._root.name)
        finally:
            if self._marker is not None:
                self._marker.let_go()
        if self._marker is not None:
            _remove_below(root / MARKERS, MARKERS_TAG, self._marker.name)

    @contextmanager
    def _open_files(self) -> Iterator[int]:
        """Open `files` through the directory that was made before the body ran.

        That one is known by its number, not by a descriptor that is kept: a body may close any.
        """
        with ExitStack() as stack:
            try:
                root = os.open(self._root, OPEN_DIRECTORY)
                stack.callback(os.close, root)
                require_same(self._root, root, self._found)
                files = os.open(_FILES, OPEN_DIRECTORY, dir_fd=root)
                stack.callback(os.close, files)
            except OSError as error:
                raise _explain_lost_workspace(self.files, error) from error
            yield files


class LocalAttemptDirectories:
    """Makes attempt directories under one workspace root, and finds old ones."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._traits: FileSystemTraits | None = None

    def create(self, attempt: Attempt, execution_id: ExecutionId) -> LocalAttemptDirectory:
        """Write the marker of one execution and make its directory."""
        name = _directory_name(attempt, execution_id)
        marker = Marker(attempt=attempt, execution_id=execution_id, process=current_process())
        with self._make(ATTEMPTS, ATTEMPTS_TAG) as attempts:
            if self._traits is None:
                self._traits = probe_traits(attempts.path)
            # The marker first: a kill must not leave a directory that nobody dares to delete.
            with self._make(MARKERS, MARKERS_TAG) as markers:
                held = write_marker(markers, marker)
            try:
                _make_attempt_directory(attempts, name)
                return LocalAttemptDirectory(attempts.path / name, traits=self._traits, marker=held)
            except BaseException:
                held.let_go()
                with suppress(OSError):
                    _remove_below(self._root / MARKERS, MARKERS_TAG, held.name)
                raise

    def collect(self, execution_id: ExecutionId) -> None:
        """Delete the directory of a dead execution, if there is one."""
        attempts = _open_to_remove(self._root / ATTEMPTS, ATTEMPTS_TAG)
        if attempts is not None:
            with attempts:
                for name in attempts.names():
                    if _execution_of(name) == execution_id:
                        attempts.remove_tree(name)
        _remove_below(self._root / MARKERS, MARKERS_TAG, marker_name(execution_id))

    def sweep(self) -> list[Attempt]:
        """End what earlier supervisors left running, delete its directories, and say whose they
        were.

        A marker tells, and is not believed: what is killed must prove to be an executor of that
        marker, and the caller asks the orchestrator about the attempts. What has no marker is not
        ours to delete.
        """
        with (
            disk_errors(self._root, "sweep"),
            self._make(ATTEMPTS, ATTEMPTS_TAG) as attempts,
            self._make(MARKERS, MARKERS_TAG) as markers,
        ):
            found = list(_sweep(attempts, markers))
            for name in attempts.names():
                _log.warning(
                    "%s is left alone: no marker of Perago's goes with it", attempts.path / name
                )
        return found

    def _make(self, name: str, tag: Tag) -> OwnDirectory:
        return make_own_directory(self._root / name, tag)


def _sweep(attempts: OwnDirectory, markers: OwnDirectory) -> Iterator[Attempt]:
    """Remove what goes with a marker of ours, and give the attempts that the markers name."""
    left = {execution: name for name in attempts.names() if (execution := _execution_of(name))}
    for name in markers.names():
        if is_unfinished(name):
            _remove(markers, name)
        execution = execution_of_marker(name)
        read = None if execution is None else read_marker(markers, name)
        if execution is None or read is None:
            continue
        marker, file = read
        if marker is not None and marker.execution_id == execution:
            end_process_group(marker.process, holding=file)
            yield marker.attempt
        if execution in left:
            _remove(attempts, left[execution])
        _remove(markers, name)


def _directory_name(attempt: Attempt, execution_id: ExecutionId) -> str:
    """What an attempt's directory is called; the execution alone makes it unique."""
    return f"{escape_label(attempt.task_id)[:_LABEL_BYTES]}-{execution_id}"


def _make_attempt_directory(attempts: OwnDirectory, name: str) -> None:
    os.mkdir(name, 0o700, dir_fd=attempts.descriptor)
    try:
        os.mkdir(f"{name}/{_FILES}", 0o700, dir_fd=attempts.descriptor)
    except BaseException:
        attempts.remove_empty(name)
        raise


def _execution_of(name: str) -> str | None:
    """The execution that a directory's name tells; None for a name that we give to none."""
    match = _DIRECTORY_NAME.fullmatch(name)
    return None if match is None else match[1]


def _open_to_remove(path: Path, tag: Tag) -> OwnDirectory | None:
    """Open one of our directories; `OSError` where a body took the tag or the mode from it."""
    try:
        return open_own_directory(path, tag)
    except EnvironmentUnfitError as error:
        raise PermissionError(errno.EPERM, error.message, str(path)) from error


def _remove_below(path: Path, tag: Tag, name: str) -> None:
    own = _open_to_remove(path, tag)
    if own is not None:
        with own:
            own.remove_tree(name)


def _remove(own: OwnDirectory, name: str) -> None:
    """Delete what a dead execution left; what cannot be deleted keeps no worker from its start."""
    try:
        own.remove_tree(name)
    except OSError as error:
        _log.warning("cannot remove %s: %s", own.path / name, error)


def _explain_lost_workspace(files: Path, error: OSError) -> UnpublishableFileError:
    """The error for a workspace directory that is not what the body was given."""
    with suppress(OSError):
        if files.is_symlink() or files.parent.is_symlink():
            return UnpublishableFileError(
                f"workspace publication does not support symlinks: {files} was replaced by one",
                path=str(files),
                hint="write into the directory that the task gets, or copy the files into it",
            )
    reason = error.strerror if error.errno != errno.ENOENT else "it is gone"
    return UnpublishableFileError(
        f"the workspace directory {files} cannot be read any more: {reason}",
        path=str(files),
        hint="the task removes or replaces what is in its directory, never the directory itself",
    )
