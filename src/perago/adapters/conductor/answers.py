"""Turns what a Conductor server answers, or fails to answer, into Perago's errors: the one table.

Invariant: no exception of an HTTP client leaves the adapter, and none of the errors made here
quotes a credential: they hold the server's own words and what was asked, nothing of the request.
"""

from __future__ import annotations

import json
import ssl
from dataclasses import dataclass

from perago.adapters.conductor.http_connections import NotConnectedError
from perago.adapters.patience import RetryAfter, TransientError
from perago.adapters.tls import speaks_no_tls
from perago.domain.errors import (
    InvalidDefinitionError,
    NotFoundInOrchestratorError,
    OrchestratorAccessError,
    OrchestratorError,
    OrchestratorUnavailableError,
    PeragoError,
)

_SHOWN = 500
_CHECK_URL = "check that the server runs and PERAGO_CONDUCTOR_URL is right; then try again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a call is for, in the words of an error.

    `missing` says what a 404 means here. `is_definition` says that a 400 is about a definition.
    `changes` says that the call may have had an effect although no answer came. `server` is where
    it was sent.
    """

    what: str
    missing: str
    is_definition: bool = False
    changes: bool = False
    server: str = "the server"


def explain_status(
    status: int, body: bytes, asked: Asked, retry_after: str | None = None
) -> PeragoError | TransientError:
    """What to raise for an answer other than a success."""
    said = _message(body)
    match status:
        case 400 | 409 | 422 if asked.is_definition:
            return InvalidDefinitionError(
                f"could not {asked.what}: the server said: {said}",
                hint="change the declaration that it was made from, then register again",
            )
        case 401 | 403:
            return _denied(status, said, asked)
        case 404:
            return NotFoundInOrchestratorError(
                asked.missing, hint="look it up among what the server has; see PERAGO_CONDUCTOR_URL"
            )
        case 413:
            return OrchestratorError(
                f"could not {asked.what}: the server finds it too large",
                hint="write large data to the workspace and report where it is",
            )
        case 429:
            return _may_pass(asked, f"the server asks for fewer calls (429): {said}", retry_after)
        case status if status >= 500 or status == 408:
            return _may_pass(asked, f"the server failed ({status}): {said}", retry_after)
        case _:
            return OrchestratorError(
                f"could not {asked.what}: the server answered {status}: {said}",
                hint="look at the server's answer",
            )


def explain_failure(error: Exception, asked: Asked) -> OrchestratorError | TransientError:
    """What to raise when no answer came."""
    reason = error.__cause__ if isinstance(error, NotConnectedError) else error
    if isinstance(reason, ssl.SSLError) and "certificate" in str(reason).lower():
        return _distrusted(reason, asked)
    if speaks_no_tls(reason):
        return OrchestratorError(
            f"could not {asked.what}: what answers at {asked.server} does not speak TLS",
            hint="write http:// instead of https:// in PERAGO_CONDUCTOR_URL, or name the TLS port",
        )
    if isinstance(error, NotConnectedError) and not isinstance(reason, ssl.SSLError):
        never = OrchestratorUnavailableError(
            f"could not {asked.what}: no Conductor server answers at {asked.server}",
            hint=_CHECK_URL,
        )
        return TransientError(never, RetryAfter(), is_reached=False)
    kind = type(reason).__name__
    return _may_pass(asked, f"the connection to {asked.server} failed ({kind})", None)


def explain_nonsense(asked: Asked, reason: str) -> OrchestratorError:
    """The error for an answer that no Conductor server gives."""
    return OrchestratorError(
        f"could not {asked.what}: the answer of {asked.server} is not one of a Conductor server "
        f"({reason})",
        hint="check PERAGO_CONDUCTOR_URL, and what stands between it and the server",
    )


def _distrusted(error: ssl.SSLError, asked: Asked) -> OrchestratorError:
    # In the library's words: an unknown authority, another host's name and an expired certificate
    # are repaired in different places.
    why = error.verify_message if isinstance(error, ssl.SSLCertVerificationError) else str(error)
    return OrchestratorError(
        f"could not {asked.what}: the certificate of {asked.server} is not trusted "
        f"({why.rstrip('.')})",
        hint="name its certificate authority with PERAGO_CONDUCTOR_CA_FILE, and in "
        "PERAGO_CONDUCTOR_URL the host that it is for",
    )


def _denied(status: int, said: str, asked: Asked) -> OrchestratorAccessError:
    if status == 401:
        return OrchestratorAccessError(
            f"could not {asked.what}: {asked.server} does not know this key, or its secret is "
            "wrong",
            hint="check PERAGO_CONDUCTOR_AUTH_KEY and PERAGO_CONDUCTOR_AUTH_SECRET",
        )
    return OrchestratorAccessError(
        f"could not {asked.what}: {asked.server} forbids it: {said}",
        hint="ask for the permission, or use a key that has it (PERAGO_CONDUCTOR_AUTH_KEY)",
    )


def _may_pass(asked: Asked, reason: str, retry_after: str | None) -> TransientError:
    done = "; it may have been done all the same" if asked.changes else ""
    error = OrchestratorUnavailableError(
        f"could not {asked.what} at {asked.server}: {reason}{done}",
        hint="look at the server; then try again",
    )
    return TransientError(error, RetryAfter(_seconds(retry_after)))


def _message(body: bytes) -> str:
    """The server's words: its JSON message with what its validation found, or the beginning."""
    try:
        found = json.loads(body)
    except ValueError:
        found = None
    text = body.decode("utf-8", "replace")
    if isinstance(found, dict):
        text = str(found.get("message", text))
        details = found.get("validationErrors")
        if isinstance(details, list):
            told = [str(one.get("message")) for one in details if isinstance(one, dict)]
            text = "; ".join(told) or text
    return " ".join(text.split())[:_SHOWN] or "nothing"


def _seconds(retry_after: str | None) -> float | None:
    try:
        return max(0.0, float(retry_after)) if retry_after is not None else None
    except ValueError:  # a date: rare, and the usual wait does as well
        return None
