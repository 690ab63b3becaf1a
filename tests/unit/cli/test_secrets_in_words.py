"""No command says a secret of its settings, whoever put it into the words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from perago.bootstrap import Application
from perago.cli.known_secrets import learn_secrets
from perago.cli.output import Output
from perago.domain.ids import ExecutionId, WorkerId, WorkflowId
from perago.domain.outcome import Failed, Phase
from perago.domain.redaction import HIDDEN
from perago.runtime.attempt_logs import attempt_log_path
from perago.settings import Settings
from tests.unit.cli.conftest import Perago

KEY = "hunter2-of-the-lake"
OTHER = "hunter2-of-spark"
SETTINGS = f"""
lakefs_secret_access_key = "{KEY}"
[spark_conf]
"spark.hadoop.my.own" = "{OTHER}"
"spark.sql.session.timeZone" = "Europe/Berlin"
"""


@pytest.fixture
def project(project: Path) -> Path:
    (project / "perago.toml").write_text(SETTINGS)
    return project


def test_logs_and_reasons_of_a_run(
    perago: Perago, application: Application, run: WorkflowId
) -> None:
    orchestrator = application.orchestrator
    for retry in range(3):
        polled = orchestrator.poll(
            ["write"], worker_id=WorkerId("w"), count=1, wait_seconds=0
        )  # fmt: skip
        for one in polled:
            orchestrator.append_log(one.attempt.task_id, f"says {KEY}")
            path = attempt_log_path(
                application.settings.logs_directory, one.attempt, ExecutionId("e" * 32)
            )
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{retry}: {OTHER}\n")
            reason = Failed(reason=f"ValueError: {KEY} {OTHER}", phase=Phase.BODY)
            orchestrator.report(one.attempt, reason)

    for arguments in (("logs", "last"), ("status", "last")):
        for more in ((), ("--json",)):
            answer = perago(*arguments, *more)
            assert HIDDEN in answer.out
            assert KEY not in answer.out + answer.err
            assert OTHER not in answer.out + answer.err


def test_check_shows_no_secret(perago: Perago, module: str) -> None:
    shown = perago("check", module, "--settings").out
    as_json = perago("check", module, "--settings", "--json").out

    for said in (shown, as_json):
        assert KEY not in said
        assert OTHER not in said
        assert "Europe/Berlin" in said
    conf = json.loads(as_json)["settings"]["spark_conf"]["value"]
    assert conf["spark.hadoop.my.own"] == HIDDEN


@pytest.mark.parametrize(
    "arguments",
    [("check", "broken.py"), ("--debug", "check", "broken.py"), ("check", "broken.py", "--json")],
)
def test_an_error_says_none(perago: Perago, project: Path, arguments: tuple[str, ...]) -> None:
    (project / "broken.py").write_text(f"raise ValueError('{KEY}, {OTHER}')\n")

    answer = perago(*arguments)

    assert answer.code != 0
    assert HIDDEN in answer.out + answer.err
    assert KEY not in answer.out + answer.err
    assert OTHER not in answer.out + answer.err


def test_an_answer_may_be_asked_for_with_its_secrets(capsys: pytest.CaptureFixture[str]) -> None:
    learn_secrets(Settings.model_validate({"lakefs_secret_access_key": KEY}), {})
    for secrets in (False, True):
        Output(secrets=secrets).say(f"export KEY={KEY}")
        Output(as_json=True, secrets=secrets).answer({"KEY": KEY})

    said = capsys.readouterr().out
    assert said.count(KEY) == 2
    assert said.count(HIDDEN) == 2
