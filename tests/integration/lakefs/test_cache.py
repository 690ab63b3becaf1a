"""The host's cache before a real server: what is downloaded once is not downloaded again."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

from perago.adapters.lakefs import LakeFSWorkspaceStore
from perago.adapters.object_cache import ObjectCache
from perago.domain.errors import CorruptStoreError, InsufficientDiskError
from perago.domain.ids import Digest, RelativePath
from perago.domain.workspace import ObjectEntry
from perago.testing.store_contract.bench import digest_of
from tests.integration.lakefs.attempts import BEFORE
from tests.integration.lakefs.faulty_lake import MAIN, FaultyLake

pytestmark = pytest.mark.lakefs

MIB = 1 << 20


def check_out(lake: FaultyLake, cache: Path, target: Path) -> dict[RelativePath, Digest]:
    """What a new worker process of this host would do; its progress must add up."""
    target.mkdir()
    moved: Counter[str] = Counter()

    def on_transfer(objects: int, size: int) -> None:
        moved.update(objects=objects, bytes=size)

    store_cache = ObjectCache(cache, max_bytes=64 * MIB)
    with LakeFSWorkspaceStore(lake.connection(), cache=store_cache) as store:
        commit = store.head(lake.repository, MAIN).id
        entries = store.list_objects(lake.repository, commit)
        files: dict[RelativePath, ObjectEntry] = {RelativePath(e.path): e for e in entries}
        digests = store.checkout(lake.repository, commit, files, target, on_transfer)
    store_cache.close()
    assert moved == Counter(objects=len(files), bytes=sum(e.size for e in files.values()))
    return digests


def files_in(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_a_second_checkout_downloads_nothing(lake: FaultyLake, tmp_path: Path) -> None:
    first = check_out(lake, tmp_path / "cache", tmp_path / "one")
    assert lake.sent("download") == len(BEFORE)
    second = check_out(lake, tmp_path / "cache", tmp_path / "two")
    assert lake.sent("download") == len(BEFORE)
    assert first == second == {name: digest_of(content) for name, content in BEFORE.items()}
    assert files_in(tmp_path / "one") == files_in(tmp_path / "two") == BEFORE


def test_only_what_changed_since_is_downloaded(lake: FaultyLake, tmp_path: Path) -> None:
    check_out(lake, tmp_path / "cache", tmp_path / "one")
    lake.stranger.commit({"changed": b"newer"})
    check_out(lake, tmp_path / "cache", tmp_path / "two")
    assert lake.sent("download") == len(BEFORE) + 1
    assert files_in(tmp_path / "two") == BEFORE | {"changed": b"newer"}


def test_a_body_that_writes_to_its_copy_does_not_reach_the_cache(
    lake: FaultyLake, tmp_path: Path
) -> None:
    check_out(lake, tmp_path / "cache", tmp_path / "one")
    check_out(lake, tmp_path / "cache", tmp_path / "two")
    for directory in ("one", "two"):
        for path in (tmp_path / directory).iterdir():
            assert path.stat().st_nlink == 1
            with path.open("r+b") as stream:
                stream.write(b"OVER")
    check_out(lake, tmp_path / "cache", tmp_path / "three")
    assert lake.sent("download") == len(BEFORE)
    assert files_in(tmp_path / "three") == BEFORE


def test_a_poisoned_entry_is_found_out_and_downloaded_again(
    lake: FaultyLake, tmp_path: Path
) -> None:
    check_out(lake, tmp_path / "cache", tmp_path / "one")
    digest = digest_of(BEFORE["kept"])
    (entry,) = [
        p for p in (tmp_path / "cache").rglob("*") if digest.endswith(p.name) and p.is_file()
    ]
    entry.chmod(0o600)
    entry.write_bytes(b"k3pt")
    check_out(lake, tmp_path / "cache", tmp_path / "two")
    assert lake.sent("download") == len(BEFORE) + 1
    assert files_in(tmp_path / "two") == BEFORE
    check_out(lake, tmp_path / "cache", tmp_path / "three")
    assert lake.sent("download") == len(BEFORE) + 1


def test_a_false_claim_of_a_digest_is_refused_also_when_the_claimed_content_is_cached(
    lake: FaultyLake, tmp_path: Path
) -> None:
    """An object's metadata is its writer's word: it never chooses what is delivered."""
    check_out(lake, tmp_path / "cache", tmp_path / "one")
    lake.stranger.put("liar", b"lies", claiming=digest_of(BEFORE["kept"]))
    lake.stranger.commit({})
    with pytest.raises(CorruptStoreError, match="liar"):
        check_out(lake, tmp_path / "cache", tmp_path / "two")
    assert "liar" not in files_in(tmp_path / "two")


def test_a_workspace_that_does_not_fit_is_refused_before_a_byte_is_downloaded(
    lake: FaultyLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = lake.head
    monkeypatch.setattr("shutil.disk_usage", lambda _path: SimpleNamespace(free=1))
    attempted = lake.attempt()
    assert isinstance(attempted.error, InsufficientDiskError)
    assert lake.sent("download") == 0
    lake.assert_unmoved(before)
