"""Whole attempts of Spark tasks that read and write a real lakeFS server by themselves."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from perago.adapters.lakefs import LakeFSConnection, LakeFSWorkspaceStore
from perago.adapters.servers import ThrowawayLakeFS
from perago.adapters.spark import (
    DirectAccess,
    LocalSparkSessions,
    S3Gateway,
    SparkSettings,
    TaskCode,
)
from perago.app.follow import RunRequest, start_run
from perago.authoring import AnyTask, Pipeline
from perago.domain.ids import (
    BranchName,
    CommitId,
    ExecutionId,
    ObjectPath,
    RepositoryName,
    WorkerId,
)
from perago.domain.outcome import Completed
from perago.ports import SparkSessions
from perago.testing import FakeClock, MemoryOrchestrator
from tests.integration.lakefs.attempts import Attempted, Hooks, run_attempt
from tests.integration.lakefs.stranger import Stranger
from tests.lakefs_server import connection_to

MAIN = BranchName("main")


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectLake:
    """A repository on a real server, and Spark beside it."""

    store: LakeFSWorkspaceStore
    sessions: SparkSessions
    orchestrator: MemoryOrchestrator
    stranger: Stranger
    connection: LakeFSConnection
    repository: RepositoryName
    root: Path

    @property
    def head(self) -> CommitId:
        return self.store.head(self.repository, MAIN).id

    def put(self, files: Mapping[str, bytes]) -> CommitId:
        """Commit objects to the target branch."""
        return self.stranger.commit(files)

    def attempt(self, declared: AnyTask, params: object, *, at: Hooks | None = None) -> Attempted:
        """Run one attempt of a task on the target's head."""
        start_run(
            RunRequest(
                pipeline=Pipeline.of_task(declared),
                params=declared.body.params.dump(params),
                repository=self.repository,
                branch=MAIN,
            ),
            store=self.store,
            orchestrator=self.orchestrator,
        )
        (polled,) = self.orchestrator.poll(
            [declared.name], worker_id=WorkerId("worker"), count=1, wait_seconds=0
        )
        return run_attempt(
            polled,
            ExecutionId(uuid.uuid4().hex),
            store=self.store,
            orchestrator=self.orchestrator,
            root=self.root / "machine",
            hooks=at or {},
            declared=declared,
            spark=self.sessions,
            direct_store=self.store,
        )

    def publish(self, declared: AnyTask, params: object) -> CommitId:
        """Run an attempt that must complete; the output ref."""
        attempted = self.attempt(declared, params)
        assert isinstance(attempted.outcome, Completed), attempted.outcome
        return attempted.output_ref

    def files(self, commit: CommitId, prefix: str = "") -> dict[str, int]:
        """The objects of a commit and their sizes."""
        found = self.store.list_objects(self.repository, commit, prefix)
        return {str(entry.path): entry.size for entry in found}

    def read(self, commit: CommitId, path: str) -> bytes:
        with self.store.open_object(self.repository, commit, ObjectPath(path)) as stream:
            return stream.read()


def gateway_of(server: ThrowawayLakeFS) -> S3Gateway:
    return S3Gateway(
        endpoint=server.endpoint,
        access_key_id=server.access_key_id,
        secret_access_key=server.secret_access_key,
    )


@contextmanager
def direct_sessions(
    settings: SparkSettings,
    server: ThrowawayLakeFS,
    place: Path,
    jars: Sequence[Path],
    delta_jars: Sequence[Path] | None = None,
    code: TaskCode | None = None,
) -> Iterator[LocalSparkSessions]:
    """Spark that reaches a server by itself."""
    sessions = LocalSparkSessions(
        settings,
        place / "scratch",
        place / "executor.log",
        direct=DirectAccess(gateway=gateway_of(server), jars=lambda _java: jars),
        delta_jars=None if delta_jars is None else lambda _java: delta_jars,
        code=code,
    )
    try:
        yield sessions
    finally:
        sessions.stop()


@contextmanager
def open_lake(server: ThrowawayLakeFS, sessions: SparkSessions, root: Path) -> Iterator[DirectLake]:
    """A new repository; in the end no branch but the target may be left in it."""
    connection = connection_to(server)
    repository = RepositoryName(f"direct-{uuid.uuid4().hex[:10]}")
    with LakeFSWorkspaceStore(connection) as store:
        store.create_repository(repository, branch=MAIN)
        with Stranger(connection, repository, MAIN) as stranger:
            yield DirectLake(
                store=store,
                sessions=sessions,
                orchestrator=MemoryOrchestrator(FakeClock()),
                stranger=stranger,
                connection=connection,
                repository=repository,
                root=root,
            )
        assert [one.name for one in store.branches(repository, hidden=True)] == [MAIN]
