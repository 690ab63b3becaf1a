"""Stores whose answer to a publish call is lost, before or after it was carried out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Literal

from perago.domain.errors import OutcomeUnknownError
from perago.domain.ids import BranchName, CommitId, RepositoryName
from perago.domain.publication import Commit, StagedWorkspace
from perago.ports import Fencing, LastCheck, always_allowed
from perago.testing import MemoryWorkspaceStore


class LossyStore(MemoryWorkspaceStore):
    """Loses the next request or response, as `loses` says, and is itself again."""

    loses: Literal["request", "response"] | None = None

    @contextmanager
    def _losing(self) -> Iterator[None]:
        lost, self.loses = self.loses, None
        if lost == "request":
            raise OutcomeUnknownError("the connection broke")
        yield
        if lost == "response":
            raise OutcomeUnknownError("the connection broke")

    def merge(
        self,
        staged: StagedWorkspace,
        target: BranchName,
        *,
        expected_head: CommitId,
        message: str,
        metadata: Mapping[str, str],
        timeout_seconds: float,
        last_check: LastCheck = always_allowed,
    ) -> Commit:
        last_check()()
        with self._losing():
            return super().merge(
                staged,
                target,
                expected_head=expected_head,
                message=message,
                metadata=metadata,
                timeout_seconds=timeout_seconds,
            )

    def relocate(
        self,
        repository: RepositoryName,
        branch: BranchName,
        *,
        to: CommitId,
        expected_head: CommitId,
        timeout_seconds: float,
        last_check: LastCheck = always_allowed,
    ) -> None:
        last_check()()
        with self._losing():
            super().relocate(
                repository,
                branch,
                to=to,
                expected_head=expected_head,
                timeout_seconds=timeout_seconds,
            )


class SoftLossyStore(LossyStore):
    """The same without a lock between look and act: a merge lands on whatever is there, and a
    reset takes it away.
    """

    @property
    def fencing(self) -> Fencing:
        return Fencing.SOFT

    def merge(
        self,
        staged: StagedWorkspace,
        target: BranchName,
        *,
        expected_head: CommitId,
        message: str,
        metadata: Mapping[str, str],
        timeout_seconds: float,
        last_check: LastCheck = always_allowed,
    ) -> Commit:
        self._require(staged.repository, target, expected_head)
        last_check()()
        return super().merge(
            staged,
            target,
            expected_head=self.head(staged.repository, target).id,
            message=message,
            metadata=metadata,
            timeout_seconds=timeout_seconds,
        )

    def relocate(
        self,
        repository: RepositoryName,
        branch: BranchName,
        *,
        to: CommitId,
        expected_head: CommitId,
        timeout_seconds: float,
        last_check: LastCheck = always_allowed,
    ) -> None:
        self._require(repository, branch, expected_head)
        assert_in_time = last_check()
        self._require(repository, branch, expected_head)
        assert_in_time()
        super().relocate(
            repository,
            branch,
            to=to,
            expected_head=self.head(repository, branch).id,
            timeout_seconds=timeout_seconds,
        )

    def _require(self, repository: RepositoryName, branch: BranchName, head: CommitId) -> None:
        with self._lock:
            self._repository(repository).require_unmoved(branch, head)
