"""Turns what the disk says into Perago's errors, in one place."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from perago.domain.errors import (
    EnvironmentUnfitError,
    InsufficientDiskError,
    PeragoError,
    StoreError,
)

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR}


@contextmanager
def disk_errors(place: Path, action: str) -> Iterator[None]:
    """Translate every `OSError` of the block."""
    try:
        yield
    except OSError as error:
        raise explain_os_error(error, place, action) from error


def explain_os_error(error: OSError, place: Path, action: str) -> PeragoError:
    """The error to raise when an action of ours failed at a place."""
    said = error.strerror or str(error)
    if isinstance(error, FileExistsError) and error.filename is not None:
        return StoreError(
            f"cannot {action} {place}: there is a file {error.filename!r} already",
            hint="nothing is written over: empty the directory, or rename the object if the file "
            "system takes two different names for one",
        )
    if error.errno in _FULL:
        return InsufficientDiskError(
            f"cannot {action} {place}: {said}",
            hint="free some space or raise the quota of that disk, then try again",
        )
    if error.errno in _FORBIDDEN:
        return explain_unwritable(place, said)
    return StoreError(
        f"cannot {action} {place}: {said}", hint="look at that path and at the disk it is on"
    )


def explain_unwritable(place: Path, said: str) -> EnvironmentUnfitError:
    """The error for a place that this user cannot write to."""
    return EnvironmentUnfitError(
        f"{place} cannot be written: {said}",
        hint="make it writable for this user, or choose another home (PERAGO_HOME)",
    )
