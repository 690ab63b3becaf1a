"""`status`, `logs`, `cancel`, `complete`: on a real home, with a worker played by the test."""

import json
from pathlib import Path

import pytest

from perago.bootstrap import Application
from perago.cli.errors import ExitCode
from perago.domain.attempt import Attempt
from perago.domain.ids import ExecutionId, WorkerId, WorkflowId
from perago.domain.outcome import Completed, Failed, JsonObject, Phase
from perago.runtime.attempt_logs import attempt_log_path
from tests.unit.cli.conftest import LAB, MAIN, Perago


def poll(application: Application, task: str) -> tuple[Attempt, JsonObject]:
    (polled,) = application.orchestrator.poll(
        [task], worker_id=WorkerId("w"), count=1, wait_seconds=10
    )
    return polled.attempt, polled.input


def finish_write(application: Application) -> Attempt:
    attempt, given = poll(application, "write")
    output: JsonObject = {"workspace": given["workspace"], "result": {"size": 5}}
    application.orchestrator.report(attempt, Completed(output=output))
    return attempt


def status(perago: Perago, run: str) -> JsonObject:
    found = perago("status", run, "--json").json["run"]
    assert isinstance(found, dict)
    return found


def test_no_runs_yet(perago: Perago, application: Application) -> None:
    assert perago("status").out == "no runs yet\n"
    assert perago("status", "--json").json == {"runs": []}
    last = perago("status", "last")
    assert last.code == ExitCode.BACKEND
    assert "there is no run 'last'" in last.err


def test_the_list_of_runs(perago: Perago, run: WorkflowId) -> None:
    header, line = perago("status").out.splitlines()
    (listed,) = json.loads(perago("status", "--json").out)["runs"]

    assert header.split()[0] == "RUN"
    assert line.split()[:4] == [run[:8], "flow", "v3", "RUNNING"]
    assert (listed["id"], listed["status"], listed["ended_at"]) == (run, "RUNNING", None)
    assert listed["workspace"]["repository"] == "lab"


def test_one_run_with_every_attempt(
    perago: Perago, application: Application, run: WorkflowId
) -> None:
    attempt, _ = poll(application, "write")
    application.orchestrator.report(attempt, Failed(reason="no luck", phase=Phase.BODY))

    shown = perago("status", run[:8]).out
    attempts = status(perago, "last")["attempts"]

    assert "write: no luck" in shown
    assert isinstance(attempts, list)
    first, second = (each for each in attempts if isinstance(each, dict))
    assert (first["step"], first["retry"], first["status"]) == ("write", 0, "FAILED")
    assert first["reason"] == "no luck"
    assert first["input_ref"] == application.store.head(LAB, MAIN).id
    assert first["output_ref"] is None
    assert (second["retry"], second["status"]) == (1, "SCHEDULED")


def test_an_unknown_run_is_said_to_be_unknown(perago: Perago, run: WorkflowId) -> None:
    answer = perago("status", "ffffffff-nope", "--json")

    assert answer.code == ExitCode.BACKEND
    assert answer.json["error"] == {
        "type": "NotFoundInOrchestratorError",
        "message": "there is no run 'ffffffff-nope'",
        "hint": "`perago status` lists the runs",
        "exit_code": 4,
    }


def test_logs_are_files_and_notes(
    perago: Perago, application: Application, run: WorkflowId
) -> None:
    attempt = finish_write(application)
    application.orchestrator.append_log(attempt.task_id, "half way")
    path = attempt_log_path(application.settings.logs_directory, attempt, ExecutionId("e" * 32))
    path.parent.mkdir(parents=True)
    path.write_bytes(b"printed \xff\nand \x1b[2J more")

    shown = perago("logs", "last", "write").out.splitlines()
    (as_json,) = json.loads(perago("logs", run, "write", "--retry", "0", "--json").out)["attempts"]

    assert shown[0] == "== write, retry 0, COMPLETED"
    assert shown[1].endswith(" half way")
    assert shown[2:] == ["printed �", r"and \x1b[2J more"]
    assert as_json["notes"][0]["text"] == "half way"
    assert as_json["files"] == [{"path": str(path), "text": "printed �\nand \x1b[2J more"}]


def test_logs_of_every_step_and_of_none(
    perago: Perago, application: Application, run: WorkflowId
) -> None:
    attempt = finish_write(application)
    application.orchestrator.append_log(attempt.task_id, "one")

    assert "one" in perago("logs", "last").out
    for arguments in (("nope",), ("write", "--retry", "7")):
        answer = perago("logs", "last", *arguments)
        assert answer.code == ExitCode.BACKEND
        assert "so far it has: write, approve" in answer.err


def test_following_a_run_that_is_over_ends_at_once(
    perago: Perago, application: Application, run: WorkflowId
) -> None:
    attempt = finish_write(application)
    application.orchestrator.append_log(attempt.task_id, "one")
    application.orchestrator.terminate(run, "enough")

    assert perago("logs", "last", "--follow").out.count("one") == 1
    assert perago("logs", "last", "--follow", "--json").code == ExitCode.USAGE


def test_a_run_is_cancelled_once(perago: Perago, run: WorkflowId) -> None:
    first = perago("cancel", "last", "--reason", "wrong year")
    second = perago("cancel", run, "--json").json

    assert first.code == 0
    assert first.out == f"run {run[:8]} is TERMINATED: wrong year\n"
    assert second == {"run": run, "status": "TERMINATED", "cancelled": False}
    assert status(perago, run)["reason"] == "wrong year"
    assert "was over already" in perago("cancel", run).out


def test_a_human_step_is_completed_from_the_head_of_the_branch(
    perago: Perago, application: Application, project: Path, run: WorkflowId
) -> None:
    finish_write(application)
    (project / "edit").mkdir()
    (project / "edit" / "x").write_text("by hand")
    edited = perago("store", "import", "edit", "lab", "--json").json["commit"]

    answer = perago("complete", "last", "approve", "--output", '{"ok": true}', "--json").json

    output = answer["output"]
    assert isinstance(output, dict)
    assert output["ok"] is True
    assert isinstance(output["workspace"], dict)
    assert output["workspace"]["ref"] == edited
    _, given = poll(application, "look")
    assert given["workspace"] == output["workspace"]


def test_a_human_step_goes_on_from_a_ref_that_is_given(
    perago: Perago, application: Application, run: WorkflowId
) -> None:
    finish_write(application)
    first = application.store.head(LAB, MAIN).id

    answer = perago("complete", "last", "approve", "--ref", first[:12])

    assert answer.out.splitlines() == [
        f"approve completed; run {run[:8]} is RUNNING",
        f"the workspace goes on at {first[:12]}",
    ]


def test_a_human_step_can_fail(perago: Perago, application: Application, run: WorkflowId) -> None:
    finish_write(application)

    answer = perago("complete", "last", "approve", "--failed", "bad numbers")

    assert answer.out == f"approve failed; run {run[:8]} is FAILED\n"
    assert "bad numbers" in perago("status", "last").out


def test_an_output_can_come_from_a_file(
    perago: Perago, application: Application, project: Path, run: WorkflowId
) -> None:
    finish_write(application)
    (project / "answer.json").write_text('{"ok": 1}')

    answer = perago("complete", "last", "approve", "--output-file", "answer.json", "--json").json

    assert isinstance(answer["output"], dict)
    assert answer["output"]["ok"] == 1


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("nope",), ExitCode.BACKEND, "waiting for a person: approve"),
        (("write",), ExitCode.USAGE, "is a SIMPLE task, not a HUMAN one"),
        (("approve", "--output", "[1]"), ExitCode.USAGE, "--output is not a JSON object"),
        (("approve", "--output", "{"), ExitCode.USAGE, "--output is not JSON"),
        (("approve", "--output-file", "none.json"), ExitCode.USAGE, "cannot read none.json"),
        (("approve", "--output", "{}", "--failed", "x"), ExitCode.USAGE, "exclude each other"),
        (("approve", "--ref", "nothing"), ExitCode.BACKEND, "nothing"),
    ],
)
def test_a_step_that_cannot_be_completed_so(
    perago: Perago,
    application: Application,
    run: WorkflowId,
    arguments: tuple[str, ...],
    code: ExitCode,
    says: str,
) -> None:
    finish_write(application)

    answer = perago("complete", "last", *arguments)

    assert answer.code == code
    assert says in answer.err
    assert status(perago, "last")["status"] == "RUNNING"


def test_a_step_is_completed_once(
    perago: Perago, application: Application, run: WorkflowId
) -> None:
    finish_write(application)
    perago("complete", "last", "approve")

    answer = perago("complete", "last", "approve")

    assert answer.code == ExitCode.USAGE
    assert "is over: COMPLETED" in answer.err
