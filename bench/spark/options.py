"""The flags of `python -m bench spark`."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

STEPS = ("clean", "join", "features")
MEMORY_MB = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What to measure, and with what."""

    scales: list[int]
    steps: list[str]
    rounds: int
    memory_mb: int
    json: Path | None
    earlier: list[Path]
    plot: Path | None
    place: Path | None


def parse_options(arguments: Sequence[str]) -> Options:
    """Read the flags."""
    parser = argparse.ArgumentParser(
        prog="python -m bench spark", description="Direct Spark tasks beside download-run-upload."
    )
    add = parser.add_argument
    add("--scales", type=_scales, default=[1, 10], help="how many times the data: 1,10,100")
    add(
        "--steps",
        nargs="+",
        choices=STEPS,
        default=["clean", "join"],
        help="each needs the one before",
    )
    add("--rounds", type=int, default=3, help="runs of each kind; the median counts")
    add("--memory-mb", type=int, default=MEMORY_MB, help="Spark's heap")
    add("--json", type=Path, metavar="FILE", help="write every run's figures there")
    add("--earlier", type=Path, nargs="+", default=[], metavar="FILE", help="show those as well")
    add("--plot", type=Path, metavar="FILE", help="draw the growth there, as .svg or .png")
    add("--place", type=Path, metavar="DIRECTORY", help="work there, not in the temporary one")
    return Options(**vars(parser.parse_args(arguments)))


def _scales(text: str) -> list[int]:
    scales = [int(part) for part in text.split(",") if part]
    if any(scale < 1 for scale in scales):
        raise argparse.ArgumentTypeError("a scale is 1 or more")
    return sorted(set(scales))
