"""Runs every benchmark, or those that are named: `python -m bench transfer --rounds 1`."""

import importlib
import itertools
import sys
from collections.abc import Sequence

BENCHMARKS = ("startup", "store", "attempt", "transfer", "dispatch", "spark")
WITH_FLAGS = ("transfer", "dispatch", "spark")


def main(arguments: Sequence[str]) -> int:
    """Run them one after another; flags go to the one that is named."""
    names = list(itertools.takewhile(lambda text: not text.startswith("-"), arguments))
    flags = arguments[len(names) :]
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        print(f"no benchmark {', '.join(unknown)}; there are: {', '.join(BENCHMARKS)}")
        return 2
    if flags and (len(names) != 1 or names[0] not in WITH_FLAGS):
        print(f"flags go after the name of one benchmark that has any: {', '.join(WITH_FLAGS)}")
        return 2
    for name in names or BENCHMARKS:
        print(f"== {name}")
        benchmark = importlib.import_module(f"bench.{name}")
        if name in WITH_FLAGS:
            benchmark.main(flags)
        else:
            benchmark.main()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
