"""What `python -m bench spark` does, from its flags to its tables."""

import os
from collections.abc import Sequence

from bench.place import make_place
from bench.spark.contest import SparkContest
from bench.spark.options import Options, parse_options
from bench.spark.plot import draw
from bench.spark.report import read_json, show, write_json
from bench.spark.run import Run
from bench.transfer.environment import cache_directory, provide
from bench.transfer.server import start_server
from perago.adapters.servers import LAKEFS
from perago.adapters.spark import S3A, JarCache
from perago.adapters.spark.java import find_java
from perago.domain.errors import EnvironmentUnfitError


def run(arguments: Sequence[str]) -> None:
    """Run everything that was asked for, and show it with what was measured before."""
    options = parse_options(arguments)
    try:
        made = measure(options)
    except EnvironmentUnfitError as error:
        print(f"skipped: {error}")
        return
    if options.json is not None:
        write_json(options.json, {"memory_mb": options.memory_mb}, made)
    runs = [*(each for path in options.earlier for each in read_json(path)), *made]
    if runs:
        show(runs)
        if options.plot is not None:
            draw(runs, options.plot)


def measure(options: Options) -> list[Run]:
    """Start the server, run the workers, and free the disk."""
    if not options.scales or options.rounds < 1:
        return []
    lakefs = provide(LAKEFS)
    # Once, and before anything is timed.
    JarCache(cache_directory() / "spark").get(S3A, find_java(os.environ))
    runs = []
    with make_place(options.place) as place, start_server(lakefs, place / "server") as server:
        contest = SparkContest(server, place, options.steps, options.memory_mb)
        for scale in options.scales:
            seeded = contest.seed(scale)
            for one in contest.run(seeded, options.rounds):
                runs.append(one)
                print(f"  x{scale:<4} {one.access:7}{one.seconds:9.2f} s", flush=True)
            contest.remove(seeded)
    return runs
