"""One change between two sides of repeated values: its size and how well it is known.

In: a value for each repetition of either side (logs), or pairs. Out: a Contrast: the difference,
variances and degrees of freedom of both sides, the standard error (Welch 1947, Satterthwaite
1946). A side that was measured once borrows the other's variance.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bench.model.moderation import LEAST_VARIANCE

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Side = tuple[float, int, float]  # variance of one value, how many there are, degrees of freedom


@dataclass(frozen=True)
class Contrast:
    """`value` is after - before. A paired one has no `before`: its values are differences."""

    value: float
    before: Side
    after: Side
    paired: bool = False

    def variance(self, side: str) -> float:
        """NaN where the side's own values do not show it."""
        variance, _, freedom = self.before if side == "before" else self.after
        return variance if freedom > 0 else math.nan

    def freedom(self, side: str) -> float:
        return (self.before if side == "before" else self.after)[2]

    def with_variances(self, before: tuple[float, float], after: tuple[float, float]) -> Contrast:
        """The same with other (variance, degrees of freedom) where the sides have their own."""
        first, second = (
            (lent[0], own[1], lent[1]) if own[2] > 0 else own
            for own, lent in ((self.before, before), (self.after, after))
        )
        return dataclasses.replace(self, before=first, after=second)

    @property
    def least_rows(self) -> int:
        return self.after[1] if self.paired else min(self.before[1], self.after[1])

    def spread_variance(self) -> float:
        """Of one value, over both sides."""
        sides = [side for side in (self.before, self.after) if side[2] > 0]
        total = sum(side[2] for side in sides)
        return sum(side[0] * side[2] for side in sides) / total if total else LEAST_VARIANCE

    def error(self, luck: float = 0.0) -> tuple[float, float]:
        """Standard error of the value and its degrees of freedom. `luck`: variance of the value
        that repetitions cannot show, taken as known."""
        variance, freedom = self._own()
        whole = max(variance, LEAST_VARIANCE) + luck
        # Satterthwaite's: what is known for sure adds to the error, not to its uncertainty.
        return math.sqrt(whole), freedom * (whole / max(variance, LEAST_VARIANCE)) ** 2

    def _own(self) -> tuple[float, float]:
        (v, k, d), (w, m, e) = self.before, self.after
        if self.paired:
            return w / m, max(e, 1.0)
        if d <= 0 or e <= 0:  # one of them was measured once
            variance, freedom = (w, e) if d <= 0 else (v, d)
            return variance * (1 / k + 1 / m), max(freedom, 1.0)
        first, second = v / k, w / m
        total = first + second
        if total <= 0:
            return 0.0, d + e
        return total, total**2 / (first**2 / d + second**2 / e)


def contrast(before: Floats, after: Floats, *, paired: bool = False) -> Contrast:
    """From values, NaN left out; pairs are rows that both sides have."""
    if paired:
        both = np.isfinite(before) & np.isfinite(after)
        apart = (after - before)[both]
        return Contrast(float(apart.mean()), (0.0, 0, 0.0), _side(apart), paired=True)
    first, second = before[np.isfinite(before)], after[np.isfinite(after)]
    return Contrast(float(second.mean() - first.mean()), _side(first), _side(second))


def _side(values: Floats) -> Side:
    count = values.size
    variance = float(values.var(ddof=1)) if count > 1 else 0.0
    return max(variance, LEAST_VARIANCE), count, float(count - 1)


def errors(before: Floats, after: Floats, *, paired: bool = False) -> tuple[Floats, Floats]:
    """Standard errors and degrees of freedom of many differences at once: rows (W, k) of values
    of two repetitions or more on either side."""
    if paired:
        apart = after - before
        count = apart.shape[1]
        variance = np.maximum(apart.var(1, ddof=1), LEAST_VARIANCE)
        return np.sqrt(variance / count), np.full(len(apart), count - 1.0)
    parts = []
    for rows in (before, after):
        variance = np.maximum(rows.var(1, ddof=1), LEAST_VARIANCE)
        parts.append((variance / rows.shape[1], rows.shape[1] - 1))
    (first, d), (second, e) = parts
    total = first + second
    return np.sqrt(total), total**2 / (first**2 / d + second**2 / e)
