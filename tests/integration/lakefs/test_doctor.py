"""`perago doctor` on a real server: what it finds, and that it leaves nothing behind."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from perago.adapters.lakefs import LakeFSConnection
from perago.app.diagnosis import Verdict
from perago.cli.app import run_app
from perago.domain.ids import BranchName, RepositoryName
from perago.domain.outcome import JsonObject
from tests.fault_proxy import Answer, Fault, Match
from tests.integration.lakefs.diagnosis import TRIED, diagnose, problems
from tests.integration.lakefs.faulty_lake import FaultyLake

pytestmark = pytest.mark.lakefs

ACTION = b"""
name: later
on: {pre-create-tag: {}}
hooks: [{id: nothing, type: lua, properties: {script: "return"}}]
"""


# -- a server that is as it should be


def test_a_healthy_target_has_no_problem(untouched: FaultyLake) -> None:
    checks = diagnose(untouched)

    assert {check.verdict for check in checks.values()} == {Verdict.OK}, checks
    assert [*checks][-len(TRIED) :] == TRIED
    assert "local, presigned URLs not offered" in checks["block store"].found
    assert checks["credentials"].found == "accepted as user 'perago'"


def test_without_the_probe_nothing_is_sent_but_questions(untouched: FaultyLake) -> None:
    checks = diagnose(untouched, write=False)

    assert not problems(checks)
    assert checks["permissions"].verdict is Verdict.SKIPPED
    assert {exchange.method for exchange in untouched.proxy.log} == {"GET"}


def test_the_target_is_never_named_in_a_change(untouched: FaultyLake) -> None:
    diagnose(untouched)

    changes = [one for one in untouched.proxy.log if one.method != "GET"]
    assert len(changes) >= len(TRIED) - 1
    assert not [one for one in changes if "/main" in one.target]


def test_actions_and_stagings_are_told(lake: FaultyLake) -> None:
    lake.stranger.commit({"_lakefs_actions/later.yaml": ACTION})
    staging = BranchName(f"perago-staging-{uuid.uuid4().hex}")
    lake.direct.create_branch(lake.repository, staging, lake.head.id, hidden=True)

    checks = diagnose(lake, write=False)

    assert "later.yaml" in checks["actions"].found
    assert "1 staging branch;" in checks["stagings"].found
    assert not problems(checks)


# -- what can be wrong


def test_a_wrong_key_is_told(untouched: FaultyLake) -> None:
    checks = diagnose(untouched, connection=untouched.connection(secret_access_key="wrong"))

    assert problems(checks) == ["credentials"]
    assert "access key" in checks["credentials"].found
    assert "perago doctor" not in str(checks["credentials"].advice)
    assert "repository" not in checks


def test_a_dead_server_is_told_at_once(untouched: FaultyLake) -> None:
    untouched.server.stop()

    checks = diagnose(untouched, connection=replace(direct(untouched), timeout_seconds=5))

    untouched.server.start()
    assert problems(checks) == ["endpoint"]
    assert f"no lakeFS server answers at {untouched.server.endpoint}" in checks["endpoint"].found
    assert checks["server"].verdict is Verdict.SKIPPED


def direct(lake: FaultyLake) -> LakeFSConnection:
    return replace(lake.connection(), endpoint=lake.server.endpoint)


def test_another_server_is_told_from_lakefs(untouched: FaultyLake) -> None:
    page = Answer(status=200, body=b"<html>Welcome</html>")
    untouched.proxy.add(Fault(match=Match("GET", "/"), action=page, times=None))

    checks = diagnose(untouched)

    assert problems(checks) == ["endpoint"]
    assert "is no lakeFS server" in checks["endpoint"].found


def test_a_repository_that_is_not_there_yet_is_no_problem(untouched: FaultyLake) -> None:
    checks = diagnose(untouched, repository=RepositoryName("not-there"))

    assert not problems(checks)
    assert checks["repository"].verdict is Verdict.WARNING
    assert "'not-there' yet; `perago run` makes it" in checks["repository"].found
    assert "store init not-there" in str(checks["repository"].advice)
    assert checks["permissions"].verdict is Verdict.SKIPPED


def test_a_repository_that_cannot_be_is_told(untouched: FaultyLake) -> None:
    checks = diagnose(untouched, repository=RepositoryName("Bad_Name!"))

    assert problems(checks) == ["repository"]
    assert "cannot be the name" in checks["repository"].found


def test_a_branch_that_is_not_there_is_told_and_the_rest_tried(untouched: FaultyLake) -> None:
    checks = diagnose(untouched, branch=BranchName("nowhere"))

    assert problems(checks) == ["branch"]
    assert checks["merge"].verdict is Verdict.OK


def test_a_protected_target_is_told(lake: FaultyLake) -> None:
    lake.stranger.protect()

    checks = diagnose(lake)

    assert problems(checks) == ["protection"]
    assert "protects main" in checks["protection"].found
    assert lake.stagings == []


def test_a_dirty_target_is_told_with_an_object_of_it(lake: FaultyLake) -> None:
    lake.stranger.put("left/lying", b"about")

    checks = diagnose(lake)

    assert problems(checks) == ["uncommitted"]
    assert "'left/lying'" in checks["uncommitted"].found
    assert lake.stagings == []


def test_a_read_only_repository_is_told(lake: FaultyLake) -> None:
    repository = RepositoryName(f"read-only-{uuid.uuid4().hex}")
    lake.stranger.create_read_only_repository(repository)

    checks = diagnose(lake, repository=repository)

    assert problems(checks) == ["repository"]
    assert "read-only" in checks["repository"].found
    assert checks["permissions"].verdict is Verdict.SKIPPED


def test_a_clock_that_is_wrong_is_a_warning(untouched: FaultyLake) -> None:
    late = Answer(status=204, headers=(("Date", "Mon, 01 Jan 2001 00:00:00 GMT"),))
    untouched.proxy.add(Fault(match=Match("GET", "/healthcheck"), action=late, times=None))

    checks = diagnose(untouched, write=False)

    assert checks["clock"].verdict is Verdict.WARNING
    assert "behind this machine's" in checks["clock"].found
    assert not problems(checks)


# -- the command


@pytest.fixture
def ask(
    lake: FaultyLake, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str]]:
    """Call `perago doctor` with the settings of the lake; its exit code and what it printed."""
    connection = lake.connection()
    monkeypatch.chdir(lake.home)
    monkeypatch.setenv("PERAGO_CACHE_DIRECTORY", str(lake.home / "cache"))
    monkeypatch.setenv("PERAGO_LAKEFS_ENDPOINT", connection.endpoint)
    monkeypatch.setenv("PERAGO_LAKEFS_ACCESS_KEY_ID", connection.access_key_id)
    monkeypatch.setenv("PERAGO_LAKEFS_SECRET_ACCESS_KEY", connection.secret_access_key)

    def call(*arguments: str) -> tuple[int, str]:
        code = run_app(["doctor", *arguments])
        said = capfd.readouterr()
        assert connection.secret_access_key not in said.out + said.err
        return int(code), said.out

    return call


def test_the_command_says_what_it_found(
    lake: FaultyLake, ask: Callable[..., tuple[int, str]]
) -> None:
    code, said = ask(f"{lake.repository}@main")

    assert code == 0
    assert "soft fence: a race is detected afterwards, not excluded" in said
    assert "secret set (PERAGO_LAKEFS_SECRET_ACCESS_KEY)" in said
    assert "ok       hard reset" in said


def test_the_command_exits_with_one_for_a_problem(
    lake: FaultyLake, ask: Callable[..., tuple[int, str]]
) -> None:
    lake.stranger.put("left/lying", b"about")

    code, said = ask(f"{lake.repository}@main", "--json", "--no-probe")

    answer: JsonObject = json.loads(said)
    assert code == 1
    assert answer["ok"] is False
    assert answer["problems"] == 1
    assert isinstance(answer["checks"], list)
    (problem,) = (
        check
        for check in answer["checks"]
        if isinstance(check, dict) and check["verdict"] == "problem"
    )
    assert problem["check"] == "uncommitted"
    assert problem["advice"]


def test_the_command_looks_at_what_run_works_on(
    lake: FaultyLake, ask: Callable[..., tuple[int, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERAGO_REPOSITORY", lake.repository)
    monkeypatch.setenv("PERAGO_BRANCH", "nowhere")

    code, said = ask("--no-probe")

    assert code == 1
    assert "no branch 'nowhere'" in said
    assert not list(Path(lake.home).rglob("cache")), "it writes nothing"
