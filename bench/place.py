"""A directory for a benchmark's files, where what one piece of work deletes does not slow the next.

ext4 without a journal, which virtual machines like, looks at every inode of a block group that was
deleted within the last minutes before it gives out a free one: after a clean-up of 1000 files,
`cp -r` of 1000 others took 14 times as long there. The mark of a top directory has it put each new
subdirectory into a block group of its own.
"""

import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

LARGE_BYTES = 1024 * 1024


@contextmanager
def make_place(parent: Path | None = None) -> Iterator[Path]:
    """A temporary directory that is removed in the end."""
    with tempfile.TemporaryDirectory(prefix="perago-bench-", dir=parent) as name:
        if (chattr := shutil.which("chattr")) is not None:
            # Other file systems have no such mark, and no need of it.
            subprocess.run([chattr, "+T", name], capture_output=True, check=False)
        yield Path(name)


def remove_large(paths: Iterable[Path]) -> None:
    """Remove the files that take room, and leave the many small ones to the end."""
    for path in paths:
        if path.is_file() and path.stat().st_size >= LARGE_BYTES:
            path.unlink()
