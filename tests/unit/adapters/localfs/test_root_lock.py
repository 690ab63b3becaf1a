"""One supervisor per workspace root."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from perago.adapters.localfs.root_lock import WorkspaceRootLock
from perago.domain.errors import EnvironmentUnfitError, WorkspaceRootLockedError
from perago.domain.ids import WorkerId


def test_a_second_supervisor_is_refused_and_told_who_holds_the_root(tmp_path: Path) -> None:
    with (
        WorkspaceRootLock(tmp_path),
        pytest.raises(WorkspaceRootLockedError, match=str(os.getpid())) as caught,
    ):
        WorkspaceRootLock(tmp_path).acquire()

    assert "PERAGO_WORKSPACE_ROOT" in (caught.value.hint or "")


def test_a_released_root_can_be_taken_again(tmp_path: Path) -> None:
    with WorkspaceRootLock(tmp_path):
        pass
    with WorkspaceRootLock(tmp_path):
        pass


def test_a_killed_holder_does_not_keep_the_root(tmp_path: Path) -> None:
    script = f"""
        import sys, time
        from pathlib import Path
        from perago.adapters.localfs.root_lock import WorkspaceRootLock
        WorkspaceRootLock(Path({str(tmp_path)!r})).acquire()
        print("held", flush=True)
        time.sleep(600)
    """
    holder = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(WorkspaceRootLockedError, match=str(holder.pid)):
            WorkspaceRootLock(tmp_path).acquire()
    finally:
        holder.kill()
        holder.communicate()

    with WorkspaceRootLock(tmp_path):
        pass


def test_worker_ids_are_unique_and_tell_their_root(tmp_path: Path) -> None:
    with WorkspaceRootLock(tmp_path / "a") as lock:
        first, second = lock.new_worker_id(), lock.new_worker_id()
    with WorkspaceRootLock(tmp_path / "b") as other:
        stranger = other.new_worker_id()
    with WorkspaceRootLock(tmp_path / "a") as again:
        assert first != second
        assert again.ran_here(first)
        assert not again.ran_here(stranger)
        assert not again.ran_here(WorkerId("somebody"))


def test_an_unusable_root_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(EnvironmentUnfitError, match="cannot use the workspace root"):
        WorkspaceRootLock(tmp_path / "file" / "root").acquire()


def test_a_link_in_the_place_of_the_lock_is_refused_and_its_target_kept(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("x" * 100)
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / ".perago-root.lock").symlink_to(precious)

    with pytest.raises(EnvironmentUnfitError, match="it is a link"):
        WorkspaceRootLock(tmp_path / "root").acquire()

    assert precious.read_text() == "x" * 100


def test_a_file_with_content_in_the_place_of_the_lock_is_refused_and_kept(tmp_path: Path) -> None:
    lock = tmp_path / ".perago-root.lock"
    lock.write_text("not a number")

    for _ in range(2):  # and the first try holds nothing
        with pytest.raises(EnvironmentUnfitError, match="it has content"):
            WorkspaceRootLock(tmp_path).acquire()

    assert lock.read_text() == "not a number"


def test_a_lock_with_a_second_name_is_refused_and_kept(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("12345678")
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / ".perago-root.lock").hardlink_to(precious)

    with pytest.raises(EnvironmentUnfitError, match="second name"):
        WorkspaceRootLock(tmp_path / "root").acquire()

    assert precious.read_text() == "12345678"


@pytest.mark.parametrize("content", [b"", b"\xff", b"perago-", b"x" * 10_000, b"perago-1/../../e"])
def test_a_damaged_id_is_made_anew(tmp_path: Path, content: bytes) -> None:
    (tmp_path / ".perago-root-id").write_bytes(content)

    with WorkspaceRootLock(tmp_path) as lock:
        worker = lock.new_worker_id()
    with WorkspaceRootLock(tmp_path) as again:
        assert again.ran_here(worker)


def test_an_id_that_is_a_link_is_replaced_and_not_written_through(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("x")
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / ".perago-root-id").symlink_to(precious)

    with WorkspaceRootLock(tmp_path / "root") as lock:
        assert lock.ran_here(lock.new_worker_id())

    assert precious.read_text() == "x"


def test_what_the_lock_makes_is_for_its_user_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with WorkspaceRootLock(tmp_path / "deep" / "root"):
            pass
    finally:
        os.umask(before)

    root = tmp_path / "deep" / "root"
    assert {path.stat().st_mode & 0o777 for path in (root, root.parent)} == {0o700}
    assert {path.stat().st_mode & 0o777 for path in root.iterdir()} == {0o600}
