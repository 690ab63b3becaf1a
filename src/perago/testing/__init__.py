"""What tests of tasks, adapters and Perago itself are made of; shipped with the package.

The contract suites (`perago.testing.store_contract`, `perago.testing.orchestrator_contract`) need
pytest and the strategies (`perago.testing.strategies`) Hypothesis: they are imported from there.
"""

from perago.testing.clock import FakeClock
from perago.testing.environment import TaskEnvironment, TaskRun
from perago.testing.memory_orchestrator import MemoryOrchestrator
from perago.testing.memory_store import MemoryWorkspaceStore

__all__ = [
    "FakeClock",
    "MemoryOrchestrator",
    "MemoryWorkspaceStore",
    "TaskEnvironment",
    "TaskRun",
]
