"""The Orchestrator contract on the embedded adapter, through two clients of one home."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from perago.adapters.embedded.orchestrator import EmbeddedOrchestrator
from perago.testing.clock import FakeClock
from perago.testing.orchestrator_contract import OrchestratorBench, OrchestratorContract


class TestEmbeddedOrchestrator(OrchestratorContract):
    @pytest.fixture
    def bench(self, tmp_path: Path) -> Iterator[OrchestratorBench]:
        clock = FakeClock()
        with (
            EmbeddedOrchestrator(tmp_path / "home", clock) as orchestrator,
            EmbeddedOrchestrator(tmp_path / "home", clock) as second,
        ):
            yield OrchestratorBench(orchestrator=orchestrator, second=second, advance=clock.advance)
