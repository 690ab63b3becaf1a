"""Whatever a server answers to a read or a change, the caller gets a value or one error of ours.

Seeded: sound answers of every kind are spoiled in every way that JSON and HTTP allow, sent through
the adapter's own client, and what comes out is used the way that others use it.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import timedelta, timezone

import pytest

from perago.adapters.lakefs import LakeFSWorkspaceStore
from perago.domain.errors import PeragoError, StoreError
from perago.domain.ids import BranchName, CommitId, ObjectPath, RepositoryName
from perago.domain.publication import Commit, StagedWorkspace
from perago.domain.staged_changes import ObjectChange
from perago.domain.workspace import ObjectEntry, Prefix, disk_use, map_objects
from perago.ports import Branch
from tests.scripted_lake import Answer, ScriptedLake, scripted_lake
from tests.session_report import FIGURE

LAKE, MAIN, STAGING = RepositoryName("lake"), BranchName("main"), BranchName("staging")
HEAD, OTHER = CommitId("a" * 64), CommitId("b" * 64)
ROUNDS = 12
"""Of every kind of poison at every kind of answer."""

Json = object
Poison = Callable[[random.Random, dict[str, Json]], Answer]


# -- sound answers


def listing(*results: Mapping[str, Json]) -> dict[str, Json]:
    pagination = {
        "has_more": False,
        "next_offset": "",
        "results": len(results),
        "max_per_page": 1000,
    }
    return {"pagination": pagination, "results": list(results)}


COMMIT: dict[str, Json] = {
    "id": HEAD,
    "parents": [OTHER],
    "committer": "somebody",
    "message": "a message",
    "creation_date": 1700000000,
    "meta_range_id": "c" * 64,
    "metadata": {"perago.phase": "confirm"},
}
OBJECT: dict[str, Json] = {
    "path": "out/file",
    "path_type": "object",
    "physical_address": "local://lake/data/one",
    "checksum": "d" * 32,
    "size_bytes": 4,
    "mtime": 1700000000,
    "metadata": {"perago-blake3": "e" * 64},
}
REPOSITORY: dict[str, Json] = {
    "id": "lake",
    "default_branch": "main",
    "creation_date": 1700000000,
    "storage_namespace": "local://lake",
}
DIFF: dict[str, Json] = {
    "type": "changed",
    "path": "out/file",
    "path_type": "object",
    "size_bytes": 4,
}


def sound(method: str, path: str) -> dict[str, Json]:
    """What a server answers that is in order."""
    path = path.partition("?")[0]
    if method == "POST":
        return COMMIT if path.endswith("/commits") else {"reference": HEAD, "summary": {}}
    match path.split("/")[2:]:
        case []:
            return listing(REPOSITORY)
        case [_]:
            return REPOSITORY
        case [_, *rest]:
            return _sound_below(rest)
        case _:
            raise AssertionError(path)


def _sound_below(path: list[str]) -> dict[str, Json]:
    match path:
        case ["branches"]:
            return listing({"id": "main", "commit_id": HEAD}, {"id": "b", "commit_id": OTHER})
        case ["branches", name]:
            return {"id": name, "commit_id": OTHER if name == STAGING else HEAD}
        case ["branches", _, "diff"] | ["refs", _, "diff", _]:
            return listing(DIFF, DIFF | {"type": "removed", "path": "out/gone"})
        case ["commits", commit]:
            return COMMIT | {"id": commit.ljust(64, "a"), "parents": []}
        case ["refs", _, "commits"]:
            return listing(COMMIT, COMMIT | {"id": OTHER, "parents": []})
        case ["refs", _, "objects", "ls"]:
            return listing(OBJECT, OBJECT | {"path": "out/other"})
        case _:
            raise AssertionError(path)


# -- calls, and which of their answers is spoiled


def _objects(store: LakeFSWorkspaceStore) -> object:
    return list(store.list_objects(LAKE, HEAD, "out/"))


def _merge(store: LakeFSWorkspaceStore) -> object:
    staged = StagedWorkspace(repository=LAKE, branch=STAGING, commit=OTHER)
    return store.merge(
        staged, MAIN, expected_head=HEAD, message="m", metadata={}, timeout_seconds=30
    )


def _commit_staged(store: LakeFSWorkspaceStore) -> object:
    return store.commit_staged(LAKE, STAGING, expected_head=OTHER, message="m", metadata={})


def _object(store: LakeFSWorkspaceStore) -> object:
    with store.open_object(LAKE, HEAD, ObjectPath("out/\udcff")) as stream:
        return stream.read()


CALLS: Mapping[str, tuple[str, Callable[[LakeFSWorkspaceStore], object]]] = {
    "objects": ("/objects/ls", _objects),
    "branches": ("/branches?", lambda store: store.branches(LAKE, hidden=True)),
    "repositories": ("/repositories?", lambda store: store.repositories()),
    "log": ("/refs/" + HEAD + "/commits", lambda store: list(store.log(LAKE, HEAD))),
    "head": ("/branches/main", lambda store: store.head(LAKE, MAIN)),
    "commit": ("/commits/", lambda store: store.read_commit(LAKE, HEAD)),
    "ref": ("/commits/", lambda store: store.resolve(LAKE, HEAD[:12])),
    "uncommitted": ("/diff", lambda store: list(store.staged_changes(LAKE, MAIN))),
    "differences": ("/diff/", lambda store: list(store.changes_between(LAKE, HEAD, OTHER))),
    "merge": ("/merge/", _merge),
    "new commit": ("/commits", _commit_staged),
}


# -- poison


def _dump(value: Json) -> bytes:
    return json.dumps(value).encode()


def _places(value: Json) -> Iterator[tuple[dict[str, Json], str]]:
    """Every field at any depth, with the object that it is in."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield value, name
            yield from _places(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _places(inner)


def _with_field(rng: random.Random, found: dict[str, Json], *values: Json) -> Answer:
    """One field, anywhere, has another value."""
    inside, name = rng.choice(list(_places(found)))
    inside[name] = rng.choice(values)
    return Answer(body=_dump(found))


def wrong_type(rng: random.Random, found: dict[str, Json]) -> Answer:
    return _with_field(rng, found, None, True, 1, 1.5, "", "text", [], [[]], {}, {"a": 1}, [None])


def missing_field(rng: random.Random, found: dict[str, Json]) -> Answer:
    inside, name = rng.choice(list(_places(found)))
    del inside[name]
    return Answer(body=_dump(found))


def absurd_number(rng: random.Random, found: dict[str, Json]) -> Answer:
    numbers = [place for place in _places(found) if type(place[0][place[1]]) is int]
    if not numbers:
        return _with_field(rng, found, -1, 10**400)
    inside, name = rng.choice(numbers)
    inside[name] = rng.choice(
        [-1, -(1 << 63), 1 << 31, 1 << 63, 10**17, -(10**17), 10**400, 253402300800, -62135596801]
    )
    return Answer(body=_dump(found))


def number_python_refuses(_rng: random.Random, found: dict[str, Json]) -> Answer:
    return Answer(body=_dump(found).replace(b"1700000000", b"9" * 6000))


def no_number(rng: random.Random, found: dict[str, Json]) -> Answer:
    return _with_field(rng, found, float("nan"), float("inf"), -0.0, 1e308)


def hostile_text(rng: random.Random, found: dict[str, Json]) -> Answer:
    return _with_field(
        rng,
        found,
        *("a\nb", "\x1b[2J", "\x9b2J", "\u202egnp", "\u2028", "\0", "../../etc/passwd", "/", "."),
        *("\ud800", "out/\udfff", "a" * 300, "out/" + "x/" * 3000, "out/" + "y" * 5000, "%s{}"),
    )


def hostile_name(rng: random.Random, found: dict[str, Json]) -> Answer:
    inside, name = rng.choice(list(_places(found)))
    inside[rng.choice(["\ud800", "a\nb", "__class__", "id", "results", ""])] = inside.pop(name)
    return Answer(body=_dump(found))


def not_utf8(rng: random.Random, found: dict[str, Json]) -> Answer:
    body = bytearray(_dump(found))
    body[rng.randrange(len(body))] = rng.choice([0x80, 0xFF, 0xC3, 0x00])
    return Answer(body=bytes(body))


def nested_deeply(rng: random.Random, found: dict[str, Json]) -> Answer:
    depth = rng.choice([500, 2000, 20000, 100000])
    opening, closing = rng.choice([(b"[", b"]"), (b'{"a":', b"}")])
    nested = opening * depth + b"1" + closing * depth
    inside, name = rng.choice(list(_places(found)))
    inside[name] = "NESTED"
    return Answer(body=_dump(found).replace(b'"NESTED"', nested))


def duplicate_names(rng: random.Random, found: dict[str, Json]) -> Answer:
    inside, name = rng.choice(list(_places(found)))
    inside["DUPLICATE"] = rng.choice([None, 1, "twice"])
    return Answer(body=_dump(found).replace(b'"DUPLICATE"', _dump(name)))


def truncated(rng: random.Random, found: dict[str, Json]) -> Answer:
    body = _dump(found)
    return Answer(body=body[: rng.randrange(len(body))])


def cut_off(rng: random.Random, found: dict[str, Json]) -> Answer:
    body = _dump(found)
    return Answer(body=body[: rng.randrange(len(body))], announced=len(body))


def other_json(rng: random.Random, _found: dict[str, Json]) -> Answer:
    return Answer(body=rng.choice([b"", b"null", b"[]", b"{}", b"0", b'"x"', b"true", b"<html>"]))


def endless(rng: random.Random, found: dict[str, Json]) -> Answer:
    """A listing that goes on, to nowhere or to itself."""
    page = found.get("pagination")
    if isinstance(page, dict):
        page |= {"has_more": True, "next_offset": rng.choice(["", "a", "\ud800", "out/file"])}
    return Answer(body=_dump(found))


def other_status(rng: random.Random, found: dict[str, Json]) -> Answer:
    status = rng.choice([201, 202, 206, 299, 304, 400, 401, 404, 409, 410, 418, 429, 500, 599, 999])
    said = _dump({"message": rng.choice(["\x1b[2J\u202e", "no", 7, None, [1]])})
    bodies = [said, b"\xff\xfe latin", b"[" * 100000, b"", _dump(found)]
    return Answer(status=status, body=b"" if status == 304 else rng.choice(bodies))


def other_charset(rng: random.Random, found: dict[str, Json]) -> Answer:
    charset = rng.choice(["nonsense", "utf-16", "utf-7", "\xfcber", "rot13", "base64"])
    return Answer(body=_dump(found), content_type=f"application/json; charset={charset}")


POISONS: tuple[Poison, ...] = (
    *(wrong_type, missing_field, absurd_number, number_python_refuses, no_number, hostile_text),
    *(hostile_name, not_utf8, nested_deeply, duplicate_names, truncated, cut_off, other_json),
    *(endless, other_status, other_charset),
)


# -- what others do with what comes out


def use(value: object) -> None:
    """Like the rest of Perago: lay files out, add sizes up, show times and names."""
    if isinstance(value, list):
        entries = [one for one in value if isinstance(one, ObjectEntry)]
        if entries:
            layout = map_objects(Prefix("out/"), entries)
            assert layout.total_bytes >= 0
        for one in value:
            use(one)
    match value:
        case Commit():
            for hours in (-23, 23):
                value.created_at.astimezone(timezone(timedelta(hours=hours))).isoformat()
            assert len(value.id) == 64
        case ObjectEntry() | ObjectChange():
            assert disk_use(value.size) > 0
            assert value.size < 1 << 63
        case Branch():
            assert len(value.head) == 64
        case _:
            pass


@pytest.fixture
def lake() -> Iterator[ScriptedLake]:
    with scripted_lake(answer_soundly) as lake:
        yield lake


def answer_soundly(method: str, path: str) -> Answer:
    if f"/branches/{HEAD[:12]}" in path:
        return Answer(status=404)
    return Answer(status=_status(method, path), body=_dump(sound(method, path)))


def _status(method: str, path: str) -> int:
    return 201 if method == "POST" and path.endswith("/commits") else 200


@pytest.mark.parametrize("kind", CALLS)
def test_sound_answers_are_understood(lake: ScriptedLake, kind: str) -> None:
    asked, call = CALLS[kind]
    use(call(lake.store))
    assert any(asked in one for one in lake.asked)


def test_of_thousands_of_poisoned_answers_each_is_a_value_or_an_error_of_ours(
    lake: ScriptedLake, record_property: Callable[[str, object], None]
) -> None:
    rng = random.Random(14)
    counted: Counter[str] = Counter()
    for kind, (asked, call) in CALLS.items():
        for poison in POISONS:
            for _ in range(ROUNDS):
                counted[f"{poison.__name__}: {_meet(lake, rng, poison, asked, call)}"] += 1
                counted[kind] += 1
    described = ", ".join(f"{name} {count}" for name, count in sorted(counted.items()))
    record_property(FIGURE, f"poisoned answers of a lakeFS server: {described}")
    assert sum(counted[kind] for kind in CALLS) >= 2000


def _meet(
    lake: ScriptedLake,
    rng: random.Random,
    poison: Poison,
    asked: str,
    call: Callable[[LakeFSWorkspaceStore], object],
) -> str:
    """Make a call of which one answer is spoiled; whether it was understood or refused."""
    spoiled: list[Answer] = []

    def reply(method: str, path: str) -> Answer:
        if asked not in path or (asked == "/commits" and method == "GET"):
            return answer_soundly(method, path)
        if not spoiled:
            copy = json.loads(json.dumps(sound(method, path)))
            answer = poison(rng, copy)
            status = _status(method, path) if answer.status == 200 else answer.status
            spoiled.append(replace(answer, status=status))
        return spoiled[0]

    lake.reply = reply
    lake.asked.clear()
    is_refused = False
    try:
        use(call(lake.store))
    except PeragoError as error:
        is_refused = bool(error.message)
    except Exception as error:
        raise AssertionError(f"{poison.__name__}: {spoiled[0].body[:300]!r}") from error
    assert len(lake.asked) < 50, "it is asked without end"
    return "refused" if is_refused else "understood"


@pytest.mark.parametrize("offsets", [[""], ["a", "a"], ["b", "c", "b"]], ids=["none", "one", "two"])
@pytest.mark.parametrize("kind", ["objects", "branches", "repositories", "log", "uncommitted"])
def test_a_listing_that_stands_still_or_goes_back_is_one_clear_error(
    lake: ScriptedLake, kind: str, offsets: list[str]
) -> None:
    asked, call = CALLS[kind]
    given = iter(offsets)

    def reply(method: str, path: str) -> Answer:
        found = sound(method, path)
        page = found.get("pagination")
        if asked in path and isinstance(page, dict):
            page |= {"has_more": True, "next_offset": next(given)}
        return Answer(body=_dump(found))

    lake.reply = reply
    with pytest.raises(StoreError, match="begins again and has no end") as caught:
        call(lake.store)
    assert caught.value.hint
    assert list(given) == [], "it is asked until it begins again"


def test_an_objects_name_that_is_no_utf8_is_asked_for_and_not_there(lake: ScriptedLake) -> None:
    def reply(method: str, path: str) -> Answer:
        return Answer(status=404) if "/objects?" in path else answer_soundly(method, path)

    lake.reply = reply
    with pytest.raises(StoreError, match="no object"):
        _object(lake.store)


@pytest.mark.parametrize("kind", [None, "folder", 7])
def test_an_item_of_an_unknown_kind_is_not_left_out_in_silence(
    lake: ScriptedLake, kind: object
) -> None:
    def reply(method: str, path: str) -> Answer:
        found = sound(method, path)
        if "/objects/ls" in path:
            found |= {"results": [OBJECT | {"path_type": kind}]}
        return Answer(body=_dump(found))

    lake.reply = reply
    with pytest.raises(StoreError, match="is not one of a lakeFS server"):
        list(lake.store.list_objects(LAKE, HEAD, "out/"))


@pytest.mark.parametrize("answer", [{}, {"errors": None}, {"errors": {}}, {"status": "ok"}])
def test_a_delete_whose_answer_does_not_say_what_is_left_is_refused(
    lake: ScriptedLake, answer: dict[str, Json]
) -> None:
    lake.reply = lambda method, path: (
        Answer(body=_dump(answer))
        if path.endswith("/objects/delete")
        else answer_soundly(method, path)
    )
    with pytest.raises(StoreError, match="is not one of a lakeFS server"):
        lake.store.remove_staged(LAKE, BranchName("main"), [ObjectPath("out/file")])


def test_an_object_outside_of_what_was_asked_for_is_refused(lake: ScriptedLake) -> None:
    with pytest.raises(StoreError, match="does not begin with 'elsewhere/'"):
        list(lake.store.list_objects(LAKE, HEAD, "elsewhere/"))


def test_a_commit_of_an_absurd_time_does_not_close_its_branch(lake: ScriptedLake) -> None:
    """Anybody who commits may give any date."""
    body = COMMIT | {"creation_date": 10**17}
    lake.reply = lambda _method, _path: Answer(body=_dump(body))
    assert lake.store.read_commit(LAKE, HEAD).created_at.year == 9999
