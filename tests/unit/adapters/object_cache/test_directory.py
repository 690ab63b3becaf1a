"""The directory: made for one user, refused when it is not safe, and done without when it fails."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from perago.adapters.object_cache import ObjectCache
from perago.adapters.object_cache.layout import CacheHome
from perago.domain.errors import EnvironmentUnfitError
from tests.unit.adapters.object_cache.bench import Bench, digest_of, ignore


def assert_refused(directory: Path, reason: str) -> None:
    cache = ObjectCache(directory, max_bytes=1 << 30)
    with pytest.raises(EnvironmentUnfitError, match=reason) as caught:
        cache.find(["one"])
    assert str(directory) in caught.value.message
    assert caught.value.hint
    with pytest.raises(EnvironmentUnfitError, match=reason):
        cache.usage()
    with pytest.raises(EnvironmentUnfitError, match=reason):
        cache.deliver(digest_of(b""), 0, directory, ignore)
    with cache.intake() as intake, pytest.raises(EnvironmentUnfitError, match=reason):
        intake.begin(1)
    cache.close()


def test_it_is_private_and_tagged(bench: Bench) -> None:
    bench.fill({"one": b"1"})
    assert bench.directory.stat().st_mode & 0o777 == 0o700
    assert bench.entry(b"1").stat().st_mode & 0o777 == 0o400
    tag = (bench.directory / "CACHEDIR.TAG").read_text("ascii")
    assert tag.startswith("Signature: 8a477f597d28d172789f06886806bc55\n")


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_a_directory_that_others_can_write_is_refused(tmp_path: Path, mode: int) -> None:
    tmp_path.chmod(mode)
    assert_refused(tmp_path, "other users can write to it")
    assert list(tmp_path.iterdir()) == []


def test_a_directory_of_another_user_is_refused(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        os.chown(tmp_path, 65534, 65534)
        assert_refused(tmp_path, "it belongs to user 65534")
    else:
        assert_refused(Path("/usr"), "it belongs to user 0")


def test_a_file_in_the_way_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert_refused(tmp_path / "file", "not a directory")
    assert_refused(tmp_path / "file" / "below", "not a directory")


@pytest.mark.parametrize("name", ["objects", "incoming"])
def test_a_directory_of_another_program_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "precious").touch()
    assert_refused(tmp_path, f"it has '{name}' and no CACHEDIR.TAG of Perago's")
    assert (tmp_path / name / "precious").exists()


def test_other_things_in_the_directory_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir(mode=0o755)
    (tmp_path / "cache" / "tools").mkdir()
    bench = Bench(tmp_path / "cache", tmp_path / "files")
    bench.fill({"one": b"1"})
    assert bench.deliver(b"1")
    assert (tmp_path / "cache" / "tools").is_dir()
    bench.cache.close()


UNWRITABLE = """
import logging, os, sys
from pathlib import Path
from perago.adapters.object_cache import ObjectCache
from perago.domain.errors import EnvironmentUnfitError

logging.basicConfig(stream=sys.stdout, format="%(levelname)s")
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
cache = ObjectCache(Path(sys.argv[1]), max_bytes=1 << 30)
try:
    cache.usage()
except EnvironmentUnfitError as error:
    print("usage", error.message)
print("found", cache.find(["one"]))
with cache.intake() as intake:
    print("begun", intake.begin(1), intake.begin(1))
print("delivered", cache.deliver(sys.argv[2], 1, sys.argv[1], print))
cache.close()
"""


@pytest.fixture
def public_directory() -> Iterator[Path]:
    """A directory that another user can reach."""
    path = Path(tempfile.mkdtemp(prefix="perago-cache-"))
    path.chmod(0o755)
    yield path
    for directory in (path, *path.rglob("*")):
        if directory.is_dir():
            directory.chmod(0o755)
    shutil.rmtree(path)


@pytest.mark.parametrize("existing", [False, True], ids=["no cache yet", "a cache"])
def test_a_read_only_cache_is_done_without(public_directory: Path, existing: bool) -> None:
    directory = public_directory / "cache"
    if existing:
        bench = Bench(directory, public_directory / "files")
        bench.fill({"one": b"1"})
        bench.cache.close()
        for path in (*directory.rglob("*"), directory):
            if os.geteuid() == 0:
                os.chown(path, 65534, 65534)
            path.chmod(0o555 if path.is_dir() else 0o444)
    public_directory.chmod(0o555)
    digest = digest_of(b"2")
    answer = subprocess.run(
        [sys.executable, "-c", UNWRITABLE, directory, digest],
        capture_output=True,
        text=True,
        check=True,
    )
    assert answer.stderr == ""
    usage, *rest = answer.stdout.splitlines()
    assert usage.startswith(f"usage the object cache in {directory} cannot be used: ")
    assert "Permission denied" in usage
    # One warning from each of the two, and none for every content.
    assert rest == ["WARNING", "found {}", "WARNING", "begun None None", "delivered False"]


def test_a_lock_that_is_never_released_is_not_waited_for(tmp_path: Path) -> None:
    patient, impatient = CacheHome(tmp_path / "c"), CacheHome(tmp_path / "c", lock_seconds=0.02)
    with patient.locked():
        with pytest.raises(TimeoutError), impatient.locked():
            pass
        # A lock that was removed excludes nobody: the next one who comes makes another.
        (tmp_path / "c" / "change.lock").unlink()
        with impatient.locked():
            pass
    with impatient.locked():
        pass
