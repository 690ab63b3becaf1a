"""What `perago run` refuses by the orchestrator that was chosen, before anything is asked."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from perago.cli.errors import ExitCode
from tests.unit.cli.conftest import Perago


@pytest.fixture
def dead_conductor(project: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A server that is chosen and does not answer, for as long as the socket holds the port."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{holder.getsockname()[1]}"
        monkeypatch.setenv("PERAGO_CONDUCTOR_URL", url)
        monkeypatch.setenv("PERAGO_CONDUCTOR_RETRY_SECONDS", "0")
        yield url


@pytest.mark.parametrize("flag", ["--detach", "--register"])
def test_a_run_that_is_carried_out_here_cannot_be_left(
    perago: Perago, module: str, project: Path, flag: str
) -> None:
    answer = perago("run", module, flag)

    assert answer.code == ExitCode.USAGE
    assert f"{flag} is for a Conductor server" in answer.err
    assert not (project / ".perago").exists()


def test_steps_at_a_time_are_the_workers_business(
    perago: Perago, module: str, dead_conductor: str
) -> None:
    answer = perago("run", module, "-j", "2")

    assert answer.code == ExitCode.USAGE
    assert f"perago start {module} -j N" in answer.err


@pytest.mark.parametrize("flag", ["--detach", "--register"])
def test_a_run_that_was_started_is_not_started_again(
    perago: Perago, module: str, dead_conductor: str, flag: str
) -> None:
    answer = perago("run", module, "--continue", "last", flag)

    assert answer.code == ExitCode.USAGE
    assert f"{flag} and --continue exclude each other" in answer.err


@pytest.mark.parametrize("command", ["run", "register"])
def test_a_server_that_does_not_answer_is_named(
    perago: Perago, module: str, dead_conductor: str, command: str
) -> None:
    answer = perago(command, module)

    assert answer.code == ExitCode.BACKEND
    assert dead_conductor in answer.err
