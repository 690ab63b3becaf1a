"""What is said where the machine is used up, and what is refused before it is."""

from __future__ import annotations

import errno
from dataclasses import dataclass
from pathlib import Path

import pytest

from perago.app.exhausted import explain_exhausted
from perago.app.room import ensure_room
from perago.domain.errors import InsufficientDiskError, TaskFailed
from perago.testing import FakeClock, MemoryWorkspaceStore

DIRECTORY = Path("/somewhere")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize(("name", "where"), [(None, ""), ("a.csv", " while writing a.csv")])
def test_a_full_disk_and_a_full_quota_say_what_to_do(
    number: int, name: str | None, where: str
) -> None:
    cause = OSError(number, "full", name)

    explained = explain_exhausted(cause)

    assert isinstance(explained, InsufficientDiskError)
    assert explained.message == f"the disk is full{where}"
    assert "PERAGO_WORKSPACE_ROOT" in (explained.hint or "")
    assert explained.__cause__ is cause


@pytest.mark.parametrize(("name", "where"), [(None, ""), ("a.csv", " while opening a.csv")])
def test_too_many_open_files_say_what_to_do(name: str | None, where: str) -> None:
    cause = OSError(errno.EMFILE, "many", name)

    explained = explain_exhausted(cause)

    assert isinstance(explained, TaskFailed)
    assert explained.message == f"the attempt has too many files open{where}"
    assert "PERAGO_ATTEMPT_OPEN_FILES" in (explained.hint or "")
    assert explained.__cause__ is cause


@pytest.mark.parametrize("error", [PermissionError(errno.EACCES, "no"), ValueError("no")])
def test_any_other_error_stays_as_it_is(error: Exception) -> None:
    assert explain_exhausted(error) is error


@dataclass(frozen=True)
class Disk:
    free_bytes: int
    folds_case: bool = False
    normalises: bool = False


class StoreWithCache(MemoryWorkspaceStore):
    """Remembers what it was asked to give back."""

    def __init__(self) -> None:
        super().__init__(FakeClock())
        self.asked: list[tuple[Path, int]] = []

    def make_room(self, directory: Path, size: int) -> None:
        self.asked.append((directory, size))


def ask(needed: int, store: StoreWithCache) -> None:
    ensure_room(needed, DIRECTORY, Disk(100), store=store, what="the input", hint="clean up")


def test_what_just_fits_is_taken() -> None:
    store = StoreWithCache()

    ask(100, store)

    assert store.asked == [(DIRECTORY, 100)]


def test_what_does_not_fit_is_refused_in_bytes() -> None:
    with pytest.raises(InsufficientDiskError) as caught:
        ask(101, StoreWithCache())

    assert caught.value.message == "the input needs 101 bytes and /somewhere has 100 free"
    assert caught.value.hint == "clean up"
