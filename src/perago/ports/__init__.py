"""What the use cases need from the outside, in domain types.

Each protocol states its full behavioural contract; `perago.testing` ships it as a suite that
every adapter passes.
"""

from perago.ports.clock import Clock
from perago.ports.direct import DirectStore
from perago.ports.local import (
    AttemptDirectories,
    AttemptDirectory,
    GuardrailEvaluator,
    LocalDisk,
    LocalTree,
)
from perago.ports.observation import (
    AttemptObserver,
    BodyIsolation,
    Failpoint,
    Failpoints,
    Lease,
    OutcomeReporter,
)
from perago.ports.orchestrator import Orchestrator
from perago.ports.spark import (
    DirectPlace,
    SparkGuardrails,
    SparkLease,
    SparkSessions,
    SparkWatch,
    SparkWorkspace,
)
from perago.ports.store import (
    Branch,
    Fencing,
    LastCheck,
    LocalFile,
    OnTransfer,
    TimeCheck,
    WorkspaceStore,
    always_allowed,
)

__all__ = [
    "AttemptDirectories",
    "AttemptDirectory",
    "AttemptObserver",
    "BodyIsolation",
    "Branch",
    "Clock",
    "DirectPlace",
    "DirectStore",
    "Failpoint",
    "Failpoints",
    "Fencing",
    "GuardrailEvaluator",
    "LastCheck",
    "Lease",
    "LocalDisk",
    "LocalFile",
    "LocalTree",
    "OnTransfer",
    "Orchestrator",
    "OutcomeReporter",
    "SparkGuardrails",
    "SparkLease",
    "SparkSessions",
    "SparkWatch",
    "SparkWorkspace",
    "TimeCheck",
    "WorkspaceStore",
    "always_allowed",
]
