"""The contract of the Orchestrator port, as a suite that every adapter passes.

Subclass `OrchestratorContract` in a test module and give it a `bench` fixture::

    class TestMyOrchestrator(OrchestratorContract):
        @pytest.fixture
        def bench(self) -> OrchestratorBench:
            ...

The suite lets time pass only through the bench, and makes names of its own for each test: it runs
on virtual time and on a shared server alike.
"""

import pytest

_PARTS = ("bench", "deliveries", "flow", "hand_back", "hand_out", "leases", "records", "retries")
for _part in _PARTS:
    # A failing assertion then shows its values, as in any test module.
    pytest.register_assert_rewrite(f"{__name__}.{_part}")

from perago.testing.orchestrator_contract.bench import OrchestratorBench  # noqa: E402
from perago.testing.orchestrator_contract.deliveries import DeliveryContract  # noqa: E402
from perago.testing.orchestrator_contract.flow import FlowContract  # noqa: E402
from perago.testing.orchestrator_contract.hand_back import HandBackContract  # noqa: E402
from perago.testing.orchestrator_contract.hand_out import HandOutContract  # noqa: E402
from perago.testing.orchestrator_contract.leases import LeaseContract  # noqa: E402
from perago.testing.orchestrator_contract.records import RecordContract  # noqa: E402
from perago.testing.orchestrator_contract.retries import RetryContract  # noqa: E402

__all__ = ["OrchestratorBench", "OrchestratorContract"]


class OrchestratorContract(
    HandOutContract,
    HandBackContract,
    DeliveryContract,
    LeaseContract,
    RetryContract,
    FlowContract,
    RecordContract,
):
    """Every sentence of the port."""
