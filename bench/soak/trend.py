"""Whether a series of samples grows: decided from medians, with a tolerance that is said.

A leak shows as a last quarter above the first; a garbage collector, a pool that fills or a slow
moment do not move a median much. The beginning of a life is left out, when caches fill.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

MIB = 1024 * 1024
WARM_UP = 0.15
"""The part of a life that does not count."""

FEWEST = 12
"""Samples of a life that is worth a judgement."""

_BARS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """How much more the last quarter may have: the larger of the two."""

    absolute: float
    share: float = 0.0

    def of(self, first: float) -> float:
        """In the unit of the samples."""
        return max(self.absolute, self.share * first)


TOLERANCES = {
    # An attempt that keeps a few hundred bytes is found after some thousands of them.
    "memory": Tolerance(absolute=4 * MIB, share=0.05),
    # Threads, each with a connection, are made when they are first needed, up to a bound.
    "descriptors": Tolerance(absolute=4),
    "threads": Tolerance(absolute=4),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """What became of one figure in one life: the medians of its quarters."""

    figure: str
    quarters: tuple[float, ...]
    shape: str

    @property
    def growth(self) -> float:
        """From the first quarter to the last."""
        return self.quarters[-1] - self.quarters[0]

    @property
    def is_flat(self) -> bool:
        """Whether it grew by no more than is tolerated."""
        return self.growth <= TOLERANCES[self.figure].of(self.quarters[0])


def find_trend(figure: str, samples: Sequence[float]) -> Trend:
    """The trend of a life that has samples enough."""
    warm = samples[int(len(samples) * WARM_UP) :]
    size = len(warm) / 4
    quarters = tuple(
        statistics.median(warm[int(number * size) : int((number + 1) * size)])
        for number in range(4)
    )
    return Trend(figure=figure, quarters=quarters, shape=draw(samples))


def draw(samples: Sequence[float], width: int = 40) -> str:
    """The samples as a line of bars, from their least to their most."""
    width = min(width, len(samples))
    size = len(samples) / width
    means = [
        statistics.fmean(samples[int(number * size) : max(int((number + 1) * size), 1)])
        for number in range(width)
    ]
    least, most = min(means), max(means)
    if least == most:
        return _BARS[0] * width
    return "".join(_BARS[int((mean - least) / (most - least) * (len(_BARS) - 1))] for mean in means)
