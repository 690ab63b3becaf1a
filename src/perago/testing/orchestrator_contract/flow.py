"""The order of steps, and what flows from one to the next."""

from __future__ import annotations

from perago.domain.attempt import AttemptStatus
from perago.domain.ids import WorkflowId
from perago.domain.outcome import Completed, JsonObject, JsonValue
from perago.domain.workflow import TaskState, WorkflowStatus
from perago.testing.orchestrator_contract.bench import FAILURE, OrchestratorBench


class FlowContract:
    """SIMPLE, FORK_JOIN, JOIN, HUMAN and WAIT, and expressions between them."""

    def test_steps_run_one_after_the_other(self, bench: OrchestratorBench) -> None:
        bench.register_task("task")
        workflow_id = bench.start(bench.step("first"), bench.step("second"))
        first = bench.take().attempt
        assert first.reference_name == "first"
        assert bench.poll() == []
        bench.complete(first)
        second = bench.take().attempt
        assert (second.reference_name, second.seq) == ("second", first.seq + 1)
        assert bench.workflow(workflow_id).status is WorkflowStatus.RUNNING
        bench.complete(second)
        bench.eventually(lambda: bench.workflow(workflow_id).status is WorkflowStatus.COMPLETED)

    def test_a_text_that_is_one_expression_keeps_the_type(self, bench: OrchestratorBench) -> None:
        values: JsonObject = {
            "number": 3,
            "float": 1.5,
            "flag": False,
            "nothing": None,
            "list": [1, {"a": "b"}],
            "object": {"deep": {"er": []}},
            "text": "häh ${not}",
        }
        template: JsonObject = {key: f"${{workflow.input.values.{key}}}" for key in values}
        assert _resolve(bench, template, {"values": values}) == values

    def test_expressions_inside_a_text_are_interpolated(self, bench: OrchestratorBench) -> None:
        template: JsonObject = {
            "text": "${workflow.input.who} has ${workflow.input.count} and ${workflow.input.ok}"
        }
        resolved = _resolve(bench, template, {"who": "Ann", "count": 2, "ok": True})
        assert resolved == {"text": "Ann has 2 and true"}

    def test_a_path_that_leads_nowhere_is_null(self, bench: OrchestratorBench) -> None:
        template: JsonObject = {
            "gone": "${workflow.input.no.such[3].thing}",
            "inside": "<${workflow.input.gone}>",
        }
        assert _resolve(bench, template, {}) == {"gone": None, "inside": "<null>"}

    def test_expressions_reach_into_lists_and_stand_in_nested_templates(
        self, bench: OrchestratorBench
    ) -> None:
        template: JsonObject = {
            "plain": 7,
            "nested": {"list": ["${workflow.input.rows[1].id}", {"x": "${workflow.input.k}"}]},
        }
        workflow_input: JsonObject = {"rows": [{"id": "a"}, {"id": "b"}], "k": None}
        expected: JsonObject = {"plain": 7, "nested": {"list": ["b", {"x": None}]}}
        assert _resolve(bench, template, workflow_input) == expected

    def test_expressions_know_the_workflow_and_earlier_tasks(
        self, bench: OrchestratorBench
    ) -> None:
        bench.register_task("task")
        inputs: JsonObject = {
            "workspace": "${first.output.workspace}",
            "rows": "${first.output.result.rows}",
            "same": "${first.input.x}",
            "id": "${workflow.workflowId}",
            "status": "${first.status}",
        }
        workflow_id = bench.start(
            bench.step("first", inputParameters={"x": 1}),
            bench.step("second", inputParameters=inputs),
        )
        bench.run(workspace={"ref": "c1"}, result={"rows": 5})
        assert bench.take().input == {
            "workspace": {"ref": "c1"},
            "rows": 5,
            "same": 1,
            "id": workflow_id,
            "status": "COMPLETED",
        }

    def test_a_fork_runs_its_branches_side_by_side_and_the_join_waits_for_all(
        self, bench: OrchestratorBench
    ) -> None:
        workflow_id = bench.start(*_fork(bench), bench.step("after", "after"))
        left, right = bench.take("left"), bench.take("right")
        bench.complete(left.attempt, side="left")
        assert bench.poll("after") == []
        assert bench.run("left", side="left again").attempt.reference_name == "left-2"
        assert bench.poll("after") == []
        bench.complete(right.attempt, side="right")
        bench.run("after")
        bench.eventually(lambda: bench.workflow(workflow_id).status is WorkflowStatus.COMPLETED)
        (join,) = bench.attempts(workflow_id, "join")
        assert join.output == {"left-2": {"side": "left again"}, "right": {"side": "right"}}

    def test_a_failure_in_one_branch_cancels_the_others(self, bench: OrchestratorBench) -> None:
        workflow_id = bench.start(*_fork(bench), bench.step("after", "after"))
        left, right = bench.take("left").attempt, bench.take("right").attempt
        bench.orchestrator.report(left, FAILURE)
        bench.eventually(lambda: bench.workflow(workflow_id).status is WorkflowStatus.FAILED)
        assert bench.status(right) is AttemptStatus.CANCELED
        bench.complete(right)
        assert bench.status(right) is AttemptStatus.CANCELED
        assert bench.poll("left", "right", "after") == []

    def test_a_retry_in_a_branch_counts_on_from_all_tasks(self, bench: OrchestratorBench) -> None:
        workflow_id = bench.start(*_fork(bench, retryCount=1), bench.step("after", "after"))
        left = bench.take("left").attempt
        highest = max(task.attempt.seq for task in bench.workflow(workflow_id).tasks)
        bench.orchestrator.report(left, FAILURE)
        retry = bench.take("left").attempt
        assert retry.seq == highest + 1
        assert retry.logical_task == left.logical_task

    def test_a_human_task_is_completed_by_a_report(self, bench: OrchestratorBench) -> None:
        bench.register_task("task")
        human: JsonObject = {
            "name": "approve",
            "taskReferenceName": "approve",
            "type": "HUMAN",
            "inputParameters": {"question": "${first.output.result}"},
        }
        answer: JsonObject = {"answer": "${approve.output.answer}"}
        workflow_id = bench.start(
            bench.step("first"), human, bench.step("second", inputParameters=answer)
        )
        bench.run(result="go on?")
        state = _open_task(bench, workflow_id, "approve")
        assert (state.task_type, state.input) == ("HUMAN", {"question": "go on?"})
        assert bench.poll() == []
        bench.advance(bench.lease_seconds * 3)
        assert bench.status(state.attempt) is AttemptStatus.IN_PROGRESS
        answered = bench.orchestrator.report(state.attempt, Completed(output={"answer": "yes"}))
        assert answered is None
        assert bench.take().input == {"answer": "yes"}

    def test_a_wait_holds_the_workflow_for_its_duration(self, bench: OrchestratorBench) -> None:
        bench.register_task("task")
        wait: JsonObject = {
            "name": "pause",
            "taskReferenceName": "pause",
            "type": "WAIT",
            "inputParameters": {"duration": "${workflow.input.pause}"},
        }
        workflow_id = bench.start(wait, bench.step("second"), workflow_input={"pause": "5 seconds"})
        assert _open_task(bench, workflow_id, "pause").task_type == "WAIT"
        bench.advance(3)
        assert bench.poll() == []
        bench.advance(2.5)
        assert bench.take().attempt.reference_name == "second"

    def test_a_wait_can_be_ended_by_a_report(self, bench: OrchestratorBench) -> None:
        bench.register_task("task")
        wait: JsonObject = {
            "name": "pause",
            "taskReferenceName": "pause",
            "type": "WAIT",
            "inputParameters": {"duration": "2 days"},
        }
        workflow_id = bench.start(wait, bench.step("second"))
        pause = _open_task(bench, workflow_id, "pause").attempt
        assert bench.orchestrator.report(pause, Completed(output={})) is None
        assert bench.take().attempt.reference_name == "second"

    def test_the_workflow_output_is_what_its_parameters_say(self, bench: OrchestratorBench) -> None:
        bench.register_task("task")
        name = bench.register_workflow(
            "workflow",
            [bench.step("first"), bench.step("second")],
            outputParameters={"rows": "${first.output.rows}", "kind": "${workflow.input.kind}"},
        )
        workflow_id = bench.orchestrator.start_workflow(name, workflow_input={"kind": "daily"})
        bench.run(rows=5)
        bench.run(rows=6)
        bench.eventually(lambda: bench.workflow(workflow_id).status is WorkflowStatus.COMPLETED)
        assert bench.workflow(workflow_id).output == {"rows": 5, "kind": "daily"}

    def test_without_parameters_the_output_is_the_last_task_s(
        self, bench: OrchestratorBench
    ) -> None:
        workflow_id = bench.start_one()
        bench.run(rows=5)
        bench.eventually(lambda: bench.workflow(workflow_id).status is WorkflowStatus.COMPLETED)
        assert bench.workflow(workflow_id).output == {"rows": 5}


def _resolve(
    bench: OrchestratorBench, template: JsonObject, workflow_input: JsonObject
) -> JsonObject:
    """The input that a task with that template gets."""
    bench.register_task("task")
    bench.start(bench.step("only", inputParameters=template), workflow_input=workflow_input)
    return bench.take().input


def _fork(bench: OrchestratorBench, **task_fields: JsonValue) -> tuple[JsonObject, JsonObject]:
    """Two branches, the left one of two steps, and their join."""
    for word in ("left", "right", "after"):
        bench.register_task(word, **task_fields)
    fork: JsonObject = {
        "name": "fork",
        "taskReferenceName": "fork",
        "type": "FORK_JOIN",
        "forkTasks": [
            [bench.step("left", "left"), bench.step("left-2", "left")],
            [bench.step("right", "right")],
        ],
    }
    join: JsonObject = {
        "name": "join",
        "taskReferenceName": "join",
        "type": "JOIN",
        "joinOn": ["left-2", "right"],
    }
    return fork, join


def _open_task(bench: OrchestratorBench, workflow_id: WorkflowId, reference: str) -> TaskState:
    """A task that is in progress without a worker, as soon as it is."""
    bench.eventually(
        lambda: any(
            task.status is AttemptStatus.IN_PROGRESS
            for task in bench.attempts(workflow_id, reference)
        )
    )
    return bench.attempts(workflow_id, reference)[-1]
