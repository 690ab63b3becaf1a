"""SIGTERM to a worker, under load and without any: it ends in order, and no attempt is lost."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from perago.domain.attempt import AttemptStatus
from perago.domain.ids import WorkflowId
from tests.acceptance.workers.processes import processes_of_site, wait_until
from tests.acceptance.workers.site import Site
from tests.session_report import FIGURE

pytestmark = [pytest.mark.conductor, pytest.mark.lakefs, pytest.mark.timeout(900)]

IN_PROGRESS = AttemptStatus.IN_PROGRESS
_LOAD = 6
_AFTER_THE_GRACE = 18.0
"""What a worker may take beside its grace (docs/how-to/deploy.md)."""
_SLOW_MACHINE = 30.0


class Load:
    """Workflows of one step; always a few that are not over."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._numbers = count()
        self.started: dict[str, WorkflowId] = {}

    def top_up(self) -> None:
        """Start as many as are over."""
        open_ones = [w for w in self.started.values() if not self._is_over(w)]
        for _ in range(_LOAD - len(open_ones)):
            name = f"load-{next(self._numbers)}"
            self.started[name] = self._site.start("step", name, {"seconds": 0.3})

    def _is_over(self, workflow: WorkflowId) -> bool:
        return self._site.state(workflow).status.is_terminal

    def is_running(self) -> bool:
        """Whether a worker is at any of it."""
        states = [self._site.state(workflow) for workflow in self.started.values()]
        return any(state.tasks and state.tasks[-1].status is IN_PROGRESS for state in states)

    def assert_all_published_once(self) -> int:
        """Nothing lost, nothing doubled; how many attempts were retried."""
        states = self._site.complete(list(self.started.values()))
        for name, state in zip(self.started, states, strict=True):
            self._site.assert_published_once(state, name)
        return sum(len(state.tasks) - 1 for state in states)


def stop_under_load(site: Site, dice: random.Random, times: int) -> str:
    """Stop a worker again and again, with time to drain or without; what came of it."""
    load = Load(site)
    for number in range(times):
        load.top_up()
        grace = 60 if number % 2 == 0 else 0
        with site.worker("-j", "2", PERAGO_SHUTDOWN_GRACE_SECONDS=str(grace)) as worker:
            worker.wait_until_ready()
            wait_until(load.is_running, "an attempt runs")
            time.sleep(dice.uniform(0, 1))
            assert worker.stop(grace + _AFTER_THE_GRACE + _SLOW_MACHINE) == 0, worker.said
            assert "Traceback" not in worker.said
        wait_until(lambda: processes_of_site(site.mark) == [], "nothing of it is left")
    with site.worker("-j", "2") as worker:
        retried = load.assert_all_published_once()
        assert worker.stop() == 0, worker.said
    assert worker.attempt_directories == []
    return (
        f"SIGTERM under load: {times} times, {len(load.started)} workflows all published once, "
        f"{retried} attempts retried"
    )


def test_sigterm_under_load(site: Site, record_property: Callable[[str, object], None]) -> None:
    record_property(FIGURE, stop_under_load(site, random.Random(5), times=4))


@pytest.mark.torture
@pytest.mark.timeout(3600)
def test_sigterm_under_load_fifty_times(
    site: Site, record_property: Callable[[str, object], None]
) -> None:
    seed = time.time_ns()
    record_property(FIGURE, f"seed {seed}: {stop_under_load(site, random.Random(seed), times=50)}")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda one: one.name)
def test_an_idle_worker_ends_when_told(site: Site, number: signal.Signals) -> None:
    with site.worker("-j", "2") as worker:
        (state,) = site.complete([site.start_raw("plain", "first", {"params": {}})])
        worker.signal(number)
        assert worker.end(_AFTER_THE_GRACE + _SLOW_MACHINE) == 0, worker.said

    assert "the worker ended" in worker.said
    assert state.tasks[-1].output.keys() == {"result"}
    # Not at once: the tracker of shared memory ends when it sees that its parent has.
    wait_until(lambda: processes_of_site(site.mark) == [], "nothing of it is left")


def test_a_second_signal_hurries(site: Site, tmp_path: Path) -> None:
    """The first one lets a body run on; it would never end."""
    gate = tmp_path / "gate"
    with site.worker("-j", "2", PERAGO_SHUTDOWN_GRACE_SECONDS="3600") as worker:
        workflow = site.start("step", "endless", {"gate": str(gate)})
        site.wait_for_status(workflow, IN_PROGRESS)
        worker.signal(signal.SIGTERM)
        running = site.start_raw("plain", "late", {"params": {}})
        time.sleep(1)
        assert worker.process.poll() is None
        assert worker.stop() == 0, worker.said

    first = site.state(workflow).tasks[0]
    assert first.status is AttemptStatus.FAILED
    assert first.reason == "the worker was stopped"
    assert site.state(running).tasks[-1].status is AttemptStatus.SCHEDULED, "it no longer polls"
    assert worker.attempt_directories == []
    wait_until(lambda: processes_of_site(site.mark) == [], "nothing of it is left")
    gate.touch()
    with site.worker("--once"):
        site.assert_published_once(site.finish(workflow), "endless")
