"""Step 6: one HTML page that needs nothing but a browser."""

from pathlib import Path

import jinja2
from pyarrow import parquet
from pydantic import BaseModel, Field

from examples.flights import charts, insights
from examples.flights.charts import Row
from perago import (
    RetryPolicy,
    TaskControls,
    WorkspaceSpec,
    require_columns,
    require_file,
    require_rows,
    task,
)

TABLES = (
    *("by_carrier", "by_hour", "by_month", "by_month_hour"),
    *("by_origin", "by_route", "by_weather"),
)


class ReportParams(BaseModel):
    """How many of the worst routes to list."""

    worst_routes: int = Field(default=12, ge=1, le=100)


class ReportResult(BaseModel):
    """Where the report is, and what it says first."""

    path: str
    bytes: int
    flights: int
    on_time_share: float


@task(
    "report",
    owner_email="flights@example.com",
    workspace=WorkspaceSpec(
        pre=[
            *[require_rows(f"features/{name}") for name in TABLES],
            require_columns("features/by_route", ["dest_name", "rank", "mean_arr_delay"]),
        ],
        post=[require_file("report/index.html")],
    ),
    controls=TaskControls(retry=RetryPolicy(count=3, delay_seconds=1)),
)
def report(workspace: Path, params: ReportParams) -> ReportResult:
    """Draw the charts, say what they show, and put it all into one page."""
    tables = {name: read_rows(workspace / "features" / name) for name in TABLES}
    page = render(tables, params.worst_routes)
    path = workspace / "report" / "index.html"
    path.parent.mkdir(exist_ok=True)
    path.write_text(page, encoding="utf-8")
    figures = insights.summarise(tables)
    return ReportResult(
        path="report/index.html",
        bytes=path.stat().st_size,
        flights=figures.flights,
        on_time_share=round(figures.on_time_share, 4),
    )


def read_rows(table: Path) -> list[Row]:
    """A feature table as rows, in the order in which they are stored."""
    rows: list[Row] = parquet.read_table(table).to_pylist()
    return rows


def render(tables: dict[str, list[Row]], worst_routes: int) -> str:
    """The page, as text."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    routes = insights.worst_routes(tables["by_route"], worst_routes)
    return environment.get_template("report.html.jinja").render(
        figures=insights.summarise(tables),
        sections=sections(tables),
        routes=routes,
        longest=max((charts.number(row, "mean_arr_delay") for row in routes), default=1) or 1,
    )


def sections(tables: dict[str, list[Row]]) -> list[dict[str, str]]:
    """What each part of the page shows and says."""
    return [
        {
            "title": "By hour of the day",
            "insight": insights.hour_insight(tables["by_hour"]),
            "caption": "Mean departure delay by scheduled hour",
            "svg": charts.hours_chart(tables["by_hour"]),
        },
        {
            "title": "By month",
            "insight": insights.month_insight(tables["by_month"]),
            "caption": "Share of late arrivals and of cancelled flights",
            "svg": charts.months_chart(tables["by_month"]),
        },
        {
            "title": "By carrier",
            "insight": insights.carrier_insight(tables["by_carrier"]),
            "caption": "Mean arrival delay in minutes; below zero is early",
            "svg": charts.carriers_chart(tables["by_carrier"]),
        },
        {
            "title": "By month and hour",
            "insight": insights.heat_insight(tables["by_month_hour"]),
            "caption": "Mean departure delay",
            "svg": charts.heat_chart(tables["by_month_hour"]),
        },
        {
            "title": "By airport",
            "insight": insights.origin_insight(tables["by_origin"]),
            "caption": "Share of flights that arrive late, by the airport that they leave",
            "svg": charts.origins_chart(tables["by_origin"]),
        },
        {
            "title": "By weather",
            "insight": insights.weather_insight(tables["by_weather"]),
            "caption": "Share of flights that arrive late, by the weather when they leave",
            "svg": charts.weather_chart(tables["by_weather"]),
        },
    ]
