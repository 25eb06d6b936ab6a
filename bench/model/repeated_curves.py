"""Repeated curves of two sides, and one value a repetition for some of their sizes together.

In: logs of seconds, a row for each independent repetition, a column for each size. Out: weighted
means over sizes. A size counts by how well it repeats; a repetition that lacks a size does not
shift by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bench.model.contrast import Floats

FEWEST_ROWS = 3  # whose variance may stand in for a side that was measured once
FEWEST_PAIRS = 2  # of one pair it does not show how pairs differ
NEIGHBOURS = 5  # noise changes slowly with size: cells borrow from so many
LEAST_WEIGHT = 0.01  # of a noisy size in the mean of a gate, against the surest one
WEIGHT_FLOOR = 0.005  # on logs: no size is known so well that the others count for nothing
WEIGHT_PRIOR = 4.0  # degrees of freedom with which a size's noise is drawn to the usual one
ENOUGH = 0.5  # of a gate's weight a repetition must have measured to count


@dataclass(frozen=True)
class Curves:
    """One line on both sides: `sizes` (P,) ascending; `before`, `after` (k, P), NaN where a
    repetition lacks a size. `paired`: row i of both is the same host, once before, once after.
    `shared_run`: which sides' rows are sessions of one run, whose luck they share. `unseen` (P,):
    standard error of each size's change that no row can show; sizes err to one side together."""

    sizes: Floats
    before: Floats
    after: Floats
    paired: bool = False
    shared_run: tuple[bool, bool] = (False, False)
    unseen: Floats | None = None

    @property
    def rows(self) -> tuple[int, int]:
        return len(self.before), len(self.after)

    @property
    def tested(self) -> bool:
        """Whether repetitions tell how repetitions differ."""
        if self.paired:
            return min(self.rows) >= 2
        return min(self.rows) >= 2 or (min(self.rows) == 1 and max(self.rows) >= FEWEST_ROWS)

    def unseen_variance(
        self, columns: Sequence[int], weights: Sequence[float] | Floats | None = None
    ) -> float:
        """Of the change of the (weighted) mean of some sizes."""
        if self.unseen is None:
            return 0.0
        return float(np.average(self.unseen[list(columns)], weights=weights)) ** 2


def usable(one: Curves, column: int) -> bool:
    """A size counts that each side has at least twice, or as often as it was repeated; of pairs,
    two that are whole."""
    present = [np.isfinite(rows[:, column]) for rows in (one.before, one.after)]
    if one.paired:
        return int((present[0] & present[1]).sum()) >= FEWEST_PAIRS
    return all(own.sum() >= min(2, own.size) for own in present)


def scores(one: Curves, columns: Sequence[int]) -> tuple[Floats, Floats, Floats]:
    """Weights of the sizes, and one value a row of either side: the weighted mean over sizes of
    what it lies above the size's own level.

    The level is the middle of both sides, so that a row that lacks a size does not shift by it.
    """
    before, after = one.before[:, columns], one.after[:, columns]
    level = (np.nanmean(before, 0) + np.nanmean(after, 0)) / 2
    weights = _weights(before, after)
    return weights, _means(before - level, weights), _means(after - level, weights)


def _means(above: Floats, weights: Floats) -> Floats:
    present = np.isfinite(above) * weights
    total = present.sum(1)
    enough = total >= ENOUGH * weights.sum()
    sums = (np.where(np.isfinite(above), above, 0.0) * weights).sum(1)
    means: Floats = np.full(len(above), np.nan)
    means[enough] = sums[enough] / total[enough]
    return means


def _weights(before: Floats, after: Floats) -> Floats:
    """Sizes count by how well they repeat: where latency is noisy and bandwidth is not, the mean
    of all would show neither. By the noise of both sides together, smoothed over neighbours and
    drawn to the usual one, so that no size rules by luck."""
    freedom = np.zeros(before.shape[1])
    squares = np.zeros(before.shape[1])
    for rows in (before, after):
        count = np.isfinite(rows).sum(0)
        freedom += np.maximum(count - 1, 0)
        squares += np.nansum((rows - np.nanmean(rows, 0)) ** 2, 0)
    own = squares / np.maximum(freedom, 1)
    usual = float(np.median(own))
    drawn = (freedom * smooth(own) + WEIGHT_PRIOR * usual) / (freedom + WEIGHT_PRIOR)
    weights = 1 / (drawn + WEIGHT_FLOOR**2)
    kept: Floats = np.maximum(weights / weights.max(), LEAST_WEIGHT)
    return kept


def smooth(values: Floats) -> Floats:
    """The median of each value's neighbours and itself."""
    reach, listed = NEIGHBOURS // 2, values.tolist()
    windows = [sorted(listed[max(0, i - reach) : i + reach + 1]) for i in range(len(listed))]
    # Five numbers: Python's own sort is ten times as fast as numpy's median here.
    return np.array([(own[(len(own) - 1) // 2] + own[len(own) // 2]) / 2 for own in windows])
