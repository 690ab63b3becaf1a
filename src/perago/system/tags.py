"""Tags: what marks a directory as Perago's own, and how an open directory is judged by it."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from perago.domain.errors import EnvironmentUnfitError
from perago.system.state_files import is_unfinished, write_state

_OPEN_TAG = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH
_TAG_BYTES = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Tag:
    """What marks a kind of directory as Perago's own.

    `entries` are the names that Perago uses in it, where other things may lie beside them; None
    means that all of the directory is Perago's.
    """

    purpose: str
    """What lies there, as the beginning of a sentence about it."""
    advice: str
    """What to do when a directory cannot be used for that."""
    file_name: str = ".perago-directory"
    text: str = "Signature: perago-directory-1\n# Made by Perago, which deletes what is in here.\n"
    """What the tag file holds; a directory with another text is not known any more."""
    entries: frozenset[str] | None = None

    @property
    def content(self) -> bytes:
        """The text as it is read."""
        return self.text.encode("ascii")

    def refusal(self, path: Path, reason: str, hint: str | None = None) -> EnvironmentUnfitError:
        """The error for a directory that is not fit."""
        return EnvironmentUnfitError(
            f"{self.purpose} cannot be in {path}: {reason}", hint=hint or self.advice
        )


LOGS_TAG = Tag(
    purpose="the logs of attempts",
    advice="choose another home (--home or PERAGO_HOME), or move the directory away: an earlier "
    "version of Perago, or another program, made it",
)
"""Marks the directory of logs, from which old ones are deleted."""


def require_own(path: Path, tag: Tag, descriptor: int, *, may_tag: bool) -> None:
    """Raise `EnvironmentUnfitError` unless an open directory is ours, or empty and may be tagged.

    One that is Perago's as a whole is closed to others.
    """
    found = os.fstat(descriptor)
    if found.st_uid != os.geteuid():
        raise tag.refusal(path, f"it belongs to user {found.st_uid}, not to the one who runs this")
    if _read_tag(tag, descriptor) != tag.content:
        if found.st_mode & _OTHERS_MAY_WRITE:
            raise tag.refusal(path, "other users can write to it", hint=f"chmod go-w {path}")
        _require_untaken(path, tag, descriptor, may_tag=may_tag)
    elif found.st_mode & (_OTHERS_MAY_WRITE if tag.entries else stat.S_IWOTH):
        # The group alone may be a volume's: Kubernetes adds it with `fsGroup`.
        raise tag.refusal(path, "other users can write to it", hint=f"chmod go-w {path}")
    if tag.entries is None and found.st_mode & 0o777 != stat.S_IRWXU:
        os.fchmod(descriptor, stat.S_IRWXU)


def _require_untaken(path: Path, tag: Tag, descriptor: int, *, may_tag: bool) -> None:
    """Tag a directory in which nothing is that the tag would speak for; refuse any other."""
    # Listed before the tag is looked for: a process that sets it up at this moment tags it first.
    taken = _taken(tag, descriptor)
    written = _read_tag(tag, descriptor)
    if written == tag.content:
        return
    if taken is not None or written is not None or not may_tag:
        named = "nothing" if taken is None else repr(taken)
        raise tag.refusal(path, f"it has {named} and no {tag.file_name} of Perago's")
    # By renaming, so that another process sees all of it or nothing.
    write_state(tag.file_name, tag.content, directory=descriptor)


def _taken(tag: Tag, descriptor: int) -> str | None:
    """What is here, and without a tag was here before Perago."""
    for name in names_in(descriptor):
        is_ours = tag.entries is None or name in tag.entries
        if is_ours and name != tag.file_name and not is_unfinished(name):
            return name
    return None


def names_in(descriptor: int) -> list[str]:
    """What lies in an open directory, sorted."""
    with os.scandir(descriptor) as entries:
        return sorted(entry.name for entry in entries)


def _read_tag(tag: Tag, descriptor: int) -> bytes | None:
    """What the tag says, or None where there is none; something else than a file says nothing."""
    try:
        file = os.open(tag.file_name, _OPEN_TAG, dir_fd=descriptor)
    except FileNotFoundError:
        return None
    except OSError:
        return b"?"
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
            return b"?"
        return os.read(file, _TAG_BYTES)
    finally:
        os.close(file)
