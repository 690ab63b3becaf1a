"""Deletes that a server does in part only."""

from __future__ import annotations

import json
from http.client import HTTPMessage

import pytest

from perago.adapters.lakefs.answers import Asked
from perago.adapters.lakefs.api import PAGE, LakeFSApi
from perago.adapters.lakefs.calls import Call
from perago.adapters.lakefs.connection import LakeFSConnection
from perago.adapters.lakefs.deletes import Deletes
from perago.adapters.lakefs.wire import Answer, Wire
from perago.adapters.patience import Patience
from perago.domain.errors import StoreError
from perago.domain.ids import BranchName, ObjectPath, RepositoryName
from perago.testing.clock import FakeClock

CONNECTION = LakeFSConnection(
    endpoint="http://127.0.0.1:1", access_key_id="key", secret_access_key="secret"
)


class Objects(LakeFSApi):
    """Deletes what it is asked to, but for what sticks, each for so many times."""

    def __init__(self, patience: Patience) -> None:
        super().__init__(CONNECTION, Wire(CONNECTION), patience)
        self.sticks: dict[str, int] = {}
        self.asked: list[list[str]] = []
        self.says_which = True

    def send(self, asked: Asked, timeout_seconds: float, call: Call) -> Answer:
        where = ("repositories", "repo", "branches", "branch", "objects", "delete")
        assert (call.method, call.where) == ("POST", where)
        assert call.content is not None
        paths = call.content["paths"]
        assert isinstance(paths, list)
        self.asked.append([str(path) for path in paths])
        errors = []
        for path in self.asked[-1]:
            if self.sticks.get(path, 0) > 0:
                self.sticks[path] -= 1
                shown = {"path": path} if self.says_which else {}
                errors.append({"status_code": 500, "message": "busy", **shown})
        body = json.dumps({"errors": errors}).encode()
        return Answer(status=200, headers=HTTPMessage(), data=body)


@pytest.fixture
def objects() -> Objects:
    clock = FakeClock()
    return Objects(Patience(30, elapsed=clock.elapsed, sleep=clock.sleep))


@pytest.fixture
def deletes(objects: Objects) -> Deletes:
    clock = FakeClock()
    patience = Patience(30, elapsed=clock.elapsed, sleep=clock.sleep)
    return Deletes(objects, patience, RepositoryName("repo"), BranchName("branch"))


def paths(count: int) -> list[ObjectPath]:
    return [ObjectPath(f"{number:05}") for number in range(count)]


def test_nothing_to_delete_asks_for_nothing(deletes: Deletes, objects: Objects) -> None:
    deletes.run([])

    assert objects.asked == []


def test_many_are_deleted_in_batches(deletes: Deletes, objects: Objects) -> None:
    deletes.run(paths(PAGE + 1))

    assert objects.asked == [paths(PAGE), paths(PAGE + 1)[PAGE:]]


def test_what_was_not_deleted_is_sent_again_and_nothing_else(
    deletes: Deletes, objects: Objects
) -> None:
    objects.sticks = {"00001": 1, "00003": 2}

    deletes.run(paths(5))

    assert objects.asked == [paths(5), ["00001", "00003"], ["00003"]]


def test_all_are_sent_again_where_the_server_does_not_say_which(
    deletes: Deletes, objects: Objects
) -> None:
    objects.sticks, objects.says_which = {"00001": 1}, False

    deletes.run(paths(3))

    assert objects.asked == [paths(3)] * 2


def test_what_goes_on_failing_is_named_after_a_few_tries(
    deletes: Deletes, objects: Objects
) -> None:
    objects.sticks = dict.fromkeys(paths(7), 99)

    with pytest.raises(StoreError) as caught:
        deletes.run(paths(9))

    assert objects.asked == [paths(9), paths(7), paths(7)]
    named = "; ".join(f"'{path}': busy" for path in paths(5))
    assert caught.value.message == f"could not delete on repo/branch: {named}; and 2 more"
