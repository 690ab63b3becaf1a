"""What is done before, beside and after a run: prepare, complete, report."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest
from blake3 import blake3

from perago.app.complete_step import HumanAnswer, complete_step, find_open_human
from perago.app.prepare_run import (
    GivenInput,
    ensure_repository,
    find_unfinished,
    refuse_contradiction,
    refuse_unfinished,
)
from perago.app.run_report import build_run_report
from perago.domain.attempt import Attempt, AttemptStatus
from perago.domain.errors import NotFoundInOrchestratorError, NotFoundInStoreError, UsageError
from perago.domain.ids import (
    BranchName,
    CommitId,
    Digest,
    ObjectPath,
    RepositoryName,
    TaskId,
    WorkflowId,
)
from perago.domain.outcome import JsonObject
from perago.domain.workflow import TaskState, WorkflowState, WorkflowStatus
from perago.ports import LocalFile
from perago.testing import FakeClock, MemoryOrchestrator, MemoryWorkspaceStore

LAB, MAIN = RepositoryName("lab"), BranchName("main")
ASK: JsonObject = {
    "name": "ask",
    "version": 1,
    "schemaVersion": 2,
    "tasks": [
        {
            "name": "approve",
            "taskReferenceName": "approve",
            "type": "HUMAN",
            "inputParameters": {"workspace": "${workflow.input.workspace}"},
        },
        {"name": "sign", "taskReferenceName": "sign", "type": "HUMAN", "inputParameters": {}},
    ],
}


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(clock: FakeClock) -> MemoryWorkspaceStore:
    store = MemoryWorkspaceStore(clock)
    store.create_repository(LAB)
    return store


@pytest.fixture
def orchestrator(clock: FakeClock) -> MemoryOrchestrator:
    orchestrator = MemoryOrchestrator(clock)
    orchestrator.register_workflow(ASK)
    return orchestrator


def workspace(ref: CommitId) -> JsonObject:
    return {"repository": LAB, "branch": MAIN, "ref_type": "commit", "ref": ref}


def start(orchestrator: MemoryOrchestrator, store: MemoryWorkspaceStore) -> WorkflowState:
    run = orchestrator.start_workflow(
        "ask",
        workflow_input={"workspace": workspace(store.head(LAB, MAIN).id), "params": {"year": 1}},
    )
    return orchestrator.workflow(run)


def commit(
    store: MemoryWorkspaceStore, tmp_path: Path, files: Mapping[str, str], *deletes: str
) -> CommitId:
    writes = {}
    for name, text in files.items():
        path = tmp_path / name
        path.write_text(text)
        digest = Digest(blake3(text.encode()).hexdigest())
        writes[ObjectPath(name)] = LocalFile(path=path, digest=digest, size=len(text))
    made = store.commit_changes(
        LAB,
        MAIN,
        writes=writes,
        deletes=[ObjectPath(name) for name in deletes],
        message="by hand",
        metadata={},
        on_transfer=lambda _objects, _size: None,
    )
    return made.id


def test_a_repository_is_created_once(store: MemoryWorkspaceStore) -> None:
    other = RepositoryName("other")

    assert ensure_repository(store, other, BranchName("trunk"))
    assert not ensure_repository(store, other, MAIN)
    assert [branch.name for branch in store.branches(other)] == ["trunk"]


def test_a_repository_that_somebody_else_creates_meanwhile_is_there(clock: FakeClock) -> None:
    class Behind(MemoryWorkspaceStore):
        def repositories(self) -> list[RepositoryName]:
            return []

    store = Behind(clock)
    store.create_repository(LAB)

    assert not ensure_repository(store, LAB, MAIN)


def test_an_unfinished_run_blocks_its_own_branch_only(
    store: MemoryWorkspaceStore, orchestrator: MemoryOrchestrator
) -> None:
    run = start(orchestrator, store)

    assert find_unfinished(orchestrator, LAB, BranchName("side")) is None
    with pytest.raises(UsageError, match=f"run {run.id}"):
        refuse_unfinished(orchestrator, LAB, MAIN)
    orchestrator.terminate(run.id, "enough")
    refuse_unfinished(orchestrator, LAB, MAIN)


def test_a_run_without_a_workspace_blocks_nothing(orchestrator: MemoryOrchestrator) -> None:
    orchestrator.start_workflow("ask", workflow_input={"params": {}})

    refuse_unfinished(orchestrator, LAB, MAIN)


def test_what_is_said_of_a_run_must_be_so(
    store: MemoryWorkspaceStore, orchestrator: MemoryOrchestrator
) -> None:
    run = start(orchestrator, store)
    right = GivenInput(repository="lab", branch="main", ref="main", params={"year": 1})

    refuse_contradiction(run, GivenInput(), store)
    refuse_contradiction(run, right, store)
    for wrong in (
        GivenInput(repository="other"),
        GivenInput(branch="side"),
        GivenInput(params={"year": 2}),
    ):
        with pytest.raises(UsageError, match="was started with another"):
            refuse_contradiction(run, wrong, store)


def test_a_ref_that_moved_on_contradicts(
    store: MemoryWorkspaceStore, orchestrator: MemoryOrchestrator, tmp_path: Path
) -> None:
    run = start(orchestrator, store)
    commit(store, tmp_path, {"a": "1"})

    with pytest.raises(UsageError, match="another --ref"):
        refuse_contradiction(run, GivenInput(ref="main"), store)
    with pytest.raises(NotFoundInStoreError):
        refuse_contradiction(run, GivenInput(ref="nothing"), store)


def test_a_completed_step_hands_the_head_on(
    store: MemoryWorkspaceStore, orchestrator: MemoryOrchestrator, tmp_path: Path
) -> None:
    run = start(orchestrator, store)
    edited = commit(store, tmp_path, {"a": "1"})

    output = complete_step(
        run, "approve", HumanAnswer(output={"ok": True}), orchestrator=orchestrator, store=store
    )

    assert output == {"ok": True, "workspace": workspace(edited)}


def test_an_output_that_names_a_workspace_is_left_alone(
    store: MemoryWorkspaceStore, orchestrator: MemoryOrchestrator
) -> None:
    run = start(orchestrator, store)
    given: JsonObject = {"workspace": {"my": "own"}}

    output = complete_step(
        run, "approve", HumanAnswer(output=given), orchestrator=orchestrator, store=store
    )

    assert output == given


def test_a_step_without_a_workspace_gets_none(
    store: MemoryWorkspaceStore, orchestrator: MemoryOrchestrator
) -> None:
    run = start(orchestrator, store)
    complete_step(run, "approve", HumanAnswer(output={}), orchestrator=orchestrator, store=store)

    output = complete_step(
        orchestrator.workflow(run.id),
        "sign",
        HumanAnswer(output={}),
        orchestrator=orchestrator,
        store=store,
    )

    assert output == {}
    assert orchestrator.workflow(run.id).status is WorkflowStatus.COMPLETED


def test_a_step_goes_on_from_the_ref_that_is_given(
    store: MemoryWorkspaceStore, orchestrator: MemoryOrchestrator, tmp_path: Path
) -> None:
    run = start(orchestrator, store)
    before = store.head(LAB, MAIN).id
    commit(store, tmp_path, {"a": "1"})

    output = complete_step(
        run, "approve", HumanAnswer(output={}, ref=before), orchestrator=orchestrator, store=store
    )

    assert output == {"workspace": workspace(before)}


def test_a_failed_step_has_no_output_and_fails_the_run(
    store: MemoryWorkspaceStore, orchestrator: MemoryOrchestrator
) -> None:
    run = start(orchestrator, store)
    answer = HumanAnswer(output={"ok": True}, failure="bad numbers")

    assert complete_step(run, "approve", answer, orchestrator=orchestrator, store=store) is None

    (task,) = orchestrator.workflow(run.id).tasks
    assert (task.status, task.reason) == (AttemptStatus.FAILED, "bad numbers")


def a_task(status: AttemptStatus, *, kind: str = "HUMAN", number: int = 0) -> TaskState:
    return TaskState(
        attempt=Attempt(
            workflow_id=WorkflowId("w"),
            task_id=TaskId(f"t{number}"),
            task_name="approve",
            reference_name="approve",
        ),
        task_type=kind,
        status=status,
        input={},
        output={},
        reason=None,
        started_at=None,
        ended_at=None,
    )


def a_run(*tasks: TaskState) -> WorkflowState:
    return WorkflowState(
        id=WorkflowId("w"),
        name="ask",
        version=1,
        status=WorkflowStatus.RUNNING,
        input={},
        output={},
        tasks=tasks,
        started_at=datetime(2030, 1, 1, tzinfo=UTC),
        ended_at=None,
    )


IN_PROGRESS, COMPLETED = AttemptStatus.IN_PROGRESS, AttemptStatus.COMPLETED


@pytest.mark.parametrize(
    ("tasks", "waiting"),
    [
        ([a_task(IN_PROGRESS)], "approve"),
        ([a_task(COMPLETED)], "none"),
        ([a_task(IN_PROGRESS, kind="SIMPLE")], "none"),
        ([], "none"),
    ],
    ids=["open", "answered", "a worker's", "empty"],
)
def test_a_step_that_is_not_there_is_told_with_those_that_wait(
    tasks: list[TaskState], waiting: str
) -> None:
    with pytest.raises(NotFoundInOrchestratorError, match="has no step 'sign' under way") as caught:
        find_open_human(a_run(*tasks), "sign")

    assert caught.value.hint == f"waiting for a person: {waiting}"


def test_only_a_human_step_is_completed_by_hand() -> None:
    with pytest.raises(UsageError, match="is a SIMPLE task, not a HUMAN one"):
        find_open_human(a_run(a_task(IN_PROGRESS, kind="SIMPLE")), "approve")


def test_the_latest_attempt_of_a_step_is_answered() -> None:
    first, second = a_task(COMPLETED), a_task(IN_PROGRESS, number=1)

    assert find_open_human(a_run(first, second), "approve") is second
    with pytest.raises(UsageError, match="step 'approve' of run w is over: COMPLETED"):
        find_open_human(a_run(second, first), "approve")


def test_an_answer_to_a_step_that_ended_meanwhile_is_an_error(
    store: MemoryWorkspaceStore, orchestrator: MemoryOrchestrator
) -> None:
    run = start(orchestrator, store)
    orchestrator.terminate(run.id, "no longer wanted")

    for answer in (HumanAnswer(output={}), HumanAnswer(output={}, failure="bad numbers")):
        with pytest.raises(UsageError, match=r"did not take the answer: .*CANCELED"):
            complete_step(run, "approve", answer, orchestrator=orchestrator, store=store)


def test_a_report_counts_what_each_publication_changed(
    store: MemoryWorkspaceStore, orchestrator: MemoryOrchestrator, tmp_path: Path
) -> None:
    first = commit(store, tmp_path, {"a": "1", "b": "1"})
    run = start(orchestrator, store)
    second = commit(store, tmp_path, {"a": "2", "c": "1"}, "b")
    complete_step(run, "approve", HumanAnswer(output={}), orchestrator=orchestrator, store=store)

    report = build_run_report(orchestrator.workflow(run.id), store)

    (made,) = report.published
    assert first != second
    assert (made.reference_name, made.commit, made.changes) == ("approve", second, 3)
    assert report.failed_step is None


@pytest.mark.parametrize(
    ("status", "failed"),
    [
        (WorkflowStatus.FAILED, "clean"),
        (WorkflowStatus.TIMED_OUT, "clean"),
        (WorkflowStatus.TERMINATED, None),
        (WorkflowStatus.RUNNING, None),
    ],
)
def test_the_step_that_failed_a_run_is_named(
    store: MemoryWorkspaceStore, clock: FakeClock, status: WorkflowStatus, failed: str | None
) -> None:
    def task(name: str, outcome: AttemptStatus) -> TaskState:
        return TaskState(
            attempt=Attempt(
                workflow_id=WorkflowId("w"),
                task_id=TaskId(name),
                task_name=name,
                reference_name=name,
            ),
            task_type="SIMPLE",
            status=outcome,
            input={},
            output={},
        )

    run = WorkflowState(
        id=WorkflowId("w"),
        name="flow",
        version=1,
        status=status,
        input={},
        output={},
        tasks=(
            task("clean", AttemptStatus.FAILED),
            task("beside", AttemptStatus.CANCELED),
        ),
        started_at=clock.now(),
    )

    found = build_run_report(run, store).failed_step

    assert (found.attempt.reference_name if found else None) == failed
