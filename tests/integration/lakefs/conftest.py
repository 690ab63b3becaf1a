"""A repository of its own for every test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from perago.adapters.servers import ThrowawayLakeFS
from tests.integration.lakefs.faulty_lake import FaultyLake, faulty_lake


@pytest.fixture
def lake(lakefs_server: ThrowawayLakeFS, tmp_path: Path) -> Iterator[FaultyLake]:
    with faulty_lake(lakefs_server, tmp_path) as lake:
        yield lake


@pytest.fixture
def untouched(lake: FaultyLake) -> Iterator[FaultyLake]:
    """A lake on which the target is afterwards as it was, and no branch is left."""
    before = lake.head
    yield lake
    lake.proxy.clear()
    lake.assert_unmoved(before)
