"""Turns what a Conductor server answers, or fails to answer, into Perago's errors: the one table.

Invariant: no exception of an HTTP client leaves the adapter, and none of the errors made here
quotes a credential: they hold the server's own words and what was asked, nothing of the request.
"""

from __future__ import annotations

import re
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
from perago.domain.json_limits import read_json
from perago.domain.outcome import JsonObject, JsonValue

_SHOWN = 500
_UNSERVED = ("No static resource", "No endpoint", "No handler")
"""How Spring's words for a path without a handler begin."""
_CHECK_URL = "check that the server runs and PERAGO_CONDUCTOR_URL is right; then try again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a call is for, in the words of an error.

    `names` are the ids and names that it asks for, one of which a server quotes when it has no such
    thing; `missing` says so in our words. `may_be_unserved` says that a server may do without the
    path itself. `is_definition` says that a 400 is about a definition.
    `changes` says that the call may have had an effect although no answer came. `server` is where
    it was sent.
    """

    what: str
    missing: str = "there is no such thing"
    names: tuple[str, ...] = ()
    may_be_unserved: bool = False
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
        case 404 if _says_missing(body, asked):
            return NotFoundInOrchestratorError(
                asked.missing, hint="look it up among what the server has; see PERAGO_CONDUCTOR_URL"
            )
        case 404 if asked.names or asked.may_be_unserved:
            # An ingress without a route, or a server that is being replaced: what was asked for
            # may well be there, and whoever believes that it is gone drops work.
            return _may_pass(asked, f"it answered 404, not as a Conductor server: {said}", None)
        case 404:
            # Nothing can be lost by believing it, and a wrong address should be told at once.
            return OrchestratorError(
                f"could not {asked.what}: {asked.server} does not serve that path (404): {said}",
                hint=_CHECK_URL,
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


def _says_missing(body: bytes, asked: Asked) -> bool:
    """Whether Conductor itself says that it has none of what was asked for.

    Its answer is `{"status": 404, "message": "No such workflow found by id: …", …}`. Spring's for a
    path that is not served has the same shape, and quotes the path with the id in it.
    """
    found = _json_object(body)
    message = found.get("message")
    if found.get("status") != 404 or not isinstance(message, str):
        return False
    if message.startswith(_UNSERVED):
        return asked.may_be_unserved
    return any(_quotes(message, name) for name in asked.names)


def _quotes(message: str, name: str) -> bool:
    """Whether a name is in a message as a word of its own, neither cut out of one nor of a path."""
    pattern = rf"(?<![\w./-]){re.escape(name)}(?!\.?[\w/-])"
    return bool(name) and re.search(pattern, message) is not None


def quote_words(said: JsonValue) -> str:
    """What a server says where a text is expected, whatever it is."""
    if not isinstance(said, str):
        return f"({type(said).__name__})"  # printing it might not end
    return said.encode("utf-8", "backslashreplace").decode()


def _json_object(body: bytes) -> JsonObject:
    try:
        found = read_json(body)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _message(body: bytes) -> str:
    """The server's words: its JSON message with what its validation found, or the beginning."""
    found = _json_object(body)
    text = quote_words(found["message"]) if "message" in found else body.decode("utf-8", "replace")
    details = found.get("validationErrors")
    if isinstance(details, list):
        told = [quote_words(one.get("message")) for one in details if isinstance(one, dict)]
        text = "; ".join(told) or text
    return " ".join(text.split())[:_SHOWN] or "nothing"


def _seconds(retry_after: str | None) -> float | None:
    try:
        return max(0.0, float(retry_after)) if retry_after is not None else None
    except ValueError:  # a date: rare, and the usual wait does as well
        return None
