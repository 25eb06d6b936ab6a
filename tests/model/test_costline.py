"""Cost lines: what is quoted, with which interval, and when nothing is."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.model.costline import fit, predict
from bench.records import BadInput, Point

PAYLOAD = 100e6 / 8 * 1448 / 1514  # bytes/s on a 100 Mbit/s lab network
LAB_SIZES = 2 ** np.arange(12, 21)
SIX_DECADES = 2 ** np.arange(10, 31)


def lab(sizes):
    """Four hosts' all_reduce over 100 Mbit/s: each link carries 1.5 times the buffer."""
    return 0.7e-3 + sizes * 1.5 / PAYLOAD


def nccl(sizes):
    """LL, LL128 and Simple between two hosts: the cheapest is taken."""
    protocols = ((12e-6, 3e9), (18e-6, 12e9), (45e-6, 45e9))
    return np.min([latency + sizes / bandwidth for latency, bandwidth in protocols], axis=0)


def point(size, value, half=0.005, **more):
    more = {"sessions": 3, "iterations": 90, "algbw_gbs": 0.0, "busbw_gbs": 0.0, **more}
    low_s, high_s = value * math.exp(-half), value * math.exp(half)
    return Point(
        size_bytes=int(size), time_s=float(value), low_s=float(low_s), high_s=float(high_s), **more
    )


def points_of(sizes, times, half=0.005):
    return [point(size, value, half) for size, value in zip(sizes, times, strict=True)]


def sessions_of(sizes, times, count, between=0.003, within=0.003, seed=0):
    """Session medians: a factor that a session's sizes share, and one of each cell's own."""
    rng = np.random.default_rng(seed)
    made = [
        times * np.exp(rng.normal(0, between) + rng.normal(0, within, len(times)))
        for _ in range(count)
    ]
    return [dict(zip((int(s) for s in sizes), row.tolist(), strict=True)) for row in made]


def summarised(sizes, medians, half=0.005):
    return [point(s, np.median([one[int(s)] for one in medians]), half) for s in sizes]


def line_of(sizes, times, count=3, seed=0, **noise):
    medians = sessions_of(sizes, times, count, seed=seed, **noise)
    return fit("data", "all_reduce", 4, summarised(sizes, medians), medians)


def test_an_exact_line_gives_its_own_numbers():
    line = fit("data", "all_reduce", 4, points_of(LAB_SIZES, lab(LAB_SIZES)))
    assert len(line.pieces) == 1
    assert line.latency_s.value == pytest.approx(0.7e-3, rel=1e-6)
    assert line.bandwidth_bytes_per_s.value == pytest.approx(PAYLOAD / 1.5, rel=1e-6)
    assert line.busbw_gbs.value == pytest.approx(PAYLOAD / 1e9, rel=1e-6)
    assert predict(line, 2**22) == pytest.approx(lab(2**22), rel=1e-6)


def test_pieces_are_those_of_the_protocols_and_the_outer_two_are_quoted():
    line = line_of(SIX_DECADES, nccl(SIX_DECADES), within=0.01)
    assert len(line.pieces) == 3
    assert line.pieces[0].from_bytes == 1024 and line.pieces[-1].to_bytes == 2**30
    assert line.latency_s.value == line.pieces[0].latency_s == pytest.approx(12e-6, rel=0.05)
    assert line.bandwidth_bytes_per_s.value == pytest.approx(45e9, rel=0.02)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 5, 6, 10])
def test_intervals_hold_the_value_and_are_never_narrower_than_runs_differ(count):
    medians = sessions_of(LAB_SIZES, lab(LAB_SIZES), count, between=0.0, within=0.0)
    points = points_of(LAB_SIZES, lab(LAB_SIZES), half=0.0)
    line = fit("data", "all_reduce", 4, points, medians)
    for interval in (line.latency_s, line.bandwidth_bytes_per_s, line.busbw_gbs):
        half = (interval.high - interval.low) / 2 / interval.value
        assert interval.low <= interval.value <= interval.high
        assert 0.0029 < half < 0.004


@pytest.mark.parametrize("count", [3, 5, 6, 10])
def test_sessions_that_differ_widen_the_interval(count):
    quiet = line_of(LAB_SIZES, lab(LAB_SIZES), count, between=0.001).busbw_gbs
    loud = line_of(LAB_SIZES, lab(LAB_SIZES), count, between=0.03).busbw_gbs
    assert loud.high - loud.low > 3 * (quiet.high - quiet.low)


def test_a_table_without_intervals_takes_them_from_the_scatter_about_the_line():
    rng = np.random.default_rng(3)
    times = lab(LAB_SIZES) * np.exp(rng.normal(0, 0.03, len(LAB_SIZES)))
    line = fit("x", "all_reduce", 4, points_of(LAB_SIZES, times, half=0.0))
    half = (line.busbw_gbs.high - line.busbw_gbs.low) / 2 / line.busbw_gbs.value
    assert 0.01 < half < 0.08
    assert "0 sessions: the intervals cannot show how sessions differ" in line.notes


def test_small_messages_that_a_burst_lets_through_do_not_bend_the_bandwidth():
    times = lab(LAB_SIZES) - np.minimum(0.25e-3, LAB_SIZES * 0.8 / PAYLOAD)  # a shaper's credit
    line = line_of(LAB_SIZES, times)
    assert line.bandwidth_bytes_per_s.value == pytest.approx(PAYLOAD / 1.5, rel=0.01)


def test_noisy_small_sizes_do_not_bend_the_bandwidth():
    rng = np.random.default_rng(5)
    sizes = 2 ** np.arange(10, 23)
    for _ in range(20):
        halves = np.where(sizes <= 65536, 0.6, 0.01)
        times = lab(sizes) * np.exp(rng.normal(0, halves / 2))
        points = [
            point(s, t, h, noisy=h > 0.1) for s, t, h in zip(sizes, times, halves, strict=True)
        ]
        line = fit("data", "all_reduce", 4, points)
        assert line.bandwidth_bytes_per_s.value == pytest.approx(PAYLOAD / 1.5, rel=0.02)
        assert any("noisy" in note for note in line.notes)


def test_a_bend_that_small_sizes_noise_hides_is_found_by_the_sessions():
    """Measured in a lab: as one straight piece its bandwidth would be 20 % too high."""
    kib = (4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048)
    seconds_ = (8.36, 4.83, 5.26, 7.44, 7.63, 7.59, 7.13, 13.28, 26.66, 53.52)
    halves = (0.19, 0.57, 0.78, 0.65, 0.24, 1.28, 0.5, 0.106, 0.111, 0.051)
    points = [point(k * 1024, s / 1e3, h) for k, s, h in zip(kib, seconds_, halves, strict=True)]
    medians = [
        {k * 1024: s / 1e3 * factor for k, s in zip(kib, seconds_, strict=True)}
        for factor in (0.995, 1.0, 1.005)
    ]
    line = fit("data", "all_reduce", 4, points, medians)
    payload = 500e6 / 8 * 1448 / 1514 / 1e9
    assert line.busbw_gbs.value == pytest.approx(payload, rel=0.02)


def test_a_noisy_latency_is_told_as_noisy_and_wide():
    rng = np.random.default_rng(6)
    times = lab(LAB_SIZES) * np.exp(rng.normal(0, 0.4, len(LAB_SIZES)))
    line = fit("data", "all_reduce", 4, points_of(LAB_SIZES, times, half=0.8))
    assert line.latency_s is None or line.latency_s.high > 1.5 * line.latency_s.low
    assert any("latency" in note for note in line.notes)


def test_a_line_through_zero_has_no_latency():
    line = fit("data", "all_reduce", 4, points_of(LAB_SIZES, LAB_SIZES / PAYLOAD))
    assert line.latency_s is None or line.latency_s.value < 1e-6
    steep = fit("data", "all_reduce", 4, points_of(LAB_SIZES, (LAB_SIZES / PAYLOAD) ** 1.1))
    assert steep.bandwidth_bytes_per_s is not None


def test_times_that_do_not_grow_have_no_bandwidth():
    line = fit("data", "all_reduce", 4, points_of(LAB_SIZES, np.full(9, 1e-3)))
    assert line.latency_s.value == pytest.approx(1e-3, rel=1e-3)
    assert line.bandwidth_bytes_per_s is None and line.busbw_gbs is None
    assert "no bandwidth: 100% of the largest size's time is latency" in line.notes


def test_a_ladder_too_short_for_the_plateau_says_so():
    line = fit("data", "all_reduce", 4, points_of(SIX_DECADES[:7], nccl(SIX_DECADES[:7])))
    assert any(note.startswith("plateau not reached") for note in line.notes)
    full = fit("data", "all_reduce", 4, points_of(SIX_DECADES, nccl(SIX_DECADES)))
    assert not any("plateau" in note for note in full.notes)


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_fewer_than_four_sizes_carry_no_line_and_say_why(count):
    points = points_of(LAB_SIZES[:count], lab(LAB_SIZES[:count]))
    line = fit("data", "all_reduce", 4, points)
    assert line.latency_s is None and line.bandwidth_bytes_per_s is None and line.pieces == ()
    assert line.points == tuple(points)
    assert "a line needs 4" in line.notes[0]


def test_four_sizes_are_one_piece():
    assert len(fit("d", "all_reduce", 2, points_of(LAB_SIZES[:4], lab(LAB_SIZES[:4]))).pieces) == 1


def test_a_barrier_has_a_latency_and_nothing_else():
    line = fit("data", "barrier", 4, [point(0, 40e-6)])
    assert line.latency_s.value == pytest.approx(40e-6)
    assert line.bandwidth_bytes_per_s is None and line.pieces == ()


def test_one_rank_has_no_busbw():
    line = fit("data", "all_reduce", 1, points_of(LAB_SIZES, lab(LAB_SIZES)))
    assert line.bandwidth_bytes_per_s is not None and line.busbw_gbs is None
    assert any("zero by definition" in note for note in line.notes)


def test_held_out_points_try_the_line_and_never_fit_it():
    halves = [5792, 92672, 185360, 741455]
    wrong = [point(size, lab(size) * 1.5, group="held-out") for size in halves]
    plain = fit("data", "all_reduce", 4, points_of(LAB_SIZES, lab(LAB_SIZES)))
    tried = fit("data", "all_reduce", 4, [*wrong, *points_of(LAB_SIZES, lab(LAB_SIZES))])
    assert tried.pieces == plain.pieces
    assert plain.held_out_error is None
    assert tried.held_out_error == pytest.approx(1 / 3, rel=1e-3)
    assert len(tried.points) == 13


def test_sessions_that_lack_sizes_are_used_for_what_they_have():
    medians = sessions_of(LAB_SIZES, lab(LAB_SIZES), 4)
    for size in LAB_SIZES[-3:]:
        del medians[0][int(size)]
    medians[1] = {int(LAB_SIZES[-1]): medians[1][int(LAB_SIZES[-1])]}
    points = points_of(LAB_SIZES, lab(LAB_SIZES))
    line = fit("data", "all_reduce", 4, points, [*medians, {}])
    assert line.busbw_gbs.low < PAYLOAD / 1e9 < line.busbw_gbs.high
    many = sessions_of(LAB_SIZES, lab(LAB_SIZES), 8)
    for one in many[1:]:
        del one[int(LAB_SIZES[-1])]
    line = fit("data", "all_reduce", 4, points, many)
    assert line.busbw_gbs.low < PAYLOAD / 1e9 < line.busbw_gbs.high


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_impossible_times_are_bad_input(bad):
    points = points_of(LAB_SIZES, lab(LAB_SIZES))
    broken = Point(
        size_bytes=1, time_s=bad, low_s=bad, high_s=bad, iterations=1, sessions=1,
        algbw_gbs=0.0, busbw_gbs=0.0,
    )  # fmt: skip
    with pytest.raises(BadInput, match="above 0"):
        fit("data", "all_reduce", 4, [*points, broken])
    if not math.isnan(bad):
        with pytest.raises(BadInput, match="above 0"):
            fit("data", "all_reduce", 4, points, [{4096: bad}])
    with pytest.raises(BadInput, match="one point per size"):
        fit("data", "all_reduce", 4, [*points, points[0]])


@given(
    st.integers(4, 14),
    st.integers(0, 7),
    st.floats(0, 1.5),
    st.integers(0, 2**31),
    st.randoms(use_true_random=False),
)
@settings(max_examples=60, deadline=None)
def test_any_points_give_a_line_and_neither_their_order_nor_the_sessions_matters(
    count, sessions, noise, seed, random
):
    sizes = SIX_DECADES[:count]
    medians = sessions_of(sizes, nccl(sizes), sessions, noise, noise, seed)
    times = nccl(sizes) * np.exp(np.random.default_rng(seed).normal(0, noise, count))
    points = points_of(sizes, times, half=noise)
    line = fit("data", "all_gather", 8, points, medians)
    for interval in (line.latency_s, line.bandwidth_bytes_per_s, line.busbw_gbs):
        if interval is not None:
            assert 0 <= interval.low <= interval.value <= interval.high < math.inf
    for piece in line.pieces:
        assert piece.latency_s >= 0 and piece.bandwidth_bytes_per_s > 0
        assert predict(line, piece.from_bytes) <= predict(line, piece.to_bytes)
    random.shuffle(points)
    random.shuffle(medians)
    assert fit("data", "all_gather", 8, points, medians) == line


@given(st.floats(1e-3, 1e3), st.integers(0, 2**31))
@settings(max_examples=25, deadline=None)
def test_a_clock_of_another_unit_changes_nothing_but_the_unit(unit, seed):
    medians = sessions_of(SIX_DECADES, nccl(SIX_DECADES), 3, seed=seed)
    scaled = [{size: value * unit for size, value in one.items()} for one in medians]
    line = fit("data", "all_reduce", 4, summarised(SIX_DECADES, medians), medians)
    other = fit("data", "all_reduce", 4, summarised(SIX_DECADES, scaled), scaled)
    assert [p.to_bytes for p in other.pieces] == [p.to_bytes for p in line.pieces]
    assert other.latency_s.value == pytest.approx(line.latency_s.value * unit, rel=1e-3)
    assert other.busbw_gbs.high == pytest.approx(line.busbw_gbs.high / unit, rel=1e-3)


def seconds(work):
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def test_a_line_takes_a_tenth_of_a_second_and_four_with_a_bootstrap_two():
    times = nccl(SIX_DECADES)
    one = min(seconds(lambda: line_of(SIX_DECADES, times, 3)) for _ in range(3))
    four = seconds(lambda: [line_of(SIX_DECADES, times, 10, seed) for seed in range(4)])
    assert one <= 0.1
    assert four <= 2.0


def test_a_ladder_that_ends_in_latency_tells_no_bandwidth():
    """4 to 64 KiB over a fast network: 5 ms of latency, 1 ms of bytes at the largest size."""
    sizes = [4096 << i for i in range(5)]
    times = np.array([5e-3 + size / 64e6 for size in sizes])
    line = fit("data", "all_reduce", 4, points_of(sizes, times))
    assert line.busbw_gbs is None and line.latency_s is not None
    assert any(note.startswith("no bandwidth: 8") for note in line.notes)
