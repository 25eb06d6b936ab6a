"""Ranges of sizes that need not be as slow as they are: what is found, and what is no fault."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from bench.model.stretches import stretches

SIZES = 2.0 ** np.arange(10, 31)
HEALTHY = np.minimum(20e-6 + SIZES / 3e9, 40e-6 + SIZES / 90e9)


def found(times, sizes=SIZES, scatter=0.01, at_least=1.3):
    return [one for one in stretches(sizes, times, scatter) if one.factor >= at_least]


def test_a_curve_of_two_protocols_has_none() -> None:
    assert not stretches(SIZES, HEALTHY, 0.01)


@pytest.mark.parametrize("first", range(2, 15))
@pytest.mark.parametrize("factor", [2.2, 10.0, 60.0])
def test_a_hole_is_found_where_it_is(first: int, factor: float) -> None:
    times = HEALTHY.copy()
    times[first : first + 3] *= factor
    (hole,) = found(times)
    assert hole.kind == "hole"
    assert (hole.first, hole.last) == (first, first + 2)
    assert 0.7 * factor <= hole.factor <= 1.3 * factor


def test_a_single_slow_size_is_a_hole_of_one() -> None:
    times = HEALTHY.copy()
    times[7] *= 5
    (hole,) = found(times)
    assert (hole.kind, hole.first, hole.last) == ("hole", 7, 7)


def test_two_holes_are_two() -> None:
    times = HEALTHY.copy()
    times[4:6] *= 8
    times[12:14] *= 4
    holes = found(times)
    assert [(hole.first, hole.last) for hole in holes] == [(4, 5), (12, 13)]


def test_rows_of_a_hole_may_differ_as_much_as_they_like() -> None:
    times = HEALTHY.copy()
    times[8:11] = [70e-3, 60e-3, 25e-3]
    times[5:8] = 0.2e-3, 0.7e-3, 1.3e-3  # before it as it was, and 1.06 ms behind (rccl#1490)
    times[11:] += 1e-3
    hole = max(found(times), key=lambda one: one.factor)
    assert (hole.first, hole.last, hole.basis) == (8, 10, "larger")
    assert hole.factor == pytest.approx(70e-3 / times[11], rel=0.01)


def test_a_fall_to_the_tables_end_is_a_collapse_against_the_best_smaller_size() -> None:
    times = HEALTHY.copy()
    times[-4:] *= 3.5
    (collapse,) = found(times)
    assert (collapse.kind, collapse.first, collapse.last) == ("collapse", 17, 20)
    assert collapse.basis == "smaller"
    assert collapse.reference == 16
    assert collapse.factor == pytest.approx(3.5, rel=0.05)


def test_a_peak_that_loses_ten_per_cent_is_a_small_collapse() -> None:
    times = HEALTHY.copy()
    times[-4:] *= 1.12
    (collapse,) = stretches(SIZES, times, 0.01)
    assert collapse.kind == "collapse"
    assert 1.08 < collapse.factor < 1.13


def test_a_protocol_that_gives_way_too_late_is_no_hole() -> None:
    """LL's line goes on to 1 MiB although Simple would be faster from 64 KiB on."""
    slow = 20e-6 + SIZES / 3e9
    times = np.where(SIZES <= 2**19, slow, 40e-6 + SIZES / 90e9)
    (late,) = found(times)
    assert late.kind == "late-switch"
    assert late.basis == "larger"
    assert late.last == 9
    assert late.reference == 10


def test_noise_is_not_a_stretch() -> None:
    rng = np.random.default_rng(5)
    for _ in range(200):
        times = HEALTHY * np.exp(rng.normal(0, 0.04, SIZES.size))
        assert not found(times, scatter=0.04, at_least=1.5)


def test_what_scatters_a_lot_has_to_be_further_off() -> None:
    times = HEALTHY.copy()
    times[8:10] *= 2.0
    assert found(times, scatter=0.02)
    assert not [one for one in found(times, scatter=0.25) if one.kind == "hole"]


def test_stretches_never_overlap_and_come_by_size() -> None:
    rng = np.random.default_rng(6)
    for _ in range(300):
        count = int(rng.integers(2, 30))
        sizes = np.cumsum(rng.integers(1, 10_000, count)).astype(float)
        times = np.exp(rng.normal(-9, 1.5, count))
        ends = [(one.first, one.last) for one in stretches(sizes, times, 0.02)]
        for (_, last), (first, _) in itertools.pairwise(ends):
            assert last < first
        assert all(0 <= first <= last < count for first, last in ends)


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_few_sizes_are_no_error(count: int) -> None:
    assert stretches(SIZES[:count], HEALTHY[:count], 0.01) == ()
