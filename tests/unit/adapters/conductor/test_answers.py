"""Each answer, and each way to give none, as one of Perago's errors."""

from __future__ import annotations

import json
import ssl
from http.client import RemoteDisconnected

import pytest

from perago.adapters.conductor.answers import Asked, explain_failure, explain_status
from perago.adapters.conductor.http_connections import NotConnectedError
from perago.adapters.patience import TransientError
from perago.domain.errors import (
    InvalidDefinitionError,
    NotFoundInOrchestratorError,
    OrchestratorAccessError,
    OrchestratorError,
    OrchestratorUnavailableError,
    PeragoError,
)

ASKED = Asked(
    what="look at task t1",
    missing="there is no task 't1'",
    names=("t1",),
    server="http://c:8080",
)
DEFINITION = Asked(what="register task 'x'", missing="-", is_definition=True)


def not_connected(why: OSError) -> NotConnectedError:
    error = NotConnectedError()
    error.__cause__ = why
    return error


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, OrchestratorError),
        (401, OrchestratorAccessError),
        (403, OrchestratorAccessError),
        (409, OrchestratorError),
        (413, OrchestratorError),
        (302, OrchestratorError),
    ],
)
def test_a_refusal_is_final(status: int, kind: type[PeragoError]) -> None:
    error = explain_status(status, b'{"message": "no"}', ASKED)
    assert type(error) is kind
    assert error.hint


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_a_failing_server_may_recover(status: int) -> None:
    error = explain_status(status, b"<html>gateway</html>", ASKED, "3")
    assert isinstance(error, TransientError)
    assert isinstance(error.error, OrchestratorUnavailableError)
    assert "http://c:8080" in error.error.message
    assert error.retry_after.seconds == 3


def own_404(message: str) -> bytes:
    """The shape in which Conductor 3.32.1 answers."""
    found = {"status": 404, "message": message, "instance": "vm", "retryable": False}
    return json.dumps(found).encode()


@pytest.mark.parametrize(
    "message",
    [
        "Task not found for taskId: t1",
        "No such workflow found by id: t1",
        "Workflow with id: t1 not found.",
        "There is no 't1'.",
        "Found nothing at t1.",
    ],
)
def test_what_conductor_itself_says_is_missing_is_gone(message: str) -> None:
    error = explain_status(404, own_404(message), ASKED)
    assert isinstance(error, NotFoundInOrchestratorError)
    assert error.message == "there is no task 't1'"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>404 Not Found: /api/tasks/t1</html>",
        b"default backend - 404",
        b'{"message":"no Route matched with those values"}',
        b'{"timestamp":"2026-11-19","status":404,"error":"Not Found","path":"/api/tasks/t1"}',
        b'{"code":404,"status":"Failure","message":"t1"}',
        b'[404, "t1"]',
        b'{"status":404,"message":["t1"]}',
        own_404("No static resource api/tasks/t1."),
        own_404("No static resource api/workflow/t1."),
        own_404("No static resource t1."),
        own_404("No endpoint GET /api/tasks/t1."),
        own_404("no Route matched with api/tasks/t1"),
        own_404("no such host: t1.example"),
        own_404("Task not found for taskId: t10"),
        own_404("Task not found for taskId: t1-2"),
        own_404("Task not found for taskId: not-t1"),
        b'{"status":404,"message":' + b"[" * 5000,
    ],
)
def test_any_other_404_is_no_news_of_the_task(body: bytes) -> None:
    error = explain_status(404, body, ASKED)
    assert isinstance(error, TransientError)
    assert isinstance(error.error, OrchestratorUnavailableError)
    assert "404" in error.error.message


def test_spring_s_words_for_a_path_do_not_say_that_its_workflow_is_gone() -> None:
    asked = Asked(what="report task t-1", missing="-", names=("t-1", "w-1"))
    error = explain_status(404, own_404("No static resource api/workflow/w-1."), asked)
    assert isinstance(error, TransientError)


@pytest.mark.parametrize("body", [b"<html>404</html>", own_404("No static resource wrong/tasks.")])
def test_a_404_where_nothing_can_be_missing_is_a_wrong_address(body: bytes) -> None:
    error = explain_status(404, body, Asked(what="list the workflows", server="http://c:8080"))
    assert type(error) is OrchestratorError
    assert "http://c:8080" in error.message
    assert "PERAGO_CONDUCTOR_URL" in (error.hint or "")


def test_a_server_without_a_path_that_it_may_lack_has_none() -> None:
    asked = Asked(what="log in", missing="this server has no log-in", may_be_unserved=True)
    error = explain_status(404, own_404("No static resource api/token."), asked)
    assert isinstance(error, NotFoundInOrchestratorError)
    assert error.message == "this server has no log-in"
    assert isinstance(explain_status(404, b"<html>404</html>", asked), TransientError)


def test_a_message_that_is_no_text_is_quoted_by_its_kind() -> None:
    body = b'{"message":' + b"[" * 900 + b"]" * 900 + b"}"
    error = explain_status(400, body, ASKED)
    assert isinstance(error, OrchestratorError)
    assert "(list)" in error.message


def test_a_bad_definition_is_named_in_the_server_s_words() -> None:
    body = {
        "message": "Validation failed, check below errors for detail.",
        "validationErrors": [{"path": "a", "message": "taskReferenceName: x should be unique"}],
    }
    error = explain_status(400, json.dumps(body).encode(), DEFINITION)
    assert isinstance(error, InvalidDefinitionError)
    assert "x should be unique" in error.message


@pytest.mark.parametrize(
    ("failure", "is_reached"),
    [
        (not_connected(ConnectionRefusedError("refused")), False),
        (not_connected(TimeoutError("late")), False),
        (not_connected(ssl.SSLEOFError("cut")), True),
        (TimeoutError("/secret"), True),
        (RemoteDisconnected("cut"), True),
        (ConnectionResetError(), True),
    ],
)
def test_no_answer_names_the_server_and_nothing_of_the_request(
    failure: Exception, *, is_reached: bool
) -> None:
    error = explain_failure(failure, ASKED)
    assert isinstance(error, TransientError)
    assert error.is_reached is is_reached
    assert isinstance(error.error, OrchestratorUnavailableError)
    assert "http://c:8080" in error.error.message
    assert "secret" not in str(error.error)


def test_a_change_without_an_answer_may_have_been_made() -> None:
    asked = Asked(what="start workflow 'w'", missing="-", changes=True)
    error = explain_failure(RemoteDisconnected("cut"), asked)
    assert isinstance(error, TransientError)
    assert "may have been done" in error.error.message


def test_an_untrusted_certificate_is_final() -> None:
    error = explain_failure(not_connected(ssl.SSLError("certificate verify failed")), ASKED)
    assert isinstance(error, OrchestratorError)
    assert error.hint
    assert "CA_FILE" in error.hint
