"""Numbers as people read them."""

from __future__ import annotations

import math

import pytest

from bench.records import Interval
from bench.report import units


@pytest.mark.parametrize(
    ("value_gbs", "words"),
    [(0.0597, "0.0597 GB/s"), (362.4, "362 GB/s"), (12.34, "12.3 GB/s"), (0, "0 GB/s"),
     (9.999, "10.0 GB/s"), (None, "–"), (math.nan, "– GB/s"), (1234.0, "1230 GB/s")],
)  # fmt: skip
def test_bandwidth_has_three_significant_digits(value_gbs: float | None, words: str) -> None:
    assert units.busbw(value_gbs) == words


@pytest.mark.parametrize(
    ("value_s", "words"),
    [(28.1e-6, "28.1 µs"), (0.00061, "0.61 ms"), (99.9e-6, "99.9 µs"), (0.0123, "12.3 ms"),
     (0.107, "107 ms"), (1.5, "1.50 s"), (None, "–"), (math.inf, "–"), (0.0, "0 µs")],
)  # fmt: skip
def test_times_change_their_unit_with_their_size(value_s: float | None, words: str) -> None:
    assert units.time(value_s) == words


@pytest.mark.parametrize(
    ("value_s", "words"),
    [(0, "0 s"), (0.4, "0.4 s"), (41.2, "41 s"), (60, "1 min"), (125, "2 min 5 s"),
     (3725, "1 h 2 min"), (3600, "1 h")],
)  # fmt: skip
def test_durations_are_whole_seconds_minutes_or_hours(value_s: float, words: str) -> None:
    assert units.duration(value_s) == words


@pytest.mark.parametrize(
    ("value_bytes", "words"),
    [(0, "0 B"), (512, "512 B"), (4096, "4 KiB"), (5793, "5.66 KiB"), (4 * 2**20, "4 MiB"),
     (2**33, "8 GiB"), (10**15, "909 TiB"), (2**60, "1048576 TiB")],
)  # fmt: skip
def test_sizes_are_powers_of_1024(value_bytes: int, words: str) -> None:
    assert units.size(value_bytes) == words


def test_an_interval_never_looks_narrower_than_it_is() -> None:
    assert units.spread(Interval(value=100, low=99.75, high=100.1)) == "±0.3 %"
    assert units.spread(Interval(value=100, low=100, high=100)) == "±0.1 %"
    assert units.spread(Interval(value=100, low=80, high=112.2)) == "±20 %"
    assert units.spread(Interval(value=100, low=0, high=3000)) == "±>100 %"
    assert units.spread(Interval(value=100, low=-math.inf, high=math.inf)) == "±?"
    assert units.busbw_interval(Interval(value=0.0597, low=0.0596, high=0.0598)).endswith("±0.2 %")


def test_a_share_is_never_rounded_up_to_all_or_down_to_nothing() -> None:
    assert units.percent(99.97, 100) == "99.9 %"
    assert units.percent(99.3, 100) == "99 %"
    assert units.percent(100, 100) == "100 %"
    assert units.percent(0.01, 100) == "<0.1 %"
    assert units.percent(0, 100) == "0 %"
    assert units.percent(1, None) == units.percent(1, 0) == units.percent(None, 5) == "–"
