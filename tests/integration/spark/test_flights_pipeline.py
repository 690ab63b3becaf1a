"""The demo's steps on the real data, against the same numbers computed with pandas."""

import logging
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from pyarrow import parquet

from examples.flights.clean import CleanParams, CleanResult, clean
from examples.flights.features import KEYS, FeaturesParams, FeaturesResult, features
from examples.flights.ingest import IngestParams, ingest
from examples.flights.join import JoinParams, JoinResult, join
from examples.flights.quality import QualityParams, QualityResult, quality
from examples.flights.report import ReportParams, report
from examples.flights.source import TABLES, open_table
from perago import SparkWorkspace, TaskContext, TaskTerminalError
from perago.adapters.spark import LocalSparkSessions
from perago.domain.ids import ExecutionId
from tests.integration.spark.conftest import an_attempt

pytestmark = [pytest.mark.spark, pytest.mark.slow]

CONTEXT = TaskContext(
    attempt=an_attempt(),
    execution_id=ExecutionId("1"),
    workspace=None,
    logger=logging.getLogger(__name__),
    on_progress=lambda _message, _fraction: None,
    is_cancelled=lambda: False,
)


class Run:
    """The steps of the pipeline on one directory, each on a lease and an input of its own."""

    def __init__(
        self, sessions: LocalSparkSessions, root: Path, conf: Mapping[str, str] | None = None
    ) -> None:
        self.sessions = sessions
        self.conf = dict(conf or {})
        self.files = root / "files"
        self.input = root / "input"
        self.files.mkdir(parents=True)
        ingest(self.files, IngestParams(), CONTEXT)

    def tables(self, months: CleanParams) -> tuple[CleanResult, JoinResult, FeaturesResult]:
        with self.workspace() as workspace:
            cleaned = clean(workspace, months)
        with self.workspace() as workspace:
            joined = join(workspace, JoinParams())
        with self.workspace() as workspace:
            made = features(workspace, FeaturesParams(), CONTEXT)
        return cleaned, joined, made

    def check(self, files: Path | None = None) -> QualityResult:
        place = files or self.files
        with self.sessions.lease(an_attempt(), ExecutionId("1")) as lease:
            return quality(lease.workspace(place, place), QualityParams())

    @contextmanager
    def workspace(self) -> Iterator[SparkWorkspace]:
        shutil.rmtree(self.input, ignore_errors=True)
        shutil.copytree(self.files, self.input)
        with self.sessions.lease(an_attempt(), ExecutionId("1")) as lease:
            for key, value in self.conf.items():
                lease.session.conf.set(key, value)
            yield lease.workspace(self.input, self.files)

    def read(self, table: str) -> pd.DataFrame:
        frame: pd.DataFrame = parquet.read_table(self.files / table).to_pandas()
        return frame

    def contents(self) -> dict[str, bytes]:
        return {
            path.relative_to(self.files).as_posix(): path.read_bytes()
            for path in self.files.rglob("*")
            if path.is_file()
        }


Quarter = tuple[Run, CleanResult, JoinResult, FeaturesResult]


@pytest.fixture(scope="module")
def quarter(sessions: LocalSparkSessions, tmp_path_factory: pytest.TempPathFactory) -> Quarter:
    """All steps on three months."""
    run = Run(sessions, tmp_path_factory.mktemp("quarter"))
    return run, *run.tables(CleanParams(last_month=3))


@pytest.fixture(scope="module")
def raw() -> dict[str, pd.DataFrame]:
    """The raw data of the same months, as pandas reads it."""
    frames = {}
    for name in TABLES:
        with open_table(name) as stream:
            frame = pd.read_csv(stream)
        frames[name] = frame[frame.month <= 3] if "month" in frame else frame
    return frames


def test_every_raw_row_is_clean(quarter: Quarter, raw: dict[str, pd.DataFrame]) -> None:
    run, result, _, _ = quarter
    assert result.rows == {name: len(frame) for name, frame in raw.items()}
    assert result.cancelled == int(raw["flights"].dep_time.isna().sum())
    flown = raw["flights"].dep_time.notna()
    assert result.diverted == int((flown & raw["flights"].arr_delay.isna()).sum())
    assert result.impossible_winds == int((raw["weather"].wind_speed > 200).sum()) == 1
    flights = run.read("clean/flights")
    assert flights.arr_delay.sum() == raw["flights"].arr_delay.sum()
    assert flights.flight_date.min().isoformat() == "2013-01-01"
    assert sorted(flights.month.astype(int).unique()) == [1, 2, 3]


def test_flights_find_their_weather_aircraft_and_airport(
    quarter: Quarter, raw: dict[str, pd.DataFrame]
) -> None:
    _, _, result, _ = quarter
    flights = raw["flights"]
    with_weather = flights.merge(
        raw["weather"][["origin", "time_hour"]], on=["origin", "time_hour"]
    )
    assert result == JoinResult(
        rows=len(flights),
        with_weather=len(with_weather),
        with_plane=int(flights.tailnum.isin(raw["planes"].tailnum).sum()),
        with_airport=int(flights.dest.isin(raw["airports"].faa).sum()),
    )


@pytest.mark.parametrize(
    ("table", "keys"), [("by_carrier", ["carrier"]), ("by_route", ["origin", "dest"])]
)
def test_delays_are_what_pandas_finds(
    quarter: Quarter, raw: dict[str, pd.DataFrame], table: str, keys: list[str]
) -> None:
    run = quarter[0]
    grouped = raw["flights"].groupby(keys)
    made = run.read(f"features/{table}").set_index(keys).sort_index()
    arr = grouped.arr_delay
    assert made.flights.equals(grouped.size())
    assert made.arrived.equals(arr.count())
    np.testing.assert_allclose(made.mean_arr_delay.astype(float), arr.mean().round(2), atol=0.011)
    np.testing.assert_allclose(made.p90_arr_delay.astype(float), arr.quantile(0.9))
    np.testing.assert_allclose(made.median_arr_delay.astype(float), arr.median())
    late = (raw["flights"].arr_delay >= 15).groupby([raw["flights"][key] for key in keys]).sum()
    assert made.late.equals(late.rename("late"))


def test_window_features_are_what_pandas_finds(
    quarter: Quarter, raw: dict[str, pd.DataFrame]
) -> None:
    run, _, _, result = quarter
    flights = raw["flights"]
    by_hour = flights.groupby("hour").dep_delay.mean().round(2)
    made = run.read("features/by_hour").set_index("hour")
    np.testing.assert_allclose(made.change, by_hour.diff().round(2), atol=0.011)

    routes = flights.groupby(["origin", "dest"]).arr_delay.agg(["size", "mean"])
    ranked = routes[routes["size"] >= 100]["mean"].rank(ascending=False, method="min")
    made = run.read("features/by_route").set_index(["origin", "dest"])
    assert result.ranked_routes == len(ranked)
    assert made["rank"].dropna().astype(float).sort_index().equals(ranked.rename("rank"))

    route = flights[(flights.origin == "JFK") & (flights.dest == "LAX")]
    near = route[(route.carrier == "DL") & route.hour.between(16, 18)].arr_delay.mean()
    own = route[(route.carrier == "DL") & (route.hour == 17)]
    table = run.read("features/route_carrier_hour")
    made = table.query("origin == 'JFK' and dest == 'LAX' and carrier == 'DL' and hour == 17")
    expected = {
        "smoothed_arr_delay": near,
        "delay_vs_route": own.arr_delay.mean() - route.arr_delay.mean(),
        "share_of_route": len(own) / len(route),
    }
    assert made[list(expected)].iloc[0].to_dict() == pytest.approx(expected, abs=0.011)


def test_quality_passes_and_names_what_is_wrong(quarter: Quarter, tmp_path: Path) -> None:
    run = quarter[0]
    result = run.check()
    assert result.rows == 80_789
    assert len(result.checks) == 6 + len(KEYS)
    broken = tmp_path / "broken"
    shutil.copytree(run.files, broken)
    (table,) = (broken / "features" / "by_hour").iterdir()
    parquet.write_table(parquet.read_table(table).slice(1), table)
    with pytest.raises(TaskTerminalError, match="features/by_hour adds up: 80328 of 80789"):
        run.check(broken)


def test_the_report_tells_what_the_data_says(
    quarter: Quarter, raw: dict[str, pd.DataFrame]
) -> None:
    run = quarter[0]
    result = report(run.files, ReportParams())
    page = (run.files / result.path).read_text(encoding="utf-8")
    delays = raw["flights"].arr_delay.dropna()
    assert result.flights == len(raw["flights"])
    assert result.on_time_share == pytest.approx((delays < 15).mean(), abs=0.0001)
    routes = raw["flights"].groupby(["origin", "dest"]).arr_delay.agg(["size", "mean"])
    means = routes[routes["size"] >= 100]["mean"].sort_values()
    worst = " → ".join(means.index[-1])
    for words in ("80,789", "Jan to Mar 2013", worst, "arrives"):
        assert words in page
    assert page.count("<svg") == 6


@pytest.mark.torture
def test_the_same_params_give_the_same_bytes(
    quarter: Quarter, sessions: LocalSparkSessions, tmp_path: Path
) -> None:
    splits = {
        "spark.sql.files.maxPartitionBytes": "4m",
        "spark.sql.shuffle.partitions": "7",
        "spark.sql.adaptive.enabled": "false",
    }
    run, *results = quarter
    other = Run(sessions, tmp_path, splits)
    assert [*other.tables(CleanParams(last_month=3))] == results
    for made in (run, other):
        report(made.files, ReportParams())
    assert other.contents() == run.contents()
    assert not [name for name in run.contents() if "/_" in name or "/." in name]
