"""Directories of Perago's own, and the one function that deletes trees."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from perago.domain.errors import EnvironmentUnfitError
from perago.system.directories import (
    OwnDirectory,
    make_own_directory,
    make_private_directories,
    open_own_directory,
    remove_own_directory,
    scratch_directory,
    sweep_scratch_directories,
)
from perago.system.tags import Tag
from perago.system.tree_removal import TreeRemoval

TAG = Tag(purpose="what a test keeps", advice="choose another place")
TAG_FILE = ".perago-directory"


@pytest.fixture
def own(tmp_path: Path) -> Iterator[OwnDirectory]:
    with make_own_directory(tmp_path / "own", TAG) as made:
        yield made


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("x")
    return outside


# -- what is ours


@pytest.mark.parametrize("mask", [0, 0o022, 0o077])
def test_it_is_made_for_its_user_alone_and_tagged(tmp_path: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        make_own_directory(tmp_path / "deep" / "own", TAG).close()
    finally:
        os.umask(before)

    assert (tmp_path / "deep" / "own").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "deep").stat().st_mode & 0o777 == 0o700
    tag = tmp_path / "deep" / "own" / TAG_FILE
    assert tag.stat().st_mode & 0o777 == 0o600
    assert tag.read_bytes() == TAG.content


def test_it_is_found_again_with_what_is_in_it(own: OwnDirectory) -> None:
    (own.path / "kept").mkdir()

    with make_own_directory(own.path, TAG) as again:
        assert again.names() == ["kept"]
    found = open_own_directory(own.path, TAG)
    assert found is not None
    found.close()


def test_an_empty_directory_becomes_ours(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir(mode=0o755)

    make_own_directory(tmp_path / "empty", TAG).close()

    assert (tmp_path / "empty").stat().st_mode & 0o777 == 0o700


def test_what_a_kill_left_of_a_tag_is_in_nobody_s_way(tmp_path: Path) -> None:
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / f".{'0' * 16}.new").touch()

    make_own_directory(tmp_path / "half", TAG).close()

    assert (tmp_path / "half" / TAG_FILE).read_bytes() == TAG.content


def test_the_tag_of_today_is_known_tomorrow() -> None:
    """Another text would have every home refused after an upgrade."""
    assert TAG.file_name == ".perago-directory"
    assert TAG.content.startswith(b"Signature: perago-directory-1\n")


@pytest.mark.parametrize(
    "tag",
    [None, b"", b"Signature: 8a477f597d28d172789f06886806bc55\n"],
    ids=["none", "an empty one", "another program's"],
)
def test_a_directory_with_something_in_it_and_no_tag_is_refused(
    outside: Path, tag: bytes | None
) -> None:
    if tag is not None:
        (outside / TAG_FILE).write_bytes(tag)

    with pytest.raises(EnvironmentUnfitError, match="it has 'precious'") as caught:
        make_own_directory(outside, TAG)

    assert caught.value.hint == "choose another place"
    assert str(outside) in caught.value.message
    with pytest.raises(EnvironmentUnfitError, match="it has 'precious'"):
        open_own_directory(outside, TAG)
    with pytest.raises(EnvironmentUnfitError, match="it has 'precious'"):
        remove_own_directory(outside, TAG)
    assert (outside / "precious").exists()


def test_the_tag_of_another_program_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / TAG_FILE).write_bytes(b"theirs")

    with pytest.raises(EnvironmentUnfitError):
        make_own_directory(tmp_path, TAG)

    assert (tmp_path / TAG_FILE).read_bytes() == b"theirs"


def test_a_tag_that_is_a_link_is_no_tag(own: OwnDirectory, outside: Path) -> None:
    (outside / TAG_FILE).symlink_to(own.path / TAG_FILE)

    with pytest.raises(EnvironmentUnfitError):
        make_own_directory(outside, TAG)


def test_one_that_a_volume_s_group_was_added_to_is_closed_again(own: OwnDirectory) -> None:
    """Kubernetes does that to a volume with `fsGroup`."""
    own.path.chmod(0o2770)

    make_own_directory(own.path, TAG).close()

    assert own.path.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("mode", [0o770, 0o702, 0o777])
def test_an_untagged_one_that_others_can_write_is_refused(tmp_path: Path, mode: int) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(mode)

    with pytest.raises(EnvironmentUnfitError, match="other users can write"):
        make_own_directory(tmp_path / "open", TAG)


@pytest.mark.parametrize("mode", [0o702, 0o707, 0o777])
def test_what_others_can_write_is_refused(own: OwnDirectory, mode: int) -> None:
    own.path.chmod(mode)

    with pytest.raises(EnvironmentUnfitError, match="other users can write") as caught:
        make_own_directory(own.path, TAG)

    assert caught.value.hint == f"chmod go-w {own.path}"


def test_a_link_is_refused_unless_it_is_asked_for(own: OwnDirectory, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(own.path)

    for function in (make_own_directory, open_own_directory):
        with pytest.raises(EnvironmentUnfitError, match="it is a link"):
            function(tmp_path / "link", TAG)
    make_own_directory(tmp_path / "link", TAG, may_be_link=True).close()


@pytest.mark.parametrize("place", ["file", "file/below"])
def test_a_file_in_the_way_is_refused(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(EnvironmentUnfitError, match="not a directory"):
        make_own_directory(tmp_path / place, TAG)


def test_what_is_not_there_is_not_opened_nor_removed(tmp_path: Path) -> None:
    assert open_own_directory(tmp_path / "none", TAG) is None
    assert remove_own_directory(tmp_path / "none", TAG) is False


def test_many_may_set_it_up_at_once(tmp_path: Path) -> None:
    def set_up(number: int) -> None:
        with make_own_directory(tmp_path / "own", TAG) as own, own.below(str(number)):
            pass

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(set_up, range(64)))

    assert len(list((tmp_path / "own").iterdir())) == 65


def test_existing_parents_keep_their_mode(tmp_path: Path) -> None:
    (tmp_path / "public").mkdir()
    (tmp_path / "public").chmod(0o755)

    make_private_directories(tmp_path / "public" / "a" / "b")
    make_private_directories(tmp_path / "public" / "a" / "b")

    assert (tmp_path / "public").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "public" / "a").stat().st_mode & 0o777 == 0o700


# -- deletion


def test_a_tree_goes_with_all_that_is_in_it(own: OwnDirectory) -> None:
    (own.path / "tree" / "a" / "b").mkdir(parents=True)
    (own.path / "tree" / "a" / "f").write_text("x")
    (own.path / "tree" / "a" / "bad\udcff").write_text("x")
    os.mkfifo(own.path / "tree" / "pipe")
    (own.path / "kept").mkdir()

    own.remove_tree("tree")
    own.remove_tree("tree")

    assert own.names() == ["kept"]


def test_links_go_and_what_they_lead_to_stays(own: OwnDirectory, outside: Path) -> None:
    (own.path / "tree" / "a").mkdir(parents=True)
    for place in ("tree/link", "tree/a/link", "link"):
        (own.path / place).symlink_to(outside)
    (own.path / "tree" / "up").symlink_to("../..")

    own.remove_tree("tree")
    own.remove_tree("link")

    assert own.names() == []
    assert (outside / "precious").exists()


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/etc", "../outside", "a\0b"])
def test_nothing_but_an_entry_is_deleted(own: OwnDirectory, outside: Path, name: str) -> None:
    with pytest.raises(ValueError, match="no name of an entry"):
        own.remove_tree(name)

    assert (outside / "precious").exists()


def test_a_tree_deeper_than_any_limit_goes(own: OwnDirectory) -> None:
    """Neither the interpreter's recursion nor the number of descriptors is in its way."""
    here = os.open(own.path, os.O_RDONLY)
    os.mkdir("deep", dir_fd=here)
    name = "deep"
    for _ in range(3000):
        below = os.open(name, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here, name = below, "d"
        os.mkdir(name, dir_fd=here)
    os.close(here)

    own.remove_tree("deep")

    assert own.names() == []


DELETE_LOCKED = """
    import os, sys
    from pathlib import Path
    from perago.system.directories import Tag, make_own_directory
    if os.geteuid() == 0:  # root may everything
        os.setgid(65534)
        os.setuid(65534)
    root = Path(sys.argv[1]) / "own"
    with make_own_directory(root, Tag(purpose="p", advice="a")) as own:
        (root / "tree" / "closed" / "below").mkdir(parents=True)
        (root / "tree" / "closed" / "below" / "f").touch()
        (root / "tree" / "read only").mkdir()
        (root / "tree" / "read only" / "f").touch()
        (root / "tree" / "closed" / "below").chmod(0)
        (root / "tree" / "closed").chmod(0)
        (root / "tree" / "read only").chmod(0o500)
        (root / "tree").chmod(0o100)
        own.remove_tree("tree")
        print(own.names())
"""


def test_permissions_that_a_body_took_away_are_restored(tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    for directory in (place, *place.parents):
        if directory.stat().st_uid == os.geteuid() and directory != Path(directory.anchor):
            directory.chmod(directory.stat().st_mode | 0o011)
    place.chmod(0o777)

    answer = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(DELETE_LOCKED), place],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (answer.stdout, answer.stderr) == ("[]\n", "")


@pytest.mark.parametrize("failure", [errno.EIO, errno.ENOENT])
def test_a_directory_that_cannot_be_listed_keeps_nothing_beside_it(
    own: OwnDirectory, failure: int
) -> None:
    for name in "abc":
        (own.path / "tree" / name).mkdir(parents=True)
        (own.path / "tree" / name / "f").touch()
    broken = (own.path / "tree" / "b").stat()

    def list_entries(directory: int) -> list[tuple[str, bool]]:
        if os.path.samestat(os.fstat(directory), broken):
            raise OSError(failure, os.strerror(failure))
        with os.scandir(directory) as entries:
            return [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]

    place = own.path / "tree"
    with pytest.raises(OSError, match=str(place)) as caught:
        TreeRemoval(own.descriptor, "tree", place, list_entries=list_entries).run()

    # One that is gone is no error itself; here it is there still, in the way of the one above it.
    assert caught.value.errno == (errno.EIO if failure == errno.EIO else errno.ENOTEMPTY)
    assert [path.name for path in place.iterdir()] == ["b"]


def test_what_belongs_to_another_user_is_not_deleted(own: OwnDirectory) -> None:
    (own.path / "tree").mkdir()
    (own.path / "tree" / "precious").touch()
    if os.geteuid() != 0:
        assert (own.path / "tree").stat().st_uid == os.geteuid()  # only root can give it away
        return
    os.chown(own.path / "tree", 65534, 65534)

    with pytest.raises(PermissionError, match="it belongs to user 65534"):
        own.remove_tree("tree")

    assert (own.path / "tree" / "precious").exists()


def test_a_removal_that_a_kill_ended_can_be_gone_on_with(tmp_path: Path) -> None:
    """The tag goes last, so that the rest is still known as ours."""
    path = tmp_path / "own"
    with make_own_directory(path, TAG) as own:
        (path / "a").mkdir()
        own.remove_tree("a")

    assert remove_own_directory(path, TAG) is True
    assert not path.exists()


# -- scratch


def test_scratch_is_there_for_a_block(tmp_path: Path) -> None:
    with scratch_directory(tmp_path, TAG, ".build-") as scratch:
        (scratch / "a" / "b").mkdir(parents=True)
        assert scratch.parent == tmp_path
        assert stat.S_IMODE(scratch.stat().st_mode) == 0o700

    assert list(tmp_path.iterdir()) == []


def test_scratch_of_killed_processes_goes_and_what_is_only_named_so_stays(tmp_path: Path) -> None:
    make_own_directory(tmp_path / ".build-killed", TAG).close()
    (tmp_path / ".build-killed" / "a").mkdir()
    (tmp_path / ".build-mine" / "precious").mkdir(parents=True)
    (tmp_path / ".build-link").symlink_to(tmp_path / ".build-mine")
    (tmp_path / ".build-file").touch()

    sweep_scratch_directories(tmp_path, TAG, ".build-")

    assert sorted(path.name for path in tmp_path.iterdir()) == [
        ".build-file",
        ".build-link",
        ".build-mine",
    ]
    assert (tmp_path / ".build-mine" / "precious").is_dir()


def test_another_file_system_is_not_entered(own: OwnDirectory) -> None:
    """Only root can mount one; for others there is nothing to see."""
    tree = own.path / "tree"
    (tree / "mounted").mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "tmpfs", str(tree / "mounted")]
    try:
        is_mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        is_mounted = False
    if not is_mounted:
        own.remove_tree("tree")
        assert own.names() == []
        return
    try:
        (tree / "mounted" / "precious").touch()
        with pytest.raises(OSError, match="another file system") as caught:
            own.remove_tree("tree")
        assert caught.value.errno == errno.EXDEV
        assert (tree / "mounted" / "precious").exists()
    finally:
        subprocess.run(["umount", str(tree / "mounted")], check=True)
