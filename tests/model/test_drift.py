"""Change points: told within days, seldom for nothing, in the right place, whatever the noise.

The claims about error rates are seeded simulations of the issue's shape: 8 series, 60 nights, a
night scatters by 1 %. tests/performance/bench_drift.py runs the same with more series.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.model import drift

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "performance"))

import bench_drift

SERIES = 150
FLAT = [0.0, 0.004, -0.006, 0.01, -0.002, 0.007, -0.009, 0.001, 0.005, -0.004] * 4


@pytest.fixture(scope="module")
def scores() -> dict[tuple[str, int], tuple[float, int, dict[int, float], float]]:
    return {
        (kind, step): bench_drift.scored(kind, step, SERIES)
        for kind in bench_drift.NOISES
        for step in bench_drift.STEPS
    }


@pytest.mark.timeout(240)
def test_eight_series_make_at_most_one_false_alarm_in_two_months(scores) -> None:  # type: ignore[no-untyped-def]
    for kind in bench_drift.NOISES:
        rate, *_ = scores[kind, 0]
        watched = bench_drift.NIGHTS - bench_drift.FIRST + 1
        assert rate * 8 * watched <= 1, (kind, rate)
    for kind in ("normal", "t3"):
        assert scores[kind, 0][0] <= 0.002
        assert all(scores[kind, step][0] <= 0.002 for step in (3, 5))


@pytest.mark.timeout(240)
def test_five_per_cent_are_told_by_night_three_and_three_by_night_five(scores) -> None:  # type: ignore[no-untyped-def]
    for kind in bench_drift.NOISES:
        assert scores[kind, 5][2][3] >= 0.95, (kind, scores[kind, 5])
        assert scores[kind, 3][1] / SERIES >= 0.87, (kind, scores[kind, 3])  # 0.90 - 1 se
    for kind in ("normal", "t3"):
        assert scores[kind, 3][2][5] >= 0.93, (kind, scores[kind, 3])  # 0.95 - 1 se


@pytest.mark.timeout(240)
def test_whole_fabrics_are_judged_as_seldom_for_nothing_and_as_soon() -> None:
    """By the nightly job's own judge with all its gates, night after night."""
    quiet = [bench_drift.fabric(kind, 0)[0] for kind in bench_drift.NOISES]
    assert sum(quiet) <= len(quiet), "one false alarm in two months each"
    for kind in bench_drift.NOISES:
        told_on = bench_drift.fabric(kind, 1, 5)[1]
        assert told_on is not None and told_on <= 3, kind


def test_a_step_is_told_with_its_first_night_its_size_and_the_third_night_of_it() -> None:
    values = FLAT + [0.08 + value for value in FLAT[:6]]
    (change,) = drift.course(values).changes
    assert (change.at, change.told) == (40, 42)
    assert change.step == pytest.approx(0.08, abs=0.01)
    assert change.step - change.half_width > 0.05


def test_one_wild_night_or_two_are_no_change() -> None:
    assert drift.course([*FLAT, 0.5, *FLAT]).changes == ()
    assert drift.course([*FLAT, 0.5, 0.4, *FLAT]).changes == ()
    assert drift.course([*FLAT, 0.5, 0.4, 0.3]).changes != ()


def test_what_is_below_two_per_cent_is_left_alone_however_quiet_the_nights_are() -> None:
    still = [0.0] * 30
    assert drift.course([*still, *[0.015] * 30]).changes == ()
    assert len(drift.course([*still, *[0.03] * 30]).changes) == 1


def test_faster_nights_wait_for_a_week_but_a_return_does_not() -> None:
    better = drift.course([*FLAT, *[value - 0.08 for value in FLAT]])
    (change,) = better.changes
    assert change.told - change.at + 1 == drift.FASTER_NIGHTS
    back = drift.course([*FLAT, *[0.08 + value for value in FLAT[:10]], *FLAT])
    down = back.changes[1]
    assert (down.at, down.step < 0) == (50, True)
    assert down.told - down.at + 1 == drift.CONFIRMED


def test_nothing_is_said_before_ten_nights_make_a_level() -> None:
    assert drift.course([*FLAT[:8], *[0.3] * 4]).changes == ()
    assert drift.far_out(FLAT[:8]) is None
    assert drift.course([]).nights == 0


def test_tonight_is_measured_in_deviations_of_the_nights_before() -> None:
    assert drift.far_out([*FLAT, 0.07]) == pytest.approx(7.0, abs=0.5)
    assert abs(drift.far_out([*FLAT, 0.0]) or 0.0) < 1
    # Also on the night on which the change becomes sure, and is then part of a new level.
    third = drift.far_out([*FLAT, 0.07, 0.07, 0.07])
    assert third is not None and third > 4


def test_it_knows_only_what_a_job_on_that_night_could_know() -> None:
    rng = np.random.default_rng(8)
    values = (0.01 * rng.standard_normal(90)).tolist()
    values[50:] = [value + 0.05 for value in values[50:]]
    whole = drift.course(values).changes
    for seen in range(1, len(values) + 1):
        then = drift.course(values[:seen]).changes
        assert then == tuple(change for change in whole if change.told < seen)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(-3, 3), max_size=80), st.floats(0.5, 2.0))
def test_any_finite_nights_have_a_course(values: list[float], shift: float) -> None:
    found = drift.course(values)
    assert found.nights == len(values)
    assert found.spread >= drift.LEAST_SPREAD
    places = [change.at for change in found.changes]
    assert places == sorted(set(places))
    assert all(change.at < change.told < len(values) for change in found.changes)
    moved = drift.course([value + shift for value in values])
    assert [change.at for change in moved.changes] == places
    assert math.isfinite(moved.level)
