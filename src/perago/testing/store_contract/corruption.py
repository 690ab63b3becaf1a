"""Corruption: damaged content is refused by name, never delivered."""

from __future__ import annotations

import pytest

from perago.domain.errors import CorruptStoreError
from perago.domain.ids import CommitId, ObjectPath, RepositoryName
from perago.testing.store_contract.bench import StoreBench
from perago.testing.store_contract.checkout import files_below


class CorruptionContract:
    """For adapters whose stored bytes a test can reach."""

    def corrupt(
        self, bench: StoreBench, repository: RepositoryName, commit: CommitId, path: ObjectPath
    ) -> None:
        """Change one stored byte of an object without changing its size."""
        raise NotImplementedError

    @pytest.mark.parametrize("size", [1, 5000, 300_000])
    def test_damaged_content_is_refused_and_named(self, bench: StoreBench, size: int) -> None:
        repository = bench.repository({"good": b"good", "bad one": b"x" * size})
        head, directory = bench.head(repository), bench.empty_directory()
        self.corrupt(bench, repository, head, ObjectPath("bad one"))
        with pytest.raises(CorruptStoreError, match="bad one"):
            bench.checkout(repository, head, directory)
        assert "bad one" not in files_below(directory)
        again = bench.empty_directory()
        bench.checkout(repository, head, again, prefix="good")
        assert files_below(again) == {"good": b"good"}
