"""A pipeline on a real Conductor and a real lakeFS, run by a worker in a process of its own."""

from __future__ import annotations

import pytest

from perago.app.follow import RunRequest, start_run
from perago.domain.ids import BranchName
from perago.domain.workflow import WorkflowStatus
from tests.acceptance.command_line import steps_of
from tests.acceptance.workers.site import Site

pytestmark = [pytest.mark.conductor, pytest.mark.lakefs, pytest.mark.timeout(900)]


def test_a_pipeline_completes_and_each_output_is_exactly_the_contracts(site: Site) -> None:
    site.branch("target")
    (pipeline,) = site.load("jobs").pipelines
    request = RunRequest(
        pipeline=pipeline,
        params={"text": "note", "lines": 2},
        repository=site.repository,
        branch=BranchName("target"),
    )
    with site.worker("-j", "2") as worker:
        started = start_run(request, store=site.store, orchestrator=site.conductor)
        state = site.finish(site.note(started))
        assert worker.stop() == 0, worker.said

    assert state.status is WorkflowStatus.COMPLETED, state.reason
    history = site.history("target")
    steps = [f"{word}_{site.mark}" for word in ("step", "add", "tidy")]
    assert [commit.metadata["perago.reference"] for commit in history] == steps
    first, second, third = (commit.id for commit in history)
    assert history[0].parents == (site.base,)
    steps_of(history)

    outputs = {task.attempt.reference_name: task.output for task in state.tasks}
    result = outputs[steps[0]].pop("result")
    looked = outputs[f"look_{site.mark}"].pop("result")
    for one in (result, looked):
        assert isinstance(one, dict)
        assert one.keys() == {"retry", "process"}
    target = site.workspace("target")
    assert outputs == {
        steps[0]: {"workspace": target | {"ref": first}},
        steps[1]: {
            "workspace": target | {"ref": second},
            "result": {"files": ["added.txt", "note.txt"]},
        },
        f"look_{site.mark}": {"workspace": target | {"ref": second}},
        steps[2]: {
            "workspace": target | {"ref": third},
            "result": {"files": ["in/kept.txt", "out/added.txt", "out/note.txt"]},
        },
    }
    inputs = [task.input["workspace"] for task in state.tasks]
    assert inputs == [target | {"ref": ref} for ref in (site.base, first, second, second)]
    assert site.stagings() == []
    assert worker.attempt_directories == []
