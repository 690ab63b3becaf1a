"""A repository for big files, on a real lakeFS server behind the fault proxy."""

from __future__ import annotations

import random
import threading
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from blake3 import blake3

from perago.adapters.lakefs import LakeFSConnection, LakeFSWorkspaceStore
from perago.adapters.lakefs.answers import Asked
from perago.adapters.lakefs.calls import Call
from perago.adapters.lakefs.gateway_upload import GatewayUpload
from perago.adapters.lakefs.part_upload import NewObject
from perago.adapters.lakefs.wire import Wire
from perago.domain.ids import (
    BranchName,
    CommitId,
    Digest,
    ObjectPath,
    RelativePath,
    RepositoryName,
)
from perago.domain.workspace import ObjectEntry
from perago.ports import LocalFile
from tests.fault_proxy import FaultProxy, Match
from tests.integration.lakefs.stranger import Stranger

MAIN = BranchName("main")


@dataclass(slots=True)
class Moved:
    """What was reported of transfers."""

    objects: int = 0
    bytes: int = 0
    reports: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, objects: int, count: int) -> None:
        with self._lock:
            self.objects += objects
            self.bytes += count
            self.reports += 1


@dataclass(slots=True)
class BigLake:
    """One repository; files are made, committed and read through the proxy."""

    store: LakeFSWorkspaceStore
    connection: LakeFSConnection
    proxy: FaultProxy
    repository: RepositoryName
    directory: Path
    moved: Moved = field(default_factory=Moved)

    def sent(self, match: Match) -> int:
        return self.proxy.count(match.method, match.path)

    def scan(self, content: bytes) -> LocalFile:
        path = self.directory / uuid.uuid4().hex
        path.write_bytes(content)
        return LocalFile(path=path, size=len(content), digest=Digest(blake3(content).hexdigest()))

    def commit(self, file: LocalFile, path: str = "big") -> CommitId:
        made = self.store.commit_changes(
            self.repository,
            MAIN,
            writes={ObjectPath(path): file},
            deletes=[],
            message="a big file",
            metadata={},
            on_transfer=self.moved,
        )
        return made.id

    def find(self, commit: CommitId) -> ObjectEntry:
        """The only object of a commit."""
        (entry,) = self.store.list_objects(self.repository, commit)
        return entry

    def content_type(self, path: str) -> object:
        where = ("repositories", self.repository, "refs", MAIN, "objects", "stat")
        call = Call(method="GET", where=where, query={"path": path})
        asked = Asked(what=f"look at {path!r}", missing=f"no {path!r}")
        return self.store._api.read(asked, call)["content_type"]

    def read(self, commit: CommitId) -> bytes:
        """The only object's content, by a checkout."""
        target = self.directory / uuid.uuid4().hex
        target.mkdir()
        files = {RelativePath("file"): self.find(commit)}
        self.store.checkout(self.repository, commit, files, target, self.moved)
        return (target / "file").read_bytes()

    def commit_as_others(self, parts: Sequence[bytes]) -> CommitId:
        """Commit an object of several parts whose writer left no digest."""
        target = NewObject(
            repository=self.repository,
            branch=MAIN,
            path=ObjectPath("theirs"),
            size=sum(map(len, parts)),
            digest=Digest(""),
        )
        wire = Wire(self.connection)
        upload = GatewayUpload(self.connection, wire, target)
        upload.begin()
        etags = [upload.send(n, [part], len(part)) for n, part in enumerate(parts, start=1)]
        upload.complete(etags)
        wire.close()
        with Stranger(self.connection, self.repository, MAIN) as stranger:
            return stranger.commit({})


def content(size: int) -> bytes:
    """Bytes of which no two parts are the same."""
    return random.Random(size).randbytes(size)


@contextmanager
def big_lake(connection: LakeFSConnection, directory: Path) -> Iterator[BigLake]:
    """A fresh repository on the server of a connection."""
    with FaultProxy(connection.endpoint) as proxy:
        through = replace(connection, endpoint=proxy.endpoint)
        with LakeFSWorkspaceStore(through) as store:
            repository = RepositoryName(f"big-{uuid.uuid4().hex}")
            store.create_repository(repository, branch=MAIN)
            yield BigLake(store, through, proxy, repository, directory)
