"""A server that is dead, failing, slow, or cut off in the middle of an answer."""

from __future__ import annotations

from uuid import uuid4

import pytest
import urllib3

from perago.adapters.conductor import ConductorConnection, ConductorOrchestrator
from perago.domain.attempt import AttemptStatus
from perago.domain.errors import (
    NotFoundInOrchestratorError,
    OrchestratorError,
    OrchestratorUnavailableError,
    SettingsError,
)
from perago.domain.ids import TaskId, WorkerId, WorkflowId
from perago.domain.outcome import Completed
from perago.domain.workflow import WorkflowStatus
from tests.conductor_server import SharedConductor
from tests.fault_proxy import (
    Action,
    Answer,
    CutBefore,
    CutResponse,
    DelayResponse,
    Fault,
    LoseResponse,
    Match,
)
from tests.integration.conductor.faulty_conductor import FaultyConductor, faulty_conductor

pytestmark = pytest.mark.conductor
UPDATE = Match("POST", r"/api/tasks$")
PASSING = [
    Answer(status=500),
    Answer(status=503),
    Answer(status=404, body=b"<html>default backend - 404</html>"),
    CutBefore(),
    LoseResponse(),
    CutResponse(after=2),
]


@pytest.mark.parametrize("action", PASSING, ids=repr)
def test_a_report_gets_through_what_passes_and_counts_once(
    conductor: FaultyConductor, action: Action
) -> None:
    attempt = conductor.take().attempt
    conductor.proxy.add(Fault(match=UPDATE, action=action, times=2))
    assert conductor.client.report(attempt, Completed(output={"rows": 1})) is None
    state = conductor.direct.workflow(attempt.workflow_id)
    assert state.status is WorkflowStatus.COMPLETED
    assert [task.output for task in state.tasks] == [{"rows": 1}]
    # An answer that was lost after the report got through is found out by reading.
    assert conductor.proxy.count("POST", r"/api/tasks$") in (1, 3)


@pytest.mark.parametrize("action", PASSING, ids=repr)
def test_the_fence_reads_through_what_passes(conductor: FaultyConductor, action: Action) -> None:
    attempt = conductor.take().attempt
    conductor.proxy.add(Fault(match=Match("GET", r"/api/(tasks|workflow)/"), action=action))
    conductor.client.heartbeat(attempt)
    assert conductor.client.snapshot(attempt.task_id).status is AttemptStatus.IN_PROGRESS


@pytest.mark.parametrize("action", PASSING, ids=repr)
def test_a_poll_is_never_repeated(conductor: FaultyConductor, action: Action) -> None:
    conductor.proxy.add(Fault(match=Match("GET", r"/tasks/poll/"), action=action))
    with pytest.raises(OrchestratorError):
        conductor.poll()
    assert conductor.proxy.count("GET", r"/tasks/poll/") == 1


def test_a_poll_whose_answer_is_lost_leaves_its_task_to_the_time_out(
    conductor: FaultyConductor,
) -> None:
    workflow_id = conductor.start()
    conductor.proxy.add(Fault(match=Match("GET", r"/tasks/poll/"), action=LoseResponse()))
    with pytest.raises(OrchestratorUnavailableError, match="may have been done"):
        conductor.poll()
    (task,) = conductor.direct.workflow(workflow_id).tasks
    assert task.status is AttemptStatus.IN_PROGRESS
    assert conductor.poll() == []


def test_a_404_of_a_listing_is_a_wrong_address_and_told_at_once(conductor: FaultyConductor) -> None:
    path = r"/api/workflow/search"
    conductor.proxy.add(Fault(match=Match("GET", path), action=Answer(status=404), times=None))
    with pytest.raises(OrchestratorError, match="does not serve that path") as caught:
        conductor.client.workflow_ids(limit=1)
    assert type(caught.value) is OrchestratorError
    assert conductor.proxy.count("GET", path) == 1


def test_what_the_server_has_none_of_is_told_in_its_own_words(conductor: FaultyConductor) -> None:
    nothing = str(uuid4())
    with pytest.raises(NotFoundInOrchestratorError):
        conductor.client.snapshot(TaskId(nothing))
    with pytest.raises(NotFoundInOrchestratorError):
        conductor.client.workflow(WorkflowId(nothing))
    with pytest.raises(NotFoundInOrchestratorError):
        conductor.client.start_workflow(f"no-{nothing}", workflow_input={})
    assert conductor.client.find_task_definition(f"no-{nothing}") is None
    assert conductor.client.find_workflow_definition(f"no-{nothing}") is None
    assert conductor.client.find_workflow_definition(f"no-{nothing}", 3) is None
    assert conductor.proxy.count("GET", rf"/metadata/.*{nothing}") == 3, "nothing is asked twice"


def test_a_workflow_is_never_started_twice(conductor: FaultyConductor) -> None:
    conductor.proxy.add(Fault(match=Match("POST", r"/api/workflow$"), action=LoseResponse()))
    with pytest.raises(OrchestratorUnavailableError, match="may have been done"):
        conductor.client.start_workflow(conductor.name("task"), workflow_input={})
    assert len(conductor.poll(count=5)) == 1


def test_what_was_taken_is_kept_when_the_next_name_fails(conductor: FaultyConductor) -> None:
    conductor.register("one", "two")
    conductor.start("one")
    conductor.start("two")
    conductor.proxy.add(
        Fault(match=Match("GET", r"/tasks/poll/", nth=2), action=Answer(status=500))
    )
    assert len(conductor.poll("one", "two", count=5)) == 1
    assert len(conductor.poll("one", "two", count=5)) == 1


def test_a_slow_server_is_given_up_and_named(conductor_server: SharedConductor) -> None:
    with faulty_conductor(
        conductor_server.endpoint, timeout_seconds=0.5, retry_seconds=0
    ) as conductor:
        attempt = conductor.take().attempt
        conductor.proxy.add(Fault(match=UPDATE, action=DelayResponse(seconds=3)))
        with pytest.raises(OrchestratorUnavailableError, match=conductor.proxy.endpoint):
            conductor.client.heartbeat(attempt)


def test_a_long_poll_is_not_cut_short_by_the_client(conductor_server: SharedConductor) -> None:
    with faulty_conductor(
        conductor_server.endpoint, timeout_seconds=1.0, retry_seconds=0
    ) as conductor:
        assert conductor.poll(wait_seconds=3) == []
        conductor.start()
        assert len(conductor.poll(wait_seconds=3)) == 1


def test_a_server_that_is_not_there_is_named() -> None:
    url = "http://127.0.0.1:9"
    with ConductorOrchestrator(ConductorConnection(url=url, retry_seconds=0)) as nobody:
        with pytest.raises(OrchestratorUnavailableError, match=url):
            nobody.workflow(WorkflowId("w"))
        with pytest.raises(OrchestratorUnavailableError, match=url):
            nobody.poll(["t"], worker_id=WorkerId("w"), count=1, wait_seconds=0)


@pytest.mark.parametrize("body", [b"<html>welcome</html>", b"[]", b'{"workflowId": "x"}'])
def test_another_server_s_answer_is_no_snapshot(conductor: FaultyConductor, body: bytes) -> None:
    attempt = conductor.take().attempt
    answer = Answer(status=200, body=body)
    conductor.proxy.add(Fault(match=Match("GET", r"/api/workflow/"), action=answer))
    with pytest.raises(OrchestratorError, match="not one of a Conductor server"):
        conductor.client.snapshot(attempt.task_id)


def test_an_instance_that_is_gone_is_not_found(conductor: FaultyConductor) -> None:
    attempt = conductor.take().attempt
    path = f"{conductor.endpoint}/api/workflow/{attempt.workflow_id}/remove?archiveWorkflow=false"
    assert urllib3.request("DELETE", path).status == 200
    for ask in (
        lambda: conductor.client.snapshot(attempt.task_id),
        lambda: conductor.client.report(attempt, Completed(output={})),
        lambda: conductor.client.heartbeat(attempt),
    ):
        with pytest.raises(NotFoundInOrchestratorError):
            ask()


def test_an_ingress_s_404_does_not_say_that_an_instance_is_gone(
    conductor_server: SharedConductor,
) -> None:
    with faulty_conductor(conductor_server.endpoint, retry_seconds=0) as conductor:
        attempt = conductor.take().attempt
        page = Answer(status=404, body=b"<html>default backend - 404</html>")
        conductor.proxy.add(Fault(match=Match("GET", r"/api/"), action=page, times=None))
        with pytest.raises(OrchestratorUnavailableError, match="404"):
            conductor.client.snapshot(attempt.task_id)
        with pytest.raises(OrchestratorUnavailableError, match="404"):
            conductor.client.report(attempt, Completed(output={}))


def test_an_address_that_is_none_is_refused_at_once() -> None:
    with pytest.raises(SettingsError):
        ConductorOrchestrator(ConductorConnection(url="conductor:8080"))
