"""Turns what a lakeFS server answers, or fails to answer, into Perago's errors: the one table.

Invariant: no exception of an HTTP client leaves the adapter, and none of the errors
made here quotes a credential: they hold the server's own words and what was asked, nothing of the
request's headers.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException

from perago.adapters.patience import RetryAfter, TransientError
from perago.domain.errors import (
    AlreadyExistsInStoreError,
    CorruptStoreError,
    NotFoundInStoreError,
    NothingChangedError,
    OutcomeUnknownError,
    PeragoError,
    StoreAccessError,
    StoreError,
    StoreUnavailableError,
)

_SHOWN = 300
_REACH_BLOCK_STORE = (
    "see that this host reaches the block store and that the clocks are right, or turn "
    "lakefs_presign off"
)


class NotConnectedError(OSError):
    """No connection was made, so nothing was sent."""


class NotTrustedError(OSError):
    """No TLS was agreed on, or with somebody else, so nothing was sent; no second try helps."""


_UNREADABLE = (
    *(ValueError, TypeError, AttributeError, LookupError, OverflowError),
    RecursionError,  # JSON that is nested too deeply
)
"""What reading an answer raises where it is not what it should be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a call is for, in the words of an error.

    `missing` says what a 404 means here; `finds_server` that nothing but the server itself can be
    missing, so that any 404 means it. `changes` tells a call that may have an effect from one
    that only reads: only the former can have an unknown outcome. `creates` says that it may find
    what it is to make. `block_store` says that it is asked of the block store behind the lakeFS
    server, at an address that the server signed.
    `endpoint` is where the lakeFS server should be, once somebody who knows that sends the call.
    """

    what: str
    missing: str
    finds_server: bool = False
    changes: bool = False
    creates: bool = False
    block_store: bool = False
    endpoint: str | None = None


def damaged(error: CorruptStoreError) -> TransientError:
    """What arrived is not what was sent. The network may have done it; a disk does it again."""
    return TransientError(error, RetryAfter(), tries=3)


@contextmanager
def translated(asked: Asked) -> Iterator[None]:
    """Translate whatever the block's one call raises; what may pass becomes `TransientError`."""
    try:
        yield
    except (HTTPException, OSError) as error:
        # `from None`: nothing of the request is to be seen in a traceback.
        raise _lost(error, asked) from None
    except _UNREADABLE as error:
        # What was read is an answer that is not lakeFS's: a proxy's page, another server's.
        raise explain_nonsense(asked, type(error).__name__) from None


def explain_status(
    status: int, body: bytes, asked: Asked, retry_after: str | None = None
) -> PeragoError | TransientError:
    """What to raise for an answer other than a success."""
    said = _message(body)
    match status:
        case 400 if "no changes" in said:
            return NothingChangedError(f"could not {asked.what}: there is nothing to change")
        case 400 | 422:
            return StoreError(
                f"could not {asked.what}: the server said: {said}", hint=_hint_for(said)
            )
        case 401 | 403:
            return _denied(status, said, asked)
        case 404 | 410 if asked.finds_server or not body or _own_message(body) is not None:
            return _missing(status, asked)
        case 409 if asked.creates and ("exists" in said or "not unique" in said):
            return AlreadyExistsInStoreError(f"could not {asked.what}: there is one already")
        case 409 | 412:
            # A conflict, or a hook that refused: whether anything happened is for a read to tell.
            return OutcomeUnknownError(
                f"could not {asked.what}: the server said: {said}", may_still_happen=False
            )
        case status if status < 200:
            # "Go on waiting": nothing is known of what was asked for.
            return TransientError(_unclear(asked, f"the server said {status}"), RetryAfter())
        case 429:
            return TransientError(
                _unclear(asked, "the server asks for fewer calls (429)", may_still_happen=False),
                RetryAfter(_seconds(retry_after)),
            )
        case status if status >= 500 or status in (404, 408, 410):
            # It may be what stands before the server that gave up, or has no way to it: the server
            # itself need not have, and what was asked for, or published, may well be there.
            failed = "failed" if status not in (404, 410) else "does not answer as lakeFS"
            return TransientError(
                _unclear(asked, f"the server {failed} ({status}): {said}"),
                RetryAfter(_seconds(retry_after)),
            )
        case _:
            return StoreError(f"could not {asked.what}: unexpected answer {status}: {said}")


def explain_nonsense(asked: Asked, reason: str) -> StoreError:
    """The error for an answer that no lakeFS server gives."""
    said = f"could not {asked.what}: the answer is not one of a lakeFS server ({reason})"
    hint = "check PERAGO_LAKEFS_ENDPOINT, and what stands between it and the server"
    return OutcomeUnknownError(said, hint=hint) if asked.changes else StoreError(said, hint=hint)


def _untrusted(asked: Asked) -> StoreError:
    return StoreError(
        f"could not {asked.what}: the server does not speak TLS, or its certificate is not trusted",
        hint="check http:// or https:// in PERAGO_LAKEFS_ENDPOINT, or name the certificate "
        "authority with PERAGO_LAKEFS_CA_FILE",
    )


def _denied(status: int, said: str, asked: Asked) -> StoreAccessError:
    if asked.block_store:
        return StoreAccessError(
            f"could not {asked.what}: the block store forbids it: {said}", hint=_REACH_BLOCK_STORE
        )
    # A missing permission is a 401 on lakeFS too.
    if status == 401 and "insufficient permissions" not in said:
        return StoreAccessError(
            f"could not {asked.what}: the server does not know this access key, or its secret is "
            "wrong",
            hint="check PERAGO_LAKEFS_ACCESS_KEY_ID and PERAGO_LAKEFS_SECRET_ACCESS_KEY; "
            "`perago doctor` shows where they come from",
        )
    return StoreAccessError(
        f"could not {asked.what}: the server forbids it: {said}",
        hint="the branch may be protected, the repository read-only, or a permission missing: "
        "`perago doctor` tells which, docs/how-to/lakefs.md what is needed",
    )


def _missing(status: int, asked: Asked) -> NotFoundInStoreError:
    if status == 410:
        return NotFoundInStoreError(
            f"{asked.missing}: its data is gone",
            hint="lakeFS garbage collection may have removed it: start from a newer commit",
        )
    return NotFoundInStoreError(
        asked.missing, hint="`perago store repos`, `branches` and `log` show what there is"
    )


def _lost(error: Exception, asked: Asked) -> PeragoError | TransientError:
    match error:
        case NotTrustedError():
            return _untrusted(asked)
        case ssl.SSLError():
            # One that Python code raised, rather than OpenSSL, has no reason.
            reason = getattr(error, "reason", None) or type(error).__name__
            said = f"the encrypted connection failed ({reason})"
            return TransientError(_unclear(asked, said), RetryAfter())
        case NotConnectedError():
            return TransientError(_unreachable(asked), RetryAfter(), is_reached=False)
        case _:
            said = f"the connection failed ({type(error).__name__})"
            return TransientError(_unclear(asked, said), RetryAfter())


def _unreachable(asked: Asked) -> StoreUnavailableError:
    if asked.block_store:
        return StoreUnavailableError(
            f"could not {asked.what}: its block store does not answer", hint=_REACH_BLOCK_STORE
        )
    return StoreUnavailableError(
        f"could not {asked.what}: no lakeFS server answers at {asked.endpoint or 'the endpoint'}",
        hint="check that the server runs and PERAGO_LAKEFS_ENDPOINT is right; then try again",
    )


def _unclear(asked: Asked, reason: str, *, may_still_happen: bool = True) -> StoreError:
    """A failure after the request may have arrived."""
    if asked.changes:
        return OutcomeUnknownError(
            f"could not {asked.what}: {reason}; it may have been done",
            hint="read the branch before doing anything else",
            may_still_happen=may_still_happen,
        )
    return StoreUnavailableError(
        f"could not {asked.what}: {reason}", hint="look at the server; then try again"
    )


def _hint_for(said: str) -> str:
    if "dirty branch" in said or "uncommitted" in said:
        return (
            "somebody wrote to the branch without committing: commit or reset that by hand, then "
            "start again"
        )
    return "look at the server's answer"


def _message(body: bytes) -> str:
    """The server's words: its JSON message, or the beginning of whatever it sent."""
    said = _own_message(body)
    text = said if said is not None else body.decode("utf-8", "replace")
    return " ".join(text.split())[:_SHOWN] or "nothing"


def _own_message(body: bytes) -> str | None:
    """The message of an error in lakeFS's form; None where it has another one."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return None
    said = found.get("message") if isinstance(found, dict) else None
    return said if isinstance(said, str) else None


def _seconds(retry_after: str | None) -> float | None:
    try:
        return max(0.0, float(retry_after)) if retry_after is not None else None
    except ValueError:  # a date: rare, and the usual wait does as well
        return None
