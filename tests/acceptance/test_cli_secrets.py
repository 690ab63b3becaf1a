"""A run whose body tells all that it finds: none of the worker's secrets is left anywhere."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from urllib.parse import quote

import pytest

from perago.adapters.environment import is_own
from tests.acceptance.command_line import CommandLine, Ended

PEEKING = Path(__file__).parent / "pipelines" / "peeking.py"
SECRETS = {
    name: f"canary-{name.lower()}-'x'/+="
    for name in ("LAKE", "CONDUCTOR", "SPARK", "CONF", "LAKECTL", "HEADER", "PROXY")
}
SETTINGS = {
    "PERAGO_LAKEFS_SECRET_ACCESS_KEY": SECRETS["LAKE"],
    "PERAGO_CONDUCTOR_AUTH_SECRET": SECRETS["CONDUCTOR"],
    "PERAGO_SPARK_REMOTE": "sc://127.0.0.1:1/;token=" + SECRETS["SPARK"].replace("=", "%3D"),
    "PERAGO_SPARK_CONF": json.dumps({"spark.hadoop.my.own": SECRETS["CONF"]}),
    "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": SECRETS["LAKECTL"],
    "OTEL_EXPORTER_OTLP_HEADERS": f"api-key={SECRETS['HEADER']}",
}
"""What stays out of an executor; Perago knows all of it."""


@pytest.fixture
def perago(tmp_path: Path) -> CommandLine:
    (tmp_path / "secrets.txt").write_text("\n".join(SECRETS.values()))
    shutil.copy(PEEKING, tmp_path / "peeking_0.py")
    proxy = {"all_proxy": f"http://joe:{quote(SECRETS['PROXY'], safe='')}@127.0.0.1:1"}
    return CommandLine(tmp_path / "home", {**SETTINGS, **proxy})


def run(perago: CommandLine, pipeline: str, *arguments: str, **environment: str) -> Ended:
    target = perago.home.with_name("peeking_0.py")
    return perago("run", f"{target}:{pipeline}", *arguments, **environment)


def assert_silent(text: str, where: object) -> None:
    told = [secret for secret in SECRETS.values() if secret in text]
    assert not told, where


def test_no_way_out_of_a_body_has_a_secret(perago: CommandLine) -> None:
    people = run(perago, "peeking")
    program = run(perago, "peeking", "--json")
    followed = [perago("logs", "last"), perago("logs", "last", "--json"), perago("status", "last")]

    assert people.code == program.code == 1, people
    for ended in (people, program, *followed):
        assert ended.out
        assert_silent(ended.out + ended.err, ended)
    assert "what was found: (not shown)" in people.out
    logs = list(perago.home.glob("logs/**/*.log"))
    assert len(logs) == 1 + 2, "an executor's, and one for each attempt"
    for file in perago.home.rglob("*"):
        if file.is_file():
            assert_silent(file.read_bytes().decode("latin-1"), file)
    attempt = "".join(log.read_text(errors="replace") for log in logs)
    assert "PATH=" in attempt, "it did print its environment"
    assert "***" in attempt


def test_a_dead_executor_leaves_none_behind(perago: CommandLine) -> None:
    ended = run(perago, "dying", PERAGO_EXECUTOR_DEATH_LIMIT="1")

    assert ended.code == 1
    assert "killed by SIGKILL" in ended.out
    assert_silent(ended.out + ended.err, ended)
    told = "".join(log.read_text(errors="replace") for log in perago.home.glob("logs/**/*.log"))
    assert "***" in told, "what it printed"
    assert_silent(told, "logs")


def test_a_body_finds_none_of_perago_s_variables(perago: CommandLine, tmp_path: Path) -> None:
    kept = {"PERAGO_REPOSITORY": "lab", "LAKECTL_SERVER_ENDPOINT_URL": "http://kept"}
    patterns = {"PERAGO_TASK_ENVIRONMENT": "PERAGO_REPOSITORY,LAKECTL_S*"}
    ended = run(perago, "looking", **patterns, **kept)
    exported = perago("store", "export", "lab", str(tmp_path / "exported"))

    assert (ended.code, exported.code) == (0, 0), (ended, exported)
    seen = json.loads((tmp_path / "exported" / "out" / "seen.json").read_text())
    own = {line.partition("=")[0] for line in seen["own"]}
    assert own >= {"PATH", *kept}
    assert not {name for name in own - set(kept) if is_own(name)}
    told = json.dumps(seen, ensure_ascii=False)
    for name in SECRETS.keys() - {"PROXY"}:  # that variable is a task's, too
        assert SECRETS[name] not in told, name
