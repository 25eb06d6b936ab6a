"""Latency, bandwidth and switch points of both sides of a comparison, told apart.

In: Curves of one candidate and collective. Out: both sides' fitted latency and bandwidth with the
change between them, and where each side passes from one piece to the next. Each repetition is
fitted by itself on sizes that lie in the outer piece of both sides, so that a switch that moved is
not taken for another latency or bandwidth.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from bench.model.comparison import Shift, shift_of
from bench.model.contrast import Floats, contrast
from bench.model.costline import BYTES_SHARE, point_weights
from bench.model.pieces import LAST_POINTS, PIECE_POINTS, Breaks, fit_rows, split
from bench.model.prediction import SMALL_BYTES
from bench.model.repeated_curves import Curves
from bench.model.unseen_luck import run_luck

LEAST_LATENCY = 1e-6  # of the smallest size's time: below, the times lie on a line through zero
LEAST_HALF = 0.002  # on logs: a size that was measured once is weighed like its neighbours
MOST_SIZES = 64  # a fit costs their cube; of more, that many are taken, evenly spread


@dataclass(frozen=True)
class Fitted:
    """One fitted quantity on both sides, in its own unit (seconds, or bytes per second); `shift`
    is ln(after / before) of it, None where too few repetitions show how it varies."""

    before: float
    after: float
    shift: Shift | None = None


@dataclass(frozen=True)
class TwoLines:
    """None where a side shows no such thing. `switches`: per side (last size of a piece, first of
    the next), in bytes."""

    latency_s: Fitted | None = None
    bandwidth_bytes_per_s: Fitted | None = None
    switches_before: tuple[tuple[int, int], ...] = ()
    switches_after: tuple[tuple[int, int], ...] = ()


def fit_both(one: Curves) -> TwoLines:
    """Nothing where fewer than four sizes are common to all repetitions of both sides."""
    complete = np.isfinite(one.before).all(0) & np.isfinite(one.after).all(0) & (one.sizes > 0)
    kept = np.flatnonzero(complete)
    if kept.size < LAST_POINTS or not len(one.before) or not len(one.after):
        return TwoLines()
    if kept.size > MOST_SIZES:
        kept = kept[np.unique(np.linspace(0, kept.size - 1, MOST_SIZES).round().astype(int))]
    sizes = one.sizes[kept]
    sides = (one.before[:, kept], one.after[:, kept])
    weights = point_weights(np.maximum(_halves(*sides), LEAST_HALF))
    breaks = [split(sizes, np.exp(rows.mean(0)), weights)[0] for rows in sides]
    first = slice(0, min(own[0][1] for own in breaks))
    last = slice(max(own[-1][0] for own in breaks), sizes.size)
    before, after = (_switches(sizes, own) for own in breaks)
    latency = bandwidth = None
    if first.stop >= PIECE_POINTS and sizes[0] < SMALL_BYTES:
        latency = _changed(one, *(_latencies(sizes, rows, weights, first) for rows in sides))
    if sizes.size - last.start >= PIECE_POINTS:
        bandwidth = _changed(
            one, *(_bandwidths(sizes, rows, weights, last) for rows in sides), large=True
        )
    return TwoLines(latency, bandwidth, before, after)


def _halves(before: Floats, after: Floats) -> Floats:
    """How far sizes scatter between repetitions, over both sides."""
    freedom = max(len(before) + len(after) - 2, 1)
    squares = sum(((rows - rows.mean(0)) ** 2).sum(0) for rows in (before, after))
    return np.sqrt(np.asarray(squares) / freedom)


def _switches(sizes: Floats, breaks: Breaks) -> tuple[tuple[int, int], ...]:
    return tuple((int(sizes[end - 1]), int(sizes[end])) for _, end in breaks[:-1])


def _refit(sizes: Floats, rows: Floats, weights: Floats, columns: slice) -> Floats:
    """(k, 2): latency and seconds per byte of every repetition."""
    times = np.exp(rows[:, columns])
    own = np.broadcast_to(weights[columns], times.shape)
    return fit_rows(sizes[columns], times, own)[0]


def _latencies(sizes: Floats, rows: Floats, weights: Floats, columns: slice) -> Floats | None:
    found = _refit(sizes, rows, weights, columns)
    least = LEAST_LATENCY * (found[:, 0] + found[:, 1] * sizes[0])
    return np.log(found[:, 0]) if (found[:, 0] > least).all() else None


def _bandwidths(sizes: Floats, rows: Floats, weights: Floats, columns: slice) -> Floats | None:
    found = _refit(sizes, rows, weights, columns)
    moved_s = found[:, 1] * sizes[-1]
    shown = moved_s >= BYTES_SHARE * (found[:, 0] + moved_s)
    return -np.log(found[:, 1]) if shown.all() else None


def _changed(
    one: Curves, before: Floats | None, after: Floats | None, *, large: bool = False
) -> Fitted | None:
    if before is None or after is None:
        return None
    shift = None
    if one.tested:
        kept = contrast(before, after, paired=one.paired)
        shift = shift_of(kept, run_luck(one, kept, large=large))
    return Fitted(math.exp(float(before.mean())), math.exp(float(after.mean())), shift)
