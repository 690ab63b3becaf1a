"""Every row of the protocol's failure table, and bodies that misbehave: one clear status each.

One worker serves all of it: whatever a task did, the next one finds the worker as it was.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from perago.adapters.servers import ThrowawayLakeFS
from perago.domain.attempt import AttemptStatus
from perago.domain.ids import WorkflowId
from perago.domain.outcome import JsonObject
from perago.domain.workflow import TaskState, WorkflowState
from tests.acceptance.workers.processes import WorkerProcess, processes_of_site, wait_until
from tests.acceptance.workers.site import Site, open_site
from tests.conductor_server import SharedConductor

pytestmark = [pytest.mark.conductor, pytest.mark.lakefs, pytest.mark.timeout(900)]

FAILED = AttemptStatus.FAILED
TERMINAL = AttemptStatus.FAILED_WITH_TERMINAL_ERROR
FAILPOINTS = (
    "reported=enospc@cleanup;prepared=enospc@prepared;downloaded=enospc@downloaded;"
    "fenced-before-stage=fail@fenced-before-stage;staged=fail@staged;head-read=fail@head-read"
)
SECRET = "AKIAUNMISTAKABLE0SECRET"


@dataclass(frozen=True, slots=True)
class Served:
    """A site with a worker that stays for all tests."""

    site: Site
    worker: WorkerProcess

    def run(self, task: str, name: str, params: JsonObject) -> TaskState:
        """The last attempt of a workflow of one step."""
        return self.site.finish(self.site.start(task, name, params)).tasks[-1]

    def run_raw(self, task: str, name: str, task_input: JsonObject) -> TaskState:
        return self.site.finish(self.site.start_raw(task, name, task_input)).tasks[-1]

    def logs(self) -> str:
        """All that the worker and its attempts wrote down."""
        logs = sorted((self.worker.home / "logs").rglob("*.log"))
        return self.worker.said + "".join(log.read_text(errors="replace") for log in logs)

    def assert_alive(self) -> None:
        """The same supervisor takes another task, and completes it."""
        name = f"after-{time.monotonic_ns()}"
        after = self.run_raw("measure", name, {"params": {"text": "four"}})
        assert after.status is AttemptStatus.COMPLETED, after.reason
        assert after.output == {"result": {"note": "", "count": 4}}
        assert self.worker.process.poll() is None


@pytest.fixture(scope="module")
def served(
    conductor_server: SharedConductor,
    lakefs_server: ThrowawayLakeFS,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Served]:
    directory = tmp_path_factory.mktemp("failures")
    with (
        open_site(conductor_server.endpoint, lakefs_server, directory, "unruly") as site,
        site.worker("-j", "2", module="unruly", PERAGO_FAILPOINTS=FAILPOINTS) as worker,
    ):
        yield Served(site, worker)
        assert worker.stop() == 0, worker.said
        # Python's own tracker of resources ends when it misses the supervisor: a moment after it.
        wait_until(lambda: processes_of_site(site.mark) == [], "nothing of it is left", within=30)


Input = Callable[[JsonObject], JsonObject]
BAD_INPUTS: dict[str, tuple[Input, str]] = {
    "extra-key": (
        lambda workspace: {"workspace": workspace, "params": {}, "extra": 1},
        "extra: is not a known key",
    ),
    "no-params": (lambda workspace: {"workspace": workspace}, "params: is missing"),
    "wrong-type": (
        lambda workspace: {"workspace": workspace, "params": {"how": 7}},
        "params.how",
    ),
    "wrong-ref-type": (
        lambda workspace: {"workspace": workspace | {"ref_type": "branch"}, "params": {}},
        "workspace.ref_type",
    ),
    "endpoint": (
        lambda workspace: {"workspace": workspace | {"endpoint": "http://x"}, "params": {}},
        "workspace.endpoint",
    ),
    "credentials": (
        lambda workspace: {
            "workspace": workspace | {"secret_access_key": SECRET},
            "params": {"password": SECRET},
        },
        "workspace.secret_access_key",
    ),
    "no-such-ref": (
        lambda workspace: {"workspace": workspace | {"ref": "0" * 64}, "params": {}},
        "0" * 64,
    ),
    "no-such-repository": (
        lambda workspace: {"workspace": workspace | {"repository": "nowhere"}, "params": {}},
        "nowhere",
    ),
}


@pytest.mark.parametrize("name", BAD_INPUTS)
def test_bad_input_fails_before_anything_runs(served: Served, name: str) -> None:
    build, named = BAD_INPUTS[name]
    workspace = served.site.branch(name)

    task = served.run_raw("fail", name, build(workspace))

    assert task.status is FAILED
    assert named in (task.reason or "")
    assert task.output == {}
    assert served.site.history(name) == []


def test_credentials_in_an_input_are_nowhere_to_be_read(served: Served) -> None:
    task_input: JsonObject = {"params": {"token": SECRET, "how": [SECRET]}, "key": SECRET}

    task = served.run_raw("measure", "secretive", task_input)

    assert task.status is FAILED
    assert "params.token" in (task.reason or "")
    assert SECRET not in (task.reason or "")
    wait_until_done(served, "secretive")
    log = served.logs()
    assert "params.token" in log
    assert SECRET not in log
    assert served.site.lakefs.secret_access_key not in log


@pytest.mark.parametrize(
    ("how", "status", "named"),
    [
        ("terminal", TERMINAL, "the pen is broken"),
        ("failed", FAILED, "the ink is dry"),
        ("error", FAILED, "OutOfPaperError: no paper"),
        ("nonsense", FAILED, "does not fit Result"),
        ("large", FAILED, "can be reported"),
        ("post", FAILED, "half.tmp"),
    ],
)
def test_a_body_that_fails(served: Served, how: str, status: AttemptStatus, named: str) -> None:
    task = served.run("fail", f"body-{how}", {"how": how})

    assert task.status is status
    assert named in (task.reason or "")
    assert task.output == {}
    assert served.site.history(f"body-{how}") == []
    assert served.site.stagings() == []


@pytest.mark.parametrize(
    "point", ["prepared", "downloaded", "fenced-before-stage", "staged", "head-read"]
)
def test_an_error_of_the_machine_or_the_store_fails_the_attempt(served: Served, point: str) -> None:
    task = served.run("fail", point, {})

    assert task.status is FAILED
    assert task.output == {}
    wait_until_done(served, point)
    assert served.site.history(point) == []
    assert served.site.stagings() == []


def test_input_files_that_break_the_contract_fail_for_good_before_the_body(
    served: Served, tmp_path: Path
) -> None:
    site, ran = served.site, tmp_path / "ran"
    first = next(iter(site.store.log(site.repository, site.base)))
    workspace = site.branch("pre") | {"ref": first.parents[0]}

    task = served.run_raw("fail", "pre", {"workspace": workspace, "params": {"file": str(ran)}})

    assert task.status is TERMINAL
    assert "in/kept.txt" in (task.reason or "")
    assert task.output == {}
    assert not ran.exists()


@pytest.mark.parametrize("how", ["publication", "idle"])
def test_a_branch_that_moved_meanwhile_is_left_alone(
    served: Served, tmp_path: Path, how: str
) -> None:
    site, runs, gate = served.site, tmp_path / "runs", tmp_path / "gate"
    name = f"fenced-{how}"
    workflow = site.start("fail", name, {"how": how, "file": str(runs), "gate": str(gate)})
    wait_until(runs.exists, "the body runs")
    moved = site.intrude(name)
    gate.touch()

    task = site.finish(workflow).tasks[-1]

    assert task.status is FAILED
    assert moved in (task.reason or "")
    assert task.output == {}
    assert site.history(name)[-1].id == moved
    assert site.stagings() == []


def test_a_task_that_is_terminated_while_its_body_runs_publishes_nothing(
    served: Served, tmp_path: Path
) -> None:
    site, runs, gate = served.site, tmp_path / "runs", tmp_path / "gate"
    workflow = site.start("fail", "terminated", {"file": str(runs), "gate": str(gate)})
    wait_until(runs.exists, "the body runs")

    site.conductor.terminate(workflow, "enough")
    gate.touch()

    wait_until_done(served, "terminated")
    task = site.finish(workflow).tasks[-1]
    assert task.status is AttemptStatus.CANCELED
    assert task.output == {}
    assert site.history("terminated") == []
    served.assert_alive()


def test_a_task_that_times_out_while_its_body_runs_publishes_nothing(
    served: Served, tmp_path: Path
) -> None:
    runs = tmp_path / "runs"
    workflow = served.site.start("bounded", "timed-out", {"file": str(runs)})
    wait_until(runs.exists, "the body runs")

    task = served.site.finish(workflow).tasks[-1]

    assert task.status is AttemptStatus.TIMED_OUT
    assert task.output == {}
    wait_until_done(served, "timed-out")
    assert served.site.history("timed-out") == []
    served.assert_alive()


def wait_until_done(served: Served, reference: str) -> None:
    """Until the worker has nothing of this step any more."""

    def has_ended() -> bool:
        return any(
            entry.get("reference") == reference and "summary" in entry
            for entry in served.worker.entries
        )

    wait_until(has_ended, f"the worker is done with {reference}")


def test_a_task_that_keeps_killing_executors_fails_for_good(served: Served) -> None:
    state = served.site.finish(served.site.start_raw("deadly", "deadly", {"params": {}}))

    assert [task.status for task in state.tasks] == [FAILED, FAILED, TERMINAL]
    assert "exit code 7 (1 of 3)" in (state.tasks[0].reason or "")
    assert "killed 3 executors" in (state.tasks[-1].reason or "")
    served.assert_alive()


def test_a_cleanup_that_fails_changes_nothing(served: Served) -> None:
    task = served.run("fail", "cleanup", {})

    assert task.status is AttemptStatus.COMPLETED
    (published,) = served.site.history("cleanup")
    assert task.output == {
        "workspace": served.site.workspace("cleanup") | {"ref": published.id},
        "result": {"note": "", "count": 0},
    }
    assert "failed to clean staging workspace" in served.logs()
    (left,) = served.site.stagings()
    collected = served.site.run("gc", "--staging", served.site.repository)
    assert collected.code == 0, collected.err
    assert f"removed {left}" in collected.out
    assert served.site.stagings() == []


def test_an_input_of_a_megabyte_is_taken(served: Served) -> None:
    task = served.run_raw("measure", "megabyte", {"params": {"text": "x" * (1 << 20)}})

    assert task.status is AttemptStatus.COMPLETED, task.reason
    assert task.output == {"result": {"note": "", "count": 1 << 20}}


@pytest.mark.parametrize(
    ("how", "status", "named"),
    [
        ("exits", FAILED, "exit code 7"),
        ("segfaults", FAILED, "killed by SIGSEGV"),
        ("eats memory", FAILED, "MemoryError"),
        ("prints binary", AttemptStatus.COMPLETED, "printed"),
        ("forks children", AttemptStatus.COMPLETED, "forked"),
        ("changes directory", AttemptStatus.COMPLETED, "/"),
    ],
)
def test_a_body_that_misbehaves(
    served: Served, how: str, status: AttemptStatus, named: str
) -> None:
    name = how.replace(" ", "-")

    task = served.run_raw("misbehave", name, {"params": {"how": how}})

    assert task.status is status, task.reason
    if status is FAILED:
        assert named in (task.reason or "")
    else:
        assert task.output == {"result": {"note": named, "count": 0}}
    served.assert_alive()
    served.assert_alive()


def test_a_body_that_ignores_signals_ends_with_its_attempt(served: Served, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    workflow = start_misdeed(served, "ignores signals", runs)
    wait_until(runs.exists, "the body runs")

    served.site.conductor.terminate(workflow, "enough")

    wait_until_done(served, "ignores-signals")
    state: WorkflowState = served.site.state(workflow)
    assert state.tasks[-1].status is AttemptStatus.CANCELED
    served.assert_alive()


def start_misdeed(served: Served, how: str, file: Path) -> WorkflowId:
    params: JsonObject = {"how": how, "file": str(file)}
    return served.site.start_raw("misbehave", how.replace(" ", "-"), {"params": params})
