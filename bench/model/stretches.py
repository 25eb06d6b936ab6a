"""Ranges of sizes that are slower than the same table shows they need be.

In: ascending sizes, times and their scatter. Out: Stretches, by size. Two guidelines need no model
of any network (Traff, Gropp, Thakur: Self-Consistent MPI Performance Requirements, TPDS 2010): a
message may be padded, so it need not take longer than a larger one; and it may be sent in parts,
so its bandwidth need not fall below a smaller one's. Where both neighbours of a range are healthy,
a third sees what these two cannot near the knee: a jump up on entering it and a jump down on
leaving it, beyond the slope of the sizes around.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from bench.model.table_series import Floats

Kind = Literal["hole", "late-switch", "dip", "collapse"]

# A jump at each end of a hole. Healthy knees bend by less than 1.25 from one doubling to the next;
# where sizes lie further apart, a step from flat to proportional is size ratio ** 0.6 at most.
JUMP, JUMP_POWER = 1.5, 0.6
INSIDE = 1.3  # every size within a hole, over the straight line (log-log) between its neighbours
SIGMAS = 4.0  # a jump is four times differenced noise: four sigmas of one time
LONGEST_HOLE = 10  # sizes; longer ones are seen by the guidelines
MOST_HOLES = 4
NOTED = 1.04  # a 4 % dip is worth a word where scatter is below a third of it
NOTED_SIGMAS = 3.0


@dataclass(frozen=True)
class Stretch:
    """Sizes `first` to `last` (indices). `factors` say for each how many times longer it takes
    than the table shows to be possible: by a larger message (padded), by a smaller one (in parts),
    both of size `reference` (an index), or by the neighbours on both sides.

    hole: slower than sizes on both sides · late-switch: slower than a larger message · dip: less
    bandwidth than a smaller message, and it recovers · collapse: the same, to the table's end.
    """

    kind: Kind
    first: int
    last: int
    factors: tuple[float, ...]
    basis: Literal["larger", "smaller", "neighbours"]
    reference: int

    @property
    def factor(self) -> float:
        return max(self.factors)

    @property
    def worst(self) -> int:
        """Index of the worst size."""
        return self.first + self.factors.index(self.factor)

    def above(self, factor: float) -> int:
        """How many of its sizes take at least `factor` times as long."""
        return sum(one >= factor for one in self.factors)


def stretches(sizes: Floats, times: Floats, scatter: float) -> tuple[Stretch, ...]:
    """All of them, by size; none overlaps another. `scatter`: of one time, on logs."""
    kept = np.arange(sizes.size)
    found: list[Stretch] = []
    while len(found) < MOST_HOLES:
        hole = _hole(kept, sizes[kept], times[kept], scatter)
        if hole is None:
            break
        found.append(hole)
        kept = kept[(kept < hole.first) | (kept > hole.last)]
    found += _guidelines(kept, sizes[kept], times[kept], scatter)
    return tuple(sorted(found, key=lambda stretch: stretch.first))


def _hole(kept: np.ndarray, sizes: Floats, times: Floats, scatter: float) -> Stretch | None:
    """The hole with the sharpest ends, healthy sizes on both sides; None where there is none."""
    n, t = np.log(sizes), np.log(times)
    count = n.size
    noise = SIGMAS * scatter
    best: tuple[float, int, int] | None = None
    rises = np.diff(t) >= max(math.log(JUMP), noise)  # nothing less can be an entry
    for i in range(1, count - 1):
        if not rises[i - 1]:
            continue
        for j in range(i, min(i + LONGEST_HOLE, count - 1)):
            if kept[j + 1] - kept[i - 1] != j - i + 2:
                break  # another hole lies within or beside it
            chord = np.interp(n[i : j + 1], n[[i - 1, j + 1]], t[[i - 1, j + 1]])
            over = t[i : j + 1] - chord
            if over.min() < math.log(INSIDE):
                continue
            entry, leaving = _jumps(n, t, i, j)
            if entry < max(_jump(n[i] - n[i - 1]), noise):
                continue
            if leaving < max(_jump(n[j + 1] - n[j]), noise):
                continue
            if best is None or entry + leaving > best[0]:
                best = entry + leaving, i, j
    if best is None:
        return None
    _, i, j = best
    chord = np.interp(n[i : j + 1], n[[i - 1, j + 1]], t[[i - 1, j + 1]])
    padded = t[i : j + 1] - t[j + 1 :].min()
    over = t[i : j + 1] - chord
    by_larger = padded.max() >= over.max()
    return Stretch(
        kind="hole",
        first=int(kept[i]),
        last=int(kept[j]),
        factors=tuple(float(one) for one in np.exp(padded if by_larger else over)),
        basis="larger" if by_larger else "neighbours",
        reference=int(kept[j + 1 + t[j + 1 :].argmin()]),
    )


def _jump(gap: float) -> float:
    return max(math.log(JUMP), JUMP_POWER * gap)


def _jumps(n: Floats, t: Floats, i: int, j: int) -> tuple[float, float]:
    """How far the range rises above what the slope before it leads to, and the one after."""
    across = (t[j + 1] - t[i - 1]) / (n[j + 1] - n[i - 1])
    before = (t[i - 1] - t[max(i - 3, 0)]) / (n[i - 1] - n[max(i - 3, 0)]) if i > 1 else across
    end = min(j + 3, n.size - 1)
    after = (t[end] - t[j + 1]) / (n[end] - n[j + 1]) if end > j + 1 else across
    entry = t[i] - t[i - 1] - np.clip(before, 0, 1) * (n[i] - n[i - 1])
    leaving = t[j] - t[j + 1] + np.clip(after, 0, 1) * (n[j + 1] - n[j])
    return float(entry), float(leaving)


def _guidelines(kept: np.ndarray, sizes: Floats, times: Floats, scatter: float) -> list[Stretch]:
    """Runs of sizes that padding or sending in parts would make faster."""
    count = sizes.size
    if count < 2:
        return []
    limit = max(math.log(NOTED), NOTED_SIGMAS * scatter)
    t, per_byte = np.log(times), np.log(times / sizes)
    larger = np.minimum.accumulate(t[::-1])[::-1]
    smaller = np.minimum.accumulate(per_byte)
    pad = np.append(t[:-1] - larger[1:], 0.0)
    split = np.append(0.0, per_byte[1:] - smaller[:-1])
    over = np.maximum(pad, split)
    found, at = [], 0
    while at < count:
        end = at
        while end < count and over[end] >= limit and (end == at or kept[end] == kept[end - 1] + 1):
            end += 1
        if end == at:
            at += 1
            continue
        run = slice(at, end)
        padded, parted = pad[run].max() >= limit, split[run].max() >= limit
        worst = at + int(over[run].argmax())
        by_larger = pad[worst] >= split[worst] and end < count
        kind: Kind = "hole" if padded and parted else "late-switch" if padded else "dip"
        if end == count:
            kind = "collapse"
        reference = (
            worst + 1 + int(t[worst + 1 :].argmin())
            if by_larger
            else int(per_byte[:worst].argmin())
        )
        found.append(
            Stretch(
                kind=kind,
                first=int(kept[at]),
                last=int(kept[end - 1]),
                factors=tuple(float(one) for one in np.exp(over[run])),
                basis="larger" if by_larger else "smaller",
                reference=int(kept[reference]),
            )
        )
        at = end
    return found
