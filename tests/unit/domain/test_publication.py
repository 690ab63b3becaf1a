"""The publish fence, row by row."""

from collections.abc import Mapping
from datetime import UTC, datetime

import pytest

from perago.domain.attempt import Attempt, LogicalTask
from perago.domain.ids import (
    BranchName,
    CommitId,
    ExecutionId,
    RepositoryName,
    TaskId,
    TreeId,
    WorkflowId,
)
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

INPUT = CommitId("input")
ABANDONED = CommitId("abandoned")
STAGED = StagedWorkspace(
    repository=RepositoryName("flights"),
    branch=BranchName("perago-staging-1"),
    commit=CommitId("staged"),
)
STAGED_TREE = TreeId("staged tree")
OURS = ExecutionId("1" * 32)
THEIRS = ExecutionId("2" * 32)
CLEAN = LogicalTask(workflow_id=WorkflowId("w1"), reference_name="clean")


def commit(
    name: str,
    *parents: str,
    tree: TreeId = STAGED_TREE,
    metadata: Mapping[str, str] | None = None,
) -> Commit:
    return Commit(
        id=CommitId(name),
        parents=tuple(CommitId(parent) for parent in parents),
        tree=tree,
        message="",
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        metadata=metadata or {},
    )


def label(workflow: str = "w1", reference: str = "clean", iteration: str = "0") -> dict[str, str]:
    return {
        "perago.workflow": workflow,
        "perago.reference": reference,
        "perago.iteration": iteration,
    }


def plan(
    head: Commit, staged: StagedWorkspace | None = STAGED, *, replace_unlabelled: bool = True
) -> PublicationPlan:
    return build_workspace_publication_plan(
        input_ref=INPUT,
        head=head,
        logical_task=CLEAN,
        staged=staged,
        replace_unlabelled=replace_unlabelled,
    )


@pytest.mark.parametrize(
    ("head", "publication", "no_op"),
    [
        pytest.param(
            commit("input", "older"),
            Merge(staged=STAGED, expected_head=INPUT),
            Keep(head=INPUT),
            id="HEAD is the input ref",
        ),
        pytest.param(
            commit("input"),
            Merge(staged=STAGED, expected_head=INPUT),
            Keep(head=INPUT),
            id="HEAD is the input ref, the repository's first commit",
        ),
        pytest.param(
            commit("abandoned", "input"),
            Replace(staged=STAGED, expected_head=ABANDONED),
            Relocate(to=INPUT, expected_head=ABANDONED),
            id="HEAD's only parent is the input ref",
        ),
    ],
)
def test_heads_that_a_plan_accepts(
    head: Commit, publication: PublicationPlan, no_op: PublicationPlan
) -> None:
    assert plan(head) == publication
    assert plan(head, staged=None) == no_op


@pytest.mark.parametrize(
    "head",
    [
        pytest.param(commit("grandchild", "child"), id="two commits on"),
        pytest.param(commit("merge", "input", "other"), id="merge with the input ref first"),
        pytest.param(commit("merge", "other", "input"), id="merge with the input ref second"),
        pytest.param(commit("twice", "input", "input"), id="the input ref as both parents"),
        pytest.param(commit("older"), id="behind the input ref"),
        pytest.param(commit("other", "elsewhere"), id="unrelated history"),
    ],
)
@pytest.mark.parametrize("staged", [STAGED, None], ids=["publication", "no-op"])
@pytest.mark.parametrize("metadata", [{}, label()], ids=["unlabelled", "labelled as ours"])
def test_every_other_head_is_refused(
    head: Commit, staged: StagedWorkspace | None, metadata: dict[str, str]
) -> None:
    labelled = commit(head.id, *head.parents, metadata=metadata)
    assert plan(labelled, staged) == Refuse(
        reason="the branch moved on since the input ref was read", head=head.id
    )


@pytest.mark.parametrize(
    ("metadata", "veto"),
    [
        pytest.param({}, None, id="no metadata"),
        pytest.param({"author": "ann"}, None, id="metadata of others"),
        pytest.param({"peragofan.workflow": "w2"}, None, id="a key that only resembles ours"),
        pytest.param(label(), None, id="this logical task"),
        pytest.param(
            {**label(), "perago.retry": "7", "perago.task_id": "t9"}, None, id="an earlier attempt"
        ),
        pytest.param(label(workflow="w2"), "clean of workflow w2", id="another workflow instance"),
        pytest.param(label(reference="join"), "join of workflow w1", id="another step"),
        pytest.param(label(iteration="1"), "iteration 1", id="another iteration of the step"),
        pytest.param({"perago.phase": "confirm"}, "names no task", id="no task at all"),
        pytest.param(label(workflow=""), "names no task", id="an empty workflow"),
        pytest.param(label(reference=""), "names no task", id="an empty reference"),
        pytest.param(label(iteration="-1"), "names no task", id="a negative iteration"),
        pytest.param(label(iteration="0x0"), "names no task", id="an iteration that is no number"),
        pytest.param(label(iteration="9" * 5000), "names no task", id="an absurd iteration"),
    ],
)
@pytest.mark.parametrize("staged", [STAGED, None], ids=["publication", "no-op"])
def test_veto_of_a_replacement(
    metadata: dict[str, str], veto: str | None, staged: StagedWorkspace | None
) -> None:
    answer = plan(commit("abandoned", "input", metadata=metadata), staged)
    if veto is None:
        assert isinstance(answer, Replace if staged else Relocate)
    else:
        assert isinstance(answer, Refuse)
        assert veto in answer.reason
        assert answer.head == ABANDONED


@pytest.mark.parametrize("staged", [STAGED, None], ids=["publication", "no-op"])
def test_unlabelled_heads_are_kept_when_the_setting_says_so(
    staged: StagedWorkspace | None,
) -> None:
    unlabelled = plan(commit("abandoned", "input"), staged, replace_unlabelled=False)
    assert isinstance(unlabelled, Refuse)
    assert "replace_unlabelled" in unlabelled.reason
    labelled = plan(
        commit("abandoned", "input", metadata=label()), staged, replace_unlabelled=False
    )
    assert isinstance(labelled, Replace if staged else Relocate)


@pytest.mark.parametrize("metadata", [{}, label(workflow="w2")], ids=["unlabelled", "another's"])
def test_the_veto_is_never_asked_about_the_input_ref_itself(metadata: dict[str, str]) -> None:
    head = commit("input", "older", metadata=metadata)
    assert isinstance(plan(head, replace_unlabelled=False), Merge)
    assert isinstance(plan(head, None, replace_unlabelled=False), Keep)


def test_metadata_names_the_attempt_and_reads_back() -> None:
    attempt = Attempt(
        workflow_id=WorkflowId("w1"),
        task_id=TaskId("t1"),
        task_name="clean_flights",
        reference_name="clean",
        retry_count=2,
        seq=5,
        iteration=3,
    )
    staged = build_publication_metadata(
        phase=PublicationPhase.TRY,
        attempt=attempt,
        execution_id=OURS,
        input_ref=INPUT,
        staging_branch=STAGED.branch,
    )
    published = build_publication_metadata(
        phase=PublicationPhase.CONFIRM,
        attempt=attempt,
        execution_id=OURS,
        input_ref=INPUT,
        staging_branch=STAGED.branch,
        staging_commit=STAGED.commit,
    )
    assert staged == {
        "perago.phase": "try",
        "perago.task": "clean_flights",
        "perago.workflow": "w1",
        "perago.reference": "clean",
        "perago.iteration": "3",
        "perago.task_id": "t1",
        "perago.retry": "2",
        "perago.execution": OURS,
        "perago.staging_branch": "perago-staging-1",
        "perago.expected_head": "input",
    }
    assert published == {
        **staged,
        "perago.phase": "confirm",
        "perago.staging_commit": "staged",
    }
    assert read_logical_task(staged) == read_logical_task(published) == attempt.logical_task


@pytest.mark.parametrize(
    ("published", "complaint"),
    [
        pytest.param(commit("new", "input"), None, id="one parent, the staged tree"),
        pytest.param(commit("new"), "has parents none", id="no parent"),
        pytest.param(commit("new", "other"), "has parents other", id="another parent"),
        pytest.param(
            commit("new", "input", "other"), "has parents input, other", id="a second parent"
        ),
        pytest.param(
            commit("new", "input", tree=TreeId("x")), "holds other content", id="another tree"
        ),
    ],
)
def test_verification_after_a_publication(published: Commit, complaint: str | None) -> None:
    answer = explain_unverified(published=published, input_ref=INPUT, staged_tree=STAGED_TREE)
    if complaint is None:
        assert answer is None
    else:
        assert answer is not None
        assert complaint in answer
        assert "new" in answer


BY_US = {"perago.execution": OURS}
BY_THEM = {"perago.execution": THEIRS}


@pytest.mark.parametrize(
    ("expected_head", "head", "resolution"),
    [
        pytest.param(
            INPUT, commit("input"), Resolution.NOT_PUBLISHED, id="merge: HEAD did not move"
        ),
        pytest.param(
            INPUT,
            commit("new", "input", metadata=BY_US),
            Resolution.PUBLISHED,
            id="merge: our commit on the input ref",
        ),
        pytest.param(
            INPUT,
            commit("new", "input", metadata=BY_THEM),
            Resolution.SOMEONE_ELSES,
            id="merge: the same content by another execution",
        ),
        pytest.param(
            INPUT,
            commit("new", "input"),
            Resolution.SOMEONE_ELSES,
            id="merge: the same content by nobody we know",
        ),
        pytest.param(
            INPUT,
            commit("new", "input", tree=TreeId("x"), metadata=BY_US),
            Resolution.SOMEONE_ELSES,
            id="merge: our label on other content",
        ),
        pytest.param(
            INPUT,
            commit("new", "newer", metadata=BY_US),
            Resolution.SOMEONE_ELSES,
            id="merge: our commit, but on another head",
        ),
        pytest.param(
            INPUT,
            commit("later", "new", metadata=BY_THEM),
            Resolution.SOMEONE_ELSES,
            id="merge: somebody built on top already",
        ),
        pytest.param(
            ABANDONED,
            commit("abandoned", "input", metadata=BY_THEM),
            Resolution.NOT_PUBLISHED,
            id="replace: HEAD did not move",
        ),
        pytest.param(
            ABANDONED,
            commit("staged", "input", metadata=BY_US),
            Resolution.PUBLISHED,
            id="replace: HEAD is the staged commit",
        ),
        pytest.param(
            ABANDONED,
            commit("other", "input", metadata=BY_THEM),
            Resolution.SOMEONE_ELSES,
            id="replace: another execution replaced it first",
        ),
        pytest.param(
            ABANDONED,
            commit("input"),
            Resolution.SOMEONE_ELSES,
            id="replace: somebody relocated it to the input ref",
        ),
    ],
)
def test_an_ambiguous_answer_is_resolved_by_reading_head(
    expected_head: CommitId, head: Commit, resolution: Resolution
) -> None:
    answer = resolve_unknown_outcome(
        head=head,
        expected_head=expected_head,
        input_ref=INPUT,
        staged_tree=STAGED_TREE,
        execution_id=OURS,
    )
    assert answer is resolution
