"""The judgement of `make soak`: a leak is found, and noise is not taken for one."""

from __future__ import annotations

import pytest

from bench.soak.trend import MIB, find_trend

SAMPLES = 400


def test_a_steady_leak_is_found() -> None:
    memory = [50 * MIB + sample * 20_000.0 for sample in range(SAMPLES)]
    assert not find_trend("memory", memory).is_flat


@pytest.mark.parametrize("figure", ["descriptors", "threads"])
def test_one_for_each_of_ten_deaths_is_found(figure: str) -> None:
    leaked = [20.0 + min(10, max(0, (sample - 100) // 20)) for sample in range(SAMPLES)]
    assert not find_trend(figure, leaked).is_flat


def test_a_start_and_a_few_peaks_are_no_trend() -> None:
    memory = [50.0 * MIB] * SAMPLES
    memory[:20] = [30.0 * MIB] * 20
    memory[-100::10] = [90.0 * MIB] * 10
    assert find_trend("memory", memory).is_flat
