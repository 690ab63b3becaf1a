"""What can be asked of an orchestrator: definitions, instances, logs."""

from __future__ import annotations

from datetime import UTC

import pytest

from perago.domain.attempt import AttemptStatus
from perago.domain.errors import (
    InvalidDefinitionError,
    NotFoundInOrchestratorError,
    OrchestratorError,
)
from perago.domain.ids import WorkflowId
from perago.domain.outcome import Completed
from perago.domain.workflow import WorkflowStatus
from perago.testing.orchestrator_contract.bench import FAILURE, OrchestratorBench


class RecordContract:
    """Definitions, versions, instances, termination, logs, limits."""

    def test_an_instance_shows_what_it_is(self, bench: OrchestratorBench) -> None:
        bench.register_task("task")
        step = bench.step("only", inputParameters={"x": "${workflow.input.x}"})
        workflow_id = bench.start(step, workflow_input={"x": 1})
        state = bench.workflow(workflow_id)
        assert (state.id, state.name, state.version) == (workflow_id, bench.name("workflow"), 1)
        assert state.status is WorkflowStatus.RUNNING
        assert (state.input, state.output) == ({"x": 1}, {})
        assert state.started_at.tzinfo == UTC
        assert state.ended_at is None
        assert state.reason is None
        (task,) = state.tasks
        assert (task.task_type, task.status) == ("SIMPLE", AttemptStatus.SCHEDULED)
        assert (task.input, task.output, task.reason) == ({"x": 1}, {}, None)
        assert task.attempt.workflow_id == workflow_id
        assert task.attempt.task_name == bench.name("task")

    def test_a_completed_instance_shows_when_and_what(self, bench: OrchestratorBench) -> None:
        workflow_id = bench.start_one()
        bench.run(result={"ok": True})
        bench.eventually(lambda: bench.workflow(workflow_id).status is WorkflowStatus.COMPLETED)
        state = bench.workflow(workflow_id)
        assert state.ended_at is not None
        assert state.ended_at >= state.started_at
        (task,) = state.tasks
        assert task.status is AttemptStatus.COMPLETED
        assert task.output == {"result": {"ok": True}}
        moments = [task.scheduled_at, task.started_at, task.ended_at]
        known = [moment for moment in moments if moment is not None]
        assert len(known) == 3
        assert known == sorted(known)

    def test_an_instance_lists_every_attempt_oldest_first(self, bench: OrchestratorBench) -> None:
        bench.register_task("task", retryCount=1)
        workflow_id = bench.start(bench.step("first"), bench.step("second"))
        bench.orchestrator.report(bench.take().attempt, FAILURE)
        bench.run()
        bench.take()
        attempts = [task.attempt for task in bench.workflow(workflow_id).tasks]
        assert [(a.reference_name, a.retry_count, a.seq) for a in attempts] == [
            ("first", 0, 1),
            ("first", 1, 2),
            ("second", 0, 3),
        ]

    def test_instances_are_listed_newest_first(self, bench: OrchestratorBench) -> None:
        bench.register_task("task")
        name = bench.register_workflow("workflow", [bench.step("only")])
        started = []
        for _ in range(3):
            started.append(bench.orchestrator.start_workflow(name, workflow_input={}))
            bench.advance(0.01)
        assert [state.id for state in bench.second.workflows(name=name)] == started[::-1]
        assert [state.id for state in bench.second.workflows(limit=2, name=name)] == [
            started[2],
            started[1],
        ]

    def test_instances_of_all_workflows_are_listed_together(self, bench: OrchestratorBench) -> None:
        bench.register_task("task")
        names = [bench.register_workflow(one, [bench.step("only")]) for one in ("this", "that")]
        started = [bench.orchestrator.start_workflow(name, workflow_input={}) for name in names]
        # On a shared server others start theirs meanwhile, so how many are newer is not known.
        assert len(bench.second.workflows(limit=2)) == 2
        assert set(started) <= set(bench.second.workflow_ids(limit=10_000))
        assert bench.second.workflow_ids(limit=10, name=names[0]) == started[:1]

    def test_unfinished_instances_are_listed_without_the_others(
        self, bench: OrchestratorBench
    ) -> None:
        bench.register_task("task")
        name = bench.register_workflow("workflow", [bench.step("only")])
        started = []
        for _ in range(3):
            started.append(bench.orchestrator.start_workflow(name, workflow_input={}))
            bench.advance(0.01)
        bench.orchestrator.terminate(started[1], "no longer wanted")

        def listed(*, unfinished: bool) -> list[WorkflowId]:
            return bench.second.workflow_ids(limit=100, unfinished=unfinished, name=name)

        bench.eventually(lambda: started[1] not in listed(unfinished=True))
        assert listed(unfinished=True) == [started[2], started[0]]
        assert listed(unfinished=False) == started[::-1]
        assert len(bench.second.workflow_ids(limit=1)) == 1

    def test_an_unknown_instance_is_not_found(self, bench: OrchestratorBench) -> None:
        unknown = WorkflowId("00000000-0000-0000-0000-000000000000")
        with pytest.raises(NotFoundInOrchestratorError):
            bench.orchestrator.workflow(unknown)

    def test_a_registered_task_definition_can_be_read_back(self, bench: OrchestratorBench) -> None:
        name = bench.register_task("task", retryCount=3, description="before")
        bench.register_task("task", retryCount=4)
        found = bench.second.find_task_definition(name)
        assert found is not None
        assert (found["name"], found["retryCount"]) == (name, 4)
        assert "description" not in found
        assert bench.second.find_task_definition(bench.name("no-such")) is None

    def test_a_registered_workflow_definition_can_be_read_back(
        self, bench: OrchestratorBench
    ) -> None:
        bench.register_task("task")
        for version in (2, 10, 9):
            step = bench.step(f"of-version-{version}")
            bench.register_workflow("workflow", [step], version=version)
        name = bench.name("workflow")
        newest = bench.second.find_workflow_definition(name)
        assert newest is not None
        assert (newest["name"], newest["version"]) == (name, 10)
        older = bench.second.find_workflow_definition(name, 2)
        assert older is not None
        assert older["version"] == 2
        assert "of-version-2" in str(older["tasks"])
        assert bench.second.find_workflow_definition(name, 7) is None
        assert bench.second.find_workflow_definition(bench.name("no-such")) is None

    def test_the_newest_version_is_started_unless_another_is_asked_for(
        self, bench: OrchestratorBench
    ) -> None:
        bench.register_task("task")
        for version in (2, 10, 9):
            step = bench.step(f"of-version-{version}")
            bench.register_workflow("workflow", [step], version=version)
        name = bench.name("workflow")
        newest = bench.orchestrator.start_workflow(name, workflow_input={})
        assert bench.workflow(newest).version == 10
        assert bench.take().attempt.reference_name == "of-version-10"
        older = bench.orchestrator.start_workflow(name, workflow_input={}, version=2)
        assert bench.workflow(older).version == 2
        assert bench.take().attempt.reference_name == "of-version-2"

    def test_what_is_not_registered_cannot_be_started(self, bench: OrchestratorBench) -> None:
        with pytest.raises(NotFoundInOrchestratorError):
            bench.orchestrator.start_workflow(bench.name("no-such"), workflow_input={})
        bench.register_task("task")
        name = bench.register_workflow("workflow", [bench.step("only")])
        with pytest.raises(NotFoundInOrchestratorError):
            bench.orchestrator.start_workflow(name, workflow_input={}, version=7)

    def test_a_running_instance_keeps_its_definition(self, bench: OrchestratorBench) -> None:
        bench.register_task("task")
        old = bench.start(bench.step("first"), bench.step("second-of-old"))
        new = bench.start(bench.step("first"), bench.step("second-of-new"))
        ran = [bench.run().attempt for _ in range(4)]
        assert {(attempt.workflow_id, attempt.reference_name) for attempt in ran} == {
            (old, "first"),
            (old, "second-of-old"),
            (new, "first"),
            (new, "second-of-new"),
        }

    def test_a_running_instance_keeps_its_task_definitions(self, bench: OrchestratorBench) -> None:
        workflow_id = bench.start_one(retryCount=1)
        bench.register_task("task", retryCount=0)
        bench.orchestrator.report(bench.take().attempt, FAILURE)
        assert bench.take().attempt.workflow_id == workflow_id

    def test_a_definition_that_cannot_run_is_refused(self, bench: OrchestratorBench) -> None:
        bench.register_task("task")
        with pytest.raises(InvalidDefinitionError, match="twice-named"):
            bench.register_workflow(
                "workflow", [bench.step("twice-named"), bench.step("twice-named")]
            )

    def test_terminating_cancels_what_is_open(self, bench: OrchestratorBench) -> None:
        bench.register_task("task")
        workflow_id = bench.start(bench.step("first"), bench.step("second"))
        bench.run()
        attempt = bench.take().attempt
        bench.orchestrator.terminate(workflow_id, "no longer wanted")
        state = bench.workflow(workflow_id)
        assert state.status is WorkflowStatus.TERMINATED
        assert state.reason == "no longer wanted"
        assert state.ended_at is not None
        assert [task.status for task in state.tasks] == [
            AttemptStatus.COMPLETED,
            AttemptStatus.CANCELED,
        ]
        bench.orchestrator.heartbeat(attempt)
        bench.complete(attempt)
        assert bench.status(attempt) is AttemptStatus.CANCELED

    def test_a_terminated_instance_schedules_nothing(self, bench: OrchestratorBench) -> None:
        workflow_id = bench.start_one(retryCount=3)
        bench.orchestrator.terminate(workflow_id, "no longer wanted")
        assert bench.poll() == []
        bench.advance(bench.lease_seconds * 2)
        assert bench.poll() == []

    def test_terminating_what_is_over_changes_nothing(self, bench: OrchestratorBench) -> None:
        workflow_id = bench.start_one()
        bench.run(rows=1)
        bench.eventually(lambda: bench.workflow(workflow_id).status is WorkflowStatus.COMPLETED)
        bench.orchestrator.terminate(workflow_id, "too late")
        state = bench.workflow(workflow_id)
        assert state.status is WorkflowStatus.COMPLETED
        assert (state.output, state.reason) == ({"rows": 1}, None)

    def test_a_log_keeps_its_lines_in_order(self, bench: OrchestratorBench) -> None:
        bench.register_task("task")
        bench.start(bench.step("first"), bench.step("second"))
        first = bench.run().attempt.task_id
        second = bench.take().attempt.task_id
        for text in ("one", "two — ünïcode", "three"):
            bench.orchestrator.append_log(first, text)
        bench.orchestrator.append_log(second, "other")
        lines = bench.second.read_log(first)
        assert [line.text for line in lines] == ["one", "two — ünïcode", "three"]
        assert [line.at for line in lines] == sorted(line.at for line in lines)
        assert [line.text for line in bench.second.read_log(second)] == ["other"]

    def test_an_output_over_the_limit_is_refused_and_changes_nothing(
        self, bench: OrchestratorBench
    ) -> None:
        bench.start_one()
        attempt = bench.take().attempt
        limit = bench.orchestrator.max_output_bytes
        with pytest.raises(OrchestratorError, match=attempt.task_id):
            bench.orchestrator.report(attempt, Completed(output={"text": "x" * limit}))
        assert bench.status(attempt) is AttemptStatus.IN_PROGRESS

    def test_an_output_of_the_limit_is_taken(self, bench: OrchestratorBench) -> None:
        workflow_id = bench.start_one()
        frame = len('{"text":""}')
        text = "x" * (bench.orchestrator.max_output_bytes - frame)
        bench.run(text=text)
        assert bench.attempts(workflow_id)[0].output == {"text": text}
