"""The host's cache gives an object only what was proven to be its content, on its own server."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perago.adapters.lakefs.download import identify
from perago.adapters.object_cache import ObjectCache
from perago.domain.ids import CommitId, Digest, ObjectPath, RelativePath, RepositoryName
from perago.domain.workspace import ObjectEntry
from perago.testing.store_contract.bench import digest_of
from tests.scripted_lake import Answer, Reply, ScriptedLake, scripted_lake

LAKE = RepositoryName("lake")
HEAD = CommitId("a" * 64)
NO_MD5 = "an-etag-of-a-store-that-encrypts"
COMMIT = {
    "id": HEAD,
    "parents": [],
    "committer": "c",
    "message": "m",
    "creation_date": 1,
    "meta_range_id": "t",
}


def holding(content: bytes) -> Reply:
    """Every object has this content."""
    commit = json.dumps(COMMIT).encode()
    return lambda _method, path: Answer(body=content if "/objects?" in path else commit)


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A worker's host with its cache."""

    cache: ObjectCache
    directory: Path

    @contextmanager
    def server(self, content: bytes) -> Iterator[ScriptedLake]:
        """A server on which every object has this content."""

        with scripted_lake(holding(content), cache=self.cache) as lake:
            yield lake

    def check_out(
        self, lake: ScriptedLake, name: str, entry: ObjectEntry, repository: RepositoryName = LAKE
    ) -> bytes:
        target = self.directory / name
        target.mkdir()
        files = {RelativePath("f"): entry}
        lake.store.checkout(repository, HEAD, files, target, lambda _objects, _size: None)
        return (target / "f").read_bytes()


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    cache = ObjectCache(tmp_path / "cache", max_bytes=1 << 20)
    yield Host(cache=cache, directory=tmp_path)
    cache.close()


def entry(*, checksum: str, size: int = 4, digest: Digest | None = None) -> ObjectEntry:
    return ObjectEntry(
        path=ObjectPath("f"),
        size=size,
        checksum=checksum,
        digest=digest,
        address="local://lake/data/one",
    )


def downloads(lake: ScriptedLake) -> int:
    return sum("/objects?" in call for call in lake.asked)


def test_what_one_server_gave_is_not_delivered_for_another_ones_object(host: Host) -> None:
    unproven = entry(checksum=NO_MD5)
    with host.server(b"evil") as stranger, host.server(b"good") as own:
        assert host.check_out(stranger, "one", unproven) == b"evil"
        assert host.check_out(own, "two", unproven) == b"good"


def test_a_checksum_that_proves_nothing_keeps_an_object_out_of_the_cache(host: Host) -> None:
    unproven = entry(checksum=NO_MD5)
    with host.server(b"good") as lake:
        host.check_out(lake, "one", unproven)
        host.check_out(lake, "two", unproven)
        assert downloads(lake) == 2
    assert host.cache.usage() == (0, 0)


@pytest.mark.parametrize("proof", ["md5", "digest"])
def test_what_was_proven_is_downloaded_once_from_each_server_and_repository(
    host: Host, proof: str
) -> None:
    md5 = hashlib.md5(b"good", usedforsecurity=False).hexdigest()
    proven = (
        entry(checksum=md5) if proof == "md5" else entry(checksum=NO_MD5, digest=digest_of(b"good"))
    )
    with host.server(b"good") as one, host.server(b"good") as two:
        for number, lake in enumerate((one, one, two, two)):
            assert host.check_out(lake, str(number), proven) == b"good"
        assert (downloads(one), downloads(two)) == (1, 1)
        host.check_out(one, "elsewhere", proven, RepositoryName("other"))
        assert downloads(one) == 2
    assert host.cache.usage()[0] == 1, "equal content lies there once all the same"


def test_a_writers_word_for_one_object_proves_nothing_of_another(host: Host) -> None:
    """Both have one address; the first is proven by its digest, the second only by its MD5."""
    md5 = hashlib.md5(b"good", usedforsecurity=False).hexdigest()
    with host.server(b"evil") as lake:
        host.check_out(lake, "one", entry(checksum=md5, digest=digest_of(b"evil")))
        lake.reply = holding(b"good")
        assert host.check_out(lake, "two", entry(checksum=md5)) == b"good"


known = st.builds(
    ObjectEntry,
    path=st.just(ObjectPath("f")),
    size=st.integers(0, 20),
    checksum=st.text('ab|"\\,1\0\ud800', max_size=3),
    digest=st.one_of(st.none(), st.sampled_from([Digest("d1"), Digest("d2")])),
    address=st.text('ab|"\\,1\0\ud800', max_size=3),
)
names = st.text('ab|",1', max_size=3)


@given(one=known, two=known, servers=st.tuples(names, names), homes=st.tuples(names, names))
def test_two_objects_have_one_identity_only_where_all_that_is_known_is_the_same(
    one: ObjectEntry, two: ObjectEntry, servers: tuple[str, str], homes: tuple[str, str]
) -> None:
    first = identify(servers[0], RepositoryName(homes[0]), one)
    second = identify(servers[1], RepositoryName(homes[1]), two)
    same = (servers[0], homes[0], one) == (servers[1], homes[1], two)
    assert (first == second) is same
