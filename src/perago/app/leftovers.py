"""What an execution must not leave behind. Removing it never changes a decided outcome."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from perago.domain.errors import PeragoError
from perago.domain.ids import BranchName, RepositoryName
from perago.ports import AttemptDirectory, Failpoint, WorkspaceStore

_log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class Leftovers:
    """The directory and the staging of one execution, noted as soon as they may exist."""

    directory: AttemptDirectory | None = None
    staging: tuple[RepositoryName, BranchName] | None = None

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to remove."""
        return self.directory is None and self.staging is None

    def remove(
        self, store: WorkspaceStore, *, keep_staging: bool, hit: Callable[[Failpoint], None]
    ) -> None:
        """Remove both; what cannot be removed is logged."""
        try:
            hit(Failpoint.REPORTED)
            if self.staging is not None:
                self._end_staging(store, *self.staging, keep=keep_staging)
            hit(Failpoint.STAGING_REMOVED)
        except (PeragoError, OSError):
            _log.warning("failed to clean staging workspace", exc_info=True)
        try:
            if self.directory is not None:
                self.directory.remove()
            hit(Failpoint.CLEANED)
        except OSError:
            _log.warning("failed to clean local workspace", exc_info=True)

    def _end_staging(
        self, store: WorkspaceStore, repository: RepositoryName, branch: BranchName, *, keep: bool
    ) -> None:
        if keep:
            _log.warning(
                "kept the staging branch %s of %s for people to look at; "
                "`perago gc --staging` removes it",
                branch,
                repository,
            )
        else:
            store.delete_branch(repository, branch)
