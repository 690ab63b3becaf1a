"""An embedded store on virtual time, and short forms of its calls."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest
from blake3 import blake3

from perago.adapters.embedded.store import EmbeddedWorkspaceStore
from perago.domain.ids import BranchName, CommitId, Digest, ObjectPath, RepositoryName
from perago.domain.publication import Commit
from perago.ports import LocalFile, OnTransfer
from perago.testing.clock import FakeClock

REPOSITORY, MAIN = RepositoryName("repo"), BranchName("main")
LARGE = b"0123456789" * 10_000
"""Too large to be kept in the database."""


@dataclass
class Bench:
    """A store with one repository, its home, its clock, and a place for local files."""

    store: EmbeddedWorkspaceStore
    home: Path
    clock: FakeClock
    files: Path
    numbers: "count[int]"

    def file(self, content: bytes) -> LocalFile:
        path = self.files / str(next(self.numbers))
        path.write_bytes(content)
        return LocalFile(path=path, digest=Digest(blake3(content).hexdigest()), size=len(content))

    def commit(
        self,
        contents: Mapping[str, bytes],
        deletes: Collection[str] = (),
        *,
        branch: BranchName = MAIN,
        on_transfer: OnTransfer = lambda _objects, _size: None,
    ) -> Commit:
        return self.store.commit_changes(
            REPOSITORY,
            branch,
            writes={ObjectPath(path): self.file(content) for path, content in contents.items()},
            deletes=[ObjectPath(path) for path in deletes],
            message="a change",
            metadata={},
            on_transfer=on_transfer,
        )

    def commit_on_a_branch(self, contents: Mapping[str, bytes]) -> tuple[BranchName, Commit]:
        branch = BranchName(f"branch-{next(self.numbers)}")
        self.store.create_branch(REPOSITORY, branch, self.store.head(REPOSITORY, MAIN).id)
        return branch, self.commit(contents, branch=branch)

    def abandon(self, contents: Mapping[str, bytes]) -> Commit:
        """A commit that no branch leads to."""
        branch, commit = self.commit_on_a_branch(contents)
        self.store.delete_branch(REPOSITORY, branch)
        return commit

    def contents(self, commit: CommitId) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        for entry in self.store.list_objects(REPOSITORY, commit):
            with self.store.open_object(REPOSITORY, commit, entry.path) as stream:
                found[entry.path] = stream.read()
        return found

    def object_file(self, content: bytes) -> Path:
        digest = blake3(content).hexdigest()
        return self.home / "objects" / digest[:2] / digest[2:]

    def debris(self) -> list[Path]:
        return sorted((self.home / "incoming").iterdir())


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    files = tmp_path / "files"
    files.mkdir()
    clock = FakeClock()
    with EmbeddedWorkspaceStore(tmp_path / "home", clock) as store:
        store.create_repository(REPOSITORY)
        yield Bench(store, tmp_path / "home", clock, files, count())
