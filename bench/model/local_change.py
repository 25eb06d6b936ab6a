"""Changes that are confined to a few neighbouring sizes, while the others stay.

In: curves of both sides. Out: Local changes. A repetition's own luck moves all of its sizes, so
each window of sizes is held against the rest of the same repetition, which cancels what they
share; the surest is kept where it stands out of all windows that were looked at (Bonferroni), then
the next is looked for in what is left.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr, stdtrit

from bench.model.contrast import Bools, Floats, errors

LEAST_LOCAL = math.log(1.03)  # the margin within which two curves are called equal
WIDEST = 8  # sizes of a window, of a grid of doublings a factor of 128
WIDEST_SHARE = 0.45  # of all sizes: what holds for half of them is not confined
FEWEST_SIZES = 4
FEWEST_REST = 2
MOST = 4  # local changes of one line
MANY_SIZES = 64  # of so many a window is too small a part to move the median of all
MOST_SIZES = 512  # a table in steps of so many bytes: beyond, every other size is looked at
# Of what a window lies apart from the rest: so much of it the window has moved itself. Where it
# stayed it is the rest that changed.
OWN_SHARE = 0.5
BELONGS = 0.5  # a neighbour at least this far off (on logs) is part of the change


@dataclass(frozen=True)
class Local:
    """Sizes `first` to `last` (indices) changed by `value` (ln after / before of times) more than
    the rest did; `p` is for all windows of this line."""

    first: int
    last: int
    value: float
    low: float
    high: float
    p: float


def locals_of(
    before: Floats,
    after: Floats,
    *,
    paired: bool = False,
    luck: Floats | None = None,
    alpha: float,
) -> tuple[Local, ...]:
    """By size. Rows are repetitions, columns ascending sizes; of sizes that all repetitions have.
    `luck` (P,): variance of a size's change that the repetitions cannot show. With fewer than two
    repetitions on a side nothing is found."""
    complete = np.isfinite(before).all(0) & np.isfinite(after).all(0)
    kept = np.flatnonzero(complete)
    kept = kept[:: -(-kept.size // MOST_SIZES)] if kept.size > MOST_SIZES else kept
    if kept.size < FEWEST_SIZES or min(len(before), len(after)) < 2:
        return ()
    level = (before.mean(0) + after.mean(0))[kept] / 2
    sides = before[:, kept] - level, after[:, kept] - level
    windows = _windows(kept)
    unseen = np.zeros(kept.size) if luck is None else luck[kept]
    apart = sides[1].mean(0) - sides[0].mean(0)
    found: list[Local] = []
    taken = np.zeros(kept.size, dtype=bool)
    while len(found) < MOST:
        free = windows & ~taken
        free = free[(free.sum(1) == windows.sum(1)) & ((~taken & ~free).sum(1) >= FEWEST_REST)]
        best = _best(*sides, free, taken, paired, unseen) if len(free) else None
        if best is None or best[0] * len(windows) > alpha:
            break
        p, inside, value, half = best
        i, j = _extended(apart, inside, value, taken)
        taken[i : j + 1] = True
        if apart[inside].mean() / value < OWN_SHARE:
            continue
        found.append(
            Local(int(kept[i]), int(kept[j]), value, value - half, value + half, p * len(windows))
        )
    return tuple(sorted(found, key=lambda one: one.first))


def _windows(kept: np.ndarray) -> Bools:
    """(W, P): which sizes are in each window of sizes that follow each other."""
    widest = max(1, min(WIDEST, int(WIDEST_SHARE * kept.size)))
    places = np.arange(kept.size)
    step = int(np.diff(kept).min())
    return np.array(
        [
            (places >= i) & (places < i + width)
            for width in range(1, widest + 1)
            for i in range(kept.size - width + 1)
            if kept[i + width - 1] - kept[i] == (width - 1) * step
        ]
    )


def _above_rest(rows: Floats, windows: Bools, taken: Bools) -> Floats:
    """(W, k), by repetition: the mean of each window less the median of the sizes outside."""
    if rows.shape[1] > MANY_SIZES:
        sums = windows.astype(float) @ rows.T / windows.sum(1)[:, None]
        return np.asarray(sums - np.median(rows[:, ~taken], axis=1))
    inside = np.where(windows[:, None, :], rows, 0.0).sum(-1) / windows.sum(1)[:, None]
    rest = ~windows & ~taken
    ordered = np.sort(np.where(rest[:, None, :], rows, np.inf), axis=-1)
    count = rest.sum(1)
    picked = np.arange(len(windows))
    median = (ordered[picked, :, (count - 1) // 2] + ordered[picked, :, count // 2]) / 2
    return np.asarray(inside - median)


def _best(
    before: Floats, after: Floats, windows: Bools, taken: Bools, paired: bool, luck: Floats
) -> tuple[float, Bools, float, float] | None:
    """p, window, value and 95 % half-width of the surest window that changed enough to be told."""
    first = _above_rest(before, windows, taken)
    second = _above_rest(after, windows, taken)
    value = second.mean(1) - first.mean(1)
    error, freedom = errors(first, second, paired=paired)
    # Sizes of one kind share the luck of a run; those of another kind, in the rest, do not.
    error = np.sqrt(error**2 + np.where(windows, luck, 0.0).max(1))
    told = np.abs(value) >= LEAST_LOCAL
    if not told.any():
        return None
    # Windows compete by the error that their width usually has: one that is small by luck would
    # win for a window too wide or too narrow. The winner's own counts where it is larger.
    widths, usual = windows.sum(1), error.copy()
    for width in np.unique(widths):
        usual[widths == width] = np.median(error[widths == width])
    at = int(np.argmax(np.where(told, np.abs(value) / usual, 0.0)))
    own = max(float(error[at]), float(usual[at]))
    p = 2 * float(stdtr(freedom[at], -abs(value[at]) / own))
    return p, windows[at], float(value[at]), float(stdtrit(freedom[at], 0.975)) * own


def _extended(apart: Floats, inside: Bools, value: float, taken: Bools) -> tuple[int, int]:
    """First and last place of the window with those neighbours that clearly belong to it."""
    i, j = int(inside.argmax()), int(inside.size - 1 - inside[::-1].argmax())
    off = (apart - np.median(apart[~taken & ~inside])) * math.copysign(1, value)
    belongs = ~taken & (off >= BELONGS * abs(value))
    while i > 0 and belongs[i - 1]:
        i -= 1
    while j + 1 < belongs.size and belongs[j + 1]:
        j += 1
    return i, j
