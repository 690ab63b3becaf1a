"""The judgement of `python -m bench spark`: what it calls met is met, and a miss is found."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bench.spark.figures import fit_line, judge, marginal_costs
from bench.spark.options import parse_options
from bench.spark.plot import draw
from bench.spark.relay import Traffic
from bench.spark.report import (
    aim_table,
    cost_table,
    read_json,
    spark_table,
    step_table,
    write_json,
)
from bench.spark.run import Run, Step
from bench.spark.usage import Peaks

MIB = 1024**2
ROWS = 336_776


def a_step(name: str, seconds: float, spark: float = 0.1) -> Step:
    return Step(
        name=name,
        seconds=seconds,
        worker_cpu_seconds=0.5,
        spark_cpu_seconds=seconds,
        phases={"body": seconds - 0.2, "publish": 0.2},
        spark={"lease": spark / 2, "close": spark / 2},
        result={},
    )


def a_run(scale: int, access: str, seconds: float, number: int = 0) -> Run:
    local = access == "local"
    data = 30 * MIB * scale
    return Run(
        scale=scale,
        rows=ROWS * scale,
        access=access,
        round=number,
        warm_ups=[a_step("warm_up", 9, spark=8), a_step("warm_up", 1), a_step("warm_up", 1)],
        steps=[a_step("clean", seconds)],
        worker_traffic=Traffic(sent=data if local else 10_000, received=data if local else 10_000),
        spark_traffic=Traffic(sent=0 if local else data, received=0 if local else data),
        peaks=Peaks(
            disk={
                "workspaces": 2 * data if local else 0,
                "cache": data if local else 0,
                "spark": data,
            },
            disk_together=4 * data,
            python=(90 + scale // 10) * MIB,
            jvm=1500 * MIB,
        ),
        server_cpu_seconds=1,
        relay_cpu_seconds=0.1,
    )


@pytest.fixture
def runs() -> list[Run]:
    """A fixed part, and a part that grows with the rows."""
    return [
        a_run(scale, access, fixed + slope * scale + noise, number)
        for scale in (1, 10, 100)
        for access, fixed, slope in (("local", 3.0, 2.0), ("direct", 5.0, 1.0))
        for number, noise in enumerate((0.0, 0.1, -0.1))
    ]


def test_a_line_is_found_again() -> None:
    line = fit_line([(rows, 4 + 3 * rows / 1e6) for rows in (3e5, 3e6, 3e7)])
    assert line.fixed == pytest.approx(4)
    assert line.per_million == pytest.approx(3)
    assert line.at(2e6) == pytest.approx(10)


def test_a_line_needs_two_sizes() -> None:
    with pytest.raises(ValueError, match="two sizes"):
        fit_line([(3e5, 4.0), (3e5, 5.0)])


def test_more_rows_cost_the_same_each() -> None:
    points = [(1e6, 5.0), (2e6, 7.0), (5e6, 13.0)]
    assert marginal_costs(points) == pytest.approx([2, 2])


def test_good_runs_meet_every_aim(runs: list[Run]) -> None:
    assert {aim.is_met for aim in judge(runs)} == {True}


def test_a_cost_that_grows_faster_than_the_rows_is_missed(runs: list[Run]) -> None:
    worse = [
        replace(run, steps=[a_step("clean", 5 + run.scale**1.2)]) if run.access == "direct" else run
        for run in runs
    ]
    missed = [aim for aim in judge(worse) if aim.is_met is False]
    assert [aim.what for aim in missed] == [
        "direct: wall time grows linearly with rows",
        "direct: processor time grows linearly with rows",
    ]
    assert "**missed**" in aim_table(worse)


def test_a_slow_second_attempt_is_missed(runs: list[Run]) -> None:
    slow = [a_step("warm_up", 9), a_step("warm_up", 2, spark=0.6)]
    worse = [replace(run, warm_ups=slow) if run.access == "direct" else run for run in runs]
    missed = [aim.what for aim in judge(worse) if aim.is_met is False]
    assert len(missed) == 1
    assert missed[0].startswith("direct: a second attempt")


@pytest.mark.parametrize("place", ["workspaces", "cache"])
def test_files_that_a_direct_worker_keeps_are_missed(runs: list[Run], place: str) -> None:
    next(run for run in runs if run.access == "direct").peaks.disk[place] = 30 * MIB
    assert [a.what for a in judge(runs) if a.is_met is False] == ["direct: near zero disk"]


def test_memory_that_follows_the_data_is_missed(runs: list[Run]) -> None:
    for run in runs:
        run.peaks.python = (80 + run.scale) * MIB
    missed = [aim.what for aim in judge(runs) if aim.is_met is False]
    assert missed == ["direct: flat memory of the worker"]


def test_one_size_of_data_says_nothing_about_growth(runs: list[Run]) -> None:
    found = {aim.is_met for aim in judge([run for run in runs if run.scale == 1])}
    assert found == {True, None}


def test_tables_show_each_kind_beside_the_other(runs: list[Run]) -> None:
    costs = cost_table(runs).splitlines()
    assert len({line.count("|") for line in costs}) == 1
    assert "| x10 | direct | 15.0 s (0.65 x local) |" in "\n".join(costs)
    assert "| x1 | clean | local | 5.00 |" in step_table(runs)
    assert "| direct | second | 1.00 s | 0.100 s | 0.050 |" in spark_table(runs)
    assert "| direct: wall time, fitted line | 5.0 s and 2.97 s for a million rows |" in aim_table(
        runs
    )


def test_figures_are_the_same_after_they_were_kept(runs: list[Run], tmp_path: Path) -> None:
    kept = tmp_path / "runs.json"
    write_json(kept, {"memory_mb": 1}, runs)
    assert read_json(kept) == runs


def test_the_picture_is_drawn_the_same_again(runs: list[Run], tmp_path: Path) -> None:
    for name in ("a.svg", "b.svg"):
        draw(runs, tmp_path / name)
    text = (tmp_path / "a.svg").read_text()
    assert text == (tmp_path / "b.svg").read_text()
    assert "<svg" in text


def test_flags_are_read() -> None:
    options = parse_options(["--scales", "100,1,10", "--rounds", "2"])
    assert options.scales == [1, 10, 100]
    with pytest.raises(SystemExit):
        parse_options(["--scales", "0"])
