"""The figures people quote of a table: peak, plateau, average.

In: a CollectiveTable. Out: its Level. The plateau is the median, over the largest sizes (a quarter
of the largest and above, three sizes at least), of the better half's busbw: a mean over all rows
mixes 8 bytes with 16 GiB, and a single best row is luck.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from bench.model.table_series import Half, times_of
from bench.records import CollectiveTable

PLATEAU_FROM = 0.25  # of the largest size: three sizes where each is twice the one before
PLATEAU_SIZES = 3
# Twice the size and busbw rose by less: latency is under 1/10 of the time, the level is seen.
RISING = 1.10
PLATEAU_BYTES = 8 * 2**20  # a table that ends below shows latency, whatever its last rows do
# Printed with 2 decimals a row, over at least 8 halves, and 6 digits: a difference is rows, not
# rounding.
AVERAGE_TOLERANCE = 0.005


@dataclass(frozen=True)
class Level:
    """busbw in 1e9 bytes/s. `low` and `high` are of the plateau's sizes; `reached` is False where
    busbw still rises at the largest size. `mean` is over the rows that are there, `mean_fits`
    whether the printed average can be theirs (None where none was printed)."""

    peak: float
    peak_bytes: int
    peak_half: Half
    plateau: float
    low: float
    high: float
    from_bytes: int
    to_bytes: int
    sizes: int
    reached: bool
    mean: float
    mean_fits: bool | None


def level(table: CollectiveTable) -> Level | None:
    """None where no row of more than 0 bytes has a busbw above 0 (a single rank, no rows)."""
    moving = [one for one in times_of(table) if one[0] > 0 and 0 < one[2].busbw_gbs < math.inf]
    if not moving:
        return None
    peak_bytes, peak_half, peak = max(moving, key=lambda one: (one[2].busbw_gbs, one[0]))
    best: dict[int, float] = {}
    for size, _, time in moving:
        best[size] = max(best.get(size, 0.0), time.busbw_gbs)
    sizes = sorted(best)
    top = [size for size in sizes if size >= PLATEAU_FROM * sizes[-1]]
    top = top if len(top) >= PLATEAU_SIZES else sizes[-PLATEAU_SIZES:]
    values = [best[size] for size in top]
    mean = float(np.mean([time.busbw_gbs for _, _, time in times_of(table)]))
    printed = table.average_busbw_gbs
    fits = None
    if printed is not None:
        fits = abs(printed - mean) <= AVERAGE_TOLERANCE * max(mean, printed) + 0.005
    return Level(
        peak=peak.busbw_gbs,
        peak_bytes=peak_bytes,
        peak_half=peak_half,
        plateau=float(np.median(values)),
        low=min(values),
        high=max(values),
        from_bytes=top[0],
        to_bytes=top[-1],
        sizes=len(top),
        reached=_reached(best, sizes),
        mean=mean,
        mean_fits=fits,
    )


def _reached(best: dict[int, float], sizes: list[int]) -> bool:
    largest = sizes[-1]
    below = [size for size in sizes if size <= 0.55 * largest]
    if largest < PLATEAU_BYTES:
        return False
    if not below:  # one size, or sizes close together: all of them show the same
        return True
    rise = best[largest] / max(best[size] for size in below)
    return bool(rise < RISING ** np.log2(largest / below[-1]))
