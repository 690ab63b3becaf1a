"""Removes secrets from log files that others wrote: what a body printed, and Spark.

They write by descriptor, so their bytes are on the disk before anybody can look at them. Secrets
are overwritten where they are, with as many characters: whoever still appends to the file is not
disturbed, and a reader's place in it stays right.
"""

from __future__ import annotations

import logging
import os
import stat
from pathlib import Path

from perago.domain.redaction import Redactor

_log = logging.getLogger(__name__)

_CHUNK_BYTES = 1 << 20
_LONGEST_PATTERN = 4096
"""A signed address is shorter; what stands across two chunks is seen whole."""


def redact_log(path: Path, redactor: Redactor, *, start: int = 0) -> int:
    """Overwrite the secrets in a log from a place on; where it ended, to go on from.

    Never raises: a log that cannot be read costs no attempt.
    """
    try:
        # O_NONBLOCK: a pipe in the place of the log must not be waited for.
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        _log.debug("cannot look for secrets in %s: %s", path.name, error.strerror)
        return start
    try:
        found = os.fstat(descriptor)
        # After nearly every attempt an executor's own log is as it was.
        if stat.S_ISREG(found.st_mode) and found.st_size != start:
            return _redact_from(descriptor, redactor, start, found.st_size)
    except OSError as error:
        _log.debug("cannot remove secrets from %s: %s", path.name, error.strerror)
    finally:
        os.close(descriptor)
    return start


def _redact_from(descriptor: int, redactor: Redactor, start: int, size: int) -> int:
    overlap = max(redactor.longest, _LONGEST_PATTERN)
    offset = max(0, start - overlap)
    while True:
        # No more than there is: a buffer for a whole piece costs more than a short log.
        data = os.pread(descriptor, min(_CHUNK_BYTES + overlap, max(0, size - offset)), offset)
        for begin, end in redactor.find_spans(data):
            hidden = b"*" * (end - begin)
            if data[begin:end] != hidden:  # hidden before
                os.pwrite(descriptor, hidden, offset + begin)
        if len(data) <= overlap or offset + len(data) >= size:
            return offset + len(data)
        offset += len(data) - overlap
