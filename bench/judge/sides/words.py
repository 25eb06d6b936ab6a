"""Words of a comparison: sizes as people call them, changes with their interval.

In: bytes, ratios. Out: short strings. Changes of time: above 0 is slower. A factor from 1.5 on is
told as one ("2.3 times"), less as per cent; an interval has the digits of its value.
"""

from __future__ import annotations

import math

from bench.records import Change, ComparedRange

FACTOR_FROM = 1.5
LEAST_P = 0.0001
BINARY = (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))
DECIMAL = (("GB", 10**9), ("MB", 10**6), ("kB", 10**3))


def size(size_bytes: int) -> str:
    """ "64 KiB" of a power of two, "700 kB" of a round number, else bytes."""
    for unit, factor in BINARY:
        if size_bytes >= factor and size_bytes % factor == 0:
            return f"{size_bytes // factor} {unit}"
    for unit, factor in DECIMAL:
        if size_bytes >= factor and size_bytes * 10 % factor == 0:
            return f"{size_bytes / factor:g} {unit}"
    return f"{size_bytes} bytes"


def sizes(from_bytes: int, to_bytes: int) -> str:
    """ "700 kB to 1 MB", "4 to 32 KiB", "64 KiB"."""
    if from_bytes == to_bytes:
        return size(from_bytes)
    low, high = size(from_bytes), size(to_bytes)
    number, _, unit = low.rpartition(" ")
    return f"{number if high.endswith(f' {unit}') else low} to {high}"


def _signed(value: float, places: int) -> str:
    """ "+3", "-0.2", "0": zero has no sign."""
    text = f"{value:+.{places}f}"
    return text[1:] if float(text) == 0 else text


def percent(value: float, decimals: int | None = None) -> str:
    """ "+9.4 %", "-0.2 %", "+32 %" of a fraction."""
    told = 100 * value
    places = (1 if abs(told) < 10 else 0) if decimals is None else decimals
    return f"{_signed(told, places)} %"


def interval(change: Change) -> str:
    """ "[-11, -8]" in per cent, with a decimal where the ends would read alike; "" for none."""
    if change.low is None or change.high is None:
        return ""
    low, high = 100 * change.low, 100 * change.high
    if high > 1000:
        return f"[{_signed(low, 0)}, >1000]"
    narrow = high - low < 2 and max(abs(low), abs(high)) < 10
    places = 1 if narrow or round(low) == round(high) else 0
    return f"[{_signed(low, places)}, {_signed(high, places)}]"


def least(value: float) -> str:
    """ "4 %", "6.7 %", "40 %", "a factor of 2.4" of a change that would show."""
    if value >= FACTOR_FROM - 1:
        return f"a factor of {1 + value:.2g}" if value < 99 else "a factor of 100"
    return f"{100 * value:.2g} %" if value < 0.1 else f"{100 * value:.0f} %"


def longer(change: Change) -> str:
    """What a change of time is called: "9.4 % slower", "2.3 times slower", "1.8 times faster"."""
    ratio = 1 + change.value
    word = "slower" if ratio > 1 else "faster"
    factor = ratio if ratio > 1 else 1 / ratio
    if factor >= FACTOR_FROM:
        return f"{factor:.1f} times {word}" if factor < 20 else f"{factor:.0f} times {word}"
    share = abs(100 * change.value)
    return f"{share:.1f} % {word}" if share < 10 else f"{share:.0f} % {word}"


def surely(change: Change) -> str:
    """ "(95 % interval 8 to 11 %)" of how much slower or faster; factors for large ones."""
    if change.low is None or change.high is None:
        return ""
    low, high = 1 + change.low, 1 + change.high
    ratio = 1 + change.value
    if max(ratio, 1 / ratio) >= FACTOR_FROM:
        first, second = (low, high) if ratio > 1 else (1 / max(high, 1e-9), 1 / max(low, 1e-9))
        return f"(95 % interval {first:.2g} to {second:.2g} times)"
    places = 1 if abs(high - low) < 0.02 else 0
    ends = sorted((100 * change.low, 100 * change.high))
    if ends[0] >= 0 or ends[1] <= 0:
        ends = sorted(map(abs, ends))
        return f"(95 % interval {ends[0]:.{places}f} to {ends[1]:.{places}f} %)"
    return f"(95 % interval {ends[0]:+.{places}f} to {ends[1]:+.{places}f} %)"


def chance(p: float) -> str:
    """ "p 0.027"; far out in the tails a figure would claim to know the shape of the noise."""
    return f"p {p:.2g}" if p >= LEAST_P else f"p below {LEAST_P:g}"


def change_of(shift: float, low: float | None = None, high: float | None = None) -> Change:
    """A Change from logs."""
    return Change(
        value=math.expm1(shift),
        low=None if low is None else math.expm1(low),
        high=None if high is None else math.expm1(min(high, 50.0)),
    )


def span(one: ComparedRange) -> str:
    return sizes(one.from_bytes, one.to_bytes)


def seconds(value_s: float) -> str:
    """ "28.1 µs", "4.37 ms", "1.2 s"."""
    for unit, factor in (("µs", 1e6), ("ms", 1e3)):
        if value_s * factor < 1000:
            return f"{value_s * factor:.3g} {unit}"
    return f"{value_s:.3g} s"


def gbs(value_gbs: float) -> str:
    """ "362 GB/s", "0.0597 GB/s": three digits."""
    if value_gbs >= 1000:
        return f"{value_gbs:.0f} GB/s"
    digits = 3 - 1 - math.floor(math.log10(value_gbs)) if value_gbs > 0 else 0
    return f"{value_gbs:.{max(digits, 0)}f} GB/s"
