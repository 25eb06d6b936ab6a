"""Warm-up and stopping: pure decisions on lists of times."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.measure.stopping import (
    Rule,
    Warmup,
    drifting,
    lag1,
    median_interval,
    settled,
    widened_interval,
    widening,
)
from bench.records import BadInput, PlanSettings

QUICK = PlanSettings(name="quick")
FULL = PlanSettings(name="full", cell_s=5.0, min_iterations=30, max_iterations=500)
some_times = st.lists(st.floats(1e-7, 1e3), min_size=1, max_size=120)


def batches(decide, call_s, noise=0.0, seed=0, most=2000):
    """Runs a decision to its end on calls of `call_s`; returns the times it took."""
    rng = np.random.default_rng(seed)
    times: list[float] = []
    while (count := decide(times)) > 0:
        times += (call_s * np.exp(rng.normal(0, noise, count))).tolist()
        assert len(times) <= most, "the decision never ends"
    return times


@pytest.mark.parametrize(
    # The tables of any textbook: ranks l and u (1-based) of the exact interval.
    ("count", "confidence", "lower", "upper"),
    [
        (6, 0.95, 1, 6),
        (9, 0.95, 2, 8),
        (10, 0.95, 2, 9),
        (20, 0.95, 6, 15),
        (30, 0.95, 10, 21),
        (8, 0.99, 1, 8),
        (20, 0.99, 4, 17),
        (30, 0.99, 8, 23),
        (50, 0.99, 16, 35),
    ],
)
def test_the_ranks_are_the_exact_binomial_ones(count, confidence, lower, upper):
    interval = median_interval([float(k) for k in range(1, count + 1)], confidence)
    assert (interval.low, interval.high) == (lower, upper)
    assert interval.covered
    below = sum(math.comb(count, k) for k in range(lower)) / 2**count
    beyond = sum(math.comb(count, k) for k in range(lower + 1)) / 2**count
    assert below <= (1 - confidence) / 2 < beyond


@pytest.mark.parametrize("count", range(1, 8))
def test_below_eight_times_the_interval_is_their_range_and_says_that_it_does_not_cover(count):
    interval = median_interval([float(k) for k in range(1, count + 1)])
    assert (interval.low, interval.high) == (1, count)
    assert not interval.covered


def test_thousands_of_times_have_an_interval_too():
    interval = median_interval([float(k) for k in range(1, 20001)], 0.95)
    assert interval.low == pytest.approx(10000 - 1.96 * math.sqrt(20000) / 2, abs=2)


@given(some_times, st.sampled_from((0.9, 0.95, 0.99)))
def test_a_median_lies_within_its_interval_whatever_the_times(times, confidence):
    plain = median_interval(times, confidence)
    wider = widened_interval(times, confidence)
    assert plain.low <= plain.median <= plain.high
    assert 0 < wider.low <= plain.low * (1 + 1e-12)
    assert wider.high >= plain.high * (1 - 1e-12)
    assert -0.95 <= lag1(times) <= 0.95


@pytest.mark.parametrize("bad", [[], [1.0, math.nan], [math.inf], [0.0, 1.0], [-1.0]])
def test_impossible_times_are_bad_input(bad):
    with pytest.raises(BadInput):
        median_interval(bad)


def test_equal_times_have_no_width_and_no_correlation():
    interval = widened_interval([0.25] * 40)
    assert interval[:3] == (0.25, 0.25, 0.25)
    assert lag1([0.25] * 40) == 0.0


def test_correlation_is_seen_through_an_outlier():
    slow = np.sin(np.arange(60) / 6) * 0.1 + 1
    slow[30] = 400.0
    assert lag1(slow) > 0.8
    assert lag1([1.0, 2.0] * 20) < -0.8


def test_widening_never_narrows():
    assert widening(-0.9) == 1.0
    assert widening(0.6) == pytest.approx(2.0)
    assert widening(1.0) == widening(0.95)


def test_windows_settle_on_medians_and_quartiles():
    quiet = [1.0, 1.002, 0.998, 1.001, 0.999] * 4
    assert settled(quiet)
    assert not settled(quiet[:19])
    assert not settled([2.0] * 10 + quiet[:10])
    assert settled([9.0] + [2.0] * 10 + quiet)
    spread = [*quiet[:10], 1.0, 1.2, 0.8, 1.2, 0.8, 1.0, 1.0, 1.2, 0.8, 1.0]
    assert not settled(spread)  # same median, other quartiles


def test_a_warm_up_ends_once_two_windows_agree():
    times = [5e-3 * (1 + 4 * math.exp(-k / 8)) for k in range(200)]
    warm = Warmup.of(FULL)
    count = 0
    while more := warm.next_batch(times[:count]):
        count += more
    assert 40 <= count <= 80
    assert not warm.unsettled(times[:count])


def test_a_warm_up_that_never_settles_is_capped_and_told():
    rising = [1e-3 * 1.02**k for k in range(300)]
    warm = Warmup.of(FULL)
    count = 0
    while more := warm.next_batch(rising[:count]):
        count += more
    assert count <= 200
    assert sum(rising[:count]) < 2.5
    assert warm.unsettled(rising[:count])


@pytest.mark.parametrize("noise", [0.05, 0.3])
def test_noise_alone_is_not_called_unsettled(noise):
    warm = Warmup.of(FULL)
    runs = [batches(warm.next_batch, 1e-3, noise, seed) for seed in range(100)]
    assert max(len(times) for times in runs) <= 200
    assert not any(warm.unsettled(times) for times in runs)


@pytest.mark.parametrize(
    ("call_s", "calls"),
    [(0.3, 1), (0.1, 1), (0.05, 2), (0.02, 2), (0.01, 5), (0.005, 5), (0.001, 20)],
)
def test_the_quick_plan_warms_up_slow_calls_cheaply(call_s, calls):
    warm = Warmup.of(QUICK)
    decide = lambda times: warm.next_batch(times, expected_s=2 * call_s)  # noqa: E731
    assert len(batches(decide, call_s)) == calls


@pytest.mark.parametrize("expected_s", [None, 4 * 2e-4])
@pytest.mark.parametrize("plan", [QUICK, FULL])
def test_a_first_call_that_had_to_connect_does_not_leave_the_cell_cold(plan, expected_s):
    warm = Warmup.of(plan)
    times = [4.0]
    while more := warm.next_batch(times, expected_s=expected_s):
        times += [2e-4] * more
    assert len(times) == 20
    assert warm.next_batch([4.0], expected_s=5.0) == 0, "as slow as expected"
    assert warm.next_batch([4.0, 3.0], expected_s=expected_s) == 0, "slow after all"


@pytest.mark.parametrize(
    ("call_s", "calls"), [(1.0, 3), (0.13, 3), (0.045, 3), (0.02, 7), (0.005, 30), (1e-4, 30)]
)
def test_the_quick_plan_times_three_to_thirty_calls_within_its_seconds(call_s, calls):
    assert len(batches(Rule.of(QUICK, 2**20).next_batch, call_s)) == calls


def test_a_time_that_stands_for_several_calls_costs_as_much_as_they_do():
    rule = Rule.of(QUICK, 2**20)
    times = batches(lambda so_far: rule.next_batch(so_far, 4 * sum(so_far)), 0.005)
    assert len(times) == 7  # 7 x 4 calls x 5 ms = 0.14 s


def test_the_full_plan_looks_first_at_thirty_and_stops_when_the_median_is_known():
    rule = Rule.of(FULL, 2**20)
    assert len(batches(rule.next_batch, 1e-3, 0.005)) == 30
    assert 40 < len(batches(rule.next_batch, 1e-3, 0.03)) < 250
    assert len(batches(rule.next_batch, 1e-3, 0.5)) == 500
    times = batches(rule.next_batch, 0.05, 0.5)
    assert 5.0 - 2 * 0.5 < sum(times) < 5.5


def test_a_call_too_slow_for_thirty_ends_at_the_cap():
    assert len(batches(Rule.of(FULL, 2**30).next_batch, 1.0)) == 5
    assert len(batches(Rule.of(FULL, 2**30).next_batch, 10.0)) == 3


def test_below_64_kib_twice_the_width_will_do():
    assert Rule.of(FULL, 65535).half_width == 0.02
    assert Rule.of(FULL, 65536).half_width == 0.01


def test_correlated_times_need_more_calls():
    rule = Rule.of(FULL, 2**20)
    shuffled = np.exp(np.random.default_rng(2).normal(0, 0.02, 60))
    assert rule.precise(shuffled)
    assert not rule.precise(np.concatenate([np.sort(shuffled)[::2], np.sort(shuffled)[1::2]]))


@given(some_times, st.integers(1, 40), st.integers(0, 460), st.floats(0.01, 10))
@settings(max_examples=200)
def test_every_rank_decides_alike_and_never_beyond_the_plan(times, least, more, cell_s):
    rule = Rule(cell_s, least, least + more, 0.01)
    count = rule.next_batch(times)
    assert count == rule.next_batch(tuple(times)) == rule.next_batch(np.array(times))
    assert 0 <= count <= max(30, least)
    assert len(times) + count <= max(least + more, len(times))
    warm = Warmup(cell_s)
    assert 0 <= warm.next_batch(times) <= 20
    assert warm.unsettled(times) in (True, False)


@given(st.floats(1e-6, 1e3), st.floats(0.01, 10), st.integers(1, 40), st.integers(0, 460))
@settings(max_examples=60)
def test_every_rule_ends(call_s, cell_s, least, more):
    rule = Rule(cell_s, least, least + more, 0.01)
    assert min(3, least) <= len(batches(rule.next_batch, call_s, 0.3)) <= least + more
    assert len(batches(Warmup(cell_s).next_batch, call_s, 0.3)) <= 200


@pytest.mark.parametrize(
    "numbers", [(1.0, 0, 5, 0.01), (1.0, 6, 5, 0.01), (0.0, 3, 5, 0.01), (1.0, 3, 5, 0.0)]
)
def test_a_rule_that_cannot_be_is_bad_input(numbers):
    with pytest.raises(BadInput):
        Rule(*numbers)


def test_a_step_in_the_middle_is_drift_and_one_outlier_is_not():
    rng = np.random.default_rng(4)
    quiet = np.exp(rng.normal(0, 0.01, 60))
    step = quiet.copy()
    step[30:] *= 1.1
    outlier = quiet.copy()
    outlier[40] *= 50
    assert drifting(step)
    assert not drifting(outlier)
    assert not drifting(step[:15])
