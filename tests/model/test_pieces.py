"""The piecewise fit: against scipy's optimiser, and on curves whose pieces are known."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import least_squares

from bench.model.pieces import LAST_POINTS, PIECE_POINTS, SOFT, fit_rows, split

SHAPES = {
    "three protocols": [(12e-6, 3e9), (18e-6, 12e9), (45e-6, 45e9)],
    "two protocols": [(10e-6, 4e9), (40e-6, 90e9)],
    "wide": [(8e-6, 1.5e9), (22e-6, 20e9), (120e-6, 340e9)],
    "one protocol": [(30e-6, 20e9)],
}
SIZES = 2.0 ** np.arange(10, 31)


def cheapest(sizes, protocols):
    return np.min([latency + sizes / bandwidth for latency, bandwidth in protocols], axis=0)


def fitted(sizes, breaks, parameters):
    curve = np.empty_like(sizes)
    for (i, j), (latency, per_byte) in zip(breaks, parameters, strict=True):
        curve[i:j] = latency + per_byte * sizes[i:j]
    return curve


@pytest.mark.parametrize("noise", [0.0, 0.02, 0.2])
def test_rows_are_fitted_as_well_as_scipy_fits_them(noise):
    rng = np.random.default_rng(17)
    for _ in range(20):
        count = int(rng.integers(3, 15))
        sizes = np.sort(2.0 ** rng.uniform(10, 24, count))
        truth = np.exp(rng.uniform(-9, -5)) + sizes * np.exp(rng.uniform(-23, -16))
        times = truth * np.exp(rng.normal(0, noise, count))
        weights = rng.uniform(0.1, 1.0, count)
        (parameters,), (cost,) = fit_rows(sizes, times[None], weights[None])

        def residual(logs, sizes=sizes, times=times, weights=weights):
            return weights * np.log((np.exp(logs[0]) + np.exp(logs[1]) * sizes) / times)

        starts = ([np.log(truth[0]), np.log(truth[-1] / sizes[-1])],)
        found = [least_squares(residual, s, loss="soft_l1", f_scale=SOFT) for s in starts]
        assert cost <= 2 * min(one.cost for one in found) * (1 + 1e-4) + 1e-9
        assert (parameters >= 0).all()


def test_exact_lines_are_recovered_exactly():
    sizes = 2.0 ** np.arange(12, 23)
    (parameters,), (cost,) = fit_rows(sizes, (7e-4 + sizes / 1.2e7)[None], np.ones((1, 11)))
    assert parameters == pytest.approx([7e-4, 1 / 1.2e7], rel=1e-6)
    assert cost < 1e-12


def test_latency_and_bandwidth_stay_in_their_bounds():
    sizes = 2.0 ** np.arange(12, 20)
    rows = np.stack([sizes**1.3, np.full(8, 1e-3), sizes[::-1] * 1e-9])
    parameters, costs = fit_rows(sizes, rows, np.ones((3, 8)))
    assert parameters[0, 0] == 0
    assert (parameters[:, 1] > 0).all()
    assert np.isfinite(costs).all()
    assert parameters[1, 0] == pytest.approx(1e-3, rel=1e-3)


def test_one_wild_point_hardly_moves_a_line():
    sizes = 2.0 ** np.arange(12, 23)
    times = 7e-4 + sizes / 1.2e7
    times[6] *= 2.0
    (parameters,), _ = fit_rows(sizes, times[None], np.ones((1, 11)))
    assert 1 / parameters[1] == pytest.approx(1.2e7, rel=0.02)


@pytest.mark.parametrize("shape", SHAPES)
def test_noiseless_curves_of_nccls_shape_have_exactly_their_pieces(shape):
    times = cheapest(SIZES, SHAPES[shape])
    breaks, parameters = split(SIZES, times, np.ones(21))
    assert len(breaks) == len(SHAPES[shape])
    assert fitted(SIZES, breaks, parameters) == pytest.approx(times, rel=0.003)
    assert 1 / parameters[-1, 1] == pytest.approx(SHAPES[shape][-1][1], rel=1e-3)
    assert parameters[0, 0] == pytest.approx(SHAPES[shape][0][0], rel=1e-2)


def test_a_jump_is_allowed():
    times = np.where(SIZES < 2**20, 12e-6 + SIZES / 3e9, 45e-6 + SIZES / 45e9)
    breaks, _ = split(SIZES, times, np.ones(21))
    assert [SIZES[i] for i, _ in breaks] == [2**10, 2**20]


def test_the_last_piece_has_four_points_and_the_others_three():
    rng = np.random.default_rng(9)
    for count in range(4, 22):
        breaks, parameters = split(SIZES[:count], np.exp(rng.normal(0, 1, count)), np.ones(count))
        assert breaks[0][0] == 0 and breaks[-1][1] == count
        assert all(a[1] == b[0] for a, b in itertools.pairwise(breaks))
        assert all(j - i >= PIECE_POINTS for i, j in breaks)
        assert breaks[-1][1] - breaks[-1][0] >= LAST_POINTS
        assert parameters.shape == (len(breaks), 2)


@given(
    st.lists(st.tuples(st.floats(1e-7, 1e3), st.floats(1e-3, 1.0)), min_size=4, max_size=24),
    st.floats(1e-6, 1e6),
)
@settings(max_examples=100, deadline=None)
def test_any_times_have_finite_pieces_that_scale_with_the_clock(points, factor):
    times, weights = np.array(points).T
    sizes = 2.0 ** np.arange(10, 10 + times.size)
    _, parameters = split(sizes, times, weights)
    assert np.isfinite(parameters).all() and (parameters >= 0).all()
    assert (parameters[:, 1] > 0).all()
    _, scaled = fit_rows(sizes, times[None] * factor, weights[None])
    _, plain = fit_rows(sizes, times[None], weights[None])
    assert scaled == pytest.approx(plain, rel=1e-4, abs=1e-9)


def test_a_fit_of_21_points_and_one_of_100_points_are_done_at_once():
    times = cheapest(SIZES, SHAPES["wide"]) * np.exp(np.random.default_rng(1).normal(0, 0.02, 21))
    start = time.process_time()
    split(SIZES, times, np.ones(21))
    assert time.process_time() - start < 2
    sizes = 1e3 * 1.15 ** np.arange(100)
    start = time.process_time()
    split(sizes, cheapest(sizes, SHAPES["wide"]), np.ones(100))
    assert time.process_time() - start < 30
