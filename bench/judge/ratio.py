"""Arithmetic of intervals: how many times faster, how sure.

In: 95 % intervals of two independent measurements. Out: the interval of their quotient; widths
add in squares on the log scale, where both are nearly normal.
"""

from __future__ import annotations

import math

from bench.records import CostLine, Interval, Point

LARGE_BYTES = 64 * 1024  # below, times are latency and the noise of a busy CPU


def quotient(a: Interval, b: Interval) -> Interval:
    """a / b for independent positive intervals."""
    value = a.value / b.value
    low = math.hypot(math.log(a.value / a.low), math.log(b.high / b.value))
    high = math.hypot(math.log(a.high / a.value), math.log(b.value / b.low))
    return Interval(value=value, low=value * math.exp(-low), high=value * math.exp(high))


def busbw(line: CostLine) -> Interval | None:
    """busbw in 1e9 bytes/s: the fitted one, else the largest size's; None where it is zero by
    definition or was not measured."""
    if line.busbw_gbs is not None:
        return line.busbw_gbs if line.busbw_gbs.low > 0 else None
    points = {} if line.pieces else _large(line)  # a line without bandwidth is mostly latency
    return _at(points[max(points)]) if points else None


def faster(a: CostLine, b: CostLine) -> Interval | None:
    """How many times faster `a` is than `b`, with a 95 % interval: from two fitted lines, else at
    the largest size that both measured. None where a line is mostly latency up to its end."""
    if any(line.pieces and line.busbw_gbs is None for line in (a, b)):
        return None
    fast, slow = busbw(a), busbw(b)
    if a.busbw_gbs is not None and b.busbw_gbs is not None and fast and slow:
        return quotient(fast, slow)
    first, second = _large(a), _large(b)
    common = set(first) & set(second)
    return quotient(_at(first[max(common)]), _at(second[max(common)])) if common else None


def _large(line: CostLine) -> dict[int, Point]:
    large = [p for p in line.points if p.size_bytes >= LARGE_BYTES and p.busbw_gbs > 0]
    return {point.size_bytes: point for point in large}


def _at(point: Point) -> Interval:
    value, time = point.busbw_gbs, point.time_s
    return Interval(value=value, low=value * time / point.high_s, high=value * time / point.low_s)


def times(ratio: float, *, decimals: int | None = None) -> str:
    """4.9, 1.35, 120: as many digits as a reader needs, or as many as asked for."""
    if decimals is None:
        decimals = 2 if ratio < 2 else 1 if ratio < 20 else 0
    return f"{ratio:.{decimals}f}"


def told(ratio: Interval) -> str:
    """(95 % interval 4.8-5.0), with a decimal more where both ends would read alike."""
    decimals = 2 if ratio.value < 2 else 1 if ratio.value < 20 else 0
    if times(ratio.low, decimals=decimals) == times(ratio.high, decimals=decimals):
        decimals += 1
    low, high = times(ratio.low, decimals=decimals), times(ratio.high, decimals=decimals)
    return f"(95 % interval {low}-{high})"
