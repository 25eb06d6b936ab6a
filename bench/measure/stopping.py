"""When is a cell warm, and when has it been timed often enough? Pure: no clock, no torch.

In: the times of the calls so far (seconds, already all-reduced, so every rank holds the same
numbers). Out: how many calls to make next (0: none), and whether they were steady. Same numbers,
same answer on every rank: nothing here looks at a clock or draws a random number.
Method and values: Hoefler & Belli SC'15 (order-statistic intervals), pyperf (two windows).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bench.records import BadInput, PlanSettings

Times = Sequence[float] | npt.NDArray[np.float64]

STOP_CONFIDENCE = 0.99  # looking repeatedly costs coverage: 95 % would end up at 94 %
FIRST_LOOK, STEP = 30, 10  # simulated: 99 % from n = 30, every 10, covers 99.4 %
PROBE = 3  # calls that tell how long a call takes, before more are promised
CAP_S = 5.0  # the plan's minimum number of calls waits no longer than this
SMALL_BYTES = 64 * 1024  # below, latency's jitter allows only twice the half-width
WINDOW = 10
MEDIANS_WITHIN, QUARTILES_WITHIN = 0.01, 0.05
WARMUP_CALLS, WARMUP_S = 200, 2.0
WARMUP_SHARE = WARMUP_S / CAP_S  # of a cell's own seconds, where a plan gives it fewer than 5
SLOW_SHARE = 8  # a call above 1/8 of the cell's seconds is warm after two
ONE_WARM_SHARE = 0.5  # of the cell's seconds: such a call, if expected, is warm after one
CHEAP_CALLS = 5  # warm-up where two windows do not fit into its seconds
MAX_LAG1 = 0.95  # beyond, the widening is a guess anyway


class MedianInterval(NamedTuple):
    """A median with its order-statistic interval, in the unit of the times.

    `covered` is False where there are too few times for the confidence asked (fewer than 8 at
    99 %, than 6 at 95 %): then low and high are simply the smallest and largest.
    """

    median: float
    low: float
    high: float
    covered: bool

    @property
    def half_width(self) -> float:
        """Half of high - low as a fraction of the median."""
        return (self.high - self.low) / (2 * self.median)


@lru_cache(maxsize=4096)
def _lower_rank(count: int, confidence: float) -> int | None:
    """Largest 0-based rank whose order statistic lies above the median with P <= (1 - c) / 2.

    P(X_(r) > median) = P(Binomial(n, 1/2) <= r), exactly. None: not even the smallest value.
    """
    tail, cumulative, rank = (1 - confidence) / 2, 0.0, None
    for r in range(count // 2):
        # lgamma rather than comb: 2**-count underflows for the thousands of times of a pool
        log_choose = math.lgamma(count + 1) - math.lgamma(r + 1) - math.lgamma(count - r + 1)
        cumulative += math.exp(log_choose - count * math.log(2))
        if cumulative > tail:
            break
        rank = r
    return rank


def checked(times: Times) -> npt.NDArray[np.float64]:
    """The times as an array; BadInput unless there is at least one and all are above 0."""
    values = np.asarray(times, dtype=float)
    if values.ndim != 1 or values.size == 0:
        raise BadInput("times are a non-empty list of seconds")
    if not (np.isfinite(values).all() and (values > 0).all()):
        raise BadInput("every time is a finite number of seconds above 0")
    return values


def median_interval(times: Times, confidence: float = STOP_CONFIDENCE) -> MedianInterval:
    """Median of `times` and its distribution-free interval at `confidence` (0..1).

    Ranks are exact binomial ones; independence is assumed (see `widening`).
    """
    ordered = np.sort(checked(times))
    rank = _lower_rank(ordered.size, confidence)
    lower = 0 if rank is None else rank
    return MedianInterval(
        float(np.median(ordered)),
        float(ordered[lower]),
        float(ordered[ordered.size - 1 - lower]),
        rank is not None,
    )


def lag1(times: Times) -> float:
    """Lag-1 autocorrelation of the ranks of `times`, corrected for its small-sample bias.

    Ranks, because one outlier hides a correlation from the plain coefficient and the median does
    not care about its size. Kendall's bias -(1 + 3r) / n is taken out. 0.0 below 10 times or
    where all are equal: too little to know.
    """
    values = checked(times)
    n = values.size
    if n < 10 or values.min() == values.max():
        return 0.0
    ordered = np.sort(values)  # ties share their mean rank
    ranks = np.searchsorted(ordered, values, "left") + np.searchsorted(ordered, values, "right")
    centred = ranks - ranks.mean()
    raw = float(centred[1:] @ centred[:-1] / (centred @ centred))
    return float(np.clip((raw + 1 / n) / (1 - 3 / n), -MAX_LAG1, MAX_LAG1))


def widening(rho: float) -> float:
    """By how much autocorrelation widens an interval: sqrt((1 + r) / (1 - r)), never below 1."""
    rho = min(max(rho, 0.0), MAX_LAG1)
    return math.sqrt((1 + rho) / (1 - rho))


def widened_interval(times: Times, confidence: float = STOP_CONFIDENCE) -> MedianInterval:
    """`median_interval`, its two halves widened by the times' own autocorrelation."""
    median, low, high, covered = median_interval(times, confidence)
    wider = widening(lag1(times))
    # A time cannot be negative: the lower half keeps the ratio instead of the difference.
    return MedianInterval(
        median, median * (low / median) ** wider, median + (high - median) * wider, covered
    )


def settled(times: Times, window: int = WINDOW) -> bool:
    """Do the last two adjacent windows agree: medians within 1 %, quartiles within 5 %?

    False below two windows of times.
    """
    if len(times) < 2 * window:
        return False
    values = checked(times)[-2 * window :]
    before = np.percentile(values[:window], (25, 50, 75))
    after = np.percentile(values[window:], (25, 50, 75))
    change = np.abs(after / before - 1)
    return bool(change[1] <= MEDIANS_WITHIN and max(change[0], change[2]) <= QUARTILES_WITHIN)


def drifting(times: Times) -> bool:
    """Is the second half clearly elsewhere than the first: 99 % intervals apart, medians > 1 %?

    Noise alone makes windows of 10 disagree; this asks for evidence. The intervals are widened by
    what correlation is left beside a straight trend: the trend is what is looked for. False below
    16 times.
    """
    values = checked(times)
    half = values.size // 2
    if half < 8:
        return False
    logs = np.log(values)
    at = np.arange(values.size) - (values.size - 1) / 2
    wider = widening(lag1(np.exp(logs - at * float(at @ logs) / float(at @ at))))
    first, second = median_interval(values[:half]), median_interval(values[half:])
    lower, upper = sorted((first, second))
    gap = math.log(upper.median / lower.median)
    noise = wider * (math.log(lower.high / lower.median) + math.log(upper.median / upper.low))
    return gap > max(noise, MEDIANS_WITHIN)


@dataclass(frozen=True)
class Warmup:
    """The calls before the timed ones. `cell_s` is the plan's seconds per cell."""

    cell_s: float

    @classmethod
    def of(cls, settings: PlanSettings) -> Warmup:
        """The warm-up of a plan."""
        return cls(settings.cell_s)

    @property
    def budget_s(self) -> float:
        """Seconds that a warm-up may take."""
        return min(WARMUP_S, self.cell_s * WARMUP_SHARE)

    def next_batch(
        self, times: Times, elapsed_s: float | None = None, *, expected_s: float | None = None
    ) -> int:
        """How many more warm-up calls (0: start timing).

        `elapsed_s` is what the times cost, where one time stands for several calls; it defaults
        to their sum, and if given must be the same number on every rank. `expected_s`: what one
        call takes at most if nothing has to be set up; None: not known.
        """
        n = len(times)
        if n == 0:
            return 1  # alone: it sets up connections and tells nothing about the next
        if n == 1:
            # slow is not enough: NCCL connects at its first call, and whenever it changes its
            # algorithm, and such a time tells neither that the call is dear nor that it is warm
            dear = times[0] > self.cell_s * ONE_WARM_SHARE
            return 0 if dear and expected_s is not None and times[0] <= expected_s else 1
        scale = 1.0 if elapsed_s is None else elapsed_s / sum(times)
        call_s = float(np.median(checked(times)[1:])) * scale
        elapsed = sum(times[1:]) * scale  # connecting is not on the warm-up's account
        if call_s > self.cell_s / SLOW_SHARE:
            return 0
        if 2 * WINDOW * call_s > self.budget_s:
            return max(0, min(CHEAP_CALLS - n, math.ceil((self.budget_s - elapsed) / call_s)))
        if n < 2 * WINDOW:
            return 2 * WINDOW - n
        if settled(times) or n >= WARMUP_CALLS or elapsed >= self.budget_s:
            return 0
        return STEP

    def unsettled(self, times: Times) -> bool:
        """After the last batch: were the calls still moving? Only on evidence, never because
        noise kept two windows of 10 from agreeing or because a slow call left no time to look."""
        return len(times) >= 2 * WINDOW and not settled(times) and drifting(times[1:])


@dataclass(frozen=True)
class Rule:
    """When the timed calls of one cell end; numbers of the plan (see PlanSettings)."""

    cell_s: float
    min_iterations: int
    max_iterations: int
    half_width: float  # of the median's 99 % interval, as a fraction

    def __post_init__(self) -> None:
        if not 1 <= self.min_iterations <= self.max_iterations:
            raise BadInput(
                f"min_iterations ({self.min_iterations}) is at least 1 and at most "
                f"max_iterations ({self.max_iterations})"
            )
        if not (self.cell_s > 0 and self.half_width > 0):
            raise BadInput("cell_s and half_width are above 0")

    @classmethod
    def of(cls, settings: PlanSettings, size_bytes: int) -> Rule:
        """The rule for one cell of a plan: twice the half-width below 64 KiB."""
        return cls(
            settings.cell_s,
            settings.min_iterations,
            settings.max_iterations,
            settings.half_width * (2 if size_bytes < SMALL_BYTES else 1),
        )

    def next_batch(
        self, times: Times, elapsed_s: float | None = None, *, expected_s: float | None = None
    ) -> int:
        """How many more timed calls (0: stop). `elapsed_s` as for Warmup.next_batch.

        First as many as the first look takes (30, or max_iterations) if the warm-up tells that
        they fit (`expected_s` a call; None: it does not tell, and PROBE calls do), then tens,
        until the median is known well enough, `cell_s` is spent or max_iterations are done. A call
        that does not fit is still made min_iterations times, or for as long as CAP_S allows.
        """
        n = len(times)
        if n == 0:
            probe = min(PROBE, self.min_iterations)
            if expected_s is None:
                return probe
            wanted = max(self.min_iterations, min(FIRST_LOOK, self.max_iterations))
            return max(probe, min(wanted, math.floor(self.cell_s / expected_s)))
        elapsed = sum(times) if elapsed_s is None else elapsed_s
        call_s = float(np.median(checked(times))) * elapsed / sum(times)
        if n < self.min_iterations:
            fit = math.floor((max(self.cell_s, CAP_S) - elapsed) / call_s)
            return max(0, min(self.min_iterations - n, fit))
        fit = max(0, math.floor((self.cell_s - elapsed) / call_s))
        first_look = min(FIRST_LOOK, self.max_iterations)
        if n < first_look:
            return min(first_look - n, fit)
        if n >= self.max_iterations or self.precise(times):
            return 0
        return min(STEP, self.max_iterations - n, fit)

    def precise(self, times: Times) -> bool:
        """Is the median known to within `half_width`, autocorrelation counted in?"""
        interval = widened_interval(times)
        return interval.covered and interval.half_width <= self.half_width
