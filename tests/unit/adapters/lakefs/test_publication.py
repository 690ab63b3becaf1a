"""A reset takes everything off the branch that it did not see: what is looked at, and when."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from perago.domain.errors import HeadMovedError, LeaseLostError, StoreError
from perago.domain.ids import BranchName, CommitId, RepositoryName
from perago.ports import LastCheck, TimeCheck, always_allowed
from tests.scripted_lake import Answer, ScriptedLake, scripted_lake

REPOSITORY, MAIN = RepositoryName("lake"), BranchName("main")
STAGED, ABANDONED, FOREIGN = (CommitId(letter * 64) for letter in "abc")


@dataclass(slots=True)
class Target:
    """A branch as the server shows it."""

    head: CommitId = ABANDONED
    uncommitted: list[str] = field(default_factory=list)

    def reply(self, method: str, path: str) -> Answer:
        if method == "PUT":
            return Answer(204)
        if "/diff" in path:
            changes = [
                {"type": "added", "path": name, "path_type": "object"} for name in self.uncommitted
            ]
            return _json(results=changes, pagination=PAGINATION)
        if "/branches/" in path:
            return _json(id=MAIN, commit_id=self.head)
        commit = path.rpartition("/")[2]
        return _json(
            id=commit, parents=[], committer="c", message="m", creation_date=1, meta_range_id="t"
        )


PAGINATION = {"has_more": False, "next_offset": "", "results": 0, "max_per_page": 1}


def _json(**fields: object) -> Answer:
    return Answer(200, json.dumps(fields).encode())


@pytest.fixture
def target() -> Target:
    return Target()


@pytest.fixture
def lake(target: Target) -> Iterator[ScriptedLake]:
    with scripted_lake(target.reply) as lake:
        yield lake


def reset(lake: ScriptedLake, last_check: LastCheck) -> None:
    lake.store.relocate(
        REPOSITORY,
        MAIN,
        to=STAGED,
        expected_head=ABANDONED,
        timeout_seconds=30,
        last_check=last_check,
    )


def resets(lake: ScriptedLake) -> list[str]:
    return [call for call in lake.asked if call.startswith("PUT")]


def test_a_commit_that_lands_while_the_fence_is_asked_is_not_reset_away(
    lake: ScriptedLake, target: Target
) -> None:
    def ask_for_long() -> TimeCheck:
        target.head = FOREIGN
        return always_allowed()

    with pytest.raises(HeadMovedError) as caught:
        reset(lake, ask_for_long)

    assert (caught.value.expected, caught.value.actual) == (ABANDONED, FOREIGN)
    assert resets(lake) == []


def test_what_is_written_while_the_fence_is_asked_is_not_reset_away(
    lake: ScriptedLake, target: Target
) -> None:
    def ask_for_long() -> TimeCheck:
        target.uncommitted.append("theirs")
        return always_allowed()

    with pytest.raises(StoreError, match="uncommitted changes, such as 'theirs'"):
        reset(lake, ask_for_long)

    assert resets(lake) == []


def test_after_the_last_look_at_the_branch_only_the_clock_is_looked_at(lake: ScriptedLake) -> None:
    before: list[str] = []
    timed: list[list[str]] = []

    def ask() -> TimeCheck:
        before.extend(lake.asked)
        return lambda: timed.append(list(lake.asked))

    reset(lake, ask)

    (seen,) = timed
    after_fence = [call.partition("?")[0] for call in seen[len(before) :]]
    branch = f"GET /repositories/{REPOSITORY}/branches/{MAIN}"
    # HEAD is read after the uncommitted changes: what was committed in between is seen.
    assert after_fence == [f"{branch}/diff", branch]
    assert lake.asked[len(seen) :] == resets(lake)
    assert len(resets(lake)) == 1


def test_looks_that_take_too_long_end_in_no_reset(lake: ScriptedLake) -> None:
    def be_late() -> None:
        raise LeaseLostError("too late")

    with pytest.raises(LeaseLostError):
        reset(lake, lambda: be_late)

    assert resets(lake) == []
