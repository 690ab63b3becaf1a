"""A site of its own for every test of a worker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from perago.adapters.servers import ThrowawayLakeFS
from tests.acceptance.workers.site import Site, open_site
from tests.conductor_server import SharedConductor


@pytest.fixture
def site(
    conductor_server: SharedConductor, lakefs_server: ThrowawayLakeFS, tmp_path: Path
) -> Iterator[Site]:
    """With the tasks of `jobs` registered."""
    with open_site(conductor_server.endpoint, lakefs_server, tmp_path / "site", "jobs") as site:
        yield site
