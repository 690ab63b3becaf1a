"""Deletes that a server does in part only."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from lakefs_sdk.api.objects_api import ObjectsApi
from lakefs_sdk.models.object_error import ObjectError
from lakefs_sdk.models.object_error_list import ObjectErrorList
from lakefs_sdk.models.path_list import PathList

from perago.adapters.lakefs.api import LakeFSApi
from perago.adapters.lakefs.connection import LakeFSConnection
from perago.adapters.lakefs.deletes import Deletes
from perago.adapters.lakefs.history import PAGE
from perago.adapters.patience import Patience
from perago.domain.errors import StoreError
from perago.domain.ids import BranchName, ObjectPath, RepositoryName
from perago.testing.clock import FakeClock

CONNECTION = LakeFSConnection(
    endpoint="http://127.0.0.1:1", access_key_id="key", secret_access_key="secret"
)


class Objects(ObjectsApi):
    """Deletes what it is asked to, but for what sticks, each for so many times."""

    def __init__(self) -> None:
        self.sticks: dict[str, int] = {}
        self.asked: list[list[str]] = []
        self.says_which = True

    def delete_objects(  # type: ignore[override]
        self, repository: str, branch: str, paths: PathList, **_options: object
    ) -> ObjectErrorList:
        assert (repository, branch) == ("repo", "branch")
        self.asked.append(list(paths.paths))
        errors = []
        for path in paths.paths:
            if self.sticks.get(path, 0) > 0:
                self.sticks[path] -= 1
                shown = path if self.says_which else None
                errors.append(ObjectError(status_code=500, message="busy", path=shown))
        return ObjectErrorList(errors=errors)


@pytest.fixture
def objects() -> Objects:
    return Objects()


@pytest.fixture
def deletes(objects: Objects) -> Iterator[Deletes]:
    clock = FakeClock()
    patience = Patience(30, elapsed=clock.elapsed, sleep=clock.sleep)
    with closing(LakeFSApi(CONNECTION, patience)) as api:
        api.objects = objects
        yield Deletes(api, patience, RepositoryName("repo"), BranchName("branch"))


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
