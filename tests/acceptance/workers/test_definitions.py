"""What a worker says of the TaskDefs that a real Conductor has, before it takes work."""

from __future__ import annotations

import pytest

from perago.cli.errors import ExitCode
from perago.domain.outcome import JsonObject
from tests.acceptance.command_line import Ended
from tests.acceptance.workers.processes import WorkerProcess
from tests.acceptance.workers.site import Site

pytestmark = [pytest.mark.conductor, pytest.mark.lakefs, pytest.mark.timeout(900)]


def test_a_definition_that_differs_is_warned_of_by_its_fields_and_work_goes_on(site: Site) -> None:
    changed = register_otherwise(
        site, "step", {"retryCount": 9, "responseTimeoutSeconds": 90, "concurrentExecLimit": 4}
    )
    with site.worker() as worker:
        (state,) = site.complete([site.start("step", "step")])
        assert worker.stop() == 0, worker.said

    site.assert_published_once(state, "step")
    (warning,) = warnings_of(worker)
    named, _, advice = warning.partition(";")
    words = f"the orchestrator's definition of step_{site.mark} differs from the code "
    assert named.startswith(words)
    fields = named.removeprefix(words).strip("()").split(", ")
    assert sorted(fields) == ["concurrentExecLimit", "responseTimeoutSeconds", "retryCount"]
    assert "perago register" in advice
    assert site.conductor.find_task_definition(f"step_{site.mark}") == changed, "left as it was"


def test_what_conductor_fills_in_by_itself_is_no_difference(site: Site) -> None:
    register_otherwise(site, "step", {"retryCount": 9})
    registered = site.run("register", str(site.module("jobs")))
    assert registered.code == 0, registered
    with site.worker() as worker:
        worker.wait_until_ready()
        assert worker.stop() == 0, worker.said

    assert warnings_of(worker) == []


def test_a_task_that_conductor_does_not_know_is_refused_at_start(site: Site) -> None:
    refused = site.run("start", str(site.module("unruly")))

    assert_refused(refused, f"does not know bounded_{site.mark}", "perago register")


def test_a_lease_under_which_nothing_could_be_published_is_refused_at_start(site: Site) -> None:
    register_otherwise(site, "step", {"responseTimeoutSeconds": 6})

    refused = site.run("start", str(site.module("jobs")))

    assert_refused(
        refused,
        f"step_{site.mark}: responseTimeoutSeconds is 6",
        "no attempt could ever publish",
        "register it again",
    )


def test_a_short_lease_is_no_matter_for_tasks_that_publish_nothing(site: Site) -> None:
    for task in ("plain", "look"):
        register_otherwise(site, task, {"responseTimeoutSeconds": 6})
    with site.worker() as worker:
        worker.wait_until_ready()
        assert worker.stop() == 0, worker.said

    assert [words.split()[4] for words in warnings_of(worker)] == [
        f"look_{site.mark}",
        f"plain_{site.mark}",
    ]


def register_otherwise(site: Site, task: str, change: JsonObject) -> JsonObject:
    """Change what Conductor has of a task, as somebody could by hand; what it then has."""
    name = f"{task}_{site.mark}"
    found = site.conductor.find_task_definition(name)
    assert found is not None
    site.conductor.register_task(found | change)
    registered = site.conductor.find_task_definition(name)
    assert registered is not None
    return registered


def warnings_of(worker: WorkerProcess) -> list[str]:
    """What it warned of, in order of the words."""
    return sorted(str(line["message"]) for line in worker.entries if line["level"] == "WARNING")


def assert_refused(ended: Ended, *words: str) -> None:
    """One error with its hint, and the exit code that the documentation has for it."""
    assert ended.code == ExitCode.BACKEND, ended
    for word in words:
        assert word in ended.err
    assert ended.err.count("error:") == 1
    assert "Traceback" not in ended.err
