"""The one table from a server's answers to Perago's errors."""

from __future__ import annotations

import json
import logging
import ssl
from dataclasses import replace
from http.client import HTTPException, IncompleteRead, RemoteDisconnected

import pytest

from perago.adapters.lakefs.answers import (
    Asked,
    NotConnectedError,
    NotTrustedError,
    explain_status,
    translated,
)
from perago.adapters.patience import TransientError
from perago.domain.errors import (
    AlreadyExistsInStoreError,
    NotFoundInStoreError,
    NothingChangedError,
    OutcomeUnknownError,
    PeragoError,
    StoreAccessError,
    StoreError,
    StoreUnavailableError,
)

READ = Asked(what="read the head of flights/main", missing="no branch 'main'")
CHANGE = Asked(what="merge 'staging' into flights/main", missing="no branch", changes=True)


def said(message: str) -> bytes:
    return json.dumps({"message": message}).encode()


def error_for(status: int, message: str = "why not", asked: Asked = CHANGE) -> PeragoError:
    error = explain_status(status, said(message), asked)
    return error.error if isinstance(error, TransientError) else error


@pytest.mark.parametrize(
    ("status", "message", "kind"),
    [
        (102, "wait", OutcomeUnknownError),
        (400, "commit: no changes", NothingChangedError),
        (400, "uncommitted changes (dirty branch)", StoreError),
        (400, "invalid value", StoreError),
        (401, "error authenticating request", StoreAccessError),
        (403, "cannot write to protected branch", StoreAccessError),
        (404, "not found", NotFoundInStoreError),
        (410, "gone", NotFoundInStoreError),
        (408, "too slow", OutcomeUnknownError),
        (409, "conflict found", OutcomeUnknownError),
        (409, "what it is about exists", OutcomeUnknownError),
        (412, "hook failed", OutcomeUnknownError),
        (418, "teapot", StoreError),
        (429, "too many", OutcomeUnknownError),
        (500, "oops", OutcomeUnknownError),
        (503, "", OutcomeUnknownError),
    ],
)
def test_an_answer_to_a_change_becomes(status: int, message: str, kind: type[StoreError]) -> None:
    error = error_for(status, message)
    assert type(error) is kind
    assert CHANGE.what in error.message or CHANGE.missing in error.message


@pytest.mark.parametrize("status", [404, 410])
@pytest.mark.parametrize(
    "body",
    [
        b"<html>404 Not Found</html>",
        b"default backend - 404",
        b'{"message": ["flights"]}',
        b'{"error": "no route"}',
        b'["message"]',
        b"[" * 5000,
    ],
    ids=lambda body: body[:20],
)
def test_a_404_in_other_words_than_lakefs_s_is_no_news_of_what_was_asked_for(
    status: int, body: bytes
) -> None:
    read, change = (explain_status(status, body, asked, "3") for asked in (READ, CHANGE))
    assert isinstance(read, TransientError)
    assert isinstance(change, TransientError)
    assert read.retry_after.seconds == 3
    assert type(read.error) is StoreUnavailableError
    assert type(change.error) is OutcomeUnknownError
    assert str(status) in read.error.message


def test_a_404_without_words_is_that_of_a_head() -> None:
    assert type(explain_status(404, b"", READ)) is NotFoundInStoreError


def test_where_only_the_server_can_be_missing_every_404_says_so() -> None:
    asked = Asked(what="list", missing="that is no lakeFS server", finds_server=True)
    error = explain_status(404, b"<html>404</html>", asked)
    assert type(error) is NotFoundInStoreError
    assert error.message == "that is no lakeFS server"


@pytest.mark.parametrize("message", ["branch already exists", "not unique"])
def test_what_is_to_be_created_may_be_there(message: str) -> None:
    creation = Asked(what="create a branch", missing="no source", changes=True, creates=True)
    assert type(error_for(409, message, creation)) is AlreadyExistsInStoreError


@pytest.mark.parametrize(
    ("status", "may_still_happen"),
    [(408, True), (409, False), (412, False), (429, False), (500, True), (502, True), (504, True)],
)
def test_only_the_server_itself_can_say_that_it_is_over(
    status: int, may_still_happen: bool
) -> None:
    error = error_for(status)
    assert isinstance(error, OutcomeUnknownError)
    assert error.may_still_happen is may_still_happen


def test_a_missing_permission_is_told_from_a_wrong_key() -> None:
    missing = error_for(401, "insufficient permissions: not allowed to fs:CreateBranch")
    assert "fs:CreateBranch" in missing.message
    assert "access key" not in missing.message
    assert "access key" in error_for(401, "error authenticating request").message


def tls_error(reason: str, kind: type[ssl.SSLError] = ssl.SSLError) -> ssl.SSLError:
    error = kind(1, f"[SSL: {reason}] text")
    error.reason = reason
    return error


CUT_OFF = tls_error("UNEXPECTED_EOF_WHILE_READING", ssl.SSLEOFError)


@pytest.mark.parametrize("asked", [READ, CHANGE])
def test_a_server_that_is_not_trusted_is_told(asked: Asked) -> None:
    told = raised(NotTrustedError("certificate verify failed"), asked)
    assert type(told) is StoreError
    assert "TLS" in told.message
    assert "PERAGO_LAKEFS_CA_FILE" in (told.hint or "")


@pytest.mark.parametrize(
    "error",
    [
        CUT_OFF,
        tls_error("DECRYPTION_FAILED_OR_BAD_RECORD_MAC"),
        # A proxy that answers in clear, after it took the request.
        tls_error("WRONG_VERSION_NUMBER"),
    ],
)
def test_tls_that_breaks_later_says_nothing_of_what_was_sent(error: ssl.SSLError) -> None:
    assert type(raised(error, READ)) is StoreUnavailableError
    assert type(raised(error, CHANGE)) is OutcomeUnknownError


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_a_failed_read_did_nothing(status: int) -> None:
    assert type(error_for(status, asked=READ)) is StoreUnavailableError


@pytest.mark.parametrize("status", [401, 403, 404, 410, 400, 429, 500])
def test_every_error_says_what_to_do(status: int) -> None:
    for asked in (READ, CHANGE):
        assert error_for(status, asked=asked).hint


def test_a_dirty_branch_is_explained() -> None:
    hint = error_for(400, "uncommitted changes (dirty branch)").hint
    assert hint is not None
    assert "without committing" in hint


@pytest.mark.parametrize(
    "body", [b"", b"<html>bad\n gateway</html>", b"[]", b'{"message": 3}', b"\xff\xfe", b"null"]
)
def test_any_body_can_be_shown(body: bytes) -> None:
    error = explain_status(418, body, READ)
    assert isinstance(error, StoreError)
    assert "418" in error.message


def test_a_long_body_is_cut() -> None:
    error = explain_status(418, b"x" * 100_000, READ)
    assert isinstance(error, StoreError)
    assert len(error.message) < 500


@pytest.mark.parametrize(
    ("header", "seconds"), [("7", 7.0), ("-1", 0.0), ("soon", None), (None, None)]
)
def test_the_server_says_how_long_to_wait(header: str | None, seconds: float | None) -> None:
    error = explain_status(429, b"", READ, header)
    assert isinstance(error, TransientError)
    assert error.retry_after.seconds == seconds


def raised(error: Exception, asked: Asked) -> PeragoError:
    try:
        with translated(asked):
            raise error
    except TransientError as failure:
        return failure.error
    except PeragoError as translated_error:
        return translated_error


def test_a_connection_that_was_never_made_did_nothing() -> None:
    assert type(raised(NotConnectedError("refused"), CHANGE)) is StoreUnavailableError


def test_a_server_that_does_not_answer_is_named() -> None:
    asked = replace(READ, endpoint="http://127.0.0.1:9")
    error = raised(NotConnectedError("refused"), asked)

    assert error.message.endswith("no lakeFS server answers at http://127.0.0.1:9")


@pytest.mark.parametrize(
    "error",
    [
        TimeoutError("slow"),
        ConnectionResetError("reset"),
        RemoteDisconnected("Remote end closed connection without response"),
        IncompleteRead(b"", 2),
    ],
)
def test_a_connection_that_broke_leaves_a_change_unknown(error: Exception) -> None:
    assert type(raised(error, CHANGE)) is OutcomeUnknownError
    assert type(raised(error, READ)) is StoreUnavailableError


@pytest.mark.parametrize("error", [ValueError("x"), TypeError("x"), AttributeError("x")])
def test_an_answer_that_is_not_understood_leaves_a_change_unknown(error: Exception) -> None:
    assert type(raised(error, CHANGE)) is OutcomeUnknownError
    assert type(raised(error, READ)) is StoreError


def test_a_bug_of_perago_is_not_disguised() -> None:
    with pytest.raises(ZeroDivisionError), translated(READ):
        raise ZeroDivisionError


def test_no_error_quotes_the_request(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    lost = HTTPException("Connection aborted.", {"Authorization": "Basic c2VjcmV0"})
    error = raised(lost, CHANGE)
    assert "c2VjcmV0" not in f"{error!r} {error} {error.__cause__!r} {caplog.text}"
    assert error.__suppress_context__ or error.__context__ is None
