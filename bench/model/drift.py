"""Change points in a nightly series, confirmed over three nights and more.

In: one value a night, natural logs of a time (0.05: 5 % slower), in order. Out: where the level
changed, when that was sure, and how far out the last night lies. Every night the last 3 to 10
nights are held against the level before them; both levels are Huber's, so that one wild night
moves neither. Segments as in Otava's split and merge, without its permutation test, whose p-values
know nothing of heavy tails or of nights that resemble their neighbours.

The constants are set by simulation (tests/performance/bench_drift.py): normal noise, Student's t
with 3 degrees of freedom, and nights correlated by 0.5.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

FEWEST = 10  # nights that make a level; before, nothing but a gate can judge
CONFIRMED, LONGEST = 3, 10  # nights of a new level: from the first on to the last that helps
LEAST_STEP = 0.019  # a change below 2 % is not worth a person's morning
# Standard errors of the difference between two levels. So many, because nights that resemble their
# neighbours are that far apart far more often than independent ones; a step of 5 % is further.
BAR, BAR_OF_THREE = 3.9, 4.5
# What is new in the new level must clear this much more, and it alone the least step: a night that
# resembles the one before it says less than its distance from the old level.
NEW_BAR, LEVEL_SHARE = 1.07, 0.9
YOUNG_BAR = 1.3  # times that, where the level before is itself of a few nights
# Good news can wait: half of all false alarms would be of nights that were faster.
FASTER_NIGHTS, FASTER_BAR = 7, 1.25
# The first three and the last three nights of a new level must each show most of it, else the
# change began elsewhere, or is over; and so must the night in the middle.
SHARE, MEDIAN_SHARE = 0.69, 0.75  # two nights of three show 0.67 at most
# Nor may one of those nights lie where the old level was, which after a large step no noise does.
NEAR, NEARER = 4.0, 0.5  # spreads from the new level at most, or half of the step

# Nights are taken to scatter by 1 % at least: where they seem to do less they are few, or it does
# not matter. Scatter above that is widened, the more the fewer nights tell it: an error of the
# estimate costs power on one side and false alarms on the other.
LEAST_SPREAD, TRUSTED_SPREAD, WIDER, FEW = 0.01, 0.012, 1.7, 6.0
MOST_ALIKE = 0.6  # correlation of neighbouring nights: more would be a drift
SURELY_ALIKE, LIKELY_ALIKE = 1.0, 0.5  # standard errors that an estimate of it is lowered by
REMEMBERED = 120  # nights whose scatter counts: a fabric may become quieter
CLIP, CLIPPED_SHARE = 2.0, 0.9205  # of MADs; E[clip(z, 2)^2] of a standard normal z
MAD = 1.4826  # median absolute deviation to standard deviation, for normal noise
HUBER, ROUNDS = 1.5, 4
FAR = 3.0  # spreads beyond which a night does not say more about where the change is
Z95 = 1.96

# Three nights that do not show most of the least step, with room for a mean that is no median,
# need no closer look. The least is what ten nights could prove.
LOOK_SHARE, LEAST_BAR, LOOK_EVERY = 0.6 * SHARE, 1.3, 8


@dataclass(frozen=True)
class ChangePoint:
    """The level changed with night `at` (an index), which was sure with night `told`.

    `before` and `after` are the levels, `half_width` is that of their difference (95 %).
    """

    at: int
    told: int
    before: float
    after: float
    half_width: float

    @property
    def step(self) -> float:
        return self.after - self.before


@dataclass(frozen=True)
class Course:
    """A series as it went: its changes, the level of its last segment, how nights scatter."""

    changes: tuple[ChangePoint, ...]
    level: float
    spread: float
    nights: int

    @property
    def start(self) -> int:
        """The first night of the last segment."""
        return self.changes[-1].at if self.changes else 0


def course(values: Sequence[float]) -> Course:
    """The changes of `values`, each told once, on the night a nightly job would have told it."""
    logs = np.asarray(values, dtype=float)
    assert np.isfinite(logs).all(), "a night without a value is left out, not passed on"
    plain: list[float] = logs.tolist()
    found: list[ChangePoint] = []
    start, kept = 0, np.empty(0)
    ordered: list[float] = []  # the segment but for its last three nights
    look = LOOK_SHARE * LEAST_STEP
    for seen in range(CONFIRMED + 1, logs.size + 1):
        last = seen - CONFIRMED
        insort(ordered, plain[last - 1])
        if len(ordered) < (CONFIRMED if found else FEWEST):
            continue
        if seen % LOOK_EVERY == 0:
            usual = believed(_scatter(kept, logs[start:last]))
            look = LOOK_SHARE * max(LEAST_STEP, LEAST_BAR * usual)
        middle = (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2
        if abs(sum(plain[last:seen]) / CONFIRMED - middle) < look:
            continue
        change = _change(logs[start:seen], kept, back=bool(found) and found[-1].step > 0)
        if change is not None:
            change = replace(change, at=start + change.at, told=seen - 1)
            kept = _scatter(kept, logs[start : change.at])[-REMEMBERED:]
            found.append(change)
            start = change.at
            ordered = sorted(plain[start:last])
    return _ended(logs, tuple(found))


def far_out(values: Sequence[float], whole: Course | None = None) -> float | None:
    """How many robust standard deviations the last night lies above the level before it; None
    where too few nights make that level. `whole` is the course of all `values`, if it is known.

    A change that the last night confirmed has taken it into the new level: it is left out.
    """
    told = (whole or course(values)).changes
    before = _ended(
        np.asarray(values[:-1], dtype=float), tuple(c for c in told if c.told < len(values) - 1)
    )
    if before.nights < FEWEST or before.nights - before.start < CONFIRMED:
        return None
    return float((values[-1] - before.level) / before.spread)


def _ended(logs: Floats, changes: tuple[ChangePoint, ...]) -> Course:
    """The course whose changes are known: its last level, and the scatter about all levels."""
    kept, start = np.empty(0), 0
    for change in changes:
        kept = _scatter(kept, logs[start : change.at])[-REMEMBERED:]
        start = change.at
    scatter = _scatter(kept, logs[start:])
    level = location(logs[start:], spread_of(scatter)) if logs.size else 0.0
    return Course(changes, level, believed(scatter), int(logs.size))


def location(values: Floats, spread: float) -> float:
    """Huber's location: the mean, with values beyond 1.5 spreads pulled in to there."""
    at = _median(values)
    reach = HUBER * max(spread, LEAST_SPREAD / 3)
    for _ in range(ROUNDS):
        at += float(np.add.reduce(_pulled(values - at, reach))) / values.size
    return at


def spread_of(residuals: Floats) -> float:
    """Standard deviation of what lies about zero, wild nights pulled in to two of it."""
    if residuals.size < 2:
        return 0.0
    clipped = _pulled(residuals, CLIP * MAD * _median(np.abs(residuals)))
    return math.sqrt(float(clipped @ clipped) / (residuals.size - 1) / CLIPPED_SHARE)


def believed(residuals: Floats) -> float:
    """The scatter of nights that thresholds are made of."""
    excess = spread_of(residuals) - TRUSTED_SPREAD
    if excess <= 0:
        return LEAST_SPREAD
    return LEAST_SPREAD + WIDER * (1 + FEW / residuals.size) * _alike(residuals) * excess


def _alike(residuals: Floats) -> float:
    """By how much nights that resemble their neighbours widen the error of a level."""
    rho = _correlation(residuals, SURELY_ALIKE)
    return math.sqrt((1 + rho) / (1 - rho))


def _correlation(residuals: Floats, errors: float) -> float:
    """Of neighbouring nights, `errors` standard errors below its estimate and not below zero."""
    pulled = _pulled(residuals, CLIP * MAD * _median(np.abs(residuals)))
    own = float(pulled @ pulled)
    if own <= 0:
        return 0.0
    rho = float(pulled[1:] @ pulled[:-1]) / own - errors / math.sqrt(residuals.size)
    return min(max(rho, 0.0), MOST_ALIKE)


def _new(last: float, nights: Floats, rho: float) -> float:
    """The step that `nights` show beyond what their neighbours foretold; all, and the `last` night
    before them, count from the old level.

    Generalised least squares for a step in a first-order autoregression of `rho`: innovations
    d_t = x_t - rho x_(t-1), to which the first night of a step contributes all of it and each
    later one a share of 1 - rho.
    """
    told = nights - rho * np.concatenate(([last], nights[:-1]))
    shares = np.full(nights.size, 1 - rho)
    shares[0] = 1.0
    return float(shares @ told / (shares @ shares))


def _scatter(kept: Floats, segment: Floats) -> Floats:
    """The residuals of earlier segments and of this one."""
    return np.concatenate((kept, segment - _median(segment))) if segment.size else kept


def _median(values: Floats) -> float:
    """As numpy's, which takes five times as long for the few values here."""
    ranked = np.sort(values)
    return float(ranked[(values.size - 1) // 2] + ranked[values.size // 2]) / 2


def _pulled(values: Floats, reach: float) -> Floats:
    return np.minimum(np.maximum(values, -reach), reach)


def _change(segment: Floats, kept: Floats, *, back: bool) -> ChangePoint | None:
    """The change that the last nights of `segment` show, if they are sure of one; indexes count
    from its beginning. `kept` are residuals of the segments before.

    `back`: this segment is a slower one, so that a faster level is a return to the old one and
    need not wait.
    """
    least = CONFIRMED if kept.size else FEWEST
    at = _place(segment, kept, least)
    before, after = segment[:at], segment[at:]
    scatter = _scatter(kept, before)
    spread = spread_of(scatter)
    low, high = location(before, spread), location(after, spread)
    error = believed(scatter) * math.sqrt(1 / after.size + 1 / before.size)
    bar = BAR_OF_THREE if after.size == CONFIRMED else BAR
    if before.size < FEWEST:
        bar *= YOUNG_BAR
    step = high - low
    if step < 0 and not back:
        if after.size < FASTER_NIGHTS:
            return None
        bar *= FASTER_BAR
    wanted = max(bar * error, LEVEL_SHARE * LEAST_STEP)
    reach = HUBER * max(spread, LEAST_SPREAD / 3)
    new = _new(
        float(_pulled(before[-1:] - low, reach)[0]),
        _pulled(after - high, reach) + step,
        _correlation(scatter, LIKELY_ALIKE),
    )
    # A night shows the whole step at most: two wild ones must not carry a third.
    shown = np.minimum(math.copysign(1.0, step) * (after - low), abs(step))
    first, last = shown[:CONFIRMED], shown[-CONFIRMED:]
    ends = min(float(first.mean()), float(last.mean()))
    least_shown = min(float(first.min()), float(last.min()))
    sure = (
        abs(step) > wanted
        and math.copysign(1.0, step) * new > max(NEW_BAR * bar * error, LEAST_STEP)
        and _median(shown) > MEDIAN_SHARE * wanted
        and ends > SHARE * abs(step)
        and least_shown > min(abs(step) - NEAR * believed(scatter), NEARER * abs(step))
    )
    return ChangePoint(at, 0, low, high, Z95 * error) if sure else None


def _place(segment: Floats, kept: Floats, least: int) -> int:
    """The first night of the new level that explains the segment best; `least` nights before."""
    seen = segment.size
    quiet = segment[: max(seen - LONGEST, least)]
    scale = max(spread_of(_scatter(kept, quiet)), LEAST_SPREAD / 3)
    best, cost = seen - CONFIRMED, math.inf
    for at in range(max(least, seen - LONGEST), seen - CONFIRMED + 1):
        before, after = segment[:at], segment[at:]
        wrong = np.concatenate((before - location(before, scale), after - location(after, scale)))
        pulled = _pulled(wrong, FAR * scale)
        if (own := float(pulled @ pulled)) < cost:
            best, cost = at, own
    return best
