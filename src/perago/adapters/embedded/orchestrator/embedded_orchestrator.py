"""The embedded orchestrator: the engine over SQLite."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Self

from perago.adapters.embedded.orchestrator.database import Database
from perago.adapters.embedded.orchestrator.engine_orchestrator import EngineOrchestrator
from perago.adapters.embedded.orchestrator.sqlite_instances import SqliteInstances
from perago.ports.clock import Clock
from perago.system.processes import current_process

DATABASE_NAME = "orchestrator.db"


class EmbeddedOrchestrator(EngineOrchestrator):
    """Runs workflows with no server: in `orchestrator.db` under a home directory.

    For one machine and for tests. Any number of processes of that machine may open the same home
    at once; several machines, over a network file system, may not: SQLite's locks do not hold
    there. Raises `EnvironmentUnfitError` when the home cannot be written.
    """

    def __init__(self, home: Path, clock: Clock, *, boot: str | None = None) -> None:
        """`boot` names what `clock.elapsed` counts from: the machine's current boot, if None."""
        self._database = Database(home / DATABASE_NAME)
        super().__init__(
            SqliteInstances(self._database), clock, boot=boot or current_process().boot
        )

    def close(self) -> None:
        """Close the database; the orchestrator is not used after that."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
