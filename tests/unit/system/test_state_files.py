"""State files: whatever lies there, reading it ends with content or with an expected error."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from perago.system.state_files import (
    STATE_BYTES,
    make_private,
    make_private_database,
    parse_state,
    read_state,
    read_state_bytes,
    text_of,
    whole_number,
    write_state,
)


def opened(directory: Path) -> int:
    return os.open(directory, os.O_RDONLY | os.O_DIRECTORY)


def test_what_was_written_is_read_again_and_is_for_its_user_alone(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    before = os.umask(0)
    try:
        write_state("state", b'{"a": 1}', directory=directory)
        write_state("state", b'{"a": 2}', directory=directory)
    finally:
        os.umask(before)

    assert read_state("state", directory=directory) == {"a": 2}
    assert read_state(tmp_path / "state") == {"a": 2}
    os.close(directory)
    assert [path.name for path in tmp_path.iterdir()] == ["state"]
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o600


def test_a_link_is_replaced_and_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("x")
    (tmp_path / "state").symlink_to(tmp_path / "precious")
    directory = opened(tmp_path)

    write_state("state", b"{}", directory=directory)

    os.close(directory)
    assert (tmp_path / "precious").read_text() == "x"
    assert not (tmp_path / "state").is_symlink()


def put_link(path: Path) -> None:
    path.with_name("other").write_text("{}")
    path.symlink_to("other")


def put_huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


@pytest.mark.parametrize("put", [put_link, put_huge, os.mkfifo, Path.mkdir])
def test_what_is_no_state_file_is_a_value_error(
    tmp_path: Path, put: Callable[[Path], None]
) -> None:
    put(tmp_path / "state")

    with pytest.raises(ValueError, match=r".+"):
        read_state_bytes(tmp_path / "state")


def test_a_missing_one_is_told_apart(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_state(tmp_path / "state")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe",
        b"{",
        b"[" * STATE_BYTES,
        b'{"a":' * 10_000,
        b"1" * 5000,
        b'"\xed\xa0\x80"',
        b"\x00",
    ],
    ids=["empty", "not UTF-8", "half", "deep", "deep objects", "a huge number", "surrogate", "NUL"],
)
def test_what_is_no_json_is_a_value_error(content: bytes) -> None:
    with pytest.raises(ValueError, match=r".*"):
        parse_state(content)


@pytest.mark.parametrize("value", [None, True, -1, 2**63, 1.0, float("nan"), "1", [], {}])
def test_a_wrong_number_is_a_value_error(value: object) -> None:
    with pytest.raises(ValueError, match="a number is wrong"):
        whole_number(value)


@pytest.mark.parametrize("value", [None, 1, b"x", [], "x" * 5000, "\ud800"])
def test_a_wrong_text_is_a_value_error(value: object) -> None:
    with pytest.raises(ValueError, match=r".+"):
        text_of(value)


def test_a_file_is_made_private_whatever_the_umask_is(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        make_private(tmp_path / "new")
        make_private(tmp_path / "new")
    finally:
        os.umask(before)
    (tmp_path / "old.db").write_text("kept")
    (tmp_path / "old.db-wal").write_text("kept")
    for path in tmp_path.glob("old*"):
        path.chmod(0o664)
    make_private_database(tmp_path / "old.db")

    assert {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {
        "new": 0o600,
        "old.db": 0o600,
        "old.db-wal": 0o600,
    }
    assert (tmp_path / "old.db").read_text() == "kept"


def test_the_target_of_a_link_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "theirs").touch()
    (tmp_path / "theirs").chmod(0o644)
    (tmp_path / "link").symlink_to("theirs")

    make_private(tmp_path / "link")

    assert (tmp_path / "theirs").stat().st_mode & 0o777 == 0o644


def test_what_another_user_left_is_read_only_where_that_is_said(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("{}")
    if os.geteuid() == 0:
        os.chown(tmp_path / "state", 65534, 65534)
        with pytest.raises(ValueError, match="not a file of this user"):
            read_state(tmp_path / "state")

    assert read_state(tmp_path / "state", may_be_another_user_s=True) == {}
