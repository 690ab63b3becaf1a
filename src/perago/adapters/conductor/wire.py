"""Sends single HTTP requests to one Conductor server, on connections that are kept.

Invariant: one call here is at most one request that the server acts on; no redirect is followed and
nothing is sent again, but for a request that was refused because of its token.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from http.client import HTTPException
from urllib.parse import quote, urlencode, urlsplit

from perago.adapters.conductor.answers import (
    Asked,
    explain_failure,
    explain_nonsense,
    explain_status,
)
from perago.adapters.conductor.connection import ConductorConnection
from perago.adapters.conductor.http_connections import (
    AnswerTooLargeError,
    HttpAnswer,
    HttpConnections,
    NotConnectedError,
)
from perago.adapters.conductor.tokens import TokenSource, is_token_refused
from perago.domain.errors import NotFoundInOrchestratorError, SettingsError
from perago.domain.json_limits import read_json
from perago.domain.outcome import JsonValue

_CONNECT_SECONDS = 10.0
_CONNECTIONS = 16
_TOKEN = Asked(
    what="log in",
    missing="this Conductor server has no log-in: it wants no key",
    may_be_unserved=True,
)

_TOKEN_CHARACTERS = re.compile(r"[\x21-\x7e]+")

Query = Mapping[str, str | int]


class Wire:
    """The connections to one server; safe to use from many threads."""

    def __init__(self, connection: ConductorConnection) -> None:
        parts = urlsplit(connection.api_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise SettingsError(
                "the address of the Conductor server is not an http:// or https:// URL",
                hint="set PERAGO_CONDUCTOR_URL to something like http://localhost:8080",
            )
        self.server = f"{parts.scheme}://{parts.hostname}" + (
            f":{parts.port}" if parts.port else ""
        )
        self._base = parts.path
        self._timeout_seconds = connection.timeout_seconds
        self._connections = HttpConnections(
            parts.hostname,
            parts.port,
            tls=parts.scheme == "https",
            ca_file=connection.ca_file,
            most_idle=_CONNECTIONS,
        )
        self._tokens: TokenSource | None = None
        if connection.auth_key is not None and connection.auth_secret is not None:
            credentials = {"keyId": connection.auth_key, "keySecret": connection.auth_secret}
            self._tokens = TokenSource(lambda: self._log_in(json.dumps(credentials).encode()))

    def send(
        self,
        method: str,
        path: str,
        asked: Asked,
        *,
        query: Query | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
        wait_seconds: float = 0.0,
    ) -> bytes:
        """The body of the answer to one request; `wait_seconds` is what the server may take on
        purpose. What may pass is raised as `TransientError`.
        """
        asked = replace(asked, server=self.server)
        target = f"{self._base}{path}" + (f"?{urlencode(query, errors='replace')}" if query else "")
        headers = {"Accept": "*/*"}
        if body is not None:
            headers["Content-Type"] = content_type
        token = self._tokens.current() if self._tokens else None
        answer = self._exchange(method, target, asked, headers, token, body, wait_seconds)
        if self._tokens and token and is_token_refused(answer.status, answer.data):
            # Refused before anything was done: even what must not be repeated may be sent again.
            token = self._tokens.renew(token)
            answer = self._exchange(method, target, asked, headers, token, body, wait_seconds)
        if not 200 <= answer.status < 300:
            wait = answer.headers.get("Retry-After")
            raise explain_status(answer.status, answer.data, asked, wait)
        return answer.data

    def close(self) -> None:
        """Give the connections back."""
        self._connections.close()

    def _log_in(self, credentials: bytes) -> str:
        asked = replace(_TOKEN, server=self.server)
        headers = {"Accept": "*/*", "Content-Type": "application/json"}
        target = f"{self._base}/token"
        answer = self._exchange("POST", target, asked, headers, None, credentials, 0.0)
        if answer.status != 200:
            error = explain_status(answer.status, answer.data, asked)
            if isinstance(error, NotFoundInOrchestratorError):
                raise error
            # Without the server's words: it might quote what it was sent.
            raise explain_status(answer.status, b"", asked)
        found = parse_json(answer.data, asked)
        token = found.get("token") if isinstance(found, dict) else None
        # It becomes a header, and nothing may come after it there.
        if not isinstance(token, str) or not _TOKEN_CHARACTERS.fullmatch(token):
            raise explain_nonsense(asked, "no token")
        return token

    def _exchange(
        self,
        method: str,
        target: str,
        asked: Asked,
        headers: dict[str, str],
        token: str | None,
        body: bytes | None,
        wait_seconds: float,
    ) -> HttpAnswer:
        if token is not None:
            headers = headers | {"X-Authorization": token}
        try:
            return self._connections.exchange(
                method,
                target,
                headers,
                body,
                connect_seconds=min(_CONNECT_SECONDS, self._timeout_seconds),
                read_seconds=self._timeout_seconds + wait_seconds,
            )
        except AnswerTooLargeError as error:
            raise explain_nonsense(asked, str(error)) from None
        except (NotConnectedError, HTTPException, OSError) as error:
            # `from None`: nothing of the request is to be seen in a traceback.
            raise explain_failure(error, asked) from None


def quote_path(part: str) -> str:
    """One part of a path; what is no text, such as a file name in an argument, finds nothing."""
    return quote(part, safe="", errors="replace")


def parse_json(data: bytes, asked: Asked) -> JsonValue:
    """The answer as JSON, of which parts may be unusable; an empty one is None."""
    try:
        return read_json(data) if data else None
    except ValueError as error:
        raise explain_nonsense(asked, str(error)) from None
