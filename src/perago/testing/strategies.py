"""Hypothesis strategies for the values of the protocol, hostile ones included.

Needs the extra `perago-runtime[testing]`. Small alphabets are used on purpose wherever two
values must have a chance to be equal, or nearly so.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import strategies as st

from perago.domain.attempt import Attempt, AttemptSnapshot, AttemptStatus, LogicalTask
from perago.domain.budget import PublishBudget
from perago.domain.changes import Tree
from perago.domain.ids import (
    BranchName,
    CommitId,
    Digest,
    ExecutionId,
    ObjectPath,
    RelativePath,
    RepositoryName,
    TaskId,
    TreeId,
    WorkerId,
    WorkflowId,
)
from perago.domain.publication import Commit, StagedWorkspace
from perago.domain.workspace import MARKER_NAME, ObjectEntry, Prefix

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
"""When the first generated commit was made."""

_NASTY_TEXT = (
    "",
    "-",
    "_",
    "_5f",
    "__5f_",
    "-task-id-",
    "task-id",
    "x-task-id",
    "-retry-",
    "retry-7-exec-" + "0" * 32,
    "perago-staging-",
    "a.b/c:d",
    "clean_flights",
    "航班",
    "\ud800",
    "\udcff\udc80",
    "\x00\n",
)
_NASTY_PARTS = (
    "",
    ".",
    "..",
    "...",
    "a",
    "A",
    "b",
    "ä",
    "a\u0308",
    "a b",
    "%2e%2e",
    "#+%",
    "~",
    "\\",
    "..\\",
    "C:",
    "\x00",
    "a\x00b",
    "\n",
    "\x7f",
    "\x85",
    "\udcff",
    "x" * 255,
    "x" * 256,
    "é" * 128,
    MARKER_NAME,
    "_lakefs_actions",
)


def wild_text() -> st.SearchStrategy[str]:
    """Any text at all: control characters, lone surrogates, and what our own syntax is made of."""
    surrogates = st.integers(0xD800, 0xDFFF).map(chr)
    pieces = st.one_of(st.text(max_size=8), st.sampled_from(_NASTY_TEXT), surrogates)
    return st.lists(pieces, max_size=4).map("".join)


def execution_ids() -> st.SearchStrategy[ExecutionId]:
    """Ids of executions."""
    return st.integers(0, 2**128 - 1).map(lambda number: ExecutionId(f"{number:032x}"))


def logical_tasks() -> st.SearchStrategy[LogicalTask]:
    """Few logical tasks, so that two of them are often the same."""
    return st.builds(
        LogicalTask,
        workflow_id=st.sampled_from([WorkflowId("workflow-1"), WorkflowId("workflow-2")]),
        reference_name=st.sampled_from(["ingest", "clean"]),
        iteration=st.integers(0, 2),
    )


def attempts() -> st.SearchStrategy[Attempt]:
    """Attempts with any text as identifiers."""
    count = st.integers(0, 999)
    return st.builds(
        Attempt,
        workflow_id=wild_text().map(WorkflowId),
        task_id=wild_text().map(TaskId),
        task_name=wild_text(),
        reference_name=wild_text(),
        retry_count=count,
        seq=count,
        iteration=count,
        worker_id=st.none() | st.sampled_from([WorkerId("worker-1"), WorkerId("worker-2")]),
        poll_count=st.none() | st.integers(1, 3),
        scheduled_time=st.none() | st.integers(1, 3),
    )


@st.composite
def attempt_snapshots(draw: st.DrawFn, attempt: Attempt) -> AttemptSnapshot:
    """What an orchestrator may say of an attempt: the truth, or wrong in one field or two."""
    snapshot = AttemptSnapshot(
        status=AttemptStatus.IN_PROGRESS,
        workflow_id=attempt.workflow_id,
        task_id=attempt.task_id,
        retry_count=attempt.retry_count,
        worker_id=attempt.worker_id,
        poll_count=attempt.poll_count,
        scheduled_time=attempt.scheduled_time,
    )
    for field in draw(st.sets(st.sampled_from(range(8)), max_size=2)):
        match field:
            case 0:
                snapshot = replace(snapshot, status=draw(st.sampled_from(AttemptStatus)))
            case 1:
                snapshot = replace(snapshot, workflow_id=WorkflowId("another workflow"))
            case 2:
                snapshot = replace(snapshot, task_id=TaskId("another task"))
            case 3:
                snapshot = replace(snapshot, retry_count=draw(st.integers(0, 1_000)))
            case 4:
                worker = draw(st.sampled_from([None, WorkerId("another worker")]))
                snapshot = replace(snapshot, worker_id=worker)
            case 5:
                snapshot = replace(snapshot, poll_count=draw(st.sampled_from([None, 4])))
            case 6:
                snapshot = replace(snapshot, scheduled_time=draw(st.sampled_from([None, 4])))
            case _:
                snapshot = replace(snapshot, is_retried=True)
    return snapshot


def commit_ids() -> st.SearchStrategy[CommitId]:
    """Few commit ids, so that two of them are often the same."""
    return st.sampled_from([CommitId(letter) for letter in "abcde"])


def commit_metadata() -> st.SearchStrategy[dict[str, str]]:
    """Metadata as Perago writes it, as others do, and as neither should."""
    keys = ["workflow", "reference", "iteration", "execution", "phase", ""]
    values = ["workflow-1", "ingest", "clean", "0", "1", "x", "", "-1", "٣", "9" * 5000]
    ours = logical_tasks().map(
        lambda task: {
            "perago.workflow": task.workflow_id,
            "perago.reference": task.reference_name,
            "perago.iteration": str(task.iteration),
        }
    )
    broken = st.dictionaries(
        st.sampled_from([f"perago.{key}" for key in keys]), st.sampled_from(values)
    )
    foreign = st.dictionaries(wild_text(), wild_text(), max_size=2)
    return st.one_of(st.just({}), ours, broken, foreign)


def commits() -> st.SearchStrategy[Commit]:
    """Single commits whose ids and parents are drawn from `commit_ids`."""
    return st.builds(
        Commit,
        id=commit_ids(),
        parents=st.lists(commit_ids(), max_size=2).map(tuple),
        tree=st.sampled_from([TreeId("tree-1"), TreeId("tree-2")]),
        message=st.just("a commit"),
        created_at=st.integers(0, 1_000).map(lambda minutes: EPOCH + timedelta(minutes=minutes)),
        metadata=commit_metadata(),
    )


def stagings() -> st.SearchStrategy[StagedWorkspace]:
    """A staging whose commit is none of `commit_ids`: it was made after them."""
    return st.just(
        StagedWorkspace(
            repository=RepositoryName("flights"),
            branch=BranchName("perago-staging-x"),
            commit=CommitId("staged"),
        )
    )


def safe_paths() -> st.SearchStrategy[RelativePath]:
    """Workspace-relative paths that a file may have."""
    part = st.sampled_from(["a", "A", "b", "c d", "ä", "x" * 255])
    return st.lists(part, min_size=1, max_size=3).map("/".join).map(RelativePath)


def trees() -> st.SearchStrategy[Tree]:
    """Small trees over few paths and fewer contents."""
    digests = st.sampled_from([Digest("1" * 64), Digest("2" * 64)])
    return st.dictionaries(safe_paths(), digests, max_size=6)


def prefixes() -> st.SearchStrategy[Prefix]:
    """The whole repository, or a part of it."""
    return st.just(Prefix()) | safe_paths().map(Prefix.parse)


def object_names() -> st.SearchStrategy[ObjectPath]:
    """Names that a repository can hold, most of which no file may have."""
    part = st.one_of(st.sampled_from(_NASTY_PARTS), wild_text())
    plain = st.sampled_from(["a", "A", "b", "ä"])
    dotted = st.sampled_from(["a", ".", "..", ""])
    names = st.one_of(
        st.lists(part, max_size=4).map("/".join),
        st.lists(plain, min_size=1, max_size=3).map("/".join),
        st.lists(dotted, min_size=1, max_size=3).map("/".join),
        st.tuples(plain, part, plain).map("/".join),
        st.tuples(plain, part).map("/".join),
    )
    return st.tuples(names, st.sampled_from(["", "", "/"])).map("".join).map(ObjectPath)


def object_entries(prefix: Prefix | None = None) -> st.SearchStrategy[ObjectEntry]:
    """Objects below a prefix, empty ones and directory markers included."""
    inside = prefix or Prefix()
    return st.builds(
        ObjectEntry,
        path=object_names().map(inside.join),
        size=st.sampled_from([0, 0, 1]),
        checksum=st.just(""),
    )


def publish_budgets() -> st.SearchStrategy[PublishBudget]:
    """Budgets of sizes that a declaration may have."""
    positive = st.floats(0.001, 10_000)
    reserve = st.floats(0, 10_000)
    return st.builds(
        PublishBudget,
        observed_merge_p99_seconds=positive,
        safety_factor=st.floats(1, 100),
        conductor_completion_reserve_seconds=reserve,
        heartbeat_interval_seconds=positive,
        shutdown_grace_seconds=reserve,
        lakefs_merge_timeout_seconds=st.none() | positive,
    )
