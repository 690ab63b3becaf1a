"""The failure table, and what an attempt reports."""

import pytest

from perago.domain.attempt import AttemptStatus
from perago.domain.errors import (
    GuardrailViolationError,
    HeadMovedError,
    InsufficientDiskError,
    InvalidInputError,
    InvalidResultError,
    LeaseLostError,
    NotFoundInStoreError,
    OrchestratorUnavailableError,
    OutcomeUnknownError,
    PublishFenceError,
    StaleAttemptError,
    StoreUnavailableError,
    TaskFailed,
    TaskTerminalError,
    UnmappableObjectError,
    UnpublishableFileError,
)
from perago.domain.ids import BranchName, CommitId, RepositoryName
from perago.domain.outcome import (
    MAX_REASON_CHARACTERS,
    Completed,
    Failed,
    JsonObject,
    Phase,
    TerminalFailure,
    build_output,
    decide_executor_death,
    decide_failure,
    describe_error,
    find_refs,
    read_ref,
)
from perago.domain.workspace import WorkspaceRef

WORKSPACE = WorkspaceRef(
    repository=RepositoryName("flights"), branch=BranchName("main"), ref=CommitId("input")
)
REFUSED = PublishFenceError(
    "the branch moved on",
    repository=WORKSPACE.repository,
    branch=WORKSPACE.branch,
    input_ref=WORKSPACE.ref,
    head=CommitId("other"),
)
MOVED = HeadMovedError(
    repository=WORKSPACE.repository,
    branch=WORKSPACE.branch,
    expected=WORKSPACE.ref,
    actual=CommitId("other"),
)
FAILED = AttemptStatus.FAILED
TERMINAL = AttemptStatus.FAILED_WITH_TERMINAL_ERROR


@pytest.mark.parametrize(
    ("phase", "error", "status"),
    [
        pytest.param(Phase.VALIDATE, InvalidInputError("x"), FAILED, id="input, params"),
        pytest.param(Phase.DOWNLOAD, NotFoundInStoreError("x"), FAILED, id="no such ref"),
        pytest.param(Phase.DOWNLOAD, StoreUnavailableError("x"), FAILED, id="connection"),
        pytest.param(Phase.DOWNLOAD, InsufficientDiskError("x"), FAILED, id="local disk"),
        pytest.param(Phase.DOWNLOAD, OSError("x"), FAILED, id="local disk, as the system says"),
        pytest.param(Phase.DOWNLOAD, UnmappableObjectError("../x", "y"), FAILED, id="hostile name"),
        pytest.param(
            Phase.PRE_CHECK,
            GuardrailViolationError(["x"], before_body=True),
            TERMINAL,
            id="pre guardrail",
        ),
        pytest.param(Phase.BODY, TaskTerminalError("x"), TERMINAL, id="TaskTerminalError"),
        pytest.param(Phase.BODY, TaskFailed("x"), FAILED, id="TaskFailed"),
        pytest.param(Phase.BODY, ZeroDivisionError("x"), FAILED, id="any other exception"),
        pytest.param(Phase.BODY, SystemExit(0), FAILED, id="a body that tries to exit"),
        pytest.param(Phase.BODY, InvalidResultError("x"), FAILED, id="result model"),
        pytest.param(
            Phase.POST_CHECK,
            GuardrailViolationError(["x"], before_body=False),
            FAILED,
            id="post guardrail",
        ),
        pytest.param(Phase.STAGE, StaleAttemptError("x"), FAILED, id="attempt fence"),
        pytest.param(Phase.STAGE, UnpublishableFileError("x", path="y"), FAILED, id="symlink"),
        pytest.param(Phase.PUBLISH, LeaseLostError("x"), FAILED, id="lease"),
        pytest.param(Phase.PUBLISH, REFUSED, FAILED, id="publish fence, no-op HEAD check"),
        pytest.param(Phase.PUBLISH, MOVED, FAILED, id="merge, reset"),
        pytest.param(Phase.PUBLISH, OutcomeUnknownError("x"), FAILED, id="publish time-out"),
        pytest.param(Phase.PUBLISH, OrchestratorUnavailableError("x"), FAILED, id="cannot tell"),
    ],
)
def test_failure_table(phase: Phase, error: BaseException, status: AttemptStatus) -> None:
    outcome = decide_failure(error, phase)
    assert outcome.status is status
    assert outcome.phase is phase
    assert outcome.reason == describe_error(error)


@pytest.mark.parametrize(
    ("deaths", "status"), [(1, FAILED), (2, FAILED), (3, TERMINAL), (4, TERMINAL)]
)
def test_a_logical_task_that_keeps_killing_executors(deaths: int, status: AttemptStatus) -> None:
    outcome = decide_executor_death(
        reference_name="clean",
        phase=Phase.STAGE,
        deaths=deaths,
        limit=3,
        how="killed by signal 9",
    )
    assert outcome.status is status
    assert outcome.phase is Phase.STAGE
    assert "in phase stage" in outcome.reason
    assert "killed by signal 9" in outcome.reason
    assert str(deaths) in outcome.reason


class Unprintable(Exception):  # noqa: N818 - a task author's exception
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        pytest.param(TaskFailed("no rows"), "no rows", id="ours, without a hint"),
        pytest.param(
            TaskFailed("no rows", hint="try later"), "no rows\n  hint: try later", id="with a hint"
        ),
        pytest.param(ValueError("no rows"), "ValueError: no rows", id="another's"),
        pytest.param(ValueError(), "ValueError", id="another's, without a text"),
        pytest.param(
            Unprintable(),
            "Unprintable: (an exception that cannot be printed)",
            id="one that cannot be printed",
        ),
        pytest.param(OSError("a\udcffb"), r"OSError: a\udcffb", id="a file name that is not UTF-8"),
    ],
)
def test_description_of_an_error(error: Exception, text: str) -> None:
    assert describe_error(error) == text


def test_a_report_is_never_longer_than_an_orchestrator_takes() -> None:
    short = ValueError("x" * (MAX_REASON_CHARACTERS - len("ValueError: ")))
    long = ValueError("x" * MAX_REASON_CHARACTERS)
    assert describe_error(short) == f"ValueError: {short}"
    assert describe_error(long) == f"ValueError: {long}"[:MAX_REASON_CHARACTERS] + "… (cut)"


@pytest.mark.parametrize(
    ("ref", "shown"),
    [
        pytest.param(None, "input", id="read-only and no-op: the input ref"),
        pytest.param(CommitId("input"), "input", id="the input ref, given"),
        pytest.param(CommitId("published"), "published", id="publication: the published commit"),
    ],
)
def test_output_of_a_workspace_task(ref: CommitId | None, shown: str) -> None:
    assert build_output(WORKSPACE, {"rows": 3}, ref) == {
        "workspace": {
            "repository": "flights",
            "branch": "main",
            "ref_type": "commit",
            "ref": shown,
        },
        "result": {"rows": 3},
    }


def test_output_of_a_workspace_free_task() -> None:
    assert build_output(None, {}, None) == {"result": {}}


def test_each_outcome_has_its_status_and_only_success_an_output() -> None:
    completed = Completed(output={"result": {}})
    failed = Failed(reason="x", phase=Phase.BODY)
    terminal = TerminalFailure(reason="x", phase=Phase.BODY)
    assert completed.status is AttemptStatus.COMPLETED
    assert failed.status is AttemptStatus.FAILED
    assert terminal.status is AttemptStatus.FAILED_WITH_TERMINAL_ERROR
    assert not hasattr(failed, "output")
    assert not hasattr(terminal, "output")


@pytest.mark.parametrize(
    ("payload", "ref"),
    [
        ({"workspace": {"ref": "abc"}, "params": {}}, "abc"),
        ({"params": {}}, None),
        ({"workspace": None}, None),
        ({"workspace": {}}, None),
        ({"workspace": {"ref": 3}}, None),
    ],
)
def test_the_ref_of_a_payload_is_read_where_there_is_one(
    payload: JsonObject, ref: str | None
) -> None:
    assert read_ref(payload) == ref


def test_every_ref_of_a_payload_is_found() -> None:
    payload: JsonObject = {
        "workspace": {"ref": "a"},
        "other": [{"ref": "b", "deep": {"ref": "c"}}, {"ref": 7}],
        "text": "ref",
    }
    assert find_refs(payload) == {"a", "b", "c"}
    assert find_refs({}) == set()
