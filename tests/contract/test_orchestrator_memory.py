"""The Orchestrator contract on the in-memory adapter."""

import pytest

from perago.testing.clock import FakeClock
from perago.testing.memory_orchestrator import MemoryOrchestrator
from perago.testing.orchestrator_contract import OrchestratorBench, OrchestratorContract


class TestMemoryOrchestrator(OrchestratorContract):
    @pytest.fixture
    def bench(self) -> OrchestratorBench:
        clock = FakeClock()
        orchestrator = MemoryOrchestrator(clock)
        return OrchestratorBench(
            orchestrator=orchestrator, second=orchestrator, advance=clock.advance
        )
