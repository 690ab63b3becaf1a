"""Attempt directories: made, marked, collected, swept."""

from __future__ import annotations

import json
import mmap
import os
import random
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from perago.adapters.localfs.copying import hash_path
from perago.adapters.localfs.directories import (
    ATTEMPTS,
    MARKERS,
    LocalAttemptDirectories,
)
from perago.adapters.localfs.markers import Marker
from perago.domain.attempt import Attempt
from perago.domain.errors import EnvironmentUnfitError, UnpublishableFileError
from perago.domain.ids import ExecutionId, RelativePath, TaskId, WorkerId, WorkflowId
from perago.system.processes import identify

ATTEMPT = Attempt(
    workflow_id=WorkflowId("wf-1"),
    task_id=TaskId("task-1"),
    task_name="clean",
    reference_name="clean_ref",
    retry_count=2,
    seq=3,
    worker_id=WorkerId("worker"),
    poll_count=1,
    scheduled_time=1_763_000_000_000,
    retried_task_id=TaskId("task-0"),
    root_workflow_id=WorkflowId("wf-0"),
)
EXECUTION = ExecutionId("0" * 32)
OTHER = ExecutionId("1" * 32)

EXECUTOR = """
    import sys
    from pathlib import Path
    from perago.adapters.localfs.directories import LocalAttemptDirectories
    from perago.domain.attempt import Attempt
    from perago.domain.ids import ExecutionId, TaskId, WorkflowId
    attempt = Attempt(
        workflow_id=WorkflowId("w"), task_id=TaskId("t"), task_name="n", reference_name="r"
    )
    directories = LocalAttemptDirectories(Path(sys.argv[1]))
    made = directories.create(attempt, ExecutionId("0" * 32))
    print("made", flush=True)
    sys.stdin.read()
"""


def marker_of(root: Path, execution_id: str = EXECUTION) -> Path:
    return root / MARKERS / f"{execution_id}.json"


def attempts_in(root: Path) -> list[str]:
    return sorted(
        path.name for path in (root / ATTEMPTS).iterdir() if path.name != ".perago-directory"
    )


def forge(root: Path, content: bytes, execution_id: str = EXECUTION) -> Path:
    path = marker_of(root, execution_id)
    path.unlink(missing_ok=True)
    path.write_bytes(content)
    return path


@pytest.fixture
def stranger() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True
    )
    yield process
    process.kill()
    process.wait()


def test_a_directory_is_named_after_task_and_execution_and_marked(tmp_path: Path) -> None:
    directory = LocalAttemptDirectories(tmp_path).create(ATTEMPT, EXECUTION)

    assert directory.root.name == f"task-1-{EXECUTION}"
    assert [path.name for path in directory.root.iterdir()] == ["files"]
    assert list(directory.files.iterdir()) == []
    marker = Marker.from_json(marker_of(tmp_path).read_bytes())
    assert marker.attempt == ATTEMPT
    assert marker.execution_id == EXECUTION
    assert marker.process.pid == os.getpid()
    assert marker.process.is_alive


def test_a_directory_that_cannot_be_made_leaves_neither_marker_nor_descriptor(
    tmp_path: Path,
) -> None:
    directories = LocalAttemptDirectories(tmp_path)
    directories.create(ATTEMPT, OTHER)
    stranger = tmp_path / ATTEMPTS / f"task-1-{EXECUTION}"
    stranger.mkdir()
    free = os.dup(0)
    os.close(free)

    for _ in range(3):
        with pytest.raises(FileExistsError) as caught:
            directories.create(ATTEMPT, EXECUTION)
        del caught

    assert not marker_of(tmp_path).exists()
    assert stranger.is_dir(), "it was there before"
    again = os.dup(0)
    os.close(again)
    assert again == free
    stranger.rmdir()
    assert directories.create(ATTEMPT, EXECUTION).files.is_dir()


def test_the_directories_of_a_task_with_a_long_id_are_told_apart_and_swept(tmp_path: Path) -> None:
    attempt = replace(ATTEMPT, task_id=TaskId("é/" * 200))
    directories = LocalAttemptDirectories(tmp_path)

    made = [directories.create(attempt, one) for one in (EXECUTION, OTHER)]

    assert len({one.root for one in made}) == 2
    made[0].remove()
    directories.collect(OTHER)
    assert attempts_in(tmp_path) == []


def test_two_executions_of_one_attempt_share_nothing(tmp_path: Path) -> None:
    directories = LocalAttemptDirectories(tmp_path)

    first = directories.create(ATTEMPT, EXECUTION)
    second = directories.create(ATTEMPT, ExecutionId("1" * 32))

    assert first.root != second.root
    with pytest.raises(FileExistsError):
        directories.create(ATTEMPT, EXECUTION)


def test_a_hostile_task_id_stays_inside_the_root(tmp_path: Path) -> None:
    hostile = Attempt(
        workflow_id=WorkflowId("w"),
        task_id=TaskId("../../x/\x00y"),
        task_name="t",
        reference_name="r",
    )

    directory = LocalAttemptDirectories(tmp_path).create(hostile, EXECUTION)

    assert directory.root.resolve().parent == (tmp_path / ATTEMPTS).resolve()


def test_the_input_copy_is_private(tmp_path: Path) -> None:
    directory = LocalAttemptDirectories(tmp_path).create(ATTEMPT, EXECUTION)
    directory.make_directories([RelativePath("empty/dir")])
    (directory.files / "f").write_text("before")

    copy = directory.copy_input()
    with (directory.files / "f").open("r+") as stream:
        stream.write("BEHIND")

    assert (copy / "f").read_text() == "before"
    assert (copy / "empty" / "dir").is_dir()


def test_collect_removes_one_execution(tmp_path: Path) -> None:
    directories = LocalAttemptDirectories(tmp_path)
    dead = directories.create(ATTEMPT, EXECUTION)
    living = directories.create(ATTEMPT, ExecutionId("1" * 32))

    directories.collect(EXECUTION)
    directories.collect(ExecutionId("2" * 32))  # never there: nothing to do

    assert not dead.root.exists()
    assert not marker_of(tmp_path).exists()
    assert living.root.exists()
    assert marker_of(tmp_path, OTHER).exists()


def test_what_is_left_of_an_attempt_is_removed_with_its_marker(tmp_path: Path) -> None:
    directory = LocalAttemptDirectories(tmp_path).create(ATTEMPT, EXECUTION)

    directory.remove()
    directory.remove()

    assert attempts_in(tmp_path) == []
    assert not marker_of(tmp_path).exists()


@pytest.mark.parametrize("mask", [0, 0o022, 0o077])
def test_directories_and_markers_are_for_their_user_alone(tmp_path: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        directory = LocalAttemptDirectories(tmp_path / "root").create(ATTEMPT, EXECUTION)
    finally:
        os.umask(before)

    private = (tmp_path / "root", directory.root.parent, directory.root, directory.files)
    assert {path.stat().st_mode & 0o777 for path in private} == {0o700}
    assert marker_of(tmp_path / "root").stat().st_mode & 0o777 == 0o600


def test_sweep_removes_what_has_our_name_and_our_marker(tmp_path: Path) -> None:
    directories = LocalAttemptDirectories(tmp_path)
    directories.create(ATTEMPT, EXECUTION)

    assert directories.sweep() == [ATTEMPT]

    assert attempts_in(tmp_path) == []
    assert not marker_of(tmp_path).exists()
    assert directories.sweep() == []


@pytest.mark.parametrize("name", ["projects", f"task-1-{OTHER}"])
def test_sweep_leaves_a_stranger_s_directory_alone_and_names_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    directories = LocalAttemptDirectories(tmp_path)
    directories.create(ATTEMPT, EXECUTION)
    stranger = tmp_path / ATTEMPTS / name
    stranger.mkdir()
    (stranger / "precious").write_text("x")

    directories.sweep()

    assert (stranger / "precious").exists()
    assert str(stranger) in caplog.text


def test_sweep_removes_what_a_kill_left_of_a_marker(tmp_path: Path) -> None:
    directories = LocalAttemptDirectories(tmp_path)
    directories.sweep()
    (tmp_path / MARKERS / f".{'0' * 16}.new").touch()
    (tmp_path / MARKERS / "notes.new").touch()

    directories.sweep()

    assert {path.name for path in (tmp_path / MARKERS).iterdir()} == {
        ".perago-directory",
        "notes.new",
    }


def take_tag(attempts: Path) -> None:
    (attempts / ".perago-directory").unlink()


def open_to_all(attempts: Path) -> None:
    attempts.chmod(0o777)


@pytest.mark.parametrize("spoil", [take_tag, open_to_all])
def test_what_a_body_does_to_the_root_is_an_os_error_for_those_who_clean_up(
    tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    """The supervisor and the attempt go on after one; they would not after any other."""
    directories = LocalAttemptDirectories(tmp_path)
    directory = directories.create(ATTEMPT, EXECUTION)
    spoil(tmp_path / ATTEMPTS)

    with pytest.raises(PermissionError, match="attempt directories cannot be in"):
        directories.collect(EXECUTION)
    with pytest.raises(PermissionError, match="attempt directories cannot be in"):
        directory.remove()
    with pytest.raises(EnvironmentUnfitError):
        directories.create(ATTEMPT, OTHER)


def test_sweep_follows_no_link(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    directories = LocalAttemptDirectories(tmp_path)
    directories.create(ATTEMPT, EXECUTION)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("x")
    (tmp_path / ATTEMPTS / "link").symlink_to(outside)
    replaced = directories.create(ATTEMPT, OTHER).root
    replaced.rename(tmp_path / "moved")
    replaced.symlink_to(outside)

    directories.sweep()

    assert (outside / "precious").exists()
    assert attempts_in(tmp_path) == ["link"]
    assert "link is left alone" in caplog.text


def test_attempts_that_stood_there_before_perago_are_refused(tmp_path: Path) -> None:
    precious = tmp_path / ATTEMPTS / "2024" / "precious"
    precious.parent.mkdir(parents=True)
    precious.write_text("x")

    with pytest.raises(EnvironmentUnfitError, match="it has '2024'") as caught:
        LocalAttemptDirectories(tmp_path).sweep()

    assert "PERAGO_WORKSPACE_ROOT" in (caught.value.hint or "")
    assert precious.exists()


def test_attempts_that_are_a_link_are_refused(tmp_path: Path) -> None:
    other = LocalAttemptDirectories(tmp_path / "other")
    living = other.create(ATTEMPT, EXECUTION)
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / ATTEMPTS).symlink_to(tmp_path / "other" / ATTEMPTS)

    with pytest.raises(EnvironmentUnfitError, match="it is a link"):
        LocalAttemptDirectories(tmp_path / "root").sweep()

    assert living.files.is_dir()


def test_sweep_ends_an_executor_that_outlived_its_supervisor(tmp_path: Path) -> None:
    orphan = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(EXECUTOR), str(tmp_path)],
        start_new_session=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert orphan.stdout is not None
        assert orphan.stdout.readline() == b"made\n"

        (swept,) = LocalAttemptDirectories(tmp_path).sweep()

        assert swept.task_id == "t"
        assert attempts_in(tmp_path) == []
        assert orphan.poll() is not None
    finally:
        orphan.kill()
        orphan.communicate()


def test_a_forged_marker_kills_nobody(tmp_path: Path, stranger: subprocess.Popen[bytes]) -> None:
    """It names a process that runs, and tells its birth right."""
    directories = LocalAttemptDirectories(tmp_path)
    directories.create(ATTEMPT, EXECUTION)
    marker = Marker(attempt=ATTEMPT, execution_id=EXECUTION, process=identify(stranger.pid))
    forge(tmp_path, marker.to_json().encode())

    directories.sweep()

    assert stranger.poll() is None
    assert attempts_in(tmp_path) == []


def test_a_marker_of_this_very_process_kills_nobody(tmp_path: Path) -> None:
    directories = LocalAttemptDirectories(tmp_path)
    held = directories.create(ATTEMPT, EXECUTION)  # this process has the marker open

    assert directories.sweep() == [ATTEMPT]
    held.remove()


def junk(seed: int) -> bytes:
    """What may be found instead of a marker."""
    chance = random.Random(seed)
    good = json.loads(
        Marker(attempt=ATTEMPT, execution_id=EXECUTION, process=identify(os.getpid())).to_json()
    )
    values: list[object] = [
        None, True, -1, 2**63, 10**4000, 1e308, float("nan"), float("inf"), "", "x" * 10_000,
        "\ud800", "a\x00b", [], {}, [[]] * 3, {"pid": 1},
    ]  # fmt: skip
    holder = chance.choice([good, good["attempt"], good["process"]])
    holder[chance.choice(sorted(holder))] = chance.choice(values)
    text = json.dumps(good)
    match chance.randrange(4):
        case 0:
            return text[: chance.randrange(len(text))].encode()
        case 1:
            raw = bytearray(text.encode())
            raw[chance.randrange(len(raw))] = chance.randrange(256)
            return bytes(raw)
        case _:
            return text.encode()


@pytest.mark.parametrize("seed", range(200))
def test_a_marker_with_junk_ends_at_most_in_a_warning(tmp_path: Path, seed: int) -> None:
    directories = LocalAttemptDirectories(tmp_path)
    directories.create(ATTEMPT, EXECUTION)
    forge(tmp_path, junk(seed))

    for attempt in directories.sweep():
        json.dumps(asdict(attempt)).encode("utf-8")

    assert attempts_in(tmp_path) == []


def deep(path: Path) -> None:
    path.write_bytes(b"[" * 60_000)


def huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 30)


@pytest.mark.parametrize(
    "put", [deep, huge, os.mkfifo, Path.mkdir, lambda path: path.symlink_to("/etc/passwd")]
)
def test_what_lies_in_a_marker_s_place_ends_at_most_in_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, put: Callable[[Path], None]
) -> None:
    directories = LocalAttemptDirectories(tmp_path)
    directories.create(ATTEMPT, EXECUTION)
    path = marker_of(tmp_path)
    path.unlink()
    put(path)

    assert directories.sweep() == []

    assert path.name in caplog.text


@pytest.mark.parametrize("text", ["", "{}", '{"attempt": 3}', "[]", "\x00"])
def test_a_damaged_marker_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        Marker.from_json(text.encode())


def test_a_workspace_that_became_a_link_is_not_read(tmp_path: Path) -> None:
    directory = LocalAttemptDirectories(tmp_path).create(ATTEMPT, EXECUTION)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("x")
    directory.files.rmdir()
    directory.files.symlink_to(outside)

    with pytest.raises(UnpublishableFileError, match="does not support symlinks"):
        directory.scan()

    directory.remove()
    assert (outside / "secret").exists()


def test_an_attempt_directory_that_became_a_link_is_not_read(tmp_path: Path) -> None:
    directory = LocalAttemptDirectories(tmp_path).create(ATTEMPT, EXECUTION)
    outside = tmp_path / "outside"
    (outside / "files").mkdir(parents=True)
    (outside / "files" / "secret").write_text("x")
    directory.root.rename(tmp_path / "moved")
    directory.root.symlink_to(outside)

    with pytest.raises(UnpublishableFileError, match="does not support symlinks"):
        directory.scan()

    directory.remove()
    assert (outside / "files" / "secret").exists()


def test_a_workspace_that_is_gone_is_an_error_and_no_empty_one(tmp_path: Path) -> None:
    directory = LocalAttemptDirectories(tmp_path).create(ATTEMPT, EXECUTION)
    directory.files.rmdir()

    with pytest.raises(UnpublishableFileError, match="it is gone"):
        directory.scan()


def test_a_body_may_close_every_descriptor(tmp_path: Path) -> None:
    """And those that others open under the same numbers are left alone."""
    directory = LocalAttemptDirectories(tmp_path).create(ATTEMPT, EXECUTION)
    (directory.files / "f").write_text("x")
    assert directory._marker is not None
    number = directory._marker._descriptor
    os.close(number)
    other = os.open(os.devnull, os.O_RDONLY)
    os.dup2(other, number)

    assert set(directory.scan().files) == {"f"}
    directory.remove()

    os.fstat(number)
    os.close(number)
    if other != number:
        os.close(other)


def places() -> list[Path | None]:
    """A tmpfs too, where the system has one."""
    memory = Path("/dev/shm")
    return [None, memory] if memory.is_dir() else [None]


@pytest.mark.parametrize("place", places())
def test_a_write_to_a_mapped_file_is_found(tmp_path: Path, place: Path | None) -> None:
    """On a tmpfs it changes no time stamp after the page was read."""
    with tempfile.TemporaryDirectory(dir=place or tmp_path) as root:
        directory = LocalAttemptDirectories(Path(root)).create(ATTEMPT, EXECUTION)
        file = directory.files / "f"
        file.write_bytes(bytes(mmap.PAGESIZE))
        wait_for_a_tick(Path(root))
        directory.remember({RelativePath("f"): hash_path(file)})
        with file.open("r+b") as stream, mmap.mmap(stream.fileno(), 0) as mapped:
            assert mapped[0] == 0
            mapped[0] = 1

        digest = directory.scan().files[RelativePath("f")].digest

        assert digest == hash_path(file)


def wait_for_a_tick(directory: Path) -> None:
    """Let the file system's clock move on, so that what was written before is not racy."""
    probe = directory / "tick"
    probe.write_text("")
    first = probe.stat().st_ctime_ns
    while probe.stat().st_ctime_ns == first:
        probe.write_text("x")
