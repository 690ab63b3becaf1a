"""The growth of time, traffic and disk with the rows, as a picture."""

from collections.abc import Callable, Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.spark.figures import fit_line, median_of, scales_of, select, wall_medians
from bench.spark.run import Run

GIB = 1024**3
COLOURS = {"local": "#d9622b", "direct": "#2f6fb0"}
NAMES = {"local": "download, run, upload", "direct": "direct"}


def draw(runs: Sequence[Run], path: Path) -> None:
    """Time with its fitted lines, bytes through the worker, and its disk."""
    with mpl.rc_context({"svg.hashsalt": "perago-bench", "font.size": 9}):
        figure = Figure(figsize=(11, 3.6), layout="constrained")
        times, traffic, disk = figure.subplots(1, 3)
        _draw_times(times, runs)
        _draw_figure(
            traffic, runs, "GiB through the worker", lambda run: run.worker_traffic.total / GIB
        )
        _draw_figure(
            disk,
            runs,
            "peak GiB of workspaces and cache",
            lambda run: (run.peaks.disk["workspaces"] + run.peaks.disk["cache"]) / GIB,
        )
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def _draw_times(axes: Axes, runs: Sequence[Run]) -> None:
    for access, colour in COLOURS.items():
        chosen = select(runs, access)
        if not chosen:
            continue
        axes.scatter(
            [run.rows / 1e6 for run in chosen], [run.seconds for run in chosen], s=14, color=colour
        )
        points, label = wall_medians(runs, access), NAMES[access]
        if len(points) > 1:
            line = fit_line(points)
            ends = [0.0, points[-1][0]]
            label += f": {line.fixed:.1f} s + {line.per_million:.2f} s a million"
            axes.plot([rows / 1e6 for rows in ends], [line.at(rows) for rows in ends], color=colour)
        axes.plot([], [], color=colour, label=label)
    _dress(axes, "seconds of the steps, with fitted lines")


def _draw_figure(
    axes: Axes, runs: Sequence[Run], title: str, figure: Callable[[Run], float]
) -> None:
    for access, colour in COLOURS.items():
        chosen = [select(runs, access, scale) for scale in scales_of(runs)]
        points = [(group[0].rows / 1e6, median_of(group, figure)) for group in chosen if group]
        axes.plot(
            [rows for rows, _ in points],
            [value for _, value in points],
            marker="o",
            markersize=4,
            color=colour,
            label=NAMES[access],
        )
    _dress(axes, title)


def _dress(axes: Axes, title: str) -> None:
    axes.set_title(title, fontsize=9)
    axes.set_xlabel("million flights")
    # Room above for the legend, which is at home where the lines are not yet.
    axes.set_ylim(bottom=0, top=axes.get_ylim()[1] * 1.2)
    axes.set_xlim(left=0)
    axes.grid(color="#e4e7eb", linewidth=0.8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8, loc="upper left")
