"""Single cells of single sessions that something disturbed: told, and kept out of the tests.

In: logs of seconds of one side, a row for each session, a column for each size. Out: the same with
such cells at the size's usual level in that session, and which they were. A session that is slow
as a whole is how sessions differ, and stays; so does a size that half of the sessions have slow.
What disturbs a call makes it slower, so fast cells stay as well. Threshold: hyperfine's.
"""

from __future__ import annotations

import math

import numpy as np

from bench.model.contrast import Bools, Floats
from bench.model.prediction import SMALL_BYTES
from bench.model.repeated_curves import WEIGHT_FLOOR, smooth

FAR = 14.8  # modified z: hyperfine's for an outlier that is severe
QUIET = 0.25  # of a session's sizes: its level, where up to three of four are disturbed
TO_SIGMA = 1.4826  # of a median absolute deviation, for a normal
LEAST = math.log(1.05)  # less harms no test that matters
FEWEST_ROWS, FEWEST_SIZES = 4, 3  # of fewer it does not show what is usual


def calmed(rows: Floats, sizes: Floats) -> tuple[Floats, Bools]:
    """(k, P) rows and flags. Of large sizes alone: a latency is disturbed as often as not, and
    what it scatters is its noise."""
    kept, flags = rows.copy(), np.zeros(rows.shape, bool)
    columns = np.flatnonzero(sizes >= SMALL_BYTES)
    if len(rows) >= FEWEST_ROWS and columns.size >= FEWEST_SIZES:
        kept[:, columns], flags[:, columns] = _group(rows[:, columns])
    return kept, flags


def _group(rows: Floats) -> tuple[Floats, Bools]:
    if not np.isfinite(rows).all():
        return rows, np.zeros(rows.shape, bool)  # sizes end at other places: no common usual
    apart = rows - np.median(rows, axis=0)
    session = np.quantile(apart, QUIET, axis=1, keepdims=True)
    own = apart - session
    scatter = smooth(TO_SIGMA * np.median(np.abs(own), axis=0))
    flags = own > np.maximum(FAR * np.maximum(scatter, WEIGHT_FLOOR), LEAST)
    flags &= flags.sum(0) <= (len(rows) - 1) // 2
    kept = rows.copy()
    for at in np.flatnonzero(flags.any(0)):
        kept[:, at] = _column(rows[:, at] - session[:, 0], flags[:, at]) + session[:, 0]
    return kept, np.asarray(flags)


def _column(values: Floats, out: Bools) -> Floats:
    """The cells that are left keep their mean, and spread as they do without the others."""
    left = values[~out]
    middle = float(left.mean())
    wider = math.sqrt((values.size - 1) / (left.size - 1))
    found: Floats = np.where(out, middle, middle + (values - middle) * wider)
    return found
