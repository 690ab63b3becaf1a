"""What the measured runs say: medians, growth, and whether the aims are met."""

import itertools
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.spark.run import Run, Step

OVERHEAD_AIM_SECONDS = 0.5
"""What lending a warm Spark to an attempt may add."""

DISK_AIM_BYTES = 16 * 1024**2
"""What a direct attempt may keep in its workspaces and its cache: near nothing."""

MEMORY_AIM_BYTES = 64 * 1024**2
"""How much more memory a direct worker may need for the largest data than for the smallest: noise,
but no share of the data."""

LINEAR_AIM = 1.25
"""How many times as much one more row may cost among the largest data as among the smallest."""


def select(runs: Sequence[Run], access: str, scale: int | None = None) -> list[Run]:
    """The runs of one kind."""
    return [r for r in runs if r.access == access and scale in (None, r.scale)]


def scales_of(runs: Sequence[Run]) -> list[int]:
    """The scales that were measured."""
    return sorted({run.scale for run in runs})


def median_of(runs: Sequence[Run], figure: Callable[[Run], float]) -> float:
    """The median of a figure."""
    return statistics.median(figure(run) for run in runs)


def step_named(run: Run, name: str) -> Step | None:
    """One step of a run, if it was in it."""
    return next((step for step in run.steps if step.name == name), None)


def overhead(step: Step) -> float:
    """The seconds that lending Spark added to an attempt."""
    return sum(step.spark.values())


def warm_attempts(run: Run) -> list[Step]:
    """All attempts of a worker but the first, which starts Spark."""
    return [*run.warm_ups[1:], *run.steps]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Seconds as a straight line over rows: a fixed part, and so much for a million rows."""

    fixed: float
    per_million: float

    def at(self, rows: float) -> float:
        """What it says for so many rows."""
        return self.fixed + self.per_million * rows / 1e6


def fit_line(points: Sequence[tuple[float, float]]) -> Line:
    """The line through points (rows, seconds) with the least squares of relative error.

    Relative, else the largest data alone would decide and the fixed part would be noise.
    """
    weights = [1 / seconds**2 for _, seconds in points]
    xs = [rows / 1e6 for rows, _ in points]
    ys = [seconds for _, seconds in points]
    total = sum(weights)
    mean_x = sum(w * x for w, x in zip(weights, xs, strict=True)) / total
    mean_y = sum(w * y for w, y in zip(weights, ys, strict=True)) / total
    spread = sum(w * (x - mean_x) ** 2 for w, x in zip(weights, xs, strict=True))
    if not spread:
        raise ValueError("a line needs data of two sizes")
    together = sum(w * (x - mean_x) * (y - mean_y) for w, x, y in zip(weights, xs, ys, strict=True))
    slope = together / spread
    return Line(fixed=mean_y - slope * mean_x, per_million=slope)


def marginal_costs(medians: Sequence[tuple[float, float]]) -> list[float]:
    """Seconds for a million more rows, from each size of data to the next."""
    pairs = itertools.pairwise(medians)
    return [1e6 * (after[1] - before[1]) / (after[0] - before[0]) for before, after in pairs]


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """Something to reach, what was found, and whether that reaches it; None: cannot be told."""

    what: str
    found: str
    is_met: bool | None

    @property
    def verdict(self) -> str:
        """In a word."""
        return {True: "met", False: "**missed**", None: "not measured"}[self.is_met]


def judge(runs: Sequence[Run]) -> list[Aim]:
    """Every aim."""
    direct = select(runs, "direct")
    return [
        *_judge_overhead(runs),
        _judge_disk(direct),
        _judge_memory(direct),
        *_judge_growth(runs),
    ]


def _judge_overhead(runs: Sequence[Run]) -> list[Aim]:
    aims = []
    for access in sorted({run.access for run in runs}):
        chosen = select(runs, access)
        second = statistics.median(overhead(run.warm_ups[1]) for run in chosen)
        worst = max(overhead(step) for run in chosen for step in warm_attempts(run))
        aims.append(
            Aim(
                what=f"{access}: a second attempt on a warm Spark adds under "
                f"{OVERHEAD_AIM_SECONDS} s",
                found=f"{second:.2f} s, the worst of all warm attempts {worst:.2f} s",
                is_met=second < OVERHEAD_AIM_SECONDS,
            )
        )
    return aims


def _judge_disk(direct: Sequence[Run]) -> Aim:
    most = max(run.peaks.disk["workspaces"] + run.peaks.disk["cache"] for run in direct)
    return Aim(
        what="direct: near zero disk",
        found=f"at most {most / 1024**2:.1f} MiB in workspaces and cache",
        is_met=most < DISK_AIM_BYTES,
    )


def _judge_memory(direct: Sequence[Run]) -> Aim:
    what, scales = "direct: flat memory of the worker", scales_of(direct)
    if len(scales) < 2:
        return Aim(what=what, found="one size of data only", is_met=None)
    peaks = [
        max(run.peaks.python for run in direct if run.scale == scale)
        for scale in (scales[0], scales[-1])
    ]
    return Aim(
        what=what,
        found=" and ".join(
            f"{peak / 1024**2:.0f} MiB at x{scale}"
            for peak, scale in zip(peaks, (scales[0], scales[-1]), strict=True)
        ),
        is_met=peaks[1] - peaks[0] < MEMORY_AIM_BYTES,
    )


def _judge_growth(runs: Sequence[Run]) -> list[Aim]:
    aims = []
    for access in sorted({run.access for run in runs}):
        for what, medians in (("wall", wall_medians), ("processor", cpu_medians)):
            aims.append(_judge_line(f"{access}: {what} time grows", medians(runs, access)))
    return aims


def _judge_line(what: str, medians: Sequence[tuple[float, float]]) -> Aim:
    what, costs = f"{what} linearly with rows", marginal_costs(medians)
    if len(costs) < 2:
        return Aim(what=what, found="needs three sizes of data", is_met=None)
    found = ", then ".join(f"{cost:.2f}" for cost in costs)
    return Aim(
        what=what,
        found=f"{found} s for a million rows more",
        is_met=costs[-1] <= LINEAR_AIM * costs[0],
    )


def wall_medians(runs: Sequence[Run], access: str) -> list[tuple[float, float]]:
    """(rows, seconds) of one kind, by scale."""
    return _medians(runs, access, lambda run: run.seconds)


def cpu_medians(runs: Sequence[Run], access: str) -> list[tuple[float, float]]:
    """The same for processor time, which other work on the machine disturbs less."""
    return _medians(runs, access, lambda run: run.cpu_seconds)


def _medians(
    runs: Sequence[Run], access: str, figure: Callable[[Run], float]
) -> list[tuple[float, float]]:
    found = []
    for scale in scales_of(runs):
        chosen = select(runs, access, scale)
        if chosen:
            found.append((float(chosen[0].rows), median_of(chosen, figure)))
    return found
