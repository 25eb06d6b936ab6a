"""Arithmetic of intervals: how many times faster, how sure.

In: 95 % intervals of two independent measurements. Out: the interval of their quotient; widths
add in squares on the log scale, where both are nearly normal.
"""

from __future__ import annotations

import math

from bench.records import Interval, Point


def quotient(a: Interval, b: Interval) -> Interval:
    """a / b for independent positive intervals."""
    value = a.value / b.value
    low = math.hypot(math.log(a.value / a.low), math.log(b.high / b.value))
    high = math.hypot(math.log(a.high / a.value), math.log(b.value / b.low))
    return Interval(value=value, low=value * math.exp(-low), high=value * math.exp(high))


def busbw_at(point: Point) -> Interval:
    value, time = point.busbw_gbs, point.time_s
    return Interval(value=value, low=value * time / point.high_s, high=value * time / point.low_s)


def times(ratio: float) -> str:
    """ "4.9", "1.35", "120": as many digits as the measurement is worth."""
    return f"{ratio:.2f}" if ratio < 2 else f"{ratio:.1f}" if ratio < 20 else f"{ratio:.0f}"


def told(ratio: Interval) -> str:
    """ "4.9 times … (95 % interval 4.8-5.0)" without the middle."""
    return f"(95 % interval {times(ratio.low)}-{times(ratio.high)})"
