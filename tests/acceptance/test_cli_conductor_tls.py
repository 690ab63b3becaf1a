"""`perago` on a Conductor server behind TLS that wants a key, chosen by settings alone.

The server is a stub: the open-source Conductor has neither. It shows what the product is given.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from perago.cli.errors import ExitCode
from tests.acceptance.command_line import NOTES, CommandLine, Ended
from tests.unit.adapters.conductor.key_server import KEY, SECRET, KeyServer, key_server

AUTHORITY = "PERAGO_CONDUCTOR_CA_FILE"


@pytest.fixture
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def server(authority: trustme.CA) -> Iterator[KeyServer]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    with key_server(tls=context) as running:
        yield running


@pytest.fixture
def perago(server: KeyServer, authority: trustme.CA, tmp_path: Path) -> CommandLine:
    ca_file = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(ca_file))
    settings = {
        "HOME": str(tmp_path),
        "PERAGO_CONDUCTOR_URL": server.url,
        "PERAGO_CONDUCTOR_AUTH_KEY": KEY,
        "PERAGO_CONDUCTOR_AUTH_SECRET": SECRET,
        AUTHORITY: str(ca_file),
    }
    return CommandLine(tmp_path / "home", settings)


def assert_refused(ended: Ended, *words: str) -> None:
    """One error with its hint, and no secret."""
    assert ended.code == ExitCode.BACKEND, ended
    assert ended.err.count("error:") == 1
    assert "Traceback" not in ended.err
    for word in words:
        assert word in ended.err
    assert SECRET not in ended.out + ended.err


def test_the_right_authority_and_key_are_accepted(perago: CommandLine, server: KeyServer) -> None:
    looked = perago("status")

    assert looked.code == 0, looked
    assert server.logins == 1
    assert {token for _, token in server.calls} == {"token-1"}


@pytest.mark.parametrize("command", [("status",), ("start", NOTES)], ids=["status", "start"])
def test_a_wrong_authority_is_one_error_that_names_the_setting(
    perago: CommandLine, server: KeyServer, tmp_path: Path, command: tuple[str, ...]
) -> None:
    strange = tmp_path / "strange.pem"
    trustme.CA().cert_pem.write_to_path(str(strange))

    refused = perago(*command, **{AUTHORITY: str(strange)})

    assert_refused(refused, f"the certificate of {server.url} is not trusted", AUTHORITY)
    assert server.logins == 0


def test_a_wrong_secret_is_one_error_that_names_the_setting(
    perago: CommandLine, server: KeyServer
) -> None:
    refused = perago("--debug", "start", NOTES, PERAGO_CONDUCTOR_AUTH_SECRET="hush-hush")

    assert refused.code == ExitCode.BACKEND, refused
    assert "PERAGO_CONDUCTOR_AUTH_SECRET" in refused.err
    assert "hush-hush" not in refused.out + refused.err
    assert server.logins == 0


def test_a_file_of_no_certificates_is_refused_before_anything_is_sent(
    perago: CommandLine, server: KeyServer, tmp_path: Path
) -> None:
    empty = tmp_path / "empty.pem"
    empty.touch()

    refused = perago("status", **{AUTHORITY: str(empty)})

    assert refused.code == ExitCode.USAGE, refused
    assert f"conductor_ca_file holds no certificates: {empty}" in refused.err
    assert (server.logins, server.calls) == (0, [])
