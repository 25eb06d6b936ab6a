"""Fitted numbers: intervals, points, pieces, the cost line."""

from __future__ import annotations

from typing import Literal

from bench.records.words import Record


class Interval(Record, frozen=True, kw_only=True):
    """A value with its 95 % interval over sessions."""

    value: float
    low: float
    high: float


class Point(Record, frozen=True, kw_only=True):
    """One size of one line: the median over session medians, with an interval.

    `left_out` sessions do not count: their times stand for another number of calls than
    `calls_per_time`, and calls in a pipeline are not comparable with single ones.
    """

    size_bytes: int
    time_s: float
    low_s: float
    high_s: float
    iterations: int
    sessions: int
    left_out: int = 0
    algbw_gbs: float
    busbw_gbs: float
    skew: float = 0.0  # median of (max - min) / max over ranks
    skew_s: float = 0.0
    autocorrelation: float = 0.0  # lag 1; the interval is widened by sqrt((1 + r) / (1 - r))
    noisy: bool = False
    settled: bool = True
    wrong: int = 0
    calls_per_time: int = 1
    group: Literal["fit", "held-out"] = "fit"


class Piece(Record, frozen=True, kw_only=True):
    """t = latency_s + size / bandwidth for from_bytes <= size <= to_bytes."""

    from_bytes: int
    to_bytes: int
    latency_s: float
    bandwidth_bytes_per_s: float


class CostLine(Record, frozen=True, kw_only=True):
    """The fitted line of one candidate and collective. `bandwidth_bytes_per_s` is the algorithm
    bandwidth of the last piece, `busbw_gbs` the same times nccl-tests' factor, in 1e9 bytes/s.
    Latency, bandwidth and busbw are None where the points do not carry a line (`notes` say why).
    `expected_busbw_gbs` is what the judge holds it against, from the fabric file ("expected") or
    from what the hardware says of itself ("claimed"); None where neither says anything."""

    candidate: str
    collective: str
    ranks: int
    latency_s: Interval | None = None
    bandwidth_bytes_per_s: Interval | None = None
    busbw_gbs: Interval | None = None
    pieces: tuple[Piece, ...] = ()
    points: tuple[Point, ...] = ()
    held_out_error: float | None = None  # median |predicted / measured - 1| above 64 KiB
    expected_busbw_gbs: float | None = None
    expected_basis: Literal["expected", "claimed"] | None = None
    notes: tuple[str, ...] = ()
