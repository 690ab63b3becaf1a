"""Spark tasks on a real lakeFS server: direct, beside download-run-upload, on growing data.

The steps of the flights pipeline, the very same modules, each as a whole attempt; in a process like
a worker's executor, with a warm Spark. What goes over the network is counted on the way, once for
the worker and once for Spark; disk and memory are looked at from outside.
"""

from collections.abc import Sequence


def main(arguments: Sequence[str] = ()) -> None:
    """Measure what the flags ask for, print tables and draw."""
    from bench.spark.command import run

    run(arguments)
