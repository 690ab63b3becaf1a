"""The one table from a server's answers to Perago's errors."""

from __future__ import annotations

import json
import logging

import pytest
import urllib3.exceptions as http
from lakefs_sdk.exceptions import ApiException, ApiValueError

from perago.adapters.lakefs.answers import Asked, TransientError, raise_for_status, translated
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
    try:
        raise_for_status(status, said(message), asked)
    except TransientError as failure:
        return failure.error
    except PeragoError as error:
        return error
    raise AssertionError("no error")


@pytest.mark.parametrize(
    ("status", "message", "kind"),
    [
        (400, "commit: no changes", NothingChangedError),
        (400, "uncommitted changes (dirty branch)", StoreError),
        (400, "invalid value", StoreError),
        (401, "error authenticating request", StoreAccessError),
        (403, "cannot write to protected branch", StoreAccessError),
        (404, "not found", NotFoundInStoreError),
        (410, "gone", NotFoundInStoreError),
        (409, "branch already exists", AlreadyExistsInStoreError),
        (409, "not unique", AlreadyExistsInStoreError),
        (409, "conflict found", OutcomeUnknownError),
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


def test_a_missing_permission_is_told_from_a_wrong_key() -> None:
    missing = error_for(401, "insufficient permissions: not allowed to fs:CreateBranch")
    assert "fs:CreateBranch" in missing.message
    assert "access key" not in missing.message
    assert "access key" in error_for(401, "error authenticating request").message


def test_tls_that_fails_in_the_sdk_is_told() -> None:
    error = raised(ApiException(status=0, reason="SSLError"), READ)
    assert "TLS" in error.message
    assert "PERAGO_LAKEFS_CA_FILE" in (error.hint or "")


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
    with pytest.raises(StoreError, match="418"):
        raise_for_status(418, body, READ)


def test_a_long_body_is_cut() -> None:
    with pytest.raises(StoreError) as caught:
        raise_for_status(418, b"x" * 100_000, READ)
    assert len(caught.value.message) < 500


@pytest.mark.parametrize(
    ("header", "seconds"), [("7", 7.0), ("-1", 0.0), ("soon", None), (None, None)]
)
def test_the_server_says_how_long_to_wait(header: str | None, seconds: float | None) -> None:
    with pytest.raises(TransientError) as caught:
        raise_for_status(429, b"", READ, header)
    assert caught.value.retry_after.seconds == seconds


def raised(error: Exception, asked: Asked) -> PeragoError:
    try:
        with translated(asked):
            raise error
    except TransientError as failure:
        return failure.error
    except PeragoError as translated_error:
        return translated_error


def test_a_connection_that_was_never_made_did_nothing() -> None:
    for error in (
        http.NewConnectionError(None, "refused"),  # type: ignore[arg-type]
        http.ConnectTimeoutError("slow"),
    ):
        assert type(raised(error, CHANGE)) is StoreUnavailableError


@pytest.mark.parametrize(
    "error",
    [
        http.ReadTimeoutError(None, "url", "slow"),  # type: ignore[arg-type]
        http.ProtocolError("Connection aborted."),
        http.IncompleteRead(1, 2),
    ],
)
def test_a_connection_that_broke_leaves_a_change_unknown(error: http.HTTPError) -> None:
    assert type(raised(error, CHANGE)) is OutcomeUnknownError
    assert type(raised(error, READ)) is StoreUnavailableError


def test_a_certificate_that_is_not_trusted_is_no_passing_failure() -> None:
    error = raised(http.SSLError("self-signed"), READ)
    assert type(error) is StoreError
    assert "PERAGO_LAKEFS_CA_FILE" in (error.hint or "")


def test_the_sdk_s_exceptions_are_translated() -> None:
    refusal = ApiException(status=404, reason="Not Found")
    assert type(raised(refusal, READ)) is NotFoundInStoreError
    assert type(raised(ApiValueError("bad name"), READ)) is StoreError


@pytest.mark.parametrize("error", [ValueError("x"), TypeError("x"), AttributeError("x")])
def test_an_answer_that_is_not_understood_leaves_a_change_unknown(error: Exception) -> None:
    assert type(raised(error, CHANGE)) is OutcomeUnknownError
    assert type(raised(error, READ)) is StoreError


def test_a_bug_of_perago_is_not_disguised() -> None:
    with pytest.raises(ZeroDivisionError), translated(READ):
        raise ZeroDivisionError


def test_no_error_quotes_the_request(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    lost = http.ProtocolError("Connection aborted.", {"Authorization": "Basic c2VjcmV0"})
    error = raised(lost, CHANGE)
    assert "c2VjcmV0" not in f"{error!r} {error} {error.__cause__!r} {caplog.text}"
    assert error.__suppress_context__ or error.__context__ is None
