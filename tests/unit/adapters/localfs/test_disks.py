"""What is asked of a disk, also by way of a directory that does not exist yet."""

import shutil
from pathlib import Path

import pytest

from perago.adapters.localfs.disks import LocalDisk, is_same_disk, nearest_directory, probe_traits


@pytest.fixture(params=["", "to/be/made", "file/below"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    (tmp_path / "disk").mkdir()
    (tmp_path / "disk" / "file").touch()
    return tmp_path / "disk" / str(request.param)


def test_the_nearest_directory_is_asked(place: Path, tmp_path: Path) -> None:
    assert nearest_directory(place) == tmp_path / "disk"
    total = shutil.disk_usage(tmp_path).total
    assert 0 < LocalDisk(place).free_bytes <= total


def test_case_is_tried_and_nothing_is_left(place: Path, tmp_path: Path) -> None:
    folds = (tmp_path / "DISK").exists()
    assert LocalDisk(place).folds_case is folds
    assert [path.name for path in (tmp_path / "disk").iterdir()] == ["file"]


def test_a_relative_place_is_asked_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert nearest_directory(Path("to/be/made")).samefile(tmp_path)


def test_disks_are_told_apart(place: Path, tmp_path: Path) -> None:
    assert is_same_disk(place, tmp_path)
    assert not is_same_disk(place, Path("/dev"))


def test_normalisation_is_tried_and_nothing_is_left(place: Path, tmp_path: Path) -> None:
    (tmp_path / "caf\u00e9").touch()
    normalises = (tmp_path / "cafe\u0301").exists()

    assert LocalDisk(place).normalises is normalises
    assert [path.name for path in (tmp_path / "disk").iterdir()] == ["file"]


def test_the_probe_of_mapped_writes_leaves_nothing(place: Path, tmp_path: Path) -> None:
    probe_traits(place)

    assert [path.name for path in (tmp_path / "disk").iterdir()] == ["file"]
