"""Laws of the publish fence and the attempt fence, over every head, history and metadata."""

from collections.abc import Mapping
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from perago.domain.attempt import (
    Attempt,
    AttemptStatus,
    LogicalTask,
    decide_staleness,
)
from perago.domain.ids import CommitId, ExecutionId, TreeId
from perago.domain.publication import (
    Commit,
    Keep,
    Merge,
    PublicationPhase,
    PublicationPlan,
    Refuse,
    Relocate,
    Replace,
    Resolution,
    StagedWorkspace,
    build_publication_metadata,
    build_workspace_publication_plan,
    explain_unverified,
    read_logical_task,
    resolve_unknown_outcome,
)
from perago.testing.strategies import (
    EPOCH,
    attempt_snapshots,
    attempts,
    commit_ids,
    commits,
    execution_ids,
    logical_tasks,
    stagings,
)

maybe_staged = st.none() | stagings()


@st.composite
def heads_seen_from(draw: st.DrawFn, input_ref: CommitId) -> Commit:
    """Any head, but often the input ref or a child of it: that is where the decisions are."""
    head = draw(commits())
    match draw(st.sampled_from(["any", "input ref", "child", "child"])):
        case "input ref":
            return replace(head, id=input_ref)
        case "child":
            return replace(head, id=CommitId("child"), parents=(input_ref,))
        case _:
            return head


INPUT = CommitId("a")  # one of `commit_ids`
heads = heads_seen_from(INPUT)


def plan(
    input_ref: CommitId,
    head: Commit,
    task: LogicalTask,
    staged: StagedWorkspace | None,
    *,
    replace_unlabelled: bool = True,
) -> PublicationPlan:
    return build_workspace_publication_plan(
        input_ref=input_ref,
        head=head,
        logical_task=task,
        staged=staged,
        replace_unlabelled=replace_unlabelled,
    )


@given(heads, logical_tasks(), maybe_staged, st.booleans())
def test_a_plan_merges_only_onto_the_input_ref(
    head: Commit, task: LogicalTask, staged: StagedWorkspace | None, replace_unlabelled: bool
) -> None:
    answer = plan(INPUT, head, task, staged, replace_unlabelled=replace_unlabelled)
    if isinstance(answer, Merge | Keep):
        assert head.id == INPUT
    if isinstance(answer, Merge):
        assert answer == Merge(staged=answer.staged, expected_head=INPUT)


@given(heads, logical_tasks(), maybe_staged, st.booleans())
def test_a_publication_is_taken_back_only_from_a_child_of_the_input_ref_that_is_not_anothers(
    head: Commit, task: LogicalTask, staged: StagedWorkspace | None, replace_unlabelled: bool
) -> None:
    answer = plan(INPUT, head, task, staged, replace_unlabelled=replace_unlabelled)
    if isinstance(answer, Replace | Relocate):
        assert head.parents == (INPUT,)
        assert head.id != INPUT
        assert answer.expected_head == head.id
        assert read_logical_task(head.metadata) in (None, task)
        if not replace_unlabelled:
            assert read_logical_task(head.metadata) == task


@given(heads, logical_tasks(), maybe_staged)
def test_what_changed_and_where_head_is_decide_the_kind_of_plan(
    head: Commit, task: LogicalTask, staged: StagedWorkspace | None
) -> None:
    answer = plan(INPUT, head, task, staged)
    if not isinstance(answer, Refuse):
        assert isinstance(answer, Keep | Relocate) is (staged is None)
        assert isinstance(answer, Keep | Merge) is (head.id == INPUT)


def moves(answer: PublicationPlan) -> frozenset[PublicationPlan]:
    """The moves that an answer permits: itself, or none."""
    return frozenset() if isinstance(answer, Refuse) else frozenset({answer})


@given(heads, logical_tasks(), maybe_staged, st.booleans())
def test_metadata_never_permits(
    head: Commit, task: LogicalTask, staged: StagedWorkspace | None, replace_unlabelled: bool
) -> None:
    answer = plan(INPUT, head, task, staged, replace_unlabelled=replace_unlabelled)
    without = plan(INPUT, replace(head, metadata={}), task, staged)
    assert moves(answer) <= moves(without)


# -- the same laws on a whole history


@st.composite
def histories(draw: st.DrawFn) -> dict[CommitId, tuple[CommitId, ...]]:
    """A graph of commits, each with parents among those before it."""
    names = [CommitId(f"c{number}") for number in range(draw(st.integers(1, 6)))]
    history: dict[CommitId, tuple[CommitId, ...]] = {}
    for position, name in enumerate(names):
        earlier = names[:position]
        count = draw(st.integers(0, min(2, len(earlier))))
        history[name] = tuple(
            draw(st.lists(st.sampled_from(earlier), min_size=count, max_size=count, unique=True))
            if earlier
            else []
        )
    return history


def ancestors(
    history: Mapping[CommitId, tuple[CommitId, ...]], commit: CommitId
) -> frozenset[CommitId]:
    """The commit and all that it was built on."""
    found: set[CommitId] = set()
    pending = [commit]
    while pending:
        name = pending.pop()
        if name not in found:
            found.add(name)
            pending.extend(history[name])
    return frozenset(found)


def act(
    history: Mapping[CommitId, tuple[CommitId, ...]], answer: PublicationPlan
) -> tuple[CommitId, dict[CommitId, tuple[CommitId, ...]]]:
    """What a store does with a plan: the new head, and the history with the new commit."""
    match answer:
        case Merge(expected_head=expected):
            published = CommitId("published")
            return published, {**history, published: (expected,)}
        case Replace(staged=staged):
            return staged.commit, dict(history)
        case Relocate(to=to):
            return to, dict(history)
        case Keep(head=head) | Refuse(head=head):
            return head, dict(history)


@given(histories(), logical_tasks(), maybe_staged, st.data())
def test_a_publication_never_keeps_an_abandoned_commit_as_an_ancestor(
    history: dict[CommitId, tuple[CommitId, ...]],
    task: LogicalTask,
    staged: StagedWorkspace | None,
    data: st.DataObject,
) -> None:
    names = sorted(history)
    input_ref = data.draw(st.sampled_from(names), label="input ref")
    children = [name for name in names if history[name] == (input_ref,)]
    head_id = data.draw(st.sampled_from([*children, input_ref, *names]), label="head")
    head = Commit(
        id=head_id,
        parents=history[head_id],
        tree=TreeId(head_id),
        message="",
        created_at=EPOCH,
    )
    before = {**history, staged.commit: (input_ref,)} if staged else dict(history)

    answer = plan(input_ref, head, task, staged)
    new_head, after = act(before, answer)

    if isinstance(answer, Refuse):
        assert new_head == head_id
    else:
        on_top = [] if staged is None else [new_head]
        assert ancestors(after, new_head) == {*on_top, *ancestors(history, input_ref)}
        assert after[new_head] == (input_ref,) if staged else new_head == input_ref
    # Nothing is deleted: what was abandoned stays readable by its id.
    assert before.items() <= after.items()


# -- after the act


@given(attempts(), execution_ids(), commit_ids(), stagings(), st.sampled_from(PublicationPhase))
def test_every_publication_reads_back_as_that_of_its_logical_task(
    attempt: Attempt,
    execution_id: ExecutionId,
    input_ref: CommitId,
    staged: StagedWorkspace,
    phase: PublicationPhase,
) -> None:
    metadata = build_publication_metadata(
        phase=phase,
        attempt=attempt,
        execution_id=execution_id,
        input_ref=input_ref,
        staging_branch=staged.branch,
        staging_commit=staged.commit,
    )
    if attempt.workflow_id and attempt.reference_name:
        assert read_logical_task(metadata) == attempt.logical_task
    else:  # an orchestrator that gives no names gets no replacement
        assert read_logical_task(metadata) is None


@given(heads, commit_ids(), st.booleans())
def test_an_unknown_outcome_counts_as_published_only_with_proof(
    head: Commit, expected_head: CommitId, by_us: bool
) -> None:
    ours, staged_tree = ExecutionId("0" * 32), TreeId("tree-1")
    if by_us:
        head = replace(head, metadata={"perago.execution": ours})
    answer = resolve_unknown_outcome(
        head=head,
        expected_head=expected_head,
        input_ref=INPUT,
        staged_tree=staged_tree,
        execution_id=ours,
    )
    assert (answer is Resolution.NOT_PUBLISHED) is (head.id == expected_head)
    if answer is Resolution.PUBLISHED:
        assert head.parents == (INPUT,)
        assert head.tree == staged_tree
        assert head.metadata["perago.execution"] == ours
        assert not explain_unverified(published=head, input_ref=INPUT, staged_tree=staged_tree)


# -- the attempt fence


@given(st.data(), attempts())
def test_only_the_polled_attempt_in_progress_is_current(
    data: st.DataObject, attempt: Attempt
) -> None:
    snapshot = data.draw(attempt_snapshots(attempt))
    if decide_staleness(attempt, snapshot) is None:
        assert snapshot.status is AttemptStatus.IN_PROGRESS
        assert snapshot.workflow_id == attempt.workflow_id
        assert snapshot.task_id == attempt.task_id
        assert snapshot.retry_count == attempt.retry_count
        assert attempt.worker_id is None or snapshot.worker_id in (None, attempt.worker_id)
        assert attempt.poll_count is None or snapshot.poll_count in (None, attempt.poll_count)
        schedules = {attempt.scheduled_time, snapshot.scheduled_time} - {None}
        assert len(schedules) <= 1
        assert not snapshot.is_retried
