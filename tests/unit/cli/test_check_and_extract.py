import json
from pathlib import Path

import pytest

from perago import RetryPolicy, TimeoutPolicy
from perago.cli.describe import describe_guardrail, describe_retry, describe_timeouts
from perago.cli.errors import ExitCode
from perago.domain.guardrail import (
    Custom,
    ForbidGlob,
    Guardrail,
    RequireColumns,
    RequireDir,
    RequireFile,
    RequireGlob,
    RequireRows,
)
from tests.unit.cli.conftest import Perago


def test_check_shows_tasks_and_wiring(perago: Perago, module: str) -> None:
    answer = perago("check", module)

    lines = [" ".join(line.split()) for line in answer.out.splitlines()]
    assert answer.code == 0
    assert "write writes out 0 before, 1 after 3x, 5 s apart lease 120 s" in lines
    assert "look read-only out 1 before, 0 after 3x, 5 s apart lease 30 s, total 60 s" in lines
    assert "think none 3x, 5 s apart lease 120 s" in lines
    assert 'pipeline flow v3, params {"text": string (optional)}' in lines
    assert "approve approve HUMAN write" in lines
    assert "look look SIMPLE approve" in lines
    assert lines[-1] == "ok"
    assert answer.err == "imported\n"


def test_check_as_json(perago: Perago, module: str) -> None:
    answer = perago("check", module, "--settings", "--json").json

    assert answer["ok"] is True
    assert answer["problems"] == []
    assert answer["spark"] is None
    tasks = answer["tasks"]
    assert isinstance(tasks, list)
    by_name = {task["name"]: task for task in tasks if isinstance(task, dict)}
    assert by_name["think"]["workspace"] is None
    assert by_name["write"]["workspace"] == {
        "prefix": "out",
        "read_only": False,
        "pre": [],
        "post": ["require_file(a.txt)"],
    }
    settings = answer["settings"]
    assert isinstance(settings, dict)
    assert settings["executors"] == {"value": 1, "source": "default"}


def test_check_says_where_a_setting_comes_from(
    perago: Perago, module: str, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "perago.toml").write_text("executors = 3\n")
    monkeypatch.setenv("PERAGO_BRANCH", "lab")

    shown = perago("--home", "there", "check", module, "--settings").out

    lines = [" ".join(line.split()) for line in shown.splitlines()]
    assert "executors 3 perago.toml" in lines
    assert "branch lab PERAGO_BRANCH" in lines
    assert f"home {project / 'there'} flag --home" in lines


def test_check_finds_problems_and_exits_with_1(perago: Perago, project: Path) -> None:
    (project / "broken_declaration.py").write_text(
        "from perago import WorkspaceSpec\nWorkspaceSpec('a/..')\n"
    )

    answer = perago("check", "broken_declaration.py")
    as_json = perago("check", "broken_declaration.py", "--json")

    assert answer.code == as_json.code == ExitCode.FAILED
    assert "problem: broken_declaration.py cannot be imported: prefix 'a/..'" in answer.out
    assert "hint: " in answer.out
    assert as_json.json["ok"] is False


@pytest.mark.spark
def test_check_says_on_what_spark_would_run(perago: Perago, project: Path) -> None:
    (project / "with_spark.py").write_text(
        """
from pydantic import BaseModel
from pyspark.sql import SparkSession
from perago import task

class Nothing(BaseModel): ...

@task("spark", owner_email="a@b.cd")
def count(params: Nothing, spark: SparkSession) -> Nothing:
    return Nothing()
"""
    )

    answer = perago("check", "with_spark.py")
    as_json = perago("check", "with_spark.py", "--json").json

    assert answer.code == 0
    assert "Spark: pyspark 4" in answer.out
    assert str(as_json["spark"]).startswith("pyspark 4")


def test_check_warns_of_a_lease_shorter_than_the_budget(perago: Perago, project: Path) -> None:
    (project / "short_lease.py").write_text(
        """
from pathlib import Path
from pydantic import BaseModel
from perago import PublishBudget, TaskControls, TimeoutPolicy, WorkspaceSpec, task

class Nothing(BaseModel): ...

@task("short", owner_email="a@b.cd", workspace=WorkspaceSpec(), controls=TaskControls(
    timeout=TimeoutPolicy(response_seconds=30),
    publish_budget=PublishBudget(
        observed_merge_p99_seconds=5, safety_factor=2, conductor_completion_reserve_seconds=10,
        heartbeat_interval_seconds=5, shutdown_grace_seconds=10)))
def short(workspace: Path, params: Nothing) -> Nothing:
    return Nothing()
"""
    )

    checked = perago("check", "short_lease.py")
    extracted = perago("extract", "short_lease.py")

    assert checked.code == extracted.code == 0
    assert "warning: task 'short'" in checked.out
    assert "shorter than the publish budget" in checked.out
    assert "warning: task 'short'" in extracted.err
    assert "warning" not in extracted.out


def test_extract_to_stdout_is_one_document(perago: Perago, module: str) -> None:
    answer = perago("extract", module)

    taskdefs, workflows = answer.json["taskdefs"], answer.json["workflows"]
    assert isinstance(taskdefs, list)
    assert isinstance(workflows, list)
    assert [each["name"] for each in taskdefs if isinstance(each, dict)] == [
        "write",
        "look",
        "think",
    ]
    assert [each["version"] for each in workflows if isinstance(each, dict)] == [3]


def test_extract_to_files(perago: Perago, module: str, project: Path) -> None:
    answer = perago("extract", module, "--out", "defs")
    again = perago("extract", module, "--out", "defs", "--json").json

    assert answer.out == "wrote 3 task definitions and 1 workflow definition to defs\n"
    names = sorted(path.relative_to(project).as_posix() for path in project.rglob("defs/**/*.json"))
    assert names == [
        "defs/taskdefs/look.json",
        "defs/taskdefs/think.json",
        "defs/taskdefs/write.json",
        "defs/workflows/flow.v3.json",
    ]
    assert again["files"] is not None
    written = json.loads((project / "defs/taskdefs/write.json").read_text(encoding="utf-8"))
    assert written["responseTimeoutSeconds"] == 120


def test_extract_into_a_file_is_unfit(perago: Perago, module: str, project: Path) -> None:
    (project / "defs").write_text("")

    answer = perago("extract", module, "--out", "defs")

    assert answer.code == ExitCode.UNFIT
    assert "cannot write to defs" in answer.err


@pytest.mark.parametrize("command", ["run", "extract"])
@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("no_such_module", "there is no module 'no_such_module'"),
        ("no_such_file.py", "there is no file"),
        ("MODULE:nope", "there is no task or pipeline 'nope'"),
        (":", "is no TARGET"),
    ],
)
def test_a_bad_target_is_named(
    perago: Perago, module: str, command: str, target: str, says: str
) -> None:
    answer = perago(command, target.replace("MODULE", module))

    assert answer.code == ExitCode.USAGE
    assert says in answer.err


def custom(directory: Path) -> bool:
    return directory.is_dir()


@pytest.mark.parametrize(
    ("guardrail", "words"),
    [
        (RequireFile("a"), "require_file(a)"),
        (RequireDir("a"), "require_dir(a)"),
        (RequireGlob("*.csv", 2, None), "require_glob(*.csv, 2 or more)"),
        (RequireGlob("*.csv", 2, 3), "require_glob(*.csv, 2 to 3)"),
        (ForbidGlob("*.tmp"), "forbid_glob(*.tmp)"),
        (RequireColumns("t", ("a", "b")), "require_columns(t: a, b)"),
        (RequireRows("t", 1, None), "require_rows(t, 1 or more)"),
        (Custom(custom), "custom"),
    ],
)
def test_guardrails_in_words(guardrail: Guardrail, words: str) -> None:
    assert describe_guardrail(guardrail) == words


def test_controls_in_words() -> None:
    assert describe_retry(RetryPolicy(count=0)) == "none"
    assert describe_retry(RetryPolicy(count=2, delay_seconds=1)) == "2x, 1 s apart"
    assert "doubling" in describe_retry(RetryPolicy(logic="EXPONENTIAL_BACKOFF"))
    assert describe_timeouts(TimeoutPolicy(total_seconds=500)) == "lease 120 s, total 500 s"
