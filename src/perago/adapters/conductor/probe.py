"""All checks of a Conductor server, in order; it is only read, never written.

Invariant: a server that does not answer is found at once: nothing is tried again for long.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime
from email.utils import parsedate_to_datetime
from http.client import HTTPException
from urllib.parse import urlsplit

from perago.adapters.conductor.answers import Asked, explain_failure
from perago.adapters.conductor.connection import ConductorConnection
from perago.adapters.conductor.http_connections import HttpConnections, NotConnectedError
from perago.adapters.conductor.orchestrator import ConductorOrchestrator
from perago.adapters.patience import once
from perago.app.diagnosis import (
    TESTED_CONDUCTOR,
    Check,
    examine,
    failed,
    judge_clock,
    judge_version,
    passed,
    skipped,
    warned,
)
from perago.domain.errors import OrchestratorAccessError

_TIMES = 3
_LONGEST_SECONDS = 10.0
_PATIENCE_SECONDS = 3.0
_HALF_A_SECOND = 0.5
"""A date in a header has its fraction cut off."""
_CHECK_KEYS = "check PERAGO_CONDUCTOR_AUTH_KEY and PERAGO_CONDUCTOR_AUTH_SECRET"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """One answer of the server to the question for its version."""

    status: int
    text: str
    seconds: float
    asked_at: float
    date: str | None


def probe_conductor(connection: ConductorConnection) -> Iterator[Check]:
    """Reach the server, and see what it is and whether it knows us."""
    patience = min(connection.retry_seconds, _PATIENCE_SECONDS)
    server = _ServerCheck(replace(connection, retry_seconds=patience))
    reached = examine("orchestrator", server.reach)
    yield reached
    if reached.is_problem:
        yield skipped("conductor", "everything else about it")
        return
    yield examine("conductor time", server.compare_clocks)
    yield examine("conductor auth", server.ask_as_us)
    yield examine("conductor", server.judge)


class _ServerCheck:
    def __init__(self, connection: ConductorConnection) -> None:
        self._connection = connection
        self._quickest: _Answer | None = None

    def reach(self) -> Check:
        """Ask a few times; the quickest answer says most about the clocks."""
        answers = [once(self._ask) for _ in range(_TIMES)]
        self._quickest = quickest = min(answers, key=lambda answer: answer.seconds)
        url = self._connection.api_url
        return passed(
            "orchestrator", f"Conductor at {url} answers in {quickest.seconds * 1000:.0f} ms"
        )

    def compare_clocks(self) -> Check:
        """By the date of its answer: its time-outs are counted on its clock."""
        answer = self._quickest
        said = _parse_date(answer.date) if answer is not None and answer.date else None
        if answer is None or said is None:
            advice = "compare the clocks by hand"
            return warned("conductor time", "the server does not say what time it is", advice)
        here = answer.asked_at + answer.seconds / 2
        return judge_clock("conductor time", said.timestamp() + _HALF_A_SECOND - here)

    def ask_as_us(self) -> Check:
        """Make one real question, with the credentials if there are any."""
        has_key = self._connection.auth_key is not None
        with ConductorOrchestrator(self._connection) as orchestrator:
            try:
                orchestrator.workflow_ids(limit=1)
            except OrchestratorAccessError as error:
                return failed("conductor auth", error.message, _CHECK_KEYS)
        found = "the key is accepted" if has_key else "none set, and the server wants none"
        return passed("conductor auth", found)

    def judge(self) -> Check:
        """Its version, if it says one."""
        answer = self._quickest
        version = answer.text if answer is not None and answer.status == 200 else None
        return judge_version("conductor", version, product="Conductor", tested=TESTED_CONDUCTOR)

    def _ask(self) -> _Answer:
        connection = self._connection
        asked = Asked(what="reach the server", server=connection.url.rstrip("/"))
        parts = urlsplit(connection.api_url)
        server = HttpConnections(
            parts.hostname or "",
            parts.port,
            tls=parts.scheme == "https",
            ca_file=connection.ca_file,
            most_idle=1,
        )
        seconds = min(connection.timeout_seconds, _LONGEST_SECONDS)
        at, before = time.time(), time.perf_counter()
        with closing(server):
            try:
                answer = server.exchange(
                    "GET",
                    f"{parts.path}/version",
                    {"Accept": "*/*"},
                    None,
                    connect_seconds=seconds,
                    read_seconds=seconds,
                )
            except (NotConnectedError, HTTPException, OSError) as error:
                raise explain_failure(error, asked) from None
        return _Answer(
            status=answer.status,
            text=answer.data.decode("utf-8", "replace").strip().strip('"')[:40],
            seconds=time.perf_counter() - before,
            asked_at=at,
            date=answer.headers.get("Date"),
        )


def _parse_date(text: str) -> datetime | None:
    try:
        return parsedate_to_datetime(text)
    except ValueError:
        return None
