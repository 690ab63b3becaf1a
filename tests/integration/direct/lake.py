"""Whole attempts of Spark tasks that read and write a real lakeFS server by themselves."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from perago.adapters.lakefs import LakeFSConnection, LakeFSWorkspaceStore
from perago.adapters.spark import LocalSparkSessions
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
from perago.testing import MemoryOrchestrator
from tests.integration.lakefs.attempts import Attempted, Hooks, run_attempt
from tests.integration.lakefs.stranger import Stranger

MAIN = BranchName("main")


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectLake:
    """A repository on a real server, and Spark beside it."""

    store: LakeFSWorkspaceStore
    sessions: LocalSparkSessions
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
