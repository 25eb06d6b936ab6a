"""Numbers as nccl-tests users read them: GB/s of 1e9 bytes, µs and ms, KiB and MiB.

In: plain numbers with the unit in the argument's name, or an Interval. Out: short strings.
None (not known) is always an en dash, never a zero.
"""

from __future__ import annotations

import math

from bench.records import Interval

UNKNOWN = "–"
MICROSECONDS_BELOW_S = 1e-4  # 0.61 ms is read faster than 610 µs; 28.1 µs faster than 0.03 ms


def significant(value: float, digits: int = 3) -> str:
    """`value` with `digits` significant digits and no exponent."""
    if not math.isfinite(value):
        return UNKNOWN
    if value == 0:
        return "0"
    for _ in range(2):  # twice: 9.999 has become 10.00 and needs a place less
        places = digits - 1 - math.floor(math.log10(abs(value)))
        value = round(value, places)
    return f"{value:.{max(places, 0)}f}"


def busbw(value_gbs: float | None) -> str:
    """Bandwidth in 1e9 bytes/s, three significant digits."""
    return UNKNOWN if value_gbs is None else f"{significant(value_gbs)} GB/s"


def spread(interval: Interval) -> str:
    """The interval's wider side as a fraction of its value: `±0.3 %`, rounded up."""
    if not interval.value or not all(map(math.isfinite, (interval.low, interval.high))):
        return "±?"
    side = max(interval.high - interval.value, interval.value - interval.low)
    share = 100 * abs(side / interval.value)
    if share > 100:
        return "±>100 %"
    # Rounded up: an interval never looks narrower than it is.
    tenths = math.ceil(share * 10 - 1e-9)
    return f"±{max(tenths, 1) / 10:.1f} %" if tenths < 100 else f"±{math.ceil(share - 1e-9)} %"


def busbw_interval(interval: Interval | None) -> str:
    """`0.0597 GB/s ±0.3 %`."""
    return UNKNOWN if interval is None else f"{busbw(interval.value)} {spread(interval)}"


def time(value_s: float | None) -> str:
    """A measured time: µs below 0.1 ms, then ms, then s."""
    if value_s is None or not math.isfinite(value_s):
        return UNKNOWN
    if abs(value_s) < MICROSECONDS_BELOW_S:
        return f"{significant(value_s * 1e6)} µs"
    if abs(value_s) < 1:
        value_ms = value_s * 1e3
        return f"{value_ms:.2f} ms" if abs(value_ms) < 10 else f"{significant(value_ms)} ms"
    return f"{significant(value_s)} s"


def duration(value_s: float) -> str:
    """How long a run took: `41 s`, `2 min 5 s`, `1 h 3 min`."""
    seconds = round(value_s)
    if seconds < 1 and value_s > 0:
        return f"{value_s:.1f} s"
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min" + (f" {seconds % 60} s" if seconds % 60 else "")
    minutes = round(value_s / 60)
    return f"{minutes // 60} h" + (f" {minutes % 60} min" if minutes % 60 else "")


def size(value_bytes: float) -> str:
    """A message size or an amount of traffic in powers of 1024: `4 KiB`, `5.66 KiB`, `1 GiB`."""
    value, unit = float(value_bytes), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(value) < 1024 or unit == "TiB":
            break
        value /= 1024
    if value == int(value):
        return f"{int(value)} {unit}"
    return f"{significant(value) if value < 1000 else round(value)} {unit}"


def percent(part: float | None, whole: float | None) -> str:
    """`part` as a share of `whole`; rounding never makes 99.7 a full 100."""
    if part is None or not whole:
        return UNKNOWN
    share = 100 * part / whole
    if 99 < share < 100:
        return f"{math.floor(share * 10) / 10:.1f} %" if share > 99.5 else "99 %"
    if 0 < share < 0.1:
        return "<0.1 %"
    return f"{share:.0f} %" if share >= 1 or share == 0 else f"{share:.1f} %"


def count(number: int, noun: str, plural: str | None = None) -> str:
    """`1 finding`, `3 findings`, `1,024 hosts`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
