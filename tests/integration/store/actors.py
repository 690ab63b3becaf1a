"""An author who writes to an embedded store, a process to run it in, and what must hold after."""

import os
import random
import signal
import traceback
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Self

from blake3 import blake3

from perago.adapters.embedded.store import EmbeddedWorkspaceStore
from perago.adapters.localfs.clock import SystemClock
from perago.domain.ids import BranchName, CommitId, Digest, ObjectPath, RepositoryName
from perago.domain.publication import Commit, StagedWorkspace
from perago.ports import LocalFile

REPOSITORY, MAIN = RepositoryName("repo"), BranchName("main")
LARGE = 100_000
NO_GRACE = timedelta(0)

Acknowledge = Callable[[CommitId], None]


class Author:
    """Writes to one store, as one process would."""

    def __init__(self, home: Path, files: Path, name: str) -> None:
        self.store = EmbeddedWorkspaceStore(home, SystemClock())
        self.files = files
        self.name = name
        self.number = 0
        self.random = random.Random(f"{name}-{os.getpid()}")

    def file(self, content: bytes) -> LocalFile:
        self.number += 1
        path = self.files / f"{self.name}-{self.number}"
        path.write_bytes(content)
        return LocalFile(path=path, digest=Digest(blake3(content).hexdigest()), size=len(content))

    def commit(self, branch: BranchName, contents: dict[str, bytes]) -> Commit:
        writes = {ObjectPath(path): self.file(content) for path, content in contents.items()}
        try:
            return self.store.commit_changes(
                REPOSITORY,
                branch,
                writes=writes,
                deletes=(),
                message=self.name,
                metadata={"author": self.name},
                on_transfer=lambda _objects, _size: None,
            )
        finally:
            for file in writes.values():
                file.path.unlink()

    def publish(self, contents: dict[str, bytes], acknowledge: Acknowledge) -> None:
        """What an attempt does: branch, commit, merge, clean up."""
        head = self.store.head(REPOSITORY, MAIN).id
        branch = BranchName(f"staging-{self.name}-{self.random.getrandbits(64):x}")
        self.store.create_branch(REPOSITORY, branch, head, hidden=True)
        staged = self.commit(branch, contents)
        acknowledge(staged.id)
        try:
            merged = self.store.merge(
                StagedWorkspace(repository=REPOSITORY, branch=branch, commit=staged.id),
                MAIN,
                expected_head=head,
                message=self.name,
                metadata={"author": self.name},
                timeout_seconds=60,
            )
            acknowledge(merged.id)
        finally:
            self.store.delete_branch(REPOSITORY, branch)

    def commit_and_abandon(self, contents: dict[str, bytes]) -> None:
        """Make garbage of contents that others want right now, or are about to."""
        branch = BranchName(f"abandoned-{self.name}")
        self.store.create_branch(REPOSITORY, branch, self.store.head(REPOSITORY, MAIN).id)
        commit = self.commit(branch, contents | {"own": os.urandom(9)})
        for path, content in contents.items():
            with self.store.open_object(REPOSITORY, commit.id, ObjectPath(path)) as stream:
                assert stream.read() == content
        self.store.delete_branch(REPOSITORY, branch)


class Child:
    """A forked process that acknowledges commits on a pipe; it does not outlive its block."""

    def __init__(self, work: Callable[[Acknowledge], None]) -> None:
        self._reader, writer = os.pipe()
        self.process = os.fork()
        if self.process == 0:
            code = 70
            try:
                os.close(self._reader)
                work(lambda commit: _tell(writer, commit))
                code = 0
            except BaseException:  # noqa: BLE001 - a child never returns into its parent's code
                traceback.print_exc()
            finally:
                os._exit(code)
        os.close(writer)
        self._code: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        if self._code is None:
            self.kill()
            self.wait()
        os.close(self._reader)

    def kill(self) -> None:
        os.kill(self.process, signal.SIGKILL)

    def hear(self) -> list[CommitId]:
        """What it acknowledged until it ended."""
        with os.fdopen(os.dup(self._reader)) as stream:
            return [CommitId(line.strip()) for line in stream]

    def wait(self) -> int:
        """Its exit code, or minus the signal that ended it."""
        if self._code is None:
            self._code = os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])
        return self._code


def _tell(writer: int, commit: CommitId) -> None:
    os.write(writer, f"{commit}\n".encode())


def check(home: Path, acknowledged: list[CommitId], *, collect: bool = True) -> dict[str, int]:
    """Everything acknowledged is there, whole; a collection leaves the rest whole, and no debris.

    Returns what the collection removed.
    """
    with EmbeddedWorkspaceStore(home, SystemClock()) as store:
        for commit in acknowledged:
            store.read_commit(REPOSITORY, commit)
        assert_clean(store)
        history = store.log(REPOSITORY, store.head(REPOSITORY, MAIN).id)
        assert all(len(ancestor.parents) <= 1 for ancestor in history)
        if not collect:
            return {}
        removed = store.gc(grace=NO_GRACE)
        assert_clean(store)
        leftovers = sorted(path.name for path in (home / "incoming").iterdir())
        assert not leftovers, leftovers
        return {"commits": removed.commits, "temporary_files": removed.temporary_files}


def assert_clean(store: EmbeddedWorkspaceStore) -> None:
    report = store.verify()
    assert report.is_clean, report.problems


def set_up(home: Path) -> None:
    with EmbeddedWorkspaceStore(home, SystemClock()) as store:
        store.create_repository(REPOSITORY)


class Prepared:
    """A commit whose local files are already there, so that only the store has to write."""

    def __init__(self, author: Author, contents: dict[str, bytes]) -> None:
        self.author = author
        self.writes = {ObjectPath(path): author.file(data) for path, data in contents.items()}

    def commit(self) -> Commit:
        return self.author.store.commit_changes(
            REPOSITORY,
            MAIN,
            writes=self.writes,
            deletes=(),
            message="fill",
            metadata={},
            on_transfer=lambda _objects, _size: None,
        )
