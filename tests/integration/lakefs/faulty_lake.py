"""A repository on a real lakeFS server with a fault-injecting proxy before it.

What is arranged and looked at goes to the server directly; only the attempts go through the proxy.
"""

from __future__ import annotations

import uuid
from base64 import b64encode
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from perago.adapters.lakefs import LakeFSConnection, LakeFSWorkspaceStore
from perago.adapters.localfs.directories import ATTEMPTS_TAG
from perago.adapters.servers import ThrowawayLakeFS
from perago.app.follow import RunRequest, start_run
from perago.authoring import Pipeline
from perago.domain.ids import BranchName, CommitId, ExecutionId, RepositoryName, WorkerId
from perago.domain.publication import Commit
from perago.domain.workflow import PolledTask
from perago.ports import Failpoint
from perago.testing import FakeClock, MemoryOrchestrator
from tests.fault_proxy import Action, Fault, FaultProxy, Match
from tests.integration.lakefs.attempts import (
    AFTER,
    BEFORE,
    Attempted,
    Edit,
    Hooks,
    edit,
    run_attempt,
)
from tests.integration.lakefs.stranger import Stranger

MAIN = BranchName("main")

CALLS = {
    "read commit": Match("GET", r"/commits/[0-9a-f]{64}$"),
    "list": Match("GET", r"/objects/ls\?"),
    "download": Match("GET", r"/objects\?path="),
    "create staging": Match("POST", r"/branches$"),
    "upload": Match("POST", r"/objects\?path="),
    "delete objects": Match("POST", r"/objects/delete"),
    "diff": Match("GET", r"/branches/[^/]+/diff"),
    "commit": Match("POST", r"/commits$"),
    "read head": Match("GET", r"/branches/main$"),
    "merge": Match("POST", r"/merge/main$"),
    "reset": Match("PUT", r"/hard_reset"),
    "delete staging": Match("DELETE", r"/branches/perago-staging"),
}
"""Every kind of call that an attempt makes."""


@dataclass(slots=True)
class FaultyLake:
    """A repository that holds `BEFORE`, and attempts of `edit` on it, one after another."""

    server: ThrowawayLakeFS
    proxy: FaultProxy
    direct: LakeFSWorkspaceStore
    stranger: Stranger
    repository: RepositoryName
    home: Path
    timeout_seconds: float = 1.0
    retry_seconds: float = 3.0
    orchestrator: MemoryOrchestrator = field(
        default_factory=lambda: MemoryOrchestrator(FakeClock())
    )
    _executions: int = 0

    # -- what is there

    @property
    def head(self) -> Commit:
        return self.direct.head(self.repository, MAIN)

    def files(self, commit: CommitId) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        for entry in self.direct.list_objects(self.repository, commit):
            with self.direct.open_object(self.repository, commit, entry.path) as stream:
                found[entry.path] = stream.read()
        return found

    @property
    def stagings(self) -> list[BranchName]:
        every = self.direct.branches(self.repository, hidden=True)
        return [branch.name for branch in every if branch.name != MAIN]

    def assert_unmoved(self, before: Commit) -> None:
        """Nothing was published, and nothing is left behind."""
        assert self.head == before
        assert self.stagings == []

    def assert_published(self, attempted: Attempted, before: Commit) -> None:
        """Exactly the attempt's content stands on the input ref, and nothing is left behind."""
        assert attempted.output_ref == self.head.id
        assert self.head.parents == (before.id,)
        assert self.files(self.head.id) == AFTER
        assert self.stagings == []

    # -- faults

    def fault(self, call: str, action: Action, *, times: int | None = 1) -> None:
        self.proxy.add(Fault(match=CALLS[call], action=action, times=times))

    def sent(self, call: str) -> int:
        """How many calls of a kind reached the proxy."""
        match = CALLS[call]
        return self.proxy.count(match.method, match.path)

    def struck(self, call: str) -> int:
        """How many calls of a kind met a fault."""
        fits = CALLS[call].fits
        met = (found for found in self.proxy.log if found.fault is not None)
        return sum(fits(found.method, found.target) for found in met)

    def restart(self) -> None:
        """Kill the server and bring it back, however long this machine takes for that."""
        self.server.kill()
        self.server.start()

    # -- attempts

    def schedule(self, params: Edit | None = None, *, ref: str | None = None) -> PolledTask:
        """Start a workflow on the head and poll its attempt; `ref` takes the input ref's place."""
        request = RunRequest(
            pipeline=Pipeline.of_task(edit),
            params=(params or Edit()).model_dump(),
            repository=self.repository,
            branch=MAIN,
        )
        start_run(request, store=self.direct, orchestrator=self.orchestrator)
        polled = self.poll()
        if ref is not None:
            workspace = polled.input["workspace"]
            assert isinstance(workspace, dict)
            workspace["ref"] = ref
        return polled

    def poll(self, params: Edit | None = None) -> PolledTask:
        """The next attempt, such as the retry of one that failed; with other params if given."""
        (polled,) = self.orchestrator.poll(
            [edit.name], worker_id=WorkerId("tests"), count=1, wait_seconds=0
        )
        if params is not None:
            polled.input["params"] = params.model_dump()
        return polled

    def attempt(
        self,
        polled: PolledTask | None = None,
        *,
        at: Hooks | None = None,
        connection: LakeFSConnection | None = None,
    ) -> Attempted:
        """Run one attempt through the proxy, and see what no attempt may ever do."""
        polled = polled or self.schedule()
        self._executions += 1
        connection = connection or self.connection()
        files, moves = self._local_files(), self.sent("merge") + self.sent("reset")
        with LakeFSWorkspaceStore(connection) as store:
            attempted = run_attempt(
                polled,
                ExecutionId(f"{self._executions:032x}"),
                store=store,
                orchestrator=self.orchestrator,
                root=self.home / "machine" / "work",
                hooks=at or {},
            )
        assert self._local_files() == files
        assert self.sent("merge") + self.sent("reset") - moves <= 1
        for secret in spellings_of_secret(connection):
            assert secret not in f"{attempted.outcome} {attempted.logged}"
        return attempted

    def _local_files(self) -> set[Path]:
        """Of the whole machine, so to speak: also what is outside the attempt directory.

        Without the tags of Perago's own directories, which stay.
        """
        found = {path for path in self.home.rglob("*") if not path.is_dir()}
        return {path for path in found if path.name != ATTEMPTS_TAG.file_name}

    def connection(
        self, *, access_key_id: str | None = None, secret_access_key: str | None = None
    ) -> LakeFSConnection:
        return LakeFSConnection(
            endpoint=self.proxy.endpoint,
            access_key_id=access_key_id or self.server.access_key_id,
            secret_access_key=secret_access_key or self.server.secret_access_key,
            timeout_seconds=self.timeout_seconds,
            retry_seconds=self.retry_seconds,
            concurrency=4,
        )

    def abandon(self) -> Commit:
        """Let an attempt publish and die before its report; its retry can be polled."""

        def die() -> None:
            raise RuntimeError("died")

        polled = self.schedule(Edit(writes={"changed": "abandoned"}, deletes=[]))
        self.attempt(polled, at={Failpoint.VERIFIED: die})
        return self.head


def spellings_of_secret(connection: LakeFSConnection) -> tuple[str, str]:
    """The secret as it is, and as a header would show it."""
    user = f"{connection.access_key_id}:{connection.secret_access_key}"
    return connection.secret_access_key, b64encode(user.encode()).decode()


@contextmanager
def faulty_lake(server: ThrowawayLakeFS, home: Path) -> Iterator[FaultyLake]:
    """A fresh repository on a server that runs, and runs again at the end."""
    server.start()
    repository = RepositoryName(f"faults-{uuid.uuid4().hex}")
    connection = LakeFSConnection(
        endpoint=server.endpoint,
        access_key_id=server.access_key_id,
        secret_access_key=server.secret_access_key,
    )
    with ExitStack() as stack:
        stack.callback(server.start)
        store = stack.enter_context(LakeFSWorkspaceStore(connection))
        proxy = stack.enter_context(FaultProxy(server.endpoint))
        stranger = stack.enter_context(Stranger(connection, repository, MAIN))
        store.create_repository(repository, branch=MAIN)
        stranger.commit(BEFORE)
        yield FaultyLake(server, proxy, store, stranger, repository, home)
