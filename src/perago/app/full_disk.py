"""Says what to do about a full disk, wherever it was met."""

from __future__ import annotations

import errno

from perago.domain.errors import InsufficientDiskError


def explain_full_disk(error: BaseException) -> BaseException:
    """Turn the operating system's "disk full" into an error that says what to do."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        where = f" while writing {error.filename}" if error.filename else ""
        explained = InsufficientDiskError(
            f"the disk is full{where}",
            hint="free disk space, or move PERAGO_WORKSPACE_ROOT and PERAGO_HOME to a larger disk",
        )
        explained.__cause__ = error
        return explained
    return error
