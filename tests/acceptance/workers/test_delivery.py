"""Who gets what: tasks that are delivered twice, workers side by side, and workers that end."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from perago.domain.attempt import AttemptStatus
from perago.domain.outcome import JsonObject
from tests.acceptance.workers.processes import processes_of_site, wait_until
from tests.acceptance.workers.site import Site

pytestmark = [pytest.mark.conductor, pytest.mark.lakefs, pytest.mark.timeout(900)]


def test_a_task_that_is_delivered_twice_is_run_once(site: Site, tmp_path: Path) -> None:
    gate, witness = tmp_path / "gate", tmp_path / "witness"
    with site.worker("-j", "2") as worker:
        workflow = site.start("step", "twice", {"gate": str(gate), "witness": str(witness)})
        # Until the attempt has begun, Conductor may take the second delivery for the first.
        wait_until(lambda: worker.attempt_directories != [], "the attempt began")
        task = site.wait_for_status(workflow, AttemptStatus.IN_PROGRESS)
        again: JsonObject = {
            "workflowInstanceId": workflow,
            "taskId": task.attempt.task_id,
            "status": "IN_PROGRESS",
            "callbackAfterSeconds": 0,
        }
        site.ask("POST", "/tasks", again)
        worker.wait_for("was delivered again while it runs")
        gate.touch()
        state = site.finish(workflow)
        assert worker.stop() == 0, worker.said

    assert [task.status for task in state.tasks] == [AttemptStatus.COMPLETED]
    assert len(witness.read_text().splitlines()) == 1
    site.assert_published_once(state, "twice")


def test_workers_side_by_side_do_each_other_no_harm(site: Site, tmp_path: Path) -> None:
    names = [f"side-{number}" for number in range(10)]
    witness = tmp_path / "witness"
    params: JsonObject = {"seconds": 0.5, "witness": str(witness)}
    with site.worker("-j", "2", home="one") as one, site.worker("-j", "2", home="two") as two:
        for worker in (one, two):
            worker.wait_until_ready()
        states = site.complete([site.start("step", name, params) for name in names])
        assert one.stop() == 0, one.said
        assert two.stop() == 0, two.said

    for name, state in zip(names, states, strict=True):
        assert len(state.tasks) == 1, "nobody was disturbed"
        site.assert_published_once(state, name)
    assert len(witness.read_text().splitlines()) == len(names)
    assert one.attempt_directories == two.attempt_directories == []


def test_a_root_is_for_one_worker(site: Site) -> None:
    with site.worker() as worker:
        worker.wait_until_ready()
        second = site.run("start", str(site.module("jobs")))
        assert worker.stop() == 0, worker.said

    assert second.code != 0
    assert f"held by process {worker.process.pid}" in second.err
    assert second.err.count("error:") == 1


def test_once_runs_what_is_queued_and_ends(site: Site) -> None:
    started = [site.start_raw("plain", f"once-{n}", {"params": {}}) for n in range(3)]

    with site.worker("--once", "-j", "2") as worker:
        assert worker.end() == 0, worker.said

    for workflow in started:
        (task,) = site.state(workflow).tasks
        assert task.status is AttemptStatus.COMPLETED
    # Python's own tracker of resources ends a moment after the supervisor.
    wait_until(lambda: processes_of_site(site.mark) == [], "nothing of it is left", within=30)


def test_a_worker_for_two_attempts_leaves_the_third(site: Site) -> None:
    started = [site.start_raw("plain", f"some-{n}", {"params": {}}) for n in range(3)]

    with site.worker("--max-tasks", "2", "-j", "2") as worker:
        assert worker.end() == 0, worker.said

    statuses = sorted(site.state(workflow).tasks[-1].status for workflow in started)
    assert statuses == ["COMPLETED", "COMPLETED", "SCHEDULED"]


@pytest.mark.parametrize(
    "bound",
    [{"PERAGO_RECYCLE_AFTER_ATTEMPTS": "1"}, {"PERAGO_RECYCLE_ABOVE_MEMORY": "1MB"}],
    ids=["attempts", "memory"],
)
def test_a_limited_task_runs_one_at_a_time_in_fresh_executors(
    site: Site, tmp_path: Path, bound: dict[str, str]
) -> None:
    witness = tmp_path / "witness"
    params: JsonObject = {"seconds": 0.2, "witness": str(witness)}
    limit = f"plain_{site.mark}=1"
    with site.worker("-j", "2", "--limit", limit, **bound) as worker:
        worker.wait_until_ready()
        started = [site.start_raw("plain", f"one-{n}", {"params": params}) for n in range(4)]
        site.complete(started)
        assert worker.stop() == 0, worker.said

    runs = sorted(tuple(map(float, line.split())) for line in witness.read_text().splitlines())
    assert len(runs) == 4
    for earlier, later in pairwise(runs):
        assert earlier[1] <= later[0], "one at a time"
    assert len({run[3] for run in runs}) == 4, "each in a process of its own"
    assert "died" not in worker.said
