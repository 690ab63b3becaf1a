"""Cache and workspaces on one small disk: what would fit without the cache fits with it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from perago.adapters.lakefs import LakeFSWorkspaceStore
from perago.adapters.object_cache import ObjectCache
from perago.domain.errors import InsufficientDiskError
from perago.domain.ids import Digest, ExecutionId
from perago.domain.outcome import Completed, Phase
from perago.domain.workspace import disk_use
from perago.ports import Failpoint
from perago.testing.store_contract.bench import digest_of
from tests.integration.lakefs.attempts import BEFORE, NO_CHANGE, Attempted, run_attempt
from tests.integration.lakefs.faulty_lake import FaultyLake

pytestmark = pytest.mark.lakefs

UNIT = 16 * 1024
PARTS = {f"part-{number:02}": bytes([number]) * UNIT for number in range(40)}
WORKSPACE_BYTES = len(PARTS) * UNIT + sum(disk_use(len(content)) for content in BEFORE.values())
DOWNLOADS = len(PARTS) + len(BEFORE)


class SmallDisk:
    """A directory that is a disk of its own, as far as anybody asks how much is free."""

    def __init__(self, root: Path, capacity: int) -> None:
        self.root = root
        self.cache = root / "cache"
        self.capacity = capacity
        self.peak = 0
        self._statvfs = os.statvfs

    def used(self, below: str = "") -> int:
        total = 0
        for directory, _, names in os.walk(self.root / below):
            for name in names:
                path = Path(directory, name)
                if path.parent == self.cache:
                    continue  # the index: small, and not the same on every machine
                try:
                    total += disk_use(path.stat().st_size)
                except FileNotFoundError:
                    continue
        return total

    def measure(self, path: Path) -> os.statvfs_result:
        if not Path(path).is_relative_to(self.root):
            return self._statvfs(path)
        used = self.used()
        self.peak = max(self.peak, used)
        free = max(0, self.capacity - used)
        return os.statvfs_result((1, 1, self.capacity, free, free, 0, 0, 0, 0, 255))


@pytest.fixture
def disk(lake: FaultyLake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SmallDisk]:
    lake.stranger.commit(PARTS)
    made = SmallDisk(tmp_path / "disk", 64 * UNIT)
    made.root.mkdir()
    monkeypatch.setattr("os.statvfs", made.measure)
    yield made
    assert made.peak <= made.capacity


def attempt(lake: FaultyLake, disk: SmallDisk, number: int) -> Attempted:
    """What a new worker process of this host would do."""
    cache = ObjectCache(disk.cache, max_bytes=1 << 30)
    with LakeFSWorkspaceStore(lake.connection(), cache=cache) as store:
        attempted = run_attempt(
            lake.schedule(NO_CHANGE),
            ExecutionId(f"{number:032x}"),
            store=store,
            orchestrator=lake.orchestrator,
            root=disk.root / "work",
            hooks={Failpoint.DOWNLOADED: lambda: disk.measure(disk.root)},
        )
    cache.close()
    return attempted


def fill(disk: SmallDisk, entries: int) -> list[Digest]:
    """What checkouts of other workspaces left in the cache, oldest first."""
    cache, digests = ObjectCache(disk.cache, max_bytes=1 << 30), []
    for number in range(100, 100 + entries):
        content = bytes([number]) * UNIT
        digests.append(digest_of(content))
        with cache.intake() as intake:
            writer = intake.begin(UNIT)
            assert writer is not None
            writer.write(content)
            writer.keep(str(number), digests[-1])
    cache.close()
    return digests


def is_cached(disk: SmallDisk, digest: Digest) -> bool:
    return (disk.cache / "objects" / digest[:2] / digest[2:]).exists()


def test_a_workspace_that_fits_can_be_checked_out_again_and_again(
    lake: FaultyLake, disk: SmallDisk
) -> None:
    for number in range(3):
        before = lake.sent("download")
        attempted = attempt(lake, disk, number)
        assert isinstance(attempted.outcome, Completed), attempted.error
        if number:
            assert lake.sent("download") - before < DOWNLOADS
    assert 0 < disk.used("cache") <= disk.capacity - WORKSPACE_BYTES


def test_a_cache_of_other_workspaces_gives_way(lake: FaultyLake, disk: SmallDisk) -> None:
    digests = fill(disk, 27)
    lacking = WORKSPACE_BYTES - (disk.capacity - disk.used())
    assert lacking > 0
    with LakeFSWorkspaceStore(
        lake.connection(), cache=ObjectCache(disk.cache, max_bytes=1 << 30)
    ) as store:
        store.make_room(disk.root / "work", WORKSPACE_BYTES - lacking)
        assert all(is_cached(disk, digest) for digest in digests)
        store.make_room(disk.root / "work", WORKSPACE_BYTES)
    gone = -(-lacking // UNIT)
    assert [is_cached(disk, digest) for digest in digests] == [False] * gone + [True] * (27 - gone)

    fill(disk, 27)
    attempted = attempt(lake, disk, 1)
    assert isinstance(attempted.outcome, Completed), attempted.error
    assert is_cached(disk, digests[-1])


def test_a_workspace_that_would_not_fit_in_an_empty_disk_is_refused(
    lake: FaultyLake, disk: SmallDisk
) -> None:
    (disk.root / "ballast").write_bytes(bytes(disk.capacity - WORKSPACE_BYTES + 1))
    attempt(lake, disk, 1).assert_failed(InsufficientDiskError, Phase.DOWNLOAD, "needs")
    assert lake.sent("download") == 0
