"""Whole attempts on a real lakeFS server, beside the public peer, lakectl and `cp -r`.

An attempt is the download of the workspace at its input ref, a body that changes none, one or all
of its files, and their publication, staging branch and local files removed; each in a process of
its own, timed in that process once it is set up, as in an executor that waits for work. All
contestants take turns on the same server; the median counts.

Nothing is imported here: the peer's process, which has another `perago`, imports this package.
"""

from collections.abc import Sequence


def main(arguments: Sequence[str] = ()) -> None:
    """Measure what the flags ask for, and print tables."""
    from bench.transfer.command import run

    run(arguments)
