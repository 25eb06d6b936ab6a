"""Few ends: of all choices of slow ones, the one that explains the pairs best.

In: log times of the pairs of at most ten ends (hosts, leaves, rails). Out: who is slow. Where half
of few hosts are slow, few pairs are good, and a search that starts from a norm easily starts from
the wrong one; so all choices are weighed: least squares, clipped, and a price for each blame.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from bench.judge.pairs.values import Bools, Floats, Ints

# In units of the noise, squared. A pair that nothing explains (a slow link) costs CLIP and no
# more; faster than the norm cannot be explained at all. Blaming an end costs more than half of it:
# one odd pair of its three or four is a link, two are not.
CLIP, FAST_CLIP, FAST, BLAME = 9.0, 30.0, 2.0, 6.0
NOISE_SHARE = 0.4  # of the threshold: pairs that scatter more are repeated until they do not


def slow_subset(count: int, one: Ints, other: Ints, logs: Floats, threshold: float) -> Bools:
    """Which of `count` ends are slow: half at most. A row per pair."""
    slow = _choices(count)
    ends = slow[:, one].astype(int) + slow[:, other]  # choices × pairs
    norm = _middle(logs, ends == 0)
    level = np.full(slow.shape, -np.inf)  # of each slow end, from its pairs with good ones
    for end in range(count):
        lone = (ends == 1) & ((one == end) | (other == end))
        level[:, end] = np.where(slow[:, end], _middle(logs, lone), -np.inf)
    told = np.maximum(level, norm[:, None] + threshold)
    told = np.where(slow, told, -np.inf)
    pair_level = np.maximum(np.maximum(told[:, one], told[:, other]), norm[:, None])
    left = (logs - pair_level) / (NOISE_SHARE * threshold)
    cost = np.where(left < 0, np.minimum(FAST * left**2, FAST_CLIP), np.minimum(left**2, CLIP))
    total = np.where(np.isnan(cost), CLIP, cost).sum(axis=1) + BLAME * slow.sum(axis=1)
    total[np.isnan(norm)] = np.inf
    chosen: Bools = slow[int(np.argmin(total))]
    return chosen


def _middle(values: Floats, chosen: Bools) -> Floats:
    """Each row's median of what is chosen, NaN where nothing is: one slow link moves no norm."""
    ranked = np.sort(np.where(chosen, values, np.nan), axis=1)  # NaN comes last
    count, at = chosen.sum(axis=1), np.arange(len(chosen))
    low, high = ranked[at, np.maximum(count - 1, 0) // 2], ranked[at, count // 2 - (count == 0)]
    middle: Floats = (low + high) / 2
    return middle


@cache
def _choices(count: int) -> Bools:
    """A row per choice, nobody first; at most half of the ends are slow."""
    numbers = np.arange(2**count)
    bits = (numbers[:, None] >> np.arange(count)) & 1
    allowed: Bools = bits[bits.sum(axis=1) <= count // 2].astype(bool)
    return allowed
