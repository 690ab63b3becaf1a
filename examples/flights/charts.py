"""Charts as SVG text: the same numbers always give the same text."""

import io
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

INK = "#1f2933"
MUTED = "#7b8794"
GRID = "#e4e7eb"
BLUE = "#2f6fb0"
SOFT_BLUE = "#a9c7e4"
ORANGE = "#d9622b"

MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

AIRPORTS = {"EWR": "Newark", "JFK": "JFK", "LGA": "LaGuardia"}

Row = Mapping[str, object]


def number(row: Row, name: str) -> float:
    """A numeric field; a group in which nothing ever arrived has none."""
    value = row[name]
    return float(value) if isinstance(value, int | float) else 0.0


def short_name(name: str) -> str:
    """`United Air Lines Inc.` without what every company is."""
    for ending in (" Inc.", " Co.", " Corporation"):
        name = name.removesuffix(ending)
    return name


def hours_chart(by_hour: Sequence[Row]) -> str:
    """Mean departure delay by scheduled hour."""
    rows = [row for row in by_hour if number(row, "departed") >= 100] or list(by_hour)
    values = [number(row, "mean_dep_delay") for row in rows]
    figure, axes = _canvas(3.1)
    peak = values.index(max(values))
    colors = [ORANGE if index == peak else BLUE for index in range(len(rows))]
    places = range(len(rows))
    axes.bar(places, values, color=colors, width=0.78)
    axes.set_xticks(
        places[::2], [f"{int(number(row, 'hour'))}:00" for row in rows[::2]], fontsize=10
    )
    axes.set_xlabel("scheduled hour of departure")
    _minutes(axes, "y")
    _label(axes, peak, values[peak], f"{values[peak]:.0f} min")
    return _svg(figure)


def carriers_chart(by_carrier: Sequence[Row]) -> str:
    """Mean arrival delay by carrier, best at the top."""
    rows = sorted(by_carrier, key=lambda row: number(row, "mean_arr_delay"), reverse=True)
    values = [number(row, "mean_arr_delay") for row in rows]
    figure, axes = _canvas(0.6 + 0.29 * len(rows))
    axes.barh(
        range(len(rows)),
        values,
        color=[ORANGE if value > 0 else BLUE for value in values],
        height=0.72,
    )
    axes.set_yticks(range(len(rows)), [short_name(str(row["carrier_name"])) for row in rows])
    axes.axvline(0, color=MUTED, linewidth=0.8)
    axes.margins(x=0.16, y=0.01)
    for place, value in enumerate(values):
        away = 3 if value >= 0 else -3
        axes.annotate(
            f"{value:+.1f}",
            (value, place),
            xytext=(away, 0),
            textcoords="offset points",
            va="center",
            ha="left" if value >= 0 else "right",
            color=MUTED,
            fontsize=10.5,
        )
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    _minutes(axes, "x")
    return _svg(figure)


def months_chart(by_month: Sequence[Row]) -> str:
    """Share of late arrivals and of cancellations by month."""
    figure, axes = _canvas(3.1)
    places = range(len(by_month))
    late = [100 * number(row, "late_share") for row in by_month]
    cancelled = [100 * number(row, "cancelled_share") for row in by_month]
    axes.bar(places, late, color=BLUE, width=0.78, label="arrived 15 minutes late or more")
    axes.plot(places, cancelled, color=ORANGE, marker="o", markersize=4, label="cancelled")
    axes.set_xticks(places, [MONTHS[int(number(row, "month")) - 1] for row in by_month])
    axes.set_ylim(top=max([*late, *cancelled, 1]) * 1.05)
    axes.yaxis.set_major_formatter("{x:.0f}%")
    axes.grid(axis="y", color=GRID, linewidth=0.8)
    axes.legend(
        loc="lower left",
        bbox_to_anchor=(-0.02, 1),
        frameon=False,
        fontsize=10.5,
        ncols=2,
        handlelength=1.2,
        labelcolor=INK,
    )
    return _svg(figure)


def heat_chart(by_month_hour: Sequence[Row]) -> str:
    """Mean departure delay by month and hour, as a map."""
    months = sorted({int(number(row, "month")) for row in by_month_hour})
    hours = list(range(5, 24))
    grid = [[float("nan")] * len(months) for _ in hours]
    for row in by_month_hour:
        hour = int(number(row, "hour"))
        if hour in hours and number(row, "departed") >= 10:
            grid[hours.index(hour)][months.index(int(number(row, "month")))] = number(
                row, "mean_dep_delay"
            )
    figure, axes = _canvas(5.1)
    heat = LinearSegmentedColormap.from_list("delay", ["#f3f6f9", SOFT_BLUE, BLUE, "#12355b"])
    image = axes.pcolormesh(grid, cmap=heat, vmin=0, vmax=50, edgecolors="#ffffff", linewidth=1)
    axes.set_xticks([place + 0.5 for place in range(len(months))], [MONTHS[m - 1] for m in months])
    axes.set_yticks(
        [place + 0.5 for place in range(0, len(hours), 3)], [f"{h}:00" for h in hours[::3]]
    )
    axes.invert_yaxis()
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    bar = figure.colorbar(image, ax=axes, orientation="horizontal", pad=0.1, aspect=40, shrink=0.7)
    bar.outline.set_visible(False)
    bar.ax.xaxis.set_major_formatter("{x:.0f} min")
    return _svg(figure)


def weather_chart(by_weather: Sequence[Row]) -> str:
    """Share of late arrivals by weather at departure, worst at the top."""
    rows = [row for row in by_weather if row["condition"] != "unknown"]
    return _late_shares(rows, "condition", soft="clear")


def origins_chart(by_origin: Sequence[Row]) -> str:
    """Share of late arrivals by airport of departure, worst at the top."""
    return _late_shares(by_origin, "origin", soft="")


def _late_shares(groups: Sequence[Row], key: str, *, soft: str) -> str:
    rows = sorted(groups, key=lambda row: (number(row, "late_share"), str(row[key])))
    late = [100 * number(row, "late_share") for row in rows]
    figure, axes = _canvas(3.0)
    colors = [SOFT_BLUE if row[key] == soft else BLUE for row in rows]
    axes.barh(range(len(rows)), late, color=colors, height=0.68)
    axes.set_yticks(range(len(rows)), [AIRPORTS.get(str(row[key]), str(row[key])) for row in rows])
    for place, (row, value) in enumerate(zip(rows, late, strict=True)):
        axes.annotate(
            f"{value:.0f}% of {int(number(row, 'arrived')):,}",
            (value, place),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            color=MUTED,
            fontsize=10.5,
        )
    axes.set_xlim(right=max([*late, 1]) * 1.4)
    axes.xaxis.set_major_formatter("{x:.0f}%")
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color=GRID, linewidth=0.8)
    axes.spines["left"].set_visible(False)
    return _svg(figure)


def _style() -> AbstractContextManager[None]:
    return mpl.rc_context(
        {
            # Fixed, for the ids inside an SVG are hashes salted with it.
            "svg.hashsalt": "perago-flights",
            # Text stays text: small, selectable, and in the reader's own font.
            "svg.fonttype": "none",
            "font.family": "DejaVu Sans",
            "font.size": 12,
            "text.color": INK,
            "axes.edgecolor": GRID,
            "axes.labelcolor": MUTED,
            "xtick.color": MUTED,
            "ytick.color": MUTED,
            "xtick.labelcolor": INK,
            "ytick.labelcolor": INK,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.axisbelow": True,
        }
    )


def _canvas(height: float) -> tuple[Figure, Axes]:
    with _style():
        figure = Figure(figsize=(5.4, height), layout="constrained")
        return figure, figure.add_subplot()


def _minutes(axes: Axes, axis: str) -> None:
    chosen = axes.xaxis if axis == "x" else axes.yaxis
    chosen.set_major_formatter("{x:.0f} min")
    axes.grid(axis="x" if axis == "x" else "y", color=GRID, linewidth=0.8)


def _label(axes: Axes, place: float, value: float, text: str) -> None:
    axes.annotate(
        text, (place, value), xytext=(0, 4), textcoords="offset points", ha="center", color=ORANGE
    )
    axes.margins(y=0.14)


def _svg(figure: Figure) -> str:
    """The figure as an `<svg>` element, without a date, a version or a prolog."""
    buffer = io.StringIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    with _style():
        figure.savefig(buffer, format="svg", transparent=True, metadata=nothing)
    text = buffer.getvalue()
    return text[text.index("<svg") :]
