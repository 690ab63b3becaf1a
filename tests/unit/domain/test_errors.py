"""What an error carries, and that it survives a process border."""

import copy
import pickle

import pytest

from perago.domain.errors import (
    GuardrailViolationError,
    HeadMovedError,
    OutcomeUnknownError,
    PeragoError,
    PublishFenceError,
    TaskFailed,
    UnmappableObjectError,
    UnpublishableFileError,
)
from perago.domain.ids import BranchName, CommitId, RepositoryName

REPOSITORY, BRANCH = RepositoryName("flights"), BranchName("main")
INPUT, HEAD = CommitId("input"), CommitId("head")


def refused(head: CommitId | None) -> PublishFenceError:
    return PublishFenceError(
        "the branch moved on", repository=REPOSITORY, branch=BRANCH, input_ref=INPUT, head=head
    )


ERRORS: list[PeragoError] = [
    PeragoError("plain"),
    TaskFailed("no rows", hint="try later"),
    GuardrailViolationError(["a is missing", "b is empty"], before_body=True),
    UnmappableObjectError("../x", "it would leave the directory"),
    UnpublishableFileError("a link", path="a", hint="copy it"),
    refused(HEAD),
    HeadMovedError(repository=REPOSITORY, branch=BRANCH, expected=INPUT, actual=HEAD),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_crosses_a_process_border_whole(error: PeragoError) -> None:
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(twin) is type(error)
        assert str(twin) == str(error)
        assert vars(twin) == vars(error)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_is_its_message_to_code_that_knows_no_hints(error: PeragoError) -> None:
    assert error.args == (error.message,)


def test_a_hint_is_shown_below_the_message() -> None:
    assert str(TaskFailed("no rows")) == "no rows"
    assert str(TaskFailed("no rows", hint="try later")) == "no rows\n  hint: try later"


@pytest.mark.parametrize(
    ("before_body", "side", "hint"),
    [(True, "input", "a retry cannot help"), (False, "output", "repair the body")],
)
def test_a_guardrail_error_says_whose_fault_it_is(before_body: bool, side: str, hint: str) -> None:
    error = GuardrailViolationError(["a is missing", "b is empty"], before_body=before_body)
    assert error.message == f"the {side} breaks the task's contract: a is missing; b is empty"
    assert hint in (error.hint or "")
    assert error.violations == ("a is missing", "b is empty")


@pytest.mark.parametrize(("head", "shown"), [(HEAD, "head head"), (None, "head unknown")])
def test_a_refused_publication_names_everything(head: CommitId | None, shown: str) -> None:
    error = refused(head)
    assert error.message == (
        f"cannot publish to flights/main: the branch moved on (input ref input, {shown})"
    )
    assert (error.repository, error.branch, error.input_ref, error.head) == (
        REPOSITORY,
        BRANCH,
        INPUT,
        head,
    )


def test_what_is_not_known_may_still_happen_unless_somebody_says_otherwise() -> None:
    assert OutcomeUnknownError("no answer").may_still_happen
    assert not OutcomeUnknownError("refused", may_still_happen=False).may_still_happen


def test_a_moved_head_says_where_it_is() -> None:
    error = HeadMovedError(repository=REPOSITORY, branch=BRANCH, expected=INPUT, actual=HEAD)
    assert error.message == "the head of flights/main is head, expected input; nothing moved"
    assert (error.expected, error.actual) == (INPUT, HEAD)
