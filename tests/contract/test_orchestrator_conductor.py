"""The Orchestrator contract on a real Conductor server, through two clients of it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
import urllib3

from perago.adapters.conductor import ConductorConnection, ConductorOrchestrator
from perago.domain.ids import WorkflowId
from perago.domain.outcome import JsonObject
from perago.testing.orchestrator_contract import OrchestratorBench, OrchestratorContract

if TYPE_CHECKING:
    from tests.conductor_server import SharedConductor

LEASE_SECONDS = 3
pytestmark = [pytest.mark.conductor, pytest.mark.slow]


class Watched(ConductorOrchestrator):
    """Remembers what it started, so that the server can be made to look at it."""

    def __init__(self, connection: ConductorConnection) -> None:
        super().__init__(connection)
        self.started: list[WorkflowId] = []

    def start_workflow(
        self, name: str, *, workflow_input: JsonObject, version: int | None = None
    ) -> WorkflowId:
        found = super().start_workflow(name, workflow_input=workflow_input, version=version)
        self.started.append(found)
        return found


class TestConductorOrchestrator(OrchestratorContract):
    @pytest.fixture
    def bench(self, conductor_server: SharedConductor) -> Iterator[OrchestratorBench]:
        connection = ConductorConnection(url=conductor_server.endpoint)
        with (
            Watched(connection) as orchestrator,
            ConductorOrchestrator(connection) as second,
            urllib3.PoolManager() as http,
        ):

            def advance(seconds: float) -> None:
                """Let time pass, then make the server look: left alone it does so once a minute."""
                time.sleep(seconds)
                for workflow_id in orchestrator.started:
                    http.request("PUT", f"{connection.api_url}/workflow/decide/{workflow_id}")

            yield OrchestratorBench(
                orchestrator=orchestrator,
                second=second,
                advance=advance,
                lease_seconds=LEASE_SECONDS,
            )
            # Nothing is left that the server goes on looking at.
            for workflow_id in orchestrator.started:
                with suppress(Exception):
                    orchestrator.terminate(workflow_id, "the test is over")
