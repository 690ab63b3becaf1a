from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.adapters.object_cache.bench import Bench


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path / "cache", tmp_path / "files")
    yield made
    made.cache.close()
