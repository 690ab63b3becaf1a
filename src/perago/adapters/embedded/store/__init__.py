"""The embedded workspace store: repositories on SQLite and content-addressed files."""

from perago.adapters.embedded.store.layout import Durability
from perago.adapters.embedded.store.reports import (
    AffectedObject,
    GarbageReport,
    Problem,
    VerificationReport,
)
from perago.adapters.embedded.store.store import DEFAULT_GRACE, EmbeddedWorkspaceStore

__all__ = [
    "DEFAULT_GRACE",
    "AffectedObject",
    "Durability",
    "EmbeddedWorkspaceStore",
    "GarbageReport",
    "Problem",
    "VerificationReport",
]
