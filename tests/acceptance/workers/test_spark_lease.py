"""A Spark job ends with the lease of its attempt, on whatever thread, process or JVM it runs."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from perago.domain.attempt import AttemptStatus
from tests.acceptance.workers.processes import processes_of_site, wait_until
from tests.acceptance.workers.site import Site

pytestmark = [
    pytest.mark.conductor,
    pytest.mark.lakefs,
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.timeout(600),
]

_BETWEEN_LINES = 0.1
"""How often the job says that it runs."""


def grows(file: Path) -> bool:
    """Whether somebody still adds to it."""
    size = file.stat().st_size
    time.sleep(10 * _BETWEEN_LINES)
    return file.stat().st_size != size


def test_a_spark_job_ends_with_the_lease_of_its_attempt(site: Site, tmp_path: Path) -> None:
    site.register("crunching")
    witness = tmp_path / "witness"
    with site.worker(module="crunching") as worker:
        workflow = site.start("crunch", "lost", {"witness": str(witness)})
        wait_until(witness.exists, "the job runs")

        site.conductor.terminate(workflow, "enough")

        wait_until(
            lambda: any(
                entry.get("reference") == "lost" and "summary" in entry for entry in worker.entries
            ),
            "the worker is done with it",
        )
        # Spark's Python processes have a group of their own: they end when they miss the JVM, which
        # is a moment after it was killed.
        wait_until(lambda: not grows(witness), "the job has ended")
        task = site.finish(workflow).tasks[-1]
        assert task.status is AttemptStatus.CANCELED
        assert task.output == {}
        assert site.history("lost") == []
        assert site.stagings() == []

        # The worker goes on, on Spark too.
        after = site.finish(site.start("crunch", "after")).tasks[-1]
        assert after.status is AttemptStatus.COMPLETED, after.reason
        assert len(site.history("after")) == 1
        assert worker.stop() == 0, worker.said
    # Spark's Python processes once more.
    wait_until(lambda: processes_of_site(site.mark) == [], "nothing of it is left")
