"""The contract suite fails on adapters that break the port."""

from collections.abc import Sequence

import pytest

from perago.testing.memory_orchestrator import MemoryOrchestrator
from tests.contract.broken_orchestrators import BROKEN

pytest_plugins = ["pytester"]

SUITE = """
import pytest

from perago.testing.clock import FakeClock
from perago.testing.orchestrator_contract import OrchestratorBench, OrchestratorContract
from {module} import {name}


class TestContract(OrchestratorContract):
    @pytest.fixture
    def bench(self) -> OrchestratorBench:
        clock = FakeClock()
        orchestrator = {name}(clock)
        return OrchestratorBench(
            orchestrator=orchestrator, second=orchestrator, advance=clock.advance
        )
"""


def run_contract(
    pytester: pytest.Pytester, adapter: type[MemoryOrchestrator]
) -> tuple[set[str], set[str]]:
    """The names of the tests that passed and of those that failed on an adapter."""
    suite = SUITE.format(module=adapter.__module__, name=adapter.__name__)
    pytester.makepyfile(suite)
    passed, skipped, failed = pytester.inline_run("-q", "--tb=no").listoutcomes()
    assert not skipped
    return _names(passed), _names(failed)


def _names(reports: Sequence[pytest.TestReport | pytest.CollectReport]) -> set[str]:
    return {report.nodeid.rpartition("::")[2] for report in reports}


def test_a_sound_adapter_passes(pytester: pytest.Pytester) -> None:
    passed, failed = run_contract(pytester, MemoryOrchestrator)
    assert not failed
    assert passed >= set(BROKEN.values())


@pytest.mark.parametrize(
    ("adapter", "test"), BROKEN.items(), ids=lambda value: getattr(value, "__name__", "fails")
)
def test_a_broken_adapter_fails(
    pytester: pytest.Pytester, adapter: type[MemoryOrchestrator], test: str
) -> None:
    passed, failed = run_contract(pytester, adapter)
    assert test in failed
    assert passed, "it breaks one sentence, not everything"
