"""A Conductor that is down, goes away, errs or is slow: the worker waits, and loses nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from perago.adapters.servers import ConductorProgram, ThrowawayLakeFS, throwaway_conductor
from perago.domain.attempt import AttemptStatus
from perago.domain.ids import WorkflowId
from perago.domain.outcome import JsonObject
from perago.ports import Failpoint
from tests.acceptance.workers.processes import wait_until
from tests.acceptance.workers.site import Site, open_site
from tests.conductor_server import SharedConductor
from tests.fault_proxy import (
    Action,
    Answer,
    CutBefore,
    DelayResponse,
    Fault,
    FaultProxy,
    LoseResponse,
    Match,
)

pytestmark = [pytest.mark.conductor, pytest.mark.lakefs, pytest.mark.timeout(900)]


@pytest.fixture
def proxy(conductor_server: SharedConductor) -> Iterator[FaultProxy]:
    """Between the workers and the server; the test itself goes past it."""
    with FaultProxy(conductor_server.endpoint) as proxy:
        yield proxy


def start_load(site: Site, count: int, witness: Path) -> dict[str, WorkflowId]:
    names = [f"load-{number}" for number in range(count)]
    params: JsonObject = {"seconds": 1.0, "witness": str(witness)}
    return {name: site.start("step", name, params) for name in names}


def assert_nothing_lost(site: Site, load: dict[str, WorkflowId]) -> None:
    """Each is published once, and the attempts before that failed without an output."""
    for name, state in zip(load, site.complete(list(load.values())), strict=True):
        site.assert_published_once(state, name)
        assert all(task.output == {} for task in state.tasks[:-1])


def test_a_server_that_goes_away_under_load(site: Site, proxy: FaultProxy, tmp_path: Path) -> None:
    witness = tmp_path / "witness"
    with site.worker("-j", "2", PERAGO_CONDUCTOR_URL=proxy.endpoint) as worker:
        load = start_load(site, 6, witness)
        wait_until(witness.exists, "the load is under way")
        proxy.refuse()
        worker.wait_for("no Conductor server answers")
        time.sleep(15)
        assert worker.process.poll() is None
        proxy.resume()
        assert_nothing_lost(site, load)
        assert worker.stop() == 0, worker.said
    assert "Traceback" not in worker.said


def test_a_server_that_is_down_at_start_is_waited_for(site: Site, proxy: FaultProxy) -> None:
    proxy.refuse()
    workflow = site.start("step", "patient")
    with site.worker(PERAGO_CONDUCTOR_URL=proxy.endpoint) as worker:
        worker.wait_for("waiting for the orchestrator")
        proxy.resume()
        (state,) = site.complete([workflow])
        assert worker.stop() == 0, worker.said
    site.assert_published_once(state, "patient")


def test_a_worker_that_waits_for_a_server_ends_when_told(site: Site, proxy: FaultProxy) -> None:
    proxy.refuse()
    with site.worker(PERAGO_CONDUCTOR_URL=proxy.endpoint) as worker:
        worker.wait_for("waiting for the orchestrator")
        assert worker.stop() == 0, worker.said


@pytest.mark.parametrize(
    "action",
    [
        Answer(status=500, body=b"oops"),
        Answer(status=503),
        CutBefore(),
        LoseResponse(),
        DelayResponse(seconds=1.5),
    ],
    ids=["500", "503", "cut off", "answer lost", "slow"],
)
def test_a_server_that_errs_or_is_slow(
    site: Site, proxy: FaultProxy, tmp_path: Path, action: Action
) -> None:
    """Polls whose answers are lost hand out tasks that nobody has: not polls, then."""
    everything = r"^/api/(?!tasks/poll)"
    with site.worker("-j", "2", PERAGO_CONDUCTOR_URL=proxy.endpoint) as worker:
        worker.wait_until_ready()
        load = start_load(site, 4, tmp_path / "witness")
        for _ in range(3):
            proxy.add(Fault(match=Match(None, everything), action=action, times=8))
            time.sleep(1.5)
        assert_nothing_lost(site, load)
        assert worker.stop() == 0, worker.said
    assert any(exchange.fault is not None for exchange in proxy.log)


MOMENTS = (
    Failpoint.DOWNLOADED,
    Failpoint.BODY_DONE,
    Failpoint.STAGED,
    Failpoint.HEAD_READ,
    Failpoint.PUBLISHED,
)
"""Before the body, before each of the three fences, and before the report."""
LEASE_SECONDS = 60.0
"""That of the task `step`."""


@contextmanager
def at_every_moment(site: Site, **environment: str) -> Iterator[dict[str, WorkflowId]]:
    """One attempt at each moment, all of them held there for a while, and a worker for them."""
    rules = ";".join(f"{moment}=pause:8@{moment}" for moment in MOMENTS)
    workers = str(len(MOMENTS))
    with site.worker("-j", workers, PERAGO_FAILPOINTS=rules, **environment) as worker:
        worker.wait_until_ready()
        load = {moment.value: site.start("step", moment.value) for moment in MOMENTS}
        for workflow in load.values():
            site.wait_for_status(workflow, AttemptStatus.IN_PROGRESS)
        yield load
        for name, state in zip(load, site.complete(list(load.values())), strict=True):
            assert [task.status for task in state.tasks] == [AttemptStatus.COMPLETED], name
            site.assert_published_once(state, name)
        assert worker.stop() == 0, worker.said


def test_an_outage_of_a_third_of_the_lease_costs_no_retry(site: Site, proxy: FaultProxy) -> None:
    with at_every_moment(site, PERAGO_CONDUCTOR_URL=proxy.endpoint):
        proxy.refuse()
        time.sleep(LEASE_SECONDS / 3)
        proxy.resume()


@pytest.mark.torture
@pytest.mark.timeout(1800)
def test_a_server_that_is_killed_and_back_within_the_lease_costs_no_retry(
    conductor_program: ConductorProgram, lakefs_server: ThrowawayLakeFS, tmp_path: Path
) -> None:
    with (
        throwaway_conductor(tmp_path / "conductor", conductor_program) as server,
        open_site(server.endpoint, lakefs_server, tmp_path / "site", "jobs") as site,
        at_every_moment(site),
    ):
        gone_at = time.monotonic()
        server.kill()
        server.start()
        time.sleep(max(0.0, gone_at + LEASE_SECONDS / 3 - time.monotonic()))


@pytest.mark.torture
@pytest.mark.timeout(1800)
def test_a_server_that_is_killed_and_gone_for_a_minute(
    conductor_program: ConductorProgram, lakefs_server: ThrowawayLakeFS, tmp_path: Path
) -> None:
    witness = tmp_path / "witness"
    with (
        throwaway_conductor(tmp_path / "conductor", conductor_program) as server,
        open_site(server.endpoint, lakefs_server, tmp_path / "site", "jobs") as site,
        site.worker("-j", "2") as worker,
    ):
        load = start_load(site, 12, witness)
        wait_until(witness.exists, "the load is under way")
        server.kill()
        time.sleep(60)
        assert worker.process.poll() is None
        server.start()
        assert_nothing_lost(site, load)
        fresh = site.start("step", "afterwards")
        (state,) = site.complete([fresh])
        assert [task.status for task in state.tasks] == [AttemptStatus.COMPLETED]
        assert worker.stop() == 0, worker.said
