"""Straight pieces through points: t = latency + size / bandwidth, in relative error.

In: arrays of sizes, times and weights. Out: where the pieces break, and their parameters. Every
candidate piece is fitted at once (iteratively reweighted Gauss-Newton, two parameters, one row a
piece), then dynamic programming finds the best split: no greedy search, no scipy optimiser. The
criterion is BIC on N ln(RSS / N), not on N * RSS: the latter (pycewise) splits by noise level.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Breaks = tuple[tuple[int, int], ...]  # half-open index ranges, one a piece
Fit = tuple[float, Floats]  # cost and parameters of one piece

MOST_PIECES = 4  # LL, LL128, Simple, and one for what a fabric adds
PIECE_POINTS = 3  # two parameters and one point to contradict them
LAST_POINTS = 4  # the last piece's bandwidth is what is quoted
BIC_GAIN = 10.0  # simulated: plain BIC over-splits in 6-10 of 20 at 2 % noise, this in none
SOFT = 0.05  # residual beyond which a point pulls linearly, not squarely (soft-L1's f_scale)
MISFIT_FLOOR = 0.003  # a misfit below 0.3 % is not worth a piece, however noiseless the points
STEEPEST = (
    1e-6  # smallest share of a piece's time that its bytes cost, so that bandwidth is finite
)

_ROUNDS = 40
_CLOSE = 1e-10


def _two_parameters(weight: Floats, size: Floats, target: Floats, least: Floats) -> Floats:
    """Per row: argmin of sum weight (a + b size - target)^2 over a >= 0, b >= least."""
    w, n, y = weight, size, target
    s0, s1, s2 = w.sum(-1), (w * n).sum(-1), (w * n * n).sum(-1)
    y0, y1 = (w * y).sum(-1), (w * n * y).sum(-1)
    det = s0 * s2 - s1 * s1
    with np.errstate(divide="ignore", invalid="ignore"):
        a = (s2 * y0 - s1 * y1) / det
        b = (s0 * y1 - s1 * y0) / det
        slope_only = np.maximum(y1 / s2, least)
        flat = np.maximum((y0 - least * s1) / s0, 0.0)
    through_zero = ~(a > 0) | ~np.isfinite(b)
    a, b = np.where(through_zero, 0.0, a), np.where(through_zero, slope_only, b)
    is_flat = ~through_zero & (b < least)
    return np.stack([np.where(is_flat, flat, a), np.where(is_flat, least, b)], -1)


def fit_rows(sizes: Floats, times: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """One piece per row. `sizes` (P,), `times` and `weights` (R, P); weight 0 leaves a point out.

    Minimises the soft-L1 of weight x ln(predicted / measured) with latency >= 0 and bandwidth > 0.
    Returns latency in seconds and seconds per byte (R, 2), and the cost per row (R,): the sum of
    squared residuals, linear beyond SOFT. A row needs two points of different size.
    """
    used = weights > 0
    unit_n = float(sizes.max())
    unit_t = np.exp(np.where(used, np.log(times), 0).sum(-1) / used.sum(-1))[:, None]
    n, t = np.broadcast_to(sizes / unit_n, times.shape), np.where(used, times / unit_t, 1.0)
    squared = weights * weights
    largest = np.where(used, n, 0).max(-1)
    least = STEEPEST / largest
    log_t = np.log(t)
    best = parameters = _two_parameters(squared / t**2, n, t, least)
    best_cost = np.full(len(times), np.inf)
    for _ in range(_ROUNDS):
        predicted = parameters[:, :1] + parameters[:, 1:] * n
        residual = np.where(used, np.log(predicted) - log_t, 0.0)
        root = np.sqrt(1 + (weights * residual / SOFT) ** 2)
        cost = 2 * SOFT**2 * (root - 1).sum(-1)
        better = cost < best_cost
        gained = best_cost - cost
        best = np.where(better[:, None], parameters, best)
        best_cost = np.minimum(cost, best_cost)
        if not (gained > _CLOSE * (best_cost + _CLOSE)).any():
            break
        # Gauss-Newton on the logarithm; a step of more than half is cut, it would leave t > 0.
        target = predicted * (1 - np.clip(residual, -0.5, 0.5))
        parameters = _two_parameters(squared / root / predicted**2, n, target, least)
    return best * np.stack([unit_t[:, 0], unit_t[:, 0] / unit_n], -1), best_cost


def _segments(count: int) -> list[tuple[int, int]]:
    return [
        (i, j)
        for i in range(count)
        for j in range(i + PIECE_POINTS, count + 1)
        if j < count or j - i >= min(LAST_POINTS, count)
    ]


def _fits(
    segments: list[tuple[int, int]], sizes: Floats, times: Floats, weights: Floats
) -> dict[tuple[int, int], Fit]:
    masks = np.zeros((len(segments), sizes.size))
    for row, (i, j) in enumerate(segments):
        masks[row, i:j] = weights[i:j]
    parameters, costs = fit_rows(sizes, np.broadcast_to(times, masks.shape), masks)
    return dict(zip(segments, zip(costs.tolist(), parameters, strict=True), strict=True))


def split(sizes: Floats, times: Floats, weights: Floats) -> tuple[Breaks, Floats]:
    """The best pieces through ascending points (P,), and their parameters (pieces, 2) as in
    `fit_rows`. At most MOST_PIECES, each of PIECE_POINTS or more, the last of LAST_POINTS; a
    further piece only where BIC falls by more than BIC_GAIN. Needs PIECE_POINTS points."""
    count = sizes.size
    assert count >= PIECE_POINTS, f"a piece needs {PIECE_POINTS} points"
    return _best(_fits(_segments(count), sizes, times, weights), weights)


def split_without(
    sizes: Floats, times: Floats, weights: Floats, left_out: Sequence[int]
) -> Iterator[tuple[Breaks, Floats]]:
    """`split` without each of these points in turn; breaks count the points that are left.

    The same as so many calls of it, three times as fast: a piece that the point lies outside of
    is fitted once for all. Needs PIECE_POINTS points beside the one.
    """
    count = sizes.size
    whole = _fits(_segments(count), sizes, times, weights)
    for at in left_out:
        kept = np.delete(np.arange(count), at)
        known, unknown = {}, []
        for i, j in _segments(count - 1):
            if j <= at:
                known[i, j] = whole[i, j]
            elif i >= at:
                known[i, j] = whole[i + 1, j + 1]
            else:
                unknown.append((i, j))
        if unknown:
            known |= _fits(unknown, sizes[kept], times[kept], weights[kept])
        yield _best(known, weights[kept])


def _best(fits: Mapping[tuple[int, int], Fit], weights: Floats) -> tuple[Breaks, Floats]:
    """The cheapest way through all points over fitted segments."""
    count = weights.size
    floor = MISFIT_FLOOR**2 * float(np.mean(weights**2))
    # reach[j] = (cost, breaks) of the best k pieces through the first j points.
    reach: dict[int, tuple[float, Breaks]] = {0: (0.0, ())}
    chosen: Breaks = ()
    chosen_bic = math.inf
    for k in range(1, MOST_PIECES + 1):
        longer: dict[int, tuple[float, Breaks]] = {}
        for (i, j), (own, _) in fits.items():
            if i in reach and (j not in longer or reach[i][0] + own < longer[j][0]):
                longer[j] = (reach[i][0] + own, (*reach[i][1], (i, j)))
        reach = longer
        if count not in reach:
            break
        total, breaks = reach[count]
        mean_square = max(total / count, floor)
        bic = count * math.log(mean_square) + (3 * k - 1) * math.log(count)
        if bic < chosen_bic - BIC_GAIN:
            chosen, chosen_bic = breaks, bic
    return chosen, np.array([fits[segment][1] for segment in chosen])
