"""What an attempt does with its workspace around the body, whichever way the body reaches it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from perago.domain.ids import CommitId
from perago.ports import SparkLease, SparkWorkspace


class WorkspaceFlow(Protocol):
    """The workspace of one attempt, from its input ref to its output ref."""

    def opened(self) -> AbstractContextManager[None]:
        """Make the workspace ready and pass the pre guardrails; the rest happens in the block."""
        ...

    @property
    def spark(self) -> SparkLease | None:
        """Spark, where the workspace needs it for more than the body."""
        ...

    def for_body(self, spark: SparkLease | None) -> Path | SparkWorkspace:
        """What the body gets."""
        ...

    def settle(self, spark: SparkLease | None) -> None:
        """See that nothing which the body began still writes; called as soon as it has returned."""
        ...

    def finish(self) -> CommitId:
        """Pass the post guardrails, publish what changed, and return the output ref."""
        ...
