"""Two sides of one run each: what can be said although luck and cause cannot be told apart.

In: the change of every size (ln after / before of times) and how far a time scatters within its
own run. Out: spans of sizes that stand out of the rest of their own run. A run's luck moves all of
its sizes, so a factor that a few neighbouring sizes have and the others have not is no luck; a
shift of everything may be any of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bench.model.contrast import Bools, Floats
from bench.model.local_change import WIDEST_SHARE

# A span is named where its sizes take half as long again, each of them a third, beyond six times
# what sizes scatter otherwise; where one size alone does it is 20 calls in one instant, twice.
SPAN, EACH, SIGMAS = math.log(1.5), math.log(1.3), 6.0
ONE_SIZE = math.log(2.0)
FEWEST_SIZES = 5
# Other jobs have been seen to take half of a shared fabric (De Sensi et al., SC'24), so a run may
# take twice as long with nothing changed. Beyond three times it is named all the same.
BEYOND_LUCK, BEYOND_LUCK_EACH = math.log(3.0), math.log(2.0)
# What whole runs differ by with nothing changed, on systems that are used: nothing below it is
# worth a warning, however little the run's own times scatter.
RUN_LUCK = math.log(1.05)
STANDS_OUT = 3.0  # own scatters, of the median of several sizes
NORMAL_MAD = 1.4826
MEDIAN_LOSS = 1.2533  # standard error of a median over that of a mean, for a normal
LEAST_NOISE = 0.003  # times are printed with 3-4 digits


@dataclass(frozen=True)
class Span:
    """Sizes `first` to `last` (indices) changed by `value` more than the other sizes did (ln after
    / before); `rest` is the median of those, `noise` how far one of them scatters."""

    first: int
    last: int
    value: float
    rest: float
    noise: float


@dataclass(frozen=True)
class Drift:
    """The median change over some sizes, and the error that the run's own scatter leaves it."""

    value: float
    error: float
    least: float  # the smallest change of one size, towards the same side

    @property
    def stands_out(self) -> bool:
        """More than scatter, and more than runs differ by with nothing changed."""
        return abs(self.value) >= max(STANDS_OUT * self.error, RUN_LUCK)

    @property
    def beyond_luck(self) -> bool:
        return (
            abs(self.value) >= max(BEYOND_LUCK, SIGMAS * self.error)
            and self.least >= BEYOND_LUCK_EACH
        )


def noise_of(apart: Floats, own: Floats) -> float:
    """How far one size's change scatters: by the runs' own scatter, or by how neighbouring sizes
    differ, whichever is larger. `apart` and `own` (P,): changes and their own standard errors."""
    steps = np.abs(np.diff(apart))
    near = NORMAL_MAD * float(np.median(steps)) / math.sqrt(2) if steps.size >= 2 else 0.0
    return max(float(np.median(own)), near, LEAST_NOISE)


def drift(apart: Floats, own: Floats, columns: Sequence[int]) -> Drift:
    """Of the sizes at `columns`, at least one."""
    chosen = apart[list(columns)]
    value = float(np.median(chosen))
    error = noise_of(apart, own) * MEDIAN_LOSS / math.sqrt(chosen.size)
    return Drift(value, error, float((chosen * math.copysign(1, value)).min()))


def spans(apart: Floats, own: Floats, *, sure: Bools | None = None) -> tuple[Span, ...]:
    """By size. `sure` (P,): where both halves of a row say so; all where None.

    Nothing where more than half of the sizes would be part of it: then it is not a span.
    """
    count = apart.size
    if count < FEWEST_SIZES:
        return ()
    noise = noise_of(apart, own)
    rest = float(np.median(apart))
    for _ in range(2):  # once more without what stands out
        off = apart - rest
        far = (np.abs(off) >= max(EACH, SIGMAS * noise)) & (np.ones(count, bool) if sure is None
                                                            else sure)  # fmt: skip
        if far.sum() > WIDEST_SHARE * count:
            return ()
        rest = float(np.median(apart[~far]))
    found = []
    at = 0
    while at < count:
        end = at
        while end < count and far[end] and off[end] * off[at] > 0:
            end += 1
        if end > at:
            value = float(off[at:end].mean())
            needed = SPAN if end - at > 1 else ONE_SIZE
            if abs(value) >= needed and abs(rest) <= abs(value) / 2:
                found.append(Span(at, end - 1, value, rest, noise))
        at = max(end, at + 1)
    return tuple(found)
