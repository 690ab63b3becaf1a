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
