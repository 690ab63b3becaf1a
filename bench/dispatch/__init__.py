"""How fast, how cheaply and how soon a worker takes tasks from a real Conductor server.

The tasks have no workspace and a body that does nothing, so that only the worker and the server are
measured: `perago start -j 2`, the public peer with `-j 2`, and a bare loop of polls and updates,
which is what the server can do. All take turns on one server; the median counts.

Nothing is imported here: the peer's process, which has another `perago`, imports this package.
"""

from collections.abc import Sequence


def main(arguments: Sequence[str] = ()) -> None:
    """Measure what the flags ask for, and print tables."""
    from bench.dispatch.command import run

    run(arguments)
