"""Samples into points: what an interval holds, and what makes a point noisy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.model.summary import bimodal, points, session_medians
from bench.records import BadInput, Case, Sample, Session


def sample(times, size=65536, collective="all_reduce", **more):
    return Sample(
        collective=collective, size_bytes=size, times_s=tuple(float(t) for t in times), **more
    )


def session(number, *samples, candidate="data", outcome="measured"):
    case = Case(number=number, candidate=candidate, session=number)
    return Session(case=case, outcome=outcome, samples=samples)


def one_point(*sessions, ranks=4):
    (point,) = points(sessions, "data", "all_reduce", ranks)
    return point


some_times = st.lists(st.floats(1e-6, 10), min_size=1, max_size=40)


def test_the_value_is_the_median_of_session_medians_not_of_all_times():
    point = one_point(
        session(0, sample([1.0] * 9)),
        session(1, sample([1.1] * 9)),
        session(2, sample([9.0] * 99)),
    )
    assert point.time_s == 1.1
    assert (point.sessions, point.iterations) == (3, 117)


def test_bandwidths_are_bytes_over_time_and_nccl_tests_factor():
    point = one_point(session(0, sample([0.001] * 9, size=1_000_000)))
    assert point.algbw_gbs == pytest.approx(1.0)
    assert point.busbw_gbs == pytest.approx(1.5)


def test_one_session_has_the_order_statistic_interval():
    times = np.arange(1, 21) / 100 + 1
    point = one_point(session(0, sample(np.random.default_rng(5).permutation(times))))
    assert point.low_s == pytest.approx(1.06, abs=0.03)
    assert point.high_s == pytest.approx(1.15, abs=0.03)


def test_two_sessions_have_the_hull_of_both():
    a, b = [1.0, 1.01, 0.99] * 5, [1.2, 1.21, 1.19] * 5
    point = one_point(session(0, sample(a)), session(1, sample(b)))
    assert point.low_s <= 1.0 and point.high_s >= 1.2
    assert point.time_s == pytest.approx(1.1)


def test_three_sessions_have_the_t_interval_on_logs():
    medians = [1.0, 1.02, 1.05]
    point = one_point(*(session(k, sample([m] * 30)) for k, m in enumerate(medians)))
    logs = np.log(medians)
    half = 4.302653 * logs.std(ddof=1) / math.sqrt(3)
    assert point.low_s == pytest.approx(math.exp(logs.mean() - half))
    assert point.high_s == pytest.approx(math.exp(logs.mean() + half))


def test_three_sessions_that_agree_by_luck_do_not_claim_certainty():
    times = np.exp(np.random.default_rng(3).normal(0, 0.05, 30))
    point = one_point(*(session(k, sample(times)) for k in range(3)))
    assert (point.high_s - point.low_s) / 2 > 0.008


def test_few_times_are_told_wider_than_their_range():
    point = one_point(session(0, sample([1.0, 1.01, 1.02])))
    assert point.high_s - point.low_s > 0.03
    assert not point.noisy


def test_one_time_alone_is_noisy_by_definition():
    point = one_point(session(0, sample([1.0])))
    assert point.noisy
    assert point.high_s > 1.1


def test_two_times_far_apart_say_unknown_in_finite_numbers():
    point = one_point(session(0, sample([1e-6, 10.0])))
    assert point.noisy
    assert 0 < point.low_s <= point.time_s <= point.high_s < 1e4


def test_a_wide_interval_is_noisy_and_a_narrow_one_is_not():
    rng = np.random.default_rng(1)
    quiet = [session(k, sample(np.exp(rng.normal(0, 0.02, 30)))) for k in range(3)]
    loud = [session(k, sample(np.exp(rng.normal(0.3 * k, 0.02, 30)))) for k in range(3)]
    assert not one_point(*quiet).noisy
    assert one_point(*loud).noisy


def test_two_modes_are_noisy_even_where_the_median_is_known_well():
    rng = np.random.default_rng(2)
    modes = np.where(rng.random(300) < 0.8, 5e-3, 1e-3) * np.exp(rng.normal(0, 0.05, 300))
    point = one_point(session(0, sample(modes)))
    assert (point.high_s - point.low_s) / point.time_s < 0.1
    assert bimodal(modes)
    assert point.noisy


@pytest.mark.parametrize("kind", ["normal", "uniform", "lognormal", "outliers", "equal"])
def test_one_mode_is_not_taken_for_two(kind):
    rng = np.random.default_rng(8)
    taken = 0
    for _ in range(200):
        times = {
            "normal": 1 + 0.05 * rng.standard_normal(30),
            "uniform": rng.uniform(0.5, 1.5, 30),
            "lognormal": np.exp(rng.normal(0, 0.5, 30)),
            "outliers": np.where(rng.random(30) < 0.03, 5.0, 1.0)
            * np.exp(rng.normal(0, 0.02, 30)),
            "equal": np.ones(30),
        }[kind]
        taken += bimodal(times)
    assert taken <= 2


def test_autocorrelation_is_reported_and_widens():
    wave = np.exp(0.02 * np.sin(np.arange(60) / 4))
    slow = one_point(session(0, sample(wave)))
    mixed = one_point(session(0, sample(np.random.default_rng(0).permutation(wave))))
    assert slow.autocorrelation > 0.8 > 0.4 > mixed.autocorrelation
    assert slow.high_s - slow.low_s > 2 * (mixed.high_s - mixed.low_s)


def test_skew_is_the_median_gap_between_slowest_and_fastest_rank():
    point = one_point(session(0, sample([1.0, 1.0, 2.0], times_min_s=(0.9, 0.8, 0.2))))
    assert point.skew == pytest.approx(0.2)
    assert point.skew_s == pytest.approx(0.2)
    assert one_point(session(0, sample([1.0]))).skew == 0.0


def test_flags_of_samples_reach_the_point():
    point = one_point(
        session(0, sample([1.0] * 9, wrong=3, calls_per_time=2)),
        session(1, sample([1.0] * 9, settled=False, wrong=1, calls_per_time=2)),
    )
    assert (point.wrong, point.settled, point.calls_per_time) == (4, False, 2)


def test_sessions_that_timed_other_numbers_of_calls_are_left_out_and_told():
    sessions = [
        session(0, sample([1.0] * 9, calls_per_time=4)),
        session(1, sample([5.0] * 9, calls_per_time=8, wrong=2)),
        session(2, sample([1.1] * 9, calls_per_time=4), sample([7.0] * 9, size=131072)),
    ]
    small, large = points(sessions, "data", "all_reduce", 4)
    assert (small.time_s, small.sessions, small.left_out) == (pytest.approx(1.05), 2, 1)
    assert small.calls_per_time == 4
    assert small.wrong == 2, "a wrong value counts wherever it was seen"
    assert (large.sessions, large.left_out) == (1, 0)
    medians = session_medians(sessions, "data", "all_reduce")
    assert medians == ({65536: 1.0}, {65536: 1.1, 131072: 7.0})


def test_of_equally_many_sessions_those_with_fewer_calls_per_time_are_kept():
    pair = [session(0, sample([1.0] * 9, calls_per_time=8)), session(1, sample([2.0] * 9))]
    assert one_point(*pair).calls_per_time == one_point(*reversed(pair)).calls_per_time == 1


def test_only_the_named_candidate_and_collective_count_and_broken_sessions_too():
    sessions = [
        session(0, sample([1.0] * 9), sample([7.0] * 9, collective="all_gather")),
        session(1, sample([5.0] * 9), candidate="mgmt"),
        session(2, sample([1.0] * 9), outcome="hung"),
        session(3, outcome="unreachable"),
    ]
    assert one_point(*sessions).time_s == 1.0
    assert one_point(*sessions).sessions == 2
    assert points(sessions, "docker", "all_reduce", 4) == ()


def test_held_out_sizes_stay_apart_from_the_grid():
    both = session(0, sample([2.0] * 9, size=8192), sample([1.5] * 9, size=5792, group="held-out"))
    found = points([both], "data", "all_reduce", 2)
    assert [(p.size_bytes, p.group) for p in found] == [(5792, "held-out"), (8192, "fit")]
    assert session_medians([both], "data", "all_reduce") == ({8192: 2.0},)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_impossible_times_are_bad_input(bad):
    with pytest.raises(BadInput):
        one_point(session(0, sample([1.0, bad])))


@given(st.lists(some_times, min_size=1, max_size=7), st.randoms(use_true_random=False))
@settings(max_examples=150)
def test_whatever_the_times_the_order_of_sessions_does_not_matter(lists, random):
    sessions = [session(k, sample(times)) for k, times in enumerate(lists)]
    point = one_point(*sessions)
    assert 0 < point.low_s <= point.time_s <= point.high_s < math.inf
    random.shuffle(sessions)
    again = one_point(*sessions)
    assert again.time_s == point.time_s
    assert again.low_s == pytest.approx(point.low_s, rel=1e-12)
    assert again.high_s == pytest.approx(point.high_s, rel=1e-12)
    assert again.noisy == point.noisy
