"""The one file lock: one holder, never a link, never another program's file."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from perago.domain.errors import EnvironmentUnfitError
from perago.system.file_lock import (
    give_up_after,
    hold_file_lock,
    open_existing_lock_file,
    open_lock_file,
    read_holder,
    try_lock,
    wait_for_lock,
    write_holder,
)


def test_one_holds_it_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    heard: list[float] = []

    def give_up(seconds: float) -> None:
        heard.append(seconds)
        raise TimeoutError

    with hold_file_lock(path):
        with pytest.raises(TimeoutError), hold_file_lock(path, on_wait=give_up):
            pass
        other = open_existing_lock_file(path)
        assert not try_lock(other)
        with pytest.raises(TimeoutError, match="too long"):
            wait_for_lock(other, give_up_after(-1, "too long"))
        os.close(other)
    with hold_file_lock(path, on_wait=give_up):
        pass

    assert len(heard) == 1
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_holder_that_is_killed_lets_go(tmp_path: Path) -> None:
    script = """
        import sys, time
        from pathlib import Path
        from perago.system.file_lock import hold_file_lock
        with hold_file_lock(Path(sys.argv[1])):
            print("held", flush=True)
            time.sleep(600)
    """
    holder = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script), tmp_path / "lock"], stdout=subprocess.PIPE
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    holder.kill()
    holder.communicate()

    with hold_file_lock(tmp_path / "lock"):
        pass


def put_link(path: Path, precious: Path) -> None:
    path.symlink_to(precious)


def put_second_name(path: Path, precious: Path) -> None:
    path.hardlink_to(precious)


def put_fifo(path: Path, _precious: Path) -> None:
    os.mkfifo(path)


def put_dead_link(path: Path, precious: Path) -> None:
    path.symlink_to(precious.with_name("none"))


@pytest.mark.parametrize("put", [put_link, put_second_name, put_fifo, put_dead_link])
def test_something_else_in_its_place_is_refused_and_kept(
    tmp_path: Path, put: Callable[[Path, Path], None]
) -> None:
    precious = tmp_path / "precious"
    precious.write_text("x")
    put(tmp_path / "lock", precious)

    with (
        pytest.raises(EnvironmentUnfitError, match="no lock file of Perago's") as caught,
        hold_file_lock(tmp_path / "lock"),
    ):
        pass

    assert caught.value.hint
    assert precious.read_text() == "x"
    assert not (tmp_path / "none").exists()


def test_a_new_one_must_be_new(tmp_path: Path) -> None:
    os.close(open_lock_file(tmp_path / "lock", is_new=True))

    with pytest.raises(FileExistsError):
        open_lock_file(tmp_path / "lock", is_new=True)
    with pytest.raises(FileNotFoundError):
        open_existing_lock_file(tmp_path / "none")


@pytest.mark.parametrize("content", ["", "1", "4194304\n"])
def test_the_holder_s_id_takes_the_place_of_another(tmp_path: Path, content: str) -> None:
    (tmp_path / "lock").write_text(content)
    descriptor = open_lock_file(tmp_path / "lock")

    assert write_holder(descriptor)
    assert read_holder(descriptor) == os.getpid()
    os.close(descriptor)


@pytest.mark.parametrize("content", [b"x", b"1\n2\n", b"\xff", b"1" * 100, b" "])
def test_other_content_is_neither_written_over_nor_believed(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "lock").write_bytes(content)
    descriptor = open_lock_file(tmp_path / "lock")

    assert not write_holder(descriptor)
    assert read_holder(descriptor) is None
    os.close(descriptor)
    assert (tmp_path / "lock").read_bytes() == content
