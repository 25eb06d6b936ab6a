"""A foreign table as series: one time a size, what busbw means there, and how much it scatters.

In: a CollectiveTable. Out: the out-of-place half, the in-place half, and the better of both. A
table holds one mean a row and no interval; its two halves are the only repetition there is, so
their disagreement, beyond what sizes nearby also show, is the scatter (simulated: within 20 %).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median
from typing import Literal

import numpy as np
import numpy.typing as npt

from bench.model.busbw import factor
from bench.plan.volumes import WIRE_SHARES
from bench.records import CollectiveTable, TableTime

Floats = npt.NDArray[np.float64]
Half = Literal["out-of-place", "in-place"]
HALVES: tuple[Half, ...] = ("out-of-place", "in-place")

SCATTER_FLOOR = 0.01  # times are printed with 3-4 digits, and 20 iterations agree to about that
SCATTER_GUESSED = 0.10  # at most, where only the curve itself tells: beyond, it is the curve
NEIGHBOURS = 5  # the usual difference of the halves changes slowly with size: an in-place
# all-gather is 0-6 % faster than one that has to copy its own part (8 x A100)
OWN_PART = 1.36  # a value is one of the five whose median it is held against (simulated)
ONE_OFF = 1.5  # times the other half, beyond their usual difference
ONE_OFF_SIGMAS = 6.0  # and beyond any scatter that the other rows show
TOLD_BUSBW_GBS = 0.5  # printed with two decimals: below, busbw / algbw is mostly rounding
# What no call takes (a damaged digit makes 1e303 of it): below one clock tick, above eleven days.
SHORTEST_S, LONGEST_S = 1e-9, 1e6
NORMAL_MAD = 1.4826  # standard deviation of a normal over its median absolute deviation
NORMAL_QUARTILE = 0.3186  # and a quarter of its values lie within so many


@dataclass(frozen=True)
class Series:
    """Ascending in size, one row a size. `half_widths` say on logs how badly a time is known;
    `lines` are the rows' places in the file."""

    sizes: Floats
    times: Floats
    half_widths: Floats
    lines: tuple[int, ...]

    def __len__(self) -> int:
        return int(self.sizes.size)


@dataclass(frozen=True)
class OneOff:
    """A row of which one half is far slower than the other."""

    size_bytes: int
    half: Half
    time_s: float
    other_s: float
    line: int

    @property
    def factor(self) -> float:
        return self.time_s / self.other_s


def time_of(table: CollectiveTable, half: Half) -> dict[int, tuple[float, int]]:
    """Seconds and line by size: rows of size 0 move nothing and are left out; of rows that repeat
    a size (several cycles) the median counts."""
    found: dict[int, list[float]] = {}
    lines: dict[int, int] = {}
    for row in table.rows:
        time = _half(row.out_of_place, row.in_place, half)
        if row.size_bytes > 0 and time is not None and SHORTEST_S < time.time_s < LONGEST_S:
            found.setdefault(row.size_bytes, []).append(time.time_s)
            lines.setdefault(row.size_bytes, row.line)
    return {size: (median(found[size]), lines[size]) for size in sorted(found)}


def _half(out: TableTime | None, into: TableTime | None, half: Half) -> TableTime | None:
    return out if half == "out-of-place" else into


def series(table: CollectiveTable, half: Half) -> Series:
    """One half. A time is known as badly as it lies above its partner: one-offs weigh little."""
    own = time_of(table, half)
    apart = _differences(table)
    scatter = scatter_of(table)
    sign = 1.0 if half == "out-of-place" else -1.0
    widths = [max(scatter, sign * apart.get(size, 0.0)) for size in own]
    return Series(
        sizes=np.array(list(own), dtype=float),
        times=np.array([time for time, _ in own.values()]),
        half_widths=np.array(widths),
        lines=tuple(line for _, line in own.values()),
    )


def better(table: CollectiveTable) -> Series:
    """The faster half of each size: what disturbs a call only ever makes it slower."""
    first, second = (time_of(table, half) for half in HALVES)
    chosen = {
        size: min(pair for pair in (first.get(size), second.get(size)) if pair is not None)
        for size in sorted({*first, *second})
    }
    return Series(
        sizes=np.array(list(chosen), dtype=float),
        times=np.array([time for time, _ in chosen.values()]),
        half_widths=np.full(len(chosen), scatter_of(table)),
        lines=tuple(line for _, line in chosen.values()),
    )


def scatter_of(table: CollectiveTable) -> float:
    """Standard deviation of one time on logs, robust: from how the halves of a row disagree, or
    where there is one half only, from how three neighbours miss a straight line."""
    apart = np.array(list(_differences(table).values()))
    if apart.size >= 3:
        typical = NORMAL_MAD * OWN_PART * float(np.median(np.abs(apart)))
        return max(SCATTER_FLOOR, typical / math.sqrt(2))
    times = [time for half in HALVES for time, _ in time_of(table, half).values()]
    bends = np.diff(np.log(times), 2) if len(times) >= 5 else np.zeros(0)
    if not bends.size:
        return SCATTER_FLOOR
    # The lower quartile: knees, switches and holes bend a curve as well, at fewer than most sizes.
    least = float(np.quantile(np.abs(bends), 0.25))
    return float(np.clip(least / NORMAL_QUARTILE / math.sqrt(6), SCATTER_FLOOR, SCATTER_GUESSED))


def one_offs(table: CollectiveTable) -> tuple[OneOff, ...]:
    """Rows whose halves disagree by far more than those of other rows do."""
    first, second = (time_of(table, half) for half in HALVES)
    limit = max(math.log(ONE_OFF), ONE_OFF_SIGMAS * math.sqrt(2) * scatter_of(table))
    found = []
    for size, apart in _differences(table).items():
        if abs(apart) < limit:
            continue
        half: Half = "out-of-place" if apart > 0 else "in-place"
        slow, fast = (first, second) if apart > 0 else (second, first)
        found.append(
            OneOff(
                size_bytes=size,
                half=half,
                time_s=slow[size][0],
                other_s=fast[size][0],
                line=slow[size][1],
            )
        )
    return tuple(found)


def _differences(table: CollectiveTable) -> dict[int, float]:
    """ln(out-of-place / in-place) by size, less what is usual among its neighbours."""
    first, second = (time_of(table, half) for half in HALVES)
    both = sorted(set(first) & set(second))
    logs = [math.log(first[size][0] / second[size][0]) for size in both]
    reach = NEIGHBOURS // 2
    return {
        size: log - median(logs[max(0, at - reach) : at + reach + 1])
        for at, (size, log) in enumerate(zip(both, logs, strict=True))
    }


def times_of(table: CollectiveTable) -> Iterable[tuple[int, Half, TableTime]]:
    """Every half that was printed, rows of size 0 included."""
    for row in table.rows:
        if row.out_of_place is not None:
            yield row.size_bytes, "out-of-place", row.out_of_place
        if row.in_place is not None:
            yield row.size_bytes, "in-place", row.in_place


def bytes_share(table: CollectiveTable) -> float | None:
    """busbw over size / time, as this table has it; None where it shows no busbw.

    Taken from the rows themselves: nccl-tests of 2019 counted algbw of an all-gather without a
    rank's own part, and a table may not say how many ranks it had.
    """
    ratios = [
        time.busbw_gbs * 1e9 * time.time_s / size
        for size, _, time in times_of(table)
        if size > 0 and TOLD_BUSBW_GBS <= time.busbw_gbs < math.inf and 0 < time.time_s < math.inf
    ]
    if ratios:
        return float(np.median(ratios))
    known = {"sendrecv": "send_recv"}.get(table.collective or "", table.collective or "")
    if table.ranks is not None and table.ranks >= 1 and known in WIRE_SHARES:
        return factor(known, table.ranks)
    return None
