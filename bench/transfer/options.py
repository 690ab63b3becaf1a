"""The flags of `python -m bench transfer`."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.transfer.workload import MIB, WORKSPACES, Scenario

CONTESTANTS = ("perago", "perago-warm", "perago-off", "peer", "lakectl", "cp")
MEMORY = "memory"
MEMORY_SIZES = (10 * MIB, 256 * MIB, 2048 * MIB)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What to measure, and with what."""

    workspaces: list[str]
    scenarios: list[Scenario]
    contestants: list[str]
    rounds: int
    seed_with: str
    concurrency: int | None
    json: Path | None
    place: Path | None


def parse_options(arguments: Sequence[str]) -> Options:
    """Read the flags."""
    parser = argparse.ArgumentParser(
        prog="python -m bench transfer", description="Whole attempts on a real lakeFS server."
    )
    add = parser.add_argument
    add("--workspaces", nargs="+", choices=[*WORKSPACES, MEMORY], default=["S", "L", MEMORY])
    add("--scenarios", nargs="+", type=Scenario, choices=list(Scenario), default=list(Scenario))
    add("--contestants", nargs="+", choices=CONTESTANTS, default=list(CONTESTANTS))
    add("--rounds", type=int, default=3, help="attempts of each kind; the median counts")
    add("--seed-with", choices=("perago", "lakectl"), default="perago", help="who imports the data")
    add("--concurrency", type=int, help="transfers at a time, for Perago; else its default")
    add("--json", type=Path, metavar="FILE", help="write every attempt's figures there")
    add("--place", type=Path, metavar="DIRECTORY", help="work there, not in the temporary one")
    return Options(**vars(parser.parse_args(arguments)))
