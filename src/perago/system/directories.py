"""Directories of Perago's own, and the one function that deletes trees.

A directory of Perago's own is made with mode 0700 and gets a tag: a small file that says so. One
that stood there before, without the tag, is somebody else's and is refused.

Invariant: nothing is deleted but below a directory that carries our tag and belongs to our user.
Deletion goes from open directory to open directory, never along a path: no link is followed, and
no other file system is entered. See ADR 0018.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from perago.domain.errors import EnvironmentUnfitError
from perago.system.tags import Tag, names_in, require_own
from perago.system.tree_removal import OPEN_DIRECTORY, TreeRemoval

_PRIVATE = stat.S_IRWXU


@dataclass(slots=True)
class OwnDirectory:
    """An open directory of Perago's own. Close it, or use it as a context manager."""

    path: Path
    tag: Tag
    descriptor: int

    def names(self) -> list[str]:
        """What lies in it, sorted, without the tag."""
        return [name for name in names_in(self.descriptor) if name != self.tag.file_name]

    def kind_of(self, name: str) -> int:
        """The mode of an entry itself: of a link, not of what it leads to."""
        return os.stat(_checked(name), dir_fd=self.descriptor, follow_symlinks=False).st_mode

    def below(self, name: str) -> OwnDirectory:
        """Open a directory in it, made if it is missing: as much ours as this one."""
        descriptor = _make_below(self.descriptor, _checked(name), _PRIVATE)
        return OwnDirectory(self.path / name, self.tag, descriptor)

    def remove_tree(self, name: str) -> None:
        """Delete an entry with all that is in it; of a link, the link. One that is missing is fine.

        What cannot be deleted stays, the rest goes, and the first error is raised.
        """
        remove_tree(self, name)

    def remove_empty(self, name: str) -> bool:
        """Delete a directory in it if nothing is in that one; False where it stays."""
        try:
            os.rmdir(_checked(name), dir_fd=self.descriptor)
        except OSError:
            return False
        return True

    def close(self) -> None:
        """Let go of the directory."""
        os.close(self.descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def make_private_directories(path: Path) -> None:
    """Make a directory and the missing ones above it, for this user alone; existing ones stay."""
    if path.is_dir():
        return
    make_private_directories(path.parent)
    try:
        path.mkdir(mode=_PRIVATE)
    except FileExistsError:
        if not path.is_dir():
            raise


def make_own_directory(path: Path, tag: Tag, *, may_be_link: bool = False) -> OwnDirectory:
    """Make a directory of Perago's own, or open one that was made before.

    An existing one must be ours and tagged, or hold nothing yet that its tag would speak for; else
    `EnvironmentUnfitError`. Raises `OSError` where it cannot be made.
    """
    try:
        make_private_directories(path.parent)
        with suppress(FileExistsError):
            path.mkdir(mode=_PRIVATE)
        descriptor = os.open(path, _flags(may_be_link=may_be_link))
    except OSError as error:
        if error.errno in (errno.ENOTDIR, errno.EEXIST, errno.ELOOP):
            raise tag.refusal(path, _what_is_wrong_with(path)) from error
        raise
    try:
        require_own(path, tag, descriptor, may_tag=True)
    except BaseException:
        os.close(descriptor)
        raise
    return OwnDirectory(path, tag, descriptor)


def open_own_directory(path: Path, tag: Tag) -> OwnDirectory | None:
    """Open a directory of Perago's own; None where there is none, an error where it is not ours."""
    try:
        descriptor = os.open(path, OPEN_DIRECTORY)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno in (errno.ENOTDIR, errno.ELOOP):
            raise tag.refusal(path, _what_is_wrong_with(path)) from error
        raise
    try:
        require_own(path, tag, descriptor, may_tag=False)
    except BaseException:
        os.close(descriptor)
        raise
    return OwnDirectory(path, tag, descriptor)


def remove_own_directory(path: Path, tag: Tag) -> bool:
    """Delete a directory of Perago's own with all that is in it; False where there was none."""
    own = open_own_directory(path, tag)
    if own is None:
        return False
    with own:
        for name in own.names():
            remove_tree(own, name)
        # Last: what is left after a kill is still known as ours.
        with suppress(FileNotFoundError):
            os.unlink(tag.file_name, dir_fd=own.descriptor)
    parent = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with suppress(FileNotFoundError):
            os.rmdir(path.name, dir_fd=parent)
    finally:
        os.close(parent)
    return True


@contextmanager
def scratch_directory(parent: Path, tag: Tag, prefix: str) -> Iterator[Path]:
    """A new directory of Perago's own, deleted at the end of the block as far as that goes."""
    path = parent / f"{prefix}{secrets.token_hex(8)}"
    make_own_directory(path, tag).close()
    try:
        yield path
    finally:
        with suppress(OSError):
            remove_own_directory(path, tag)


def sweep_scratch_directories(parent: Path, tag: Tag, prefix: str) -> None:
    """Delete the scratch directories of killed processes; the caller knows that none lives.

    What is not ours stays, and what cannot be deleted now goes the next time.
    """
    for path in parent.glob(f"{prefix}*"):
        with suppress(OSError, EnvironmentUnfitError):
            remove_own_directory(path, tag)


# -- deletion


def remove_tree(own: OwnDirectory, name: str) -> None:
    """The one function that deletes trees: an entry of a directory of Perago's own.

    Of a link it deletes the link. It restores permissions that stand in the way, enters neither
    links nor other file systems, and needs few descriptors however deep the tree is.
    """
    found = _status(own.descriptor, _checked(name))
    if found is None:
        return
    if not stat.S_ISDIR(found.st_mode):
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=own.descriptor)
        return
    if found.st_uid != os.geteuid():
        reason = f"it belongs to user {found.st_uid}"
        raise PermissionError(errno.EPERM, reason, str(own.path / name))
    TreeRemoval(own.descriptor, name, own.path / name).run()


def _make_below(parent: int, name: str, mode: int) -> int:
    with suppress(FileExistsError):
        os.mkdir(name, mode, dir_fd=parent)
    descriptor = os.open(name, OPEN_DIRECTORY, dir_fd=parent)
    found = os.fstat(descriptor)
    if found.st_uid != os.geteuid():
        os.close(descriptor)
        raise PermissionError(errno.EPERM, f"it belongs to user {found.st_uid}", name)
    return descriptor


def _flags(*, may_be_link: bool) -> int:
    return OPEN_DIRECTORY & ~os.O_NOFOLLOW if may_be_link else OPEN_DIRECTORY


def _what_is_wrong_with(path: Path) -> str:
    return "it is a link" if path.is_symlink() else "it, or a parent of it, is not a directory"


def _status(parent: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _checked(name: str) -> str:
    """A name of an entry, and no way out of the directory."""
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        raise ValueError(f"{name!r} is no name of an entry")
    return name
