"""The policies of docs/how-to/lakefs.md, enforced by a real server: enough, and not too much."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from perago.adapters.lakefs import LakeFSWorkspaceStore
from perago.adapters.lakefs.data_plane import DataPlane
from perago.adapters.lakefs.part_upload import NewObject
from perago.adapters.lakefs.probe import probe_lakefs
from perago.adapters.lakefs.wire import Wire
from perago.adapters.patience import Patience
from perago.adapters.servers import Binary
from perago.app.collect_garbage import collect_stagings
from perago.app.diagnosis import Check, Verdict
from perago.app.follow import RunRequest, start_run
from perago.app.prepare_run import ensure_repository
from perago.authoring import Pipeline
from perago.domain.errors import StoreAccessError
from perago.domain.ids import (
    BranchName,
    Digest,
    ExecutionId,
    ObjectPath,
    RepositoryName,
    WorkerId,
)
from perago.domain.workflow import PolledTask
from perago.ports import Failpoint
from perago.testing import FakeClock, MemoryOrchestrator
from tests.architecture.lakefs_policy import Statement, read_policy
from tests.integration.lakefs.attempts import AFTER, BEFORE, Edit, edit, run_attempt
from tests.integration.lakefs.governed_lake import (
    ADMIN,
    WORKER,
    GovernedLakeFS,
    governed_lakefs,
)
from tests.integration.lakefs.stranger import Stranger

pytestmark = pytest.mark.lakefs

FLIGHTS = RepositoryName("flights")
MAIN = BranchName("main")
POLICY = read_policy("worker")
ENFORCED = sorted({action for one in POLICY for action in one["action"]} - {"fs:ReadConfig"})


@pytest.fixture(scope="module")
def server(
    lakefs_binary: Binary, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[GovernedLakeFS]:
    with governed_lakefs(tmp_path_factory.mktemp("governed") / "server", lakefs_binary) as server:
        admin = server.connection_of(ADMIN)
        with LakeFSWorkspaceStore(admin) as store, Stranger(admin, FLIGHTS, MAIN) as stranger:
            store.create_repository(FLIGHTS, branch=MAIN)
            store.create_repository(RepositoryName("secrets"), branch=MAIN)
            stranger.commit(BEFORE)
        yield server


@pytest.fixture
def admin(server: GovernedLakeFS) -> Iterator[LakeFSWorkspaceStore]:
    with LakeFSWorkspaceStore(server.connection_of(ADMIN)) as store:
        yield store


@pytest.fixture
def worker(server: GovernedLakeFS) -> Iterator[LakeFSWorkspaceStore]:
    """The worker's store, under the policy of the page."""
    server.allow(POLICY)
    with LakeFSWorkspaceStore(server.connection_of(WORKER)) as store:
        yield store


def without(action: str, resource: str = "") -> list[Statement]:
    """The policy but for one action, on resources that hold this text."""
    statements = copy.deepcopy(POLICY)
    for statement in statements:
        if resource in statement["resource"]:
            statement["action"] = [one for one in statement["action"] if one != action]
    return [statement for statement in statements if statement["action"]]


def diagnose(server: GovernedLakeFS) -> list[Check]:
    return [*probe_lakefs(server.connection_of(WORKER), FLIGHTS, MAIN, write=True)]


class Attempts:
    """Whole attempts as the worker, each with a workflow of its own on the head."""

    def __init__(self, store: LakeFSWorkspaceStore, root: Path) -> None:
        self._store = store
        self._root = root
        self.orchestrator = MemoryOrchestrator(FakeClock())
        self._executions = 0

    def schedule(self, params: Edit) -> PolledTask:
        request = RunRequest(
            pipeline=Pipeline.of_task(edit),
            params=params.model_dump(),
            repository=FLIGHTS,
            branch=MAIN,
        )
        start_run(request, store=self._store, orchestrator=self.orchestrator)
        return self.poll()

    def poll(self) -> PolledTask:
        (polled,) = self.orchestrator.poll(
            [edit.name], worker_id=WorkerId("tests"), count=1, wait_seconds=0
        )
        return polled

    def run(self, polled: PolledTask, at: Callable[[], object] | None = None) -> object:
        self._executions += 1
        attempted = run_attempt(
            polled,
            ExecutionId(f"{self._executions:032x}"),
            store=self._store,
            orchestrator=self.orchestrator,
            root=self._root,
            hooks={} if at is None else {Failpoint.VERIFIED: at},
        )
        return attempted.error


def die() -> None:
    raise RuntimeError("died")


def test_the_policy_is_enough_for_a_run_its_replacement_and_its_leftovers(
    worker: LakeFSWorkspaceStore, tmp_path: Path
) -> None:
    attempts = Attempts(worker, tmp_path)
    before = worker.head(FLIGHTS, MAIN)
    assert not ensure_repository(worker, FLIGHTS, MAIN)

    abandoned = attempts.schedule(Edit(writes={"changed": "abandoned"}, deletes=[]))
    attempts.run(abandoned, at=die)
    left = worker.head(FLIGHTS, MAIN)
    retry = attempts.poll()
    retry.input["params"] = Edit().model_dump()

    assert attempts.run(retry) is None
    head = worker.head(FLIGHTS, MAIN)
    assert left.parents == head.parents == (before.id,)
    assert {entry.path for entry in worker.list_objects(FLIGHTS, head.id)} == set(AFTER)
    assert [commit.id for commit in worker.log(FLIGHTS, head.id)][:2] == [head.id, before.id]
    assert collect_stagings(worker, attempts.orchestrator, FLIGHTS) == []
    assert worker.repositories() == [FLIGHTS], "and no other is shown"


def test_the_doctor_finds_nothing_wrong_under_the_policy(server: GovernedLakeFS) -> None:
    server.allow(POLICY)

    assert {check.verdict for check in diagnose(server)} == {Verdict.OK}


@pytest.mark.parametrize("action", ENFORCED)
def test_the_doctor_misses_every_action_by_name(
    server: GovernedLakeFS, admin: LakeFSWorkspaceStore, action: str
) -> None:
    server.allow(without(action))

    checks = diagnose(server)

    # What nobody may delete stays: that is what the doctor says, and the admin cleans up.
    stayed = [branch.name for branch in admin.branches(FLIGHTS, hidden=True) if branch.hidden]
    for branch in stayed:
        admin.delete_branch(FLIGHTS, branch)
    problems = [check for check in checks if check.is_problem]
    assert problems
    assert any(action in f"{check.found} {check.advice}" for check in problems)
    assert bool(stayed) == (action == "fs:DeleteBranch")
    assert all(name in str(problems) for name in stayed)


def test_the_configuration_is_shown_to_everybody(server: GovernedLakeFS) -> None:
    """The page says so; should a newer server refuse it, the page and the doctor must learn it."""
    server.allow(without("fs:ReadConfig"))

    assert {check.verdict for check in diagnose(server)} == {Verdict.OK}


def test_what_is_missing_on_the_target_alone_is_found_by_the_run(
    server: GovernedLakeFS, worker: LakeFSWorkspaceStore, tmp_path: Path
) -> None:
    server.allow(without("fs:CreateCommit", "branch/main"))
    attempts, before = Attempts(worker, tmp_path), worker.head(FLIGHTS, MAIN)

    error = attempts.run(attempts.schedule(Edit(writes={"more": "more"}, deletes=[])))

    assert isinstance(error, StoreAccessError)
    assert worker.head(FLIGHTS, MAIN) == before
    assert {check.verdict for check in diagnose(server)} == {Verdict.OK}, "as the page says"


def test_who_may_delete_objects_may_give_up_a_file_in_parts(
    server: GovernedLakeFS, admin: LakeFSWorkspaceStore
) -> None:
    """As the table says of the S3 gateway; the rest of an upload in parts the doctor tries."""
    staging = BranchName("perago-staging-parts")
    admin.create_branch(FLIGHTS, staging, admin.head(FLIGHTS, MAIN).id, hidden=True)
    target = NewObject(
        repository=FLIGHTS, branch=staging, path=ObjectPath("big"), size=1, digest=Digest("0" * 64)
    )
    connection = server.connection_of(WORKER)
    with closing(Wire(connection)) as wire:
        data = DataPlane(connection, wire, Patience(0))
        server.allow(POLICY)
        data.begin_parts(target).abort()
        upload = data.begin_parts(target)
        server.allow(without("fs:DeleteObject"))

        with pytest.raises(StoreAccessError):
            upload.abort()
    admin.delete_branch(FLIGHTS, staging)


def test_the_policy_allows_nothing_beside_it(
    worker: LakeFSWorkspaceStore, admin: LakeFSWorkspaceStore
) -> None:
    head = worker.head(FLIGHTS, MAIN).id
    refused: list[Callable[[], object]] = [
        lambda: worker.head(RepositoryName("secrets"), MAIN),
        lambda: worker.create_branch(FLIGHTS, BranchName("mine"), head),
        lambda: worker.delete_branch(FLIGHTS, MAIN),
        lambda: worker.create_repository(RepositoryName("flights-2")),
    ]

    for call in refused:
        with pytest.raises(StoreAccessError):
            call()
    assert admin.head(FLIGHTS, MAIN).id == head
    assert admin.repositories() == [FLIGHTS, RepositoryName("secrets")]


def test_the_second_policy_is_enough_to_create_a_repository(server: GovernedLakeFS) -> None:
    both = json.dumps([*POLICY, *read_policy("creator")])
    mine = both.replace("/flights", "/mine").replace("s3://bucket/lake", "local://lake")
    server.allow(json.loads(mine))
    placed = replace(server.connection_of(WORKER), storage_namespace="local://lake")

    with LakeFSWorkspaceStore(placed) as store:
        assert ensure_repository(store, RepositoryName("mine"), MAIN)
        with pytest.raises(StoreAccessError):
            store.create_repository(RepositoryName("yours"))
