"""The report's words and page, from rows that are made up."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from examples.flights import insights
from examples.flights.charts import Row
from examples.flights.report import TABLES, ReportParams, render, report


def group(
    flights: int = 200, *, dep: float | None = 10.0, arr: float | None = 5.0, **key: object
) -> Row:
    """One row of a feature table; None is a group in which nothing ever departed or arrived."""
    return {
        "flights": flights,
        "departed": 0 if dep is None else flights,
        "arrived": 0 if arr is None else flights,
        "late": 0 if arr is None else int(flights * arr / 100),
        "cancelled": 3,
        "arr_delay_minutes": 0 if arr is None else int(flights * arr),
        "mean_dep_delay": dep,
        "mean_arr_delay": arr,
        "late_share": None if arr is None else arr / 100,
        "cancelled_share": 3 / flights,
        "p90_arr_delay": 50.0,
        **key,
    }


@pytest.fixture
def tables() -> dict[str, list[Row]]:
    return {
        "by_hour": [
            group(hour=6, dep=1.0),
            group(hour=19, dep=24.6),
            group(1, hour=1, dep=400.0),
        ],
        "by_month": [group(300, month=1, arr=20.0), group(300, month=2, arr=10.0)],
        "by_month_hour": [group(month=1, hour=6), group(month=2, hour=19, dep=30.0)],
        "by_carrier": [
            group(carrier="AS", carrier_name="Alaska Airlines Inc.", rank=2, arr=-9.9),
            group(carrier="F9", carrier_name="Frontier Airlines Inc.", rank=1, arr=21.9),
            group(5, carrier="OO", carrier_name="SkyWest Airlines Inc.", rank=None, arr=99.0),
        ],
        "by_origin": [group(origin="EWR", arr=26.0), group(origin="LGA", arr=23.0)],
        "by_route": [
            group(origin="EWR", dest="CAE", dest_name="Columbia <Metro>", rank=1, arr=44.6),
            group(origin="JFK", dest="SJU", dest_name=None, rank=2, arr=2.0),
            group(2, origin="JFK", dest="LEX", dest_name="Blue Grass", rank=None, arr=None),
        ],
        "by_weather": [
            group(condition="clear", arr=20.0),
            group(condition="snow or ice", arr=70.0),
            group(condition="unknown", arr=90.0),
        ],
    }


def test_the_page_is_the_same_every_time(tables: dict[str, list[Row]]) -> None:
    assert render(tables, 10) == render(tables, 10)


def test_the_page_needs_nothing_else(tables: dict[str, list[Row]]) -> None:
    class References(HTMLParser):
        found: list[str] = []  # noqa: RUF012

        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            names = {"src", "href", "xlink:href"}
            self.found += [value for name, value in attrs if name in names and value is not None]
            assert tag not in ("script", "link", "img")

    page = render(tables, 10)
    parser = References()
    parser.feed(page)
    assert all(reference.startswith(("#", "data:")) for reference in parser.found)
    assert "url(http" not in page
    assert "@import" not in page
    assert not re.search(r"20\d\d-\d\d-\d\d", page), "a date would make every report another one"


def test_what_comes_from_data_is_escaped(tables: dict[str, list[Row]]) -> None:
    page = render(tables, 10)
    assert "Columbia &lt;Metro&gt;" in page
    assert "airport not in the list" in page
    assert "Blue Grass" not in page


def test_as_many_routes_are_listed_as_were_asked_for(tables: dict[str, list[Row]]) -> None:
    assert [row["dest"] for row in insights.worst_routes(tables["by_route"], 1)] == ["CAE"]
    assert [row["dest"] for row in insights.worst_routes(tables["by_route"], 9)] == ["CAE", "SJU"]


def test_sentences_say_what_the_numbers_say(tables: dict[str, list[Row]]) -> None:
    assert insights.hour_insight(tables["by_hour"]) == (
        "Leave early: at 6:00 flights depart 1 minute late, at 19:00 25 minutes late. "
        "Delays pile up over the day."
    )
    assert insights.carrier_insight(tables["by_carrier"]) == (
        "Alaska Airlines arrives 10 minutes early on average, Frontier Airlines 22 minutes late."
    )
    assert insights.month_insight(tables["by_month"]) == (
        "In January 20% of all arrivals are late, in February 10%."
    )
    assert insights.weather_insight(tables["by_weather"]) == (
        "Snow or ice at departure makes a late arrival 3.5 times as likely as clear skies do."
    )
    assert insights.origin_insight(tables["by_origin"]) == (
        "26% of the flights from Newark arrive late, 23% of those from LaGuardia."
    )


def test_figures_are_sums_over_the_months(tables: dict[str, list[Row]]) -> None:
    figures = insights.summarise(tables)
    assert (figures.flights, figures.cancelled, figures.routes) == (600, 6, 3)
    assert figures.on_time_share == pytest.approx(0.85)
    assert figures.mean_arr_delay == pytest.approx(15)
    assert figures.months == "Jan to Feb"


def test_a_single_month_without_weather_has_a_report_too(tables: dict[str, list[Row]]) -> None:
    tables["by_month"] = tables["by_month"][:1]
    tables["by_weather"] = [group(condition="unknown")]
    tables["by_carrier"] = [group(carrier="AS", carrier_name="Alaska", rank=None, arr=None)]
    page = render(tables, 10)
    assert "Jan 2013" in page
    assert "too little weather" in page


def test_the_step_writes_one_file(tables: dict[str, list[Row]], tmp_path: Path) -> None:
    for name in TABLES:
        (tmp_path / "features" / name).mkdir(parents=True)
        parquet.write_table(
            pa.Table.from_pylist(tables[name]), tmp_path / "features" / name / "part-00000.parquet"
        )
    result = report(tmp_path, ReportParams())
    page = (tmp_path / "report" / "index.html").read_bytes()
    assert (result.path, result.bytes, result.flights) == ("report/index.html", len(page), 600)
