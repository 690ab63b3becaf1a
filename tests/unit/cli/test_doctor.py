"""`perago doctor` without a lakeFS server."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from perago.adapters.localfs.home import make_home
from perago.bootstrap import Application
from perago.domain.ids import WorkflowId
from perago.domain.outcome import JsonObject
from tests.unit.cli.conftest import LAB, Answer, Perago

SECRET = "a-secret-that-nobody-shows"


@pytest.fixture
def dead_endpoint() -> Iterator[str]:
    """Where nobody listens, for as long as the socket holds the port."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{holder.getsockname()[1]}"


def checks_of(answer: Answer) -> dict[str, JsonObject]:
    found = answer.json["checks"]
    assert isinstance(found, list)
    return {str(check["check"]): check for check in found if isinstance(check, dict)}


def verdicts_of(answer: Answer) -> dict[str, str]:
    return {name: str(check["verdict"]) for name, check in checks_of(answer).items()}


def tree_of(directory: Path) -> set[Path]:
    return set(directory.rglob("*"))


def test_a_project_without_a_home_has_no_problem(perago: Perago, project: Path) -> None:
    answer = perago("doctor")

    assert answer.code == 0
    assert "atomic fence" in answer.out
    assert "warning  home" in answer.out
    assert answer.out.endswith("no problem, 1 warning\n")
    assert tree_of(project) == set(), "it makes no home"


def test_a_home_with_a_run_in_it(perago: Perago, run: WorkflowId) -> None:
    answer = perago("doctor", "lab@main", "--json")

    checks = checks_of(answer)
    assert answer.code == 0
    assert verdicts_of(answer)["home"] == "ok"
    assert "1 unfinished run" in str(checks["orchestrator"]["found"])
    assert "'lab': 'main' stands at" in str(checks["repository"]["found"])


def test_a_branch_that_is_not_there_is_a_problem(perago: Perago, application: Application) -> None:
    application.store.create_repository(LAB)

    answer = perago("doctor", "lab@nowhere")

    assert answer.code == 1
    assert "problem  repository     no branch 'nowhere'" in answer.out
    assert "hint: make it with `perago store branch lab nowhere`" in answer.out
    assert "1 problem" in answer.out


def test_a_repository_that_run_would_make_is_none(perago: Perago, application: Application) -> None:
    application.store.create_repository(LAB)

    assert perago("doctor", "other").code == 0


def test_a_home_that_cannot_be_written_is_a_problem(perago: Perago, project: Path) -> None:
    (project / "file").touch()

    answer = perago("--home", "file/home", "doctor", "--json")

    assert answer.code == 1
    assert verdicts_of(answer)["home"] == "problem"
    assert {"orchestrator", "workspace root", "Spark", "repository"} < set(verdicts_of(answer))


def test_without_the_probe_nothing_is_written(perago: Perago, project: Path) -> None:
    make_home(project / ".perago")
    before = tree_of(project)

    assert perago("doctor", "--no-probe").code == 0

    assert tree_of(project) == before


@pytest.mark.parametrize("bad", ["@main", "lab@"])
def test_a_place_that_is_none_is_wrong_usage(perago: Perago, bad: str) -> None:
    assert perago("doctor", bad).code == 2


def test_settings_that_cannot_be_read_are_the_one_problem(
    perago: Perago, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERAGO_EXECUTORS", "many")

    answer = perago("doctor", "--json")

    assert answer.code == 1
    assert verdicts_of(answer) == {"settings": "problem"}
    assert "PERAGO_EXECUTORS" in answer.out


def test_what_the_lakefs_store_lacks_is_named_and_the_machine_is_checked(
    perago: Perago, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(project))
    monkeypatch.setenv("PERAGO_LAKEFS_ENDPOINT", "https://lakefs.example.com")
    monkeypatch.setenv("PERAGO_LAKEFS_SECRET_ACCESS_KEY", SECRET)

    answer = perago("doctor", "--json")

    checks = checks_of(answer)
    assert answer.code == 1
    assert "PERAGO_LAKEFS_ACCESS_KEY_ID" in str(checks["settings"]["found"])
    assert verdicts_of(answer)["orchestrator"] == "ok"
    assert "endpoint" not in checks
    assert SECRET not in answer.out


def test_a_server_that_does_not_answer_is_told_with_where_its_settings_come_from(
    perago: Perago, project: Path, dead_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERAGO_CACHE_DIRECTORY", str(project / "cache"))
    monkeypatch.setenv("PERAGO_LAKEFS_ENDPOINT", dead_endpoint)
    monkeypatch.setenv("LAKECTL_CREDENTIALS_ACCESS_KEY_ID", "AKIA1")
    monkeypatch.setenv("LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY", SECRET)

    answer = perago("doctor", "lab")

    assert answer.code == 1
    assert "soft fence: a race is detected afterwards, not excluded" in answer.out
    assert f"endpoint {dead_endpoint} (PERAGO_LAKEFS_ENDPOINT)" in answer.out
    assert "access key AKIA1 (LAKECTL_CREDENTIALS_ACCESS_KEY_ID)" in answer.out
    assert "secret set (LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY)" in answer.out
    assert "problem  endpoint" in answer.out
    assert SECRET not in answer.out + answer.err


@pytest.mark.parametrize(
    ("limit", "verdict", "said"),
    [("0", "ok", "off"), ("1MB", "ok", "nothing yet, at most 1.0 MB"), ("9000TB", "warning", "")],
)
def test_the_cache_must_fit_on_its_disk(
    perago: Perago,
    project: Path,
    dead_endpoint: str,
    monkeypatch: pytest.MonkeyPatch,
    limit: str,
    verdict: str,
    said: str,
) -> None:
    monkeypatch.setenv("PERAGO_CACHE_DIRECTORY", str(project / "cache"))
    monkeypatch.setenv("PERAGO_CACHE_MAX_BYTES", limit)
    monkeypatch.setenv("PERAGO_LAKEFS_ENDPOINT", dead_endpoint)
    monkeypatch.setenv("PERAGO_LAKEFS_ACCESS_KEY_ID", "AKIA1")
    monkeypatch.setenv("PERAGO_LAKEFS_SECRET_ACCESS_KEY", SECRET)

    check = checks_of(perago("doctor", "--json"))["cache"]

    assert check["verdict"] == verdict
    assert said in str(check["found"])


def test_a_cache_in_use_is_counted_unless_nothing_may_be_written(
    perago: Perago, project: Path, dead_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "cache" / "content").mkdir(parents=True, mode=0o700)
    monkeypatch.setenv("PERAGO_CACHE_DIRECTORY", str(project / "cache"))
    monkeypatch.setenv("PERAGO_CACHE_MAX_BYTES", "1MB")
    monkeypatch.setenv("PERAGO_LAKEFS_ENDPOINT", dead_endpoint)
    monkeypatch.setenv("PERAGO_LAKEFS_ACCESS_KEY_ID", "AKIA1")
    monkeypatch.setenv("PERAGO_LAKEFS_SECRET_ACCESS_KEY", SECRET)

    asked = checks_of(perago("doctor", "--json", "--no-probe"))["cache"]
    assert asked["verdict"] == "skipped"
    assert list((project / "cache" / "content").iterdir()) == []

    counted = checks_of(perago("doctor", "--json"))["cache"]
    assert "0 contents, 0 B, at most 1.0 MB" in str(counted["found"])


def test_only_the_lakefs_store_costs_its_client(project: Path) -> None:
    script = (
        "import sys; from perago.cli.app import run_app; code = run_app(['doctor']); "
        "assert 'perago.adapters.lakefs.api' not in sys.modules; sys.exit(code)"
    )

    done = subprocess.run([sys.executable, "-c", script], cwd=project, check=False)

    assert done.returncode == 0


def test_a_conductor_that_does_not_answer_is_one_problem_among_the_other_checks(
    perago: Perago, project: Path, monkeypatch: pytest.MonkeyPatch, dead_endpoint: str
) -> None:
    monkeypatch.setenv("CONDUCTOR_SERVER_URL", dead_endpoint)

    answer = perago("doctor", "--json")

    checks = checks_of(answer)
    assert answer.code == 1
    assert checks["orchestrator"]["verdict"] == "problem"
    assert dead_endpoint in str(checks["orchestrator"]["found"])
    assert "PERAGO_CONDUCTOR_URL" in str(checks["orchestrator"]["advice"])
    assert verdicts_of(answer)["conductor"] == verdicts_of(answer)["definitions"] == "skipped"
    assert verdicts_of(answer)["repository"] == "ok"
    assert tree_of(project) == set()
