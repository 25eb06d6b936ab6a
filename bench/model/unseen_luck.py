"""Variance of a change that the repetitions of a comparison cannot show.

In: Curves and a Contrast of some of their sizes. Out: variance on logs. Sessions of one run share
its luck, and times of unlike numbers of calls are not quite of one quantity: neither scatters
between rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from bench.model.contrast import Contrast, Floats
from bench.model.prediction import SMALL_BYTES
from bench.model.repeated_curves import Curves
from bench.model.spread import RUN_FLOOR

# What one run shares its sessions cannot show: latencies of whole runs lie 2-4 % apart on an idle
# host, bandwidths 0.2-0.5 % (bench.model.gate).
RUN_LUCK = {False: 0.03, True: RUN_FLOOR}  # by: is it the large sizes' gate
# On hosts that do other things as well latencies of whole runs lie up to half apart, and so do
# those of sessions: of thirteen runs of one lab 13 to 16 % of the variance was the runs' own, and
# twice that is not excluded; of bandwidths it was none.
RUN_SHARE = {False: 0.35, True: 0.0}  # of the sessions' variance


def of_run(one: Curves, kept: Contrast, *, large: bool) -> float:
    """What sessions of one run share."""
    total = 0.0
    for side, shared in zip(("before", "after"), one.shared_run, strict=True):
        if shared:
            seen = kept.variance(side)
            total += RUN_LUCK[large] ** 2
            total += RUN_SHARE[large] * (seen if math.isfinite(seen) else 0.0)
    return total


def run_luck(
    one: Curves,
    kept: Contrast,
    *,
    large: bool,
    columns: Sequence[int] | None = None,
    weights: Floats | None = None,
) -> float:
    """Of the change of some sizes' (weighted) mean; of all of the kind where `columns` is None."""
    if columns is None:
        columns = np.flatnonzero((one.sizes >= SMALL_BYTES) == large).tolist()
    return of_run(one, kept, large=large) + one.unseen_variance(columns, weights)


def by_size(one: Curves, gates: dict[bool, Contrast]) -> Floats:
    """(P,) of each size by itself. `gates`: by kind (is it large), those that can be tested."""
    run = {
        large: of_run(one, gates[large], large=large)
        if large in gates
        else RUN_LUCK[large] ** 2 * sum(one.shared_run)
        for large in (False, True)
    }
    total = np.array([run[bool(size >= SMALL_BYTES)] for size in one.sizes])
    return total if one.unseen is None else total + one.unseen**2
