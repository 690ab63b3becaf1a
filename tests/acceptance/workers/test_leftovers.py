"""`perago gc --staging` on what killed workers left: Conductor says what may go."""

from __future__ import annotations

import pytest

from perago.domain.attempt import AttemptStatus
from perago.domain.ids import TaskId, WorkflowId
from perago.domain.staging import parse_staging_name
from tests.acceptance.command_line import Ended
from tests.acceptance.workers.moments import wait_until_stopped
from tests.acceptance.workers.processes import processes_of_site, wait_until
from tests.acceptance.workers.site import Site

pytestmark = [pytest.mark.conductor, pytest.mark.lakefs, pytest.mark.timeout(900)]

NOT_OVER = "its attempt is not over"
UNKNOWN = "its attempt is unknown to this orchestrator"


def test_what_a_killed_worker_left_goes_once_its_workflow_is_over(site: Site) -> None:
    started = kill_worker_while_staged(site, "cancelled", "waiting", "forgotten")
    stagings = {name: staging_of(site, workflow) for name, workflow in started.items()}
    early = collect(site)
    assert early.out.splitlines() == left(site, dict.fromkeys(stagings.values(), NOT_OVER))

    cancel = site.run("cancel", started["cancelled"], "--reason", "enough")
    forget(site, started["forgotten"])
    kept = {stagings["waiting"]: NOT_OVER, stagings["forgotten"]: UNKNOWN}
    dry_run = site.run("gc", "--staging", site.repository, "--dry-run")
    untouched = site.stagings()
    late = collect(site)

    assert cancel.code == 0, cancel
    assert f"would remove {stagings['cancelled']} of {site.repository}" in dry_run.out
    assert sorted(untouched) == sorted(stagings.values())
    assert late.out.splitlines() == [
        f"removed {stagings['cancelled']} of {site.repository}",
        *left(site, kept, removed=1),
    ]
    assert sorted(site.stagings()) == sorted(kept)
    assert site.state(started["waiting"]).tasks[-1].status is AttemptStatus.IN_PROGRESS
    assert site.history("cancelled") == site.history("waiting") == []


def test_an_execution_that_runs_keeps_its_staging_and_publishes(site: Site) -> None:
    """Beside that of its own first attempt, whose executor was killed: the attempt counts, not
    the workflow.
    """
    rules = "staged=kill@step#0;staged=stop@step#1"
    with site.worker(PERAGO_FAILPOINTS=rules) as worker:
        workflow = site.start("step", "step")
        wait_until_stopped(worker, 1)
        killed, running = (staging_of(site, workflow, retry) for retry in (0, 1))

        collected = collect(site)
        again = collect(site)

        worker.thaw(worker.tree)
        (state,) = site.complete([workflow])
        assert worker.stop() == 0, worker.said

    assert collected.out.splitlines() == [
        f"removed {killed} of {site.repository}",
        *left(site, {running: NOT_OVER}, removed=1),
    ]
    assert again.out.splitlines() == left(site, {running: NOT_OVER})
    assert [task.status for task in state.tasks] == [AttemptStatus.FAILED, AttemptStatus.COMPLETED]
    site.assert_published_once(state, "step")
    assert site.stagings() == []


def kill_worker_while_staged(site: Site, *names: str) -> dict[str, WorkflowId]:
    """kill -9 of a supervisor while each of these steps has staged its files; nobody reports."""
    lengthen_lease(site, "step")
    rules = ";".join(f"staged=stop@{name}" for name in names)
    with site.worker("-j", str(len(names)), PERAGO_FAILPOINTS=rules) as worker:
        started = {name: site.start("step", name) for name in names}
        wait_until_stopped(worker, len(names))
        worker.kill()
        wait_until(lambda: processes_of_site(site.mark) == [], "its executors are gone")
    return started


def lengthen_lease(site: Site, task: str) -> None:
    """So that Conductor still waits for a dead worker while the test looks, however slowly."""
    definition = site.conductor.find_task_definition(f"{task}_{site.mark}")
    assert definition is not None
    site.conductor.register_task(definition | {"responseTimeoutSeconds": 3600})


def staging_of(site: Site, workflow: WorkflowId, retry: int = 0) -> str:
    """The one branch that this attempt staged on."""
    attempt = site.state(workflow).tasks[retry].attempt
    (found,) = [name for name in site.stagings() if task_of(name) == attempt.task_id]
    return found


def task_of(staging: str) -> TaskId | None:
    name = parse_staging_name(staging)
    return None if name is None else name.task_id


def collect(site: Site) -> Ended:
    collected = site.run("gc", "--staging", site.repository)
    assert (collected.code, collected.err) == (0, ""), collected
    return collected


def left(site: Site, why: dict[str, str], *, removed: int = 0) -> list[str]:
    """What is said of those that stay, by name as the store lists them, and the sum."""
    noun = "staging" if removed == 1 else "stagings"
    return [
        *(f"left {name} of {site.repository}: {why[name]}" for name in sorted(why)),
        f"removed {removed} {noun}, left {len(why)}",
    ]


def forget(site: Site, workflow: WorkflowId) -> None:
    """Have Conductor delete an instance, as its archiving does."""
    site.ask("DELETE", f"/workflow/{workflow}/remove?archiveWorkflow=false")
    site.started.remove(workflow)
