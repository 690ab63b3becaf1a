"""What the feature tables say, in sentences: pure functions of the rows."""

import calendar
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from examples.flights.charts import AIRPORTS, MONTHS, Row, number, short_name

FEWEST_DEPARTURES = 100
"""A group with fewer says little: one flight at one in the morning is no pattern."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The year in a few numbers."""

    flights: int
    on_time_share: float
    mean_arr_delay: float
    cancelled: int
    carriers: int
    routes: int
    months: str


def summarise(tables: Mapping[str, Sequence[Row]]) -> Figures:
    """Add the months up."""
    months = tables["by_month"]
    total = {
        name: sum(int(number(row, name)) for row in months)
        for name in ("flights", "arrived", "late", "cancelled", "arr_delay_minutes")
    }
    named = [MONTHS[int(number(row, "month")) - 1] for row in months]
    arrived = max(total["arrived"], 1)
    return Figures(
        flights=total["flights"],
        on_time_share=1 - total["late"] / arrived,
        mean_arr_delay=total["arr_delay_minutes"] / arrived,
        cancelled=total["cancelled"],
        carriers=len(tables["by_carrier"]),
        routes=len(tables["by_route"]),
        months=named[0] if len(named) == 1 else f"{named[0]} to {named[-1]}",
    )


def hour_insight(by_hour: Sequence[Row]) -> str:
    """When to fly."""
    best, worst = _extremes(by_hour, "mean_dep_delay")
    return (
        f"Leave early: at {_hour(best)} flights depart {_minutes(best, 'mean_dep_delay')}, at "
        f"{_hour(worst)} {_minutes(worst, 'mean_dep_delay')}. Delays pile up over the day."
    )


def carrier_insight(by_carrier: Sequence[Row]) -> str:
    """With whom to fly."""
    ranked = [row for row in by_carrier if row["rank"] is not None] or by_carrier
    best, worst = _extremes(ranked, "mean_arr_delay")
    return (
        f"{short_name(str(best['carrier_name']))} arrives {_minutes(best, 'mean_arr_delay')} on "
        f"average, {short_name(str(worst['carrier_name']))} {_minutes(worst, 'mean_arr_delay')}."
    )


def month_insight(by_month: Sequence[Row]) -> str:
    """In which month to fly."""
    best, worst = _extremes(by_month, "late_share")
    return (
        f"In {_month(worst)} {number(worst, 'late_share'):.0%} of all arrivals are late, in "
        f"{_month(best)} {number(best, 'late_share'):.0%}."
    )


def heat_insight(by_month_hour: Sequence[Row]) -> str:
    """When both come together."""
    _, worst = _extremes(by_month_hour, "mean_dep_delay")
    return (
        f"The worst time to leave is {_hour(worst)} in {_month(worst)}: "
        f"{_minutes(worst, 'mean_dep_delay')} on average."
    )


def origin_insight(by_origin: Sequence[Row]) -> str:
    """From where to fly."""
    best, worst = _extremes(by_origin, "late_share")
    return (
        f"{number(worst, 'late_share'):.0%} of the flights from {_airport(worst)} arrive late, "
        f"{number(best, 'late_share'):.0%} of those from {_airport(best)}."
    )


def weather_insight(by_weather: Sequence[Row]) -> str:
    """What the weather does."""
    clear = next((row for row in by_weather if row["condition"] == "clear"), None)
    others = [row for row in by_weather if row["condition"] not in ("clear", "unknown")]
    if clear is None or not others or number(clear, "late_share") == 0:
        return "There is too little weather in these months to compare."
    worst = max(others, key=lambda row: number(row, "late_share"))
    times = number(worst, "late_share") / number(clear, "late_share")
    return (
        f"{str(worst['condition']).capitalize()} at departure makes a late arrival {times:.1f} "
        "times as likely as clear skies do."
    )


def worst_routes(by_route: Sequence[Row], count: int) -> list[Row]:
    """The ranked routes with the highest mean delay, worst first."""
    ranked = [row for row in by_route if row["rank"] is not None]
    return sorted(ranked, key=lambda row: (number(row, "rank"), row["origin"], row["dest"]))[:count]


def _extremes(rows: Sequence[Row], name: str) -> tuple[Row, Row]:
    """The lowest and the highest, among groups that are large enough to say something."""
    telling = [row for row in rows if number(row, "departed") >= FEWEST_DEPARTURES] or list(rows)
    ordered = sorted(telling, key=lambda row: number(row, name))
    return ordered[0], ordered[-1]


def _minutes(row: Row, name: str) -> str:
    value = round(number(row, name))
    unit = "minute" if abs(value) == 1 else "minutes"
    return f"{abs(value)} {unit} {'late' if value >= 0 else 'early'}"


def _hour(row: Row) -> str:
    return f"{int(number(row, 'hour'))}:00"


def _month(row: Row) -> str:
    return calendar.month_name[int(number(row, "month"))]


def _airport(row: Row) -> str:
    return AIRPORTS.get(str(row["origin"]), str(row["origin"]))
