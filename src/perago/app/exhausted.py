"""Says what to do where the machine, or an attempt's share of it, is used up."""

from __future__ import annotations

import errno

from perago.domain.errors import InsufficientDiskError, TaskFailed


def explain_exhausted(error: BaseException) -> BaseException:
    """Turn the operating system's "disk full" and "too many open files" into errors that say what
    to do; any other error stays as it is.
    """
    if not isinstance(error, OSError):
        return error
    explained: BaseException
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        where = f" while writing {error.filename}" if error.filename else ""
        explained = InsufficientDiskError(
            f"the disk is full{where}",
            hint="free disk space, or move PERAGO_WORKSPACE_ROOT and PERAGO_HOME to a larger disk",
        )
    elif error.errno == errno.EMFILE:
        where = f" while opening {error.filename}" if error.filename else ""
        explained = TaskFailed(
            f"the attempt has too many files open{where}",
            hint="close files earlier, or raise attempt_open_files (PERAGO_ATTEMPT_OPEN_FILES)",
        )
    else:
        return error
    explained.__cause__ = error
    return explained
