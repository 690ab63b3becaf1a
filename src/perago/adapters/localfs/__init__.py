"""Ports on the local machine: attempt directories, locks, guardrails, the clock."""

from perago.adapters.localfs.clock import SystemClock
from perago.adapters.localfs.directories import LocalAttemptDirectories
from perago.adapters.localfs.guardrails import LocalGuardrailEvaluator
from perago.adapters.localfs.root_lock import WorkspaceRootLock

__all__ = [
    "LocalAttemptDirectories",
    "LocalGuardrailEvaluator",
    "SystemClock",
    "WorkspaceRootLock",
]
