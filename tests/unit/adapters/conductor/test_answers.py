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

ASKED = Asked(what="look at task t1", missing="there is no task 't1'", server="http://c:8080")
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
        (404, NotFoundInOrchestratorError),
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
