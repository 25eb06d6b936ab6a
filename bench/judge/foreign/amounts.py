"""How sizes, times and bandwidths of a foreign table are written, so that its rows can be found.

Bytes are given as the table prints them, with the binary unit beside it where it is a round one.
"""

from __future__ import annotations

UNITS = (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))


def size(size_bytes: float) -> str:
    """ "8388608 bytes (8 MiB)", "700000 bytes"."""
    whole = int(size_bytes)
    for unit, factor in UNITS:
        if whole >= factor and whole % factor == 0:
            return f"{whole} bytes ({whole // factor} {unit})"
    return f"{whole} bytes"


def sizes(first: float, last: float) -> str:
    """ "2097152 to 8388608 bytes (2 MiB to 8 MiB)"; one size as `size` writes it."""
    if first == last:
        return size(first)
    low, high = size(first), size(last)
    if low.endswith(")") and high.endswith(")"):
        units = f" ({low.partition('(')[2][:-1]} to {high.partition('(')[2][:-1]})"
        return f"{int(first)} to {int(last)} bytes{units}"
    return f"{int(first)} to {int(last)} bytes"


def duration(seconds: float) -> str:
    """Microseconds as nccl-tests prints them: four digits."""
    us = seconds * 1e6
    return f"{us:.0f} µs" if us >= 1000 else f"{us:.4g} µs"


def gbs(value: float) -> str:
    """GB/s (10⁹ bytes/s), two decimals as printed, fewer where they tell nothing."""
    return f"{value:.2f} GB/s" if value < 100 else f"{value:.1f} GB/s"


def span(low: float, high: float, *, decimals: int = 1) -> str:
    """ "24-66": one decimal only below 10, more where asked for; one number where equal."""
    places = decimals if high < 10 or decimals > 1 else 0
    first, last = f"{low:.{places}f}", f"{high:.{places}f}"
    return first if first == last else f"{first}-{last}"
