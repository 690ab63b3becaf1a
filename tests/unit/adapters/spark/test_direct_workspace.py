"""What a direct workspace does on the store by itself, without Spark."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, cast

import pytest

from perago.adapters.spark.direct_workspace import DirectSparkWorkspace
from perago.adapters.spark.open_writes import OpenWrites
from perago.domain.errors import StoreUnavailableError, UnfinishedWriteError
from perago.domain.ids import BranchName, ObjectPath, RepositoryName
from perago.domain.workspace import Prefix
from perago.ports import DirectPlace
from perago.testing import FakeClock
from perago.testing.memory_direct_store import MemoryDirectStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REPOSITORY, STAGING = RepositoryName("lake"), BranchName("staging")


class BreaksOff(MemoryDirectStore):
    """Takes away the first object alone, as a server may that dies between two pages."""

    def remove_staged(
        self, repository: RepositoryName, branch: BranchName, paths: Collection[ObjectPath]
    ) -> None:
        super().remove_staged(repository, branch, sorted(paths)[:1])
        raise StoreUnavailableError("the store does not answer any more")


def make_workspace(store: MemoryDirectStore, open_writes: OpenWrites) -> DirectSparkWorkspace:
    """With the files `t/a` and `t/b` on its staging branch."""
    store.create_repository(REPOSITORY, branch=STAGING)
    for name in ("a", "b"):
        store.put(REPOSITORY, STAGING, ObjectPath(f"out/t/{name}"), b"x")
    place = DirectPlace(
        repository=REPOSITORY,
        ref=store.head(REPOSITORY, STAGING).id,
        prefix=Prefix.parse("out"),
        staging=STAGING,
    )
    spark = cast("SparkSession", None)  # not asked
    return DirectSparkWorkspace(spark=spark, place=place, store=store, open_writes=open_writes)


def test_a_deletion_is_no_open_write_once_it_is_over() -> None:
    open_writes = OpenWrites()
    workspace = make_workspace(MemoryDirectStore(FakeClock()), open_writes)

    workspace.delete("t")

    assert workspace.ls(staged=True) == []
    open_writes.close()


def test_a_deletion_that_failed_halfway_stays_open() -> None:
    """Also where the body goes on as if nothing had happened."""
    open_writes = OpenWrites()
    workspace = make_workspace(BreaksOff(FakeClock()), open_writes)

    with pytest.raises(StoreUnavailableError):
        workspace.delete("t")

    assert workspace.ls(staged=True) == ["t/b"]
    with pytest.raises(UnfinishedWriteError, match=r"not over: t\n"):
        open_writes.close()
