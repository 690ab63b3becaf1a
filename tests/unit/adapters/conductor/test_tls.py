"""A Conductor server behind TLS that wants a key: whom the client trusts, and what it tells."""

from __future__ import annotations

import logging
import ssl
import traceback
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import trustme

from perago.adapters.conductor import ConductorConnection, ConductorOrchestrator
from perago.adapters.conductor.probe import probe_conductor
from perago.app.diagnosis import Check
from perago.domain.errors import (
    OrchestratorAccessError,
    OrchestratorError,
    OrchestratorUnavailableError,
)
from perago.domain.ids import WorkerId
from tests.unit.adapters.conductor.key_server import KEY, SECRET, KeyServer, key_server

HOST = "127.0.0.1"


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def server(authority: trustme.CA) -> Iterator[KeyServer]:
    with key_server(tls=certified(authority, HOST)) as running:
        yield running


@pytest.fixture
def ca_file(authority: trustme.CA, tmp_path: Path) -> Path:
    return file_of(authority, tmp_path / "ca.pem")


@pytest.fixture
def strange_ca_file(tmp_path: Path) -> Path:
    """An authority that has nothing to do with the server."""
    return file_of(trustme.CA(), tmp_path / "strange.pem")


def certified(authority: trustme.CA, name: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(name).configure_cert(context)
    return context


def file_of(authority: trustme.CA, path: Path) -> Path:
    authority.cert_pem.write_to_path(str(path))
    return path


def connection_to(
    server: KeyServer, ca_file: Path | None, *, secret: str = SECRET
) -> ConductorConnection:
    # Patient: an error that is final must come at once all the same.
    return ConductorConnection(
        url=server.url, auth_key=KEY, auth_secret=secret, ca_file=ca_file, retry_seconds=60
    )


def poll(orchestrator: ConductorOrchestrator) -> None:
    orchestrator.poll(["t"], worker_id=WorkerId("w"), count=1, wait_seconds=0)


def test_the_right_authority_is_enough_to_log_in_and_work(server: KeyServer, ca_file: Path) -> None:
    with ConductorOrchestrator(connection_to(server, ca_file)) as orchestrator:
        poll(orchestrator)
        assert orchestrator.workflow_ids(limit=1) == []
    assert server.logins == 1
    assert [token for _, token in server.calls] == ["token-1", "token-1"]


def test_a_connection_is_kept_over_tls_too(server: KeyServer, ca_file: Path) -> None:
    with ConductorOrchestrator(connection_to(server, ca_file)) as orchestrator:
        for _ in range(5):
            poll(orchestrator)
    assert len(server.connections) == 1


def test_a_refused_token_is_renewed_over_tls(server: KeyServer, ca_file: Path) -> None:
    with ConductorOrchestrator(connection_to(server, ca_file)) as orchestrator:
        poll(orchestrator)
        server.expire()
        poll(orchestrator)
        poll(orchestrator)
    assert server.logins == 2
    assert [token for _, token in server.calls] == ["token-1", "token-1", "token-2", "token-2"]


@pytest.mark.parametrize("named", ["strange", "none"])
def test_another_authority_is_refused_at_once_before_anything_is_sent(
    server: KeyServer, strange_ca_file: Path, named: str
) -> None:
    connection = connection_to(server, strange_ca_file if named == "strange" else None)
    with (
        ConductorOrchestrator(connection) as orchestrator,
        pytest.raises(OrchestratorError) as caught,
    ):
        orchestrator.workflow_ids(limit=1)
    assert not isinstance(caught.value, OrchestratorUnavailableError), "waiting does not help"
    assert f"the certificate of {server.url} is not trusted" in caught.value.message
    assert "PERAGO_CONDUCTOR_CA_FILE" in (caught.value.hint or "")
    assert (server.logins, server.calls) == (0, [])


def test_a_certificate_for_another_host_is_refused_and_said_to_be_that(
    authority: trustme.CA, ca_file: Path
) -> None:
    with (
        key_server(tls=certified(authority, "conductor.example.com")) as server,
        ConductorOrchestrator(connection_to(server, ca_file)) as orchestrator,
        pytest.raises(OrchestratorError) as caught,
    ):
        orchestrator.workflow_ids(limit=1)
    assert "not valid for '127.0.0.1'" in caught.value.message
    assert "PERAGO_CONDUCTOR_URL" in (caught.value.hint or "")
    assert server.logins == 0


@pytest.mark.parametrize("trouble", ["wrong secret", "strange authority", "token refused for good"])
def test_nothing_that_is_said_or_logged_holds_a_secret(
    server: KeyServer,
    ca_file: Path,
    strange_ca_file: Path,
    trouble: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    secret = "hush-hush" if trouble == "wrong secret" else SECRET
    trusted = strange_ca_file if trouble == "strange authority" else ca_file
    connection = connection_to(server, trusted, secret=secret)
    with ConductorOrchestrator(connection) as orchestrator:
        if trouble == "token refused for good":
            server.refuses_all = True
        with pytest.raises(OrchestratorError) as caught:
            orchestrator.workflow_ids(limit=1)
        shown = repr(connection) + repr(orchestrator) + repr(caught.value) + str(caught.value)
    said = shown + "".join(traceback.format_exception(caught.value)) + caplog.text
    for hidden in (secret, KEY, "token-1", "token-2"):
        assert hidden not in said


def test_a_token_that_stays_refused_ends_in_one_error(server: KeyServer, ca_file: Path) -> None:
    server.refuses_all = True
    with (
        ConductorOrchestrator(connection_to(server, ca_file)) as orchestrator,
        pytest.raises(OrchestratorAccessError, match="PERAGO_CONDUCTOR_AUTH_SECRET"),
    ):
        orchestrator.workflow_ids(limit=1)
    assert [token for _, token in server.calls] == ["token-1", "token-2"], "renewed once, no more"


def test_a_doctor_tells_a_trusted_server_from_a_strange_one(
    server: KeyServer, ca_file: Path, strange_ca_file: Path
) -> None:
    trusted = checks(connection_to(server, ca_file))
    strange = checks(connection_to(server, strange_ca_file))

    assert not trusted["orchestrator"].is_problem
    assert trusted["conductor auth"].found == "the key is accepted"
    assert strange["orchestrator"].is_problem
    assert "not trusted" in strange["orchestrator"].found
    assert "PERAGO_CONDUCTOR_CA_FILE" in (strange["orchestrator"].advice or "")


def checks(connection: ConductorConnection) -> dict[str, Check]:
    return {check.name: check for check in probe_conductor(connection)}


def test_a_server_without_tls_is_said_to_be_one_and_not_tried_again(ca_file: Path) -> None:
    with key_server(tls=None) as server:
        assert server.url.startswith("http://")
        connection = replace(
            connection_to(server, ca_file), url=server.url.replace("http", "https")
        )
        with (
            ConductorOrchestrator(connection) as orchestrator,
            pytest.raises(OrchestratorError) as caught,
        ):
            orchestrator.workflow_ids(limit=1)
    assert not isinstance(caught.value, OrchestratorUnavailableError), "waiting does not help"
    assert "does not speak TLS" in caught.value.message
    assert "http://" in (caught.value.hint or "")
