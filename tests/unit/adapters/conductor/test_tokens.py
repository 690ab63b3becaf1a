"""When a key is exchanged for a token, and what becomes of refused ones."""

from __future__ import annotations

import base64
import json
import logging
import threading

import pytest

from perago.adapters.conductor import ConductorConnection, ConductorOrchestrator
from perago.adapters.conductor.tokens import TokenSource
from perago.domain.errors import OrchestratorAccessError, OrchestratorError
from perago.domain.ids import WorkerId
from tests.unit.adapters.conductor.key_server import KEY, SECRET, KeyServer, key_server

WORKER = WorkerId("w")


def connect(server: KeyServer, *, secret: str | None = SECRET) -> ConductorOrchestrator:
    key = KEY if secret is not None else None
    return ConductorOrchestrator(
        ConductorConnection(url=server.url, auth_key=key, auth_secret=secret, retry_seconds=0)
    )


def poll(orchestrator: ConductorOrchestrator) -> None:
    orchestrator.poll(["t"], worker_id=WORKER, count=1, wait_seconds=0)


def test_one_log_in_serves_many_calls() -> None:
    with key_server() as server, connect(server) as orchestrator:
        for _ in range(3):
            poll(orchestrator)
        assert server.logins == 1
        assert {token for _, token in server.calls} == {"token-1"}


@pytest.mark.parametrize("refusal", [(401, "EXPIRED_TOKEN"), (403, "the token has expired")])
def test_a_refused_token_is_renewed_once_and_the_call_sent_again(refusal: tuple[int, str]) -> None:
    with key_server() as server, connect(server) as orchestrator:
        server.refusal = refusal
        poll(orchestrator)
        server.expire()
        poll(orchestrator)
        assert [token for _, token in server.calls] == ["token-1", "token-1", "token-2"]


def test_many_threads_with_a_refused_token_log_in_once() -> None:
    with key_server() as server, connect(server) as orchestrator:
        poll(orchestrator)
        server.expire()
        threads = [threading.Thread(target=poll, args=(orchestrator,)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert server.logins == 2


def test_a_missing_permission_is_no_reason_to_log_in_again() -> None:
    with key_server() as server, connect(server) as orchestrator:
        poll(orchestrator)
        server.expire()
        server.refusal = (403, "not yours")
        with pytest.raises(OrchestratorAccessError, match="not yours"):
            poll(orchestrator)
        assert server.logins == 1


def test_a_wrong_secret_is_said_and_shown_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with (
        key_server() as server,
        connect(server, secret="hush-hush") as orchestrator,
        pytest.raises(OrchestratorAccessError) as caught,
    ):
        poll(orchestrator)
    assert "PERAGO_CONDUCTOR_AUTH_SECRET" in str(caught.value)
    assert "hush-hush" not in str(caught.value) + caplog.text


def test_without_a_key_nothing_is_sent() -> None:
    with key_server(wants_token=False) as server, connect(server, secret=None) as orchestrator:
        poll(orchestrator)
        assert server.logins == 0
        assert [token for _, token in server.calls] == [None]


def test_a_connection_shows_no_secret() -> None:
    shown = repr(ConductorConnection(url="http://c", auth_key="kkk", auth_secret="sss"))
    assert "kkk" not in shown
    assert "sss" not in shown


@pytest.mark.parametrize("url", ["http://c:8080", "http://c:8080/", "http://c:8080/api/"])
def test_the_address_may_name_the_api_or_not(url: str) -> None:
    assert ConductorConnection(url=url).api_url == "http://c:8080/api"


@pytest.mark.parametrize(
    ("life", "used_for"), [(3600, 45 * 60 - 60), (600, 540), (40, 20)], ids=["long", "mid", "short"]
)
def test_a_token_is_replaced_before_it_ends(life: int, used_for: int) -> None:
    now = 1000.0
    claims = base64.urlsafe_b64encode(json.dumps({"exp": 5000 + life}).encode()).decode()
    given: list[str] = []

    def log_in() -> str:
        given.append(f"head{len(given)}.{claims.rstrip('=')}.signature")
        return given[-1]

    tokens = TokenSource(log_in, elapsed=lambda: now, wall_clock=lambda: 5000)
    first = tokens.current()
    now += used_for - 1
    assert tokens.current() == first
    now += 1
    assert tokens.current() != first


@pytest.mark.parametrize(
    "claims",
    [
        b'{"exp":1' + b"0" * 400 + b"}",
        b'{"exp":' + b"9" * 5000 + b"}",
        b'{"exp":"soon"}',
        b'{"exp":null}',
        b"[" * 900 + b"]" * 900,
        b"[" * 100_000,
        b"7",
        b"\xff",
        b"",
    ],
    ids=["large", "long", "text", "null", "deep", "cut off", "number", "not UTF-8", "nothing"],
)
def test_a_token_that_tells_no_end_is_used_for_a_while(claims: bytes) -> None:
    token = f"head.{base64.urlsafe_b64encode(claims).decode()}.signature"
    tokens = TokenSource(lambda: token, elapsed=lambda: 0.0, wall_clock=lambda: 5000)
    assert tokens.current() == token


@pytest.mark.parametrize("prefix", ["token\r\nX-Forged: ", "tökén-", "two words ", "\ud800"])
def test_a_token_that_cannot_be_a_header_is_never_sent(prefix: str) -> None:
    with key_server() as server, connect(server) as orchestrator:
        server.prefix = prefix
        with pytest.raises(OrchestratorError, match="no token") as refused:
            poll(orchestrator)
        assert server.calls == []
    assert "X-Forged" not in str(refused.value)
