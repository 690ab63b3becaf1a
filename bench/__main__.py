"""Runs every benchmark, or those that are named."""

import importlib
import sys

BENCHMARKS = ("store", "attempt")


def main(names: list[str]) -> int:
    """Run them one after another."""
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        print(f"no benchmark {', '.join(unknown)}; there are: {', '.join(BENCHMARKS)}")
        return 2
    for name in names or BENCHMARKS:
        print(f"== {name}")
        importlib.import_module(f"bench.{name}").main()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
