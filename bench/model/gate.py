"""From good runs to a gate: the level they reached and how far below it the next one may lie.

In: one figure per good run (a fitted bandwidth or latency) and how sure each was. Out: their
level, and the fraction beyond which a new run is not one of them. The run is the sample, not the
session: sessions of one run share what differs between runs (bench.model.spread, RUN_FLOOR).

The next run of K, all log-normal alike, lies within t(K-1, p) s sqrt(1 + 1/K) of their mean with
probability p: the prediction interval of a single future observation, one-sided.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from scipy.special import stdtrit

from bench.model.spread import RUN_FLOOR

# Of one line in one good run. Eight lines a night make a false alarm in 125 nights; where run
# noise has heavy tails (Student's t with 3 degrees) it is up to ten times as many.
FALSE_ALARM = 0.001
POWER = 0.9  # with which a gate promises to see what it calls detectable
# Two runs show one difference, and t(1, 0.999) is 318: no gate can be made of them.
FEWEST_RUNS = 3
# A false alarm costs more than a missed 2 %: no gate is narrower, however alike the runs were.
LEAST = {"below": 0.02, "above": 0.10}
# Latencies of whole runs differ more than bandwidths: by 2-4 % on an idle host.
FLOOR = {"below": RUN_FLOOR, "above": 0.03}
FAR = 50.0  # a log beyond which a tolerance is only a large number


@dataclass(frozen=True)
class Gate:
    """`level` is the geometric mean of `runs` figures, `spread` their standard deviation as a
    fraction. `tolerance` is the fraction below (or above) that is an alarm, rounded up to 0.1 %;
    `detectable` the one that POWER of such runs show. Both None where the runs are too few."""

    level: float
    runs: int
    spread: float | None = None
    tolerance: float | None = None
    detectable: float | None = None


def gate(
    values: Sequence[float],
    half_widths: Sequence[float] = (),
    *,
    side: Literal["below", "above"] = "below",
) -> Gate:
    """The gate of good runs' figures, all positive.

    `half_widths` are the runs' own intervals on logs, towards the other side: an alarm also wants
    the whole interval of a run beyond the gate, so what is detectable lies that much further.
    """
    logs = [math.log(value) for value in values]
    runs, mean = len(logs), sum(logs) / len(logs)
    level = math.exp(mean)
    if runs < 2:
        return Gate(level, runs)
    spread = math.sqrt(sum((log - mean) ** 2 for log in logs) / (runs - 1))
    if runs < FEWEST_RUNS:
        return Gate(level, runs, spread)
    scale = max(spread, FLOOR[side]) * math.sqrt(1 + 1 / runs)
    least = -math.log(1 - LEAST[side]) if side == "below" else math.log(1 + LEAST[side])
    tolerance = _up(_fraction(max(scale * _t(runs, 1 - FALSE_ALARM), least), side))
    if side == "below":
        tolerance = min(tolerance, 0.999)  # below nothing at all lies no figure
    own = sorted(half_widths)[len(half_widths) // 2] if half_widths else 0.0
    reach = _log(tolerance, side) + own + scale * _t(runs, POWER)
    return Gate(level, runs, spread, tolerance, _fraction(reach, side))


def _t(runs: int, probability: float) -> float:
    return float(stdtrit(runs - 1, probability))


def _fraction(log: float, side: str) -> float:
    """0.05 for what lies a log of 0.0513 below."""
    return -math.expm1(-log) if side == "below" else math.expm1(min(log, FAR))


def _log(fraction: float, side: str) -> float:
    return -math.log1p(-fraction) if side == "below" else math.log1p(fraction)


def _up(fraction: float) -> float:
    """To 0.1 %, upwards: rounding must not make a gate narrower."""
    return math.ceil(fraction * 1000 - 1e-9) / 1000
