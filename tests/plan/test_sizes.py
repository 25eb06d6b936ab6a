"""Sizes in and out of words, ladders, and ladders that end early."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.plan.sizes import (
    ALIGNMENT,
    enough,
    format_bytes,
    held_out,
    ladder,
    parse_bytes,
    plateau,
)
from bench.records import BadInput, PlanSettings

# Latency (s) and bandwidth (bytes/s) of protocols; a library takes the cheapest, or switches late.
SHAPES = {
    "three protocols": [(12e-6, 3e9), (18e-6, 12e9), (45e-6, 45e9)],
    "two protocols": [(10e-6, 4e9), (40e-6, 90e9)],
    "wide": [(8e-6, 1.5e9), (22e-6, 20e9), (120e-6, 340e9)],
    "one protocol": [(30e-6, 20e9)],
}
SIX_DECADES = 2.0 ** np.arange(10, 31)


def switched(sizes, protocols, late):
    """Times of a library that switches `late` times beyond the size where it should."""
    crossings = [
        late * (l2 - l1) / (1 / b1 - 1 / b2)
        for (l1, b1), (l2, b2) in itertools.pairwise(protocols)
    ]
    chosen = np.searchsorted(crossings, sizes, side="right")
    table = np.array(protocols)[chosen]
    return table[:, 0] + sizes / table[:, 1]


def ending(sizes, times):
    """How many sizes a ladder has when the plateau ends it, or None."""
    for count in range(1, len(sizes) + 1):
        if plateau(sizes[:count], times[:count]):
            return count
    return None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("4K", 4096),
        ("4KiB", 4096),
        ("4k", 4096),
        ("4KB", 4096),
        (4096, 4096),
        ("4096", 4096),
        ("1M", 2**20),
        ("2G", 2**31),
        ("1.5M", 3 * 2**19),
        (" 8 MiB ", 2**23),
        ("16B", 16),
    ],
)
def test_sizes_are_read_with_binary_units_as_nccl_tests_does(text, expected):
    assert parse_bytes(text) == expected


@pytest.mark.parametrize(
    "nonsense",
    [
        *("", "K", "4 potatoes", "-1", "1e6", "4KK", "0", "0.3B", "٤K", "9" * 50, "9999999T"),
        *(0, -4, True, 1.5, None, 2**60),
    ],
)
def test_nonsense_is_one_sentence(nonsense):
    with pytest.raises(BadInput) as told:
        parse_bytes(nonsense)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (512, "512 B"),
        (4096, "4 KiB"),
        (1536, "1.5 KiB"),
        (92672, "90.5 KiB"),
        (1023 * 1024, "1023 KiB"),
        (2**20, "1 MiB"),
        (2**30, "1 GiB"),
        (2**40, "1 TiB"),
    ],
)
def test_sizes_are_written_as_people_read_them(size, text):
    assert format_bytes(size) == text


@given(st.integers(4, 45))
def test_a_power_of_two_survives_writing_and_reading(exponent):
    assert parse_bytes(format_bytes(2**exponent)) == 2**exponent


def test_the_quick_ladder_is_eleven_powers_of_two():
    assert ladder(PlanSettings(name="quick")) == tuple(2**k for k in range(12, 23))


def test_a_ladder_ends_at_the_largest_size_asked_for():
    settings = PlanSettings(name="x", min_bytes="4K", max_bytes="100K", step_factor=2)
    assert ladder(settings) == (4096, 8192, 16384, 32768, 65536, 102400)
    close = PlanSettings(name="x", min_bytes="4K", max_bytes="70K", step_factor=2)
    assert ladder(close) == (4096, 8192, 16384, 32768, 71680)
    assert ladder(PlanSettings(name="x", min_bytes="1M", max_bytes="1M")) == (2**20,)


@given(
    st.integers(4, 2**22),
    st.integers(0, 2**30),
    st.floats(1.2, 16),
    st.sampled_from((1, 2, 3, 7, 8)),
)
def test_every_ladder_ascends_in_shares_that_ranks_can_hold(smallest, more, step, ranks):
    settings = PlanSettings(
        name="x", min_bytes=smallest, max_bytes=smallest + more, step_factor=step
    )
    sizes = ladder(settings, ranks)
    assert all(a < b for a, b in itertools.pairwise(sizes))
    assert all(size % (ALIGNMENT * ranks) == 0 and size > 0 for size in sizes)
    assert sizes[-1] <= max(smallest + more, ALIGNMENT * ranks)
    assert sizes[-1] > smallest + more - ALIGNMENT * ranks
    halves = held_out(sizes, ranks)
    assert not set(halves) & set(sizes)
    assert all(half % (ALIGNMENT * ranks) == 0 for half in halves)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"min_bytes": "1M", "max_bytes": "4K"}, "larger than max_bytes"),
        ({"step_factor": 1.0}, "step_factor"),
        ({"step_factor": float("nan")}, "step_factor"),
        ({"step_factor": -2.0}, "step_factor"),
        ({"min_bytes": 16, "max_bytes": "1T", "step_factor": 1.06}, "at most 100"),
        ({"max_bytes": "lots"}, "lots"),
    ],
)
def test_a_ladder_that_cannot_be_is_bad_input(change, word):
    with pytest.raises(BadInput, match=word):
        ladder(PlanSettings(name="x", **change))


def test_held_out_sizes_are_the_half_steps():
    assert held_out((4096, 8192, 16384)) == (5792, 11584)
    assert held_out((16, 32)) == ()
    assert held_out((4096,)) == ()


@pytest.mark.parametrize("rate_mbit", [50, 100, 200, 400])
def test_a_slow_link_ends_its_ladder_once_its_bandwidth_is_known(rate_mbit):
    sizes = 2 ** np.arange(12, 23)
    times = 0.7e-3 + sizes * 1.5 / (rate_mbit * 1e6 / 8 * 1448 / 1514)
    rng = np.random.default_rng(rate_mbit)
    counts = [ending(sizes, times * np.exp(rng.normal(0, 0.003, 11))) for _ in range(50)]
    largest = [times[count - 1] for count in counts if count is not None]
    assert len(largest) == 50
    assert max(largest) < 0.08  # seconds: 35 latencies or so, not the 0.5 s of 4 MiB at 100 Mbit/s


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("late", [1, 2, 8])
def test_no_ladder_ends_on_the_plateau_of_a_protocol_that_is_not_the_last(shape, late):
    times = switched(SIX_DECADES, SHAPES[shape], late)
    rng = np.random.default_rng(11)
    for noise in (0.0, 0.003, 0.01, 0.02):
        for _ in range(25):
            noisy = times * np.exp(rng.normal(0, noise, times.size))
            count = ending(SIX_DECADES, noisy)
            if count is not None:
                bandwidth = (
                    np.diff(SIX_DECADES)[count - 4 : count - 1]
                    / np.diff(times)[count - 4 : count - 1]
                )
                assert bandwidth == pytest.approx(SHAPES[shape][-1][1], rel=0.01)


def test_a_plateau_needs_four_sizes_and_quiet_times():
    sizes = 2 ** np.arange(20, 30)
    times = 1e-5 + sizes / 1e9
    assert not plateau(sizes[:3], times[:3])
    assert plateau(sizes, times)
    assert not plateau(sizes, times * (1 + 0.1 * (np.arange(10) % 2)))
    assert not plateau(sizes, np.full(10, 1e-3))  # all latency
    assert not plateau(sizes, times[::-1])


@pytest.mark.parametrize(
    ("sizes", "times"),
    [
        ((1, 2, 3), (1.0,)),
        ((1, 2, 3, 4), (1.0, 2.0, 3.0, float("nan"))),
        ((1, 2, 3, 4), (0.0, 1.0, 2.0, 3.0)),
        ((4, 3, 2, 1), (1.0, 2.0, 3.0, 4.0)),
    ],
)
def test_a_plateau_of_impossible_numbers_is_bad_input(sizes, times):
    with pytest.raises(BadInput):
        plateau(sizes, times)


def dear(times_s: list[float], unit_s: float) -> bool:
    grid = [1 << (16 + i) for i in range(len(times_s))]
    return enough(grid, times_s, cell_s=0.15, unit_s=unit_s, units=3)


def test_a_dear_and_noisy_ladder_ends_once_its_times_grow_with_the_bytes() -> None:
    noisy = [0.0083, 0.0166, 0.0340, 0.0765]
    assert not plateau([1 << (17 + i) for i in range(4)], noisy)
    assert dear(noisy, unit_s=0.153)
    assert not dear(noisy, unit_s=0.010), "cheap sizes are measured until the plateau is known"


def test_a_dear_ladder_that_still_pays_latency_goes_on() -> None:
    assert not dear([0.30, 0.31, 0.33, 0.37], unit_s=0.37)
