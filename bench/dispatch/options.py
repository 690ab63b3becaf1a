"""The flags of `python -m bench dispatch`."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

PERAGO, PEER = "perago", "peer"
BARE = {"bare-1": 1, "bare-2": 2, "bare-8": 8}
"""The bare loop, by its number of connections."""

CONTESTANTS = (PERAGO, PEER, *BARE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What to measure, and how often."""

    contestants: list[str]
    tasks: int
    rounds: int
    latencies: int
    idle_seconds: float
    json: Path | None
    place: Path | None


def parse_options(arguments: Sequence[str]) -> Options:
    """Read the flags."""
    parser = argparse.ArgumentParser(
        prog="python -m bench dispatch", description="Workers on a real Conductor server."
    )
    add = parser.add_argument
    add("--contestants", nargs="+", choices=CONTESTANTS, default=list(CONTESTANTS))
    add("--tasks", type=int, default=1000, help="so many are queued for each contestant")
    add("--rounds", type=int, default=3, help="the median of so many counts")
    add("--latencies", type=int, default=25, help="single tasks on an idle worker, each round")
    add("--idle-seconds", type=float, default=20.0, help="how long an idle worker is watched")
    add("--json", type=Path, metavar="FILE", help="write every figure there")
    add("--place", type=Path, metavar="DIRECTORY", help="work there, not in the temporary one")
    return Options(**vars(parser.parse_args(arguments)))
