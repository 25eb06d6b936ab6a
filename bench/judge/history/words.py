"""How drift is written wherever it is told: percentages with their sign, the two parts of a line.

In: plain numbers. Out: short strings. A change is always of the time: above zero is slower.
"""

from __future__ import annotations

SIZES = {"small": "below 64 KiB", "large": "64 KiB and more"}
UNKNOWN = "–"


def percent(change: float) -> str:
    """`9.4 %`, `94 %`, whatever its sign."""
    value = abs(change) * 100
    return f"{value:.1f} %" if value < 9.95 else f"{value:.0f} %"


def signed(change: float | None) -> str:
    """`+9.4 %`, `-0.3 %`; an en dash where nothing is known."""
    if change is None:
        return UNKNOWN
    text = percent(change)
    return text if text == "0.0 %" else f"{'+' if change > 0 else '-'}{text}"


def slower(change: float) -> str:
    """`is 9.4 % slower than`, `takes 4.1 times as long as`."""
    if change < 1:
        return f"is {percent(change)} slower than"
    return f"takes {1 + change:.1f} times as long as"


def ends(low: float, high: float) -> str:
    """`+8.1 to +10.7 %`: an interval; without decimals where it is a wide one."""
    digits = 1 if max(abs(low), abs(high)) < 0.995 else 0
    return f"{low * 100:+.{digits}f} to {high * 100:+.{digits}f} %"
