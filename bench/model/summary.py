"""Samples into points: one size of one candidate and collective, with a 95 % interval.

In: sessions with their samples. Out: points, ascending in size. The session (a fresh group) is
the unit of repetition: iterations of one session share its luck, so they are never pooled into
one interval (facts of the field: pooling is the commonest error; see Kalibera & Jones).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from bench.measure.stopping import Times, checked, lag1, median_interval, widening
from bench.model.busbw import factor
from bench.records import Point, Sample, Session

Floats = npt.NDArray[np.float64]

CONFIDENCE = 0.95  # of every interval that is reported
NOISY_HALF_WIDTH = 0.10
UNKNOWN_HALF_WIDTH = 0.10  # of a single time: nothing is known of its spread; noisy by definition
MOST_LOG_HALF = math.log(10)  # two times far apart say "unknown", not "1e80 seconds"
# Two modes: each holds 15 % of the times, they lie 20 % apart, and 6 of their own standard
# deviations: the best split of one normal reaches 2.7, of a uniform 3.5, of 30 of them 5.5.
MODE_SHARE, MODE_RATIO, MODE_DISTANCE = 0.15, 1.2, 6.0
MODE_TIMES = 20

_Key = tuple[int, Literal["fit", "held-out"]]  # size_bytes, group


def t_half_width(logs: Floats) -> float:
    """Half-width of the 95 % t-interval of the mean of `logs` (two values or more)."""
    k = logs.size
    quantile = float(stdtrit(k - 1, (1 + CONFIDENCE) / 2))
    return min(MOST_LOG_HALF, quantile * float(logs.std(ddof=1)) / math.sqrt(k))


def bimodal(times: Times) -> bool:
    """Do the times fall into two clearly separate groups? False below 20 times."""
    logs = np.log(np.sort(checked(times)))
    n = logs.size
    if n < MODE_TIMES:
        return False
    # Otsu's split: the one that leaves the least variance within the groups.
    left = np.arange(1, n)
    sums, squares = np.cumsum(logs), np.cumsum(logs**2)
    mean_left, mean_right = sums[:-1] / left, (sums[-1] - sums[:-1]) / (n - left)
    within = np.maximum(squares[-1] - left * mean_left**2 - (n - left) * mean_right**2, 0.0)
    split = int(np.argmin(within)) + 1
    apart = float(mean_right[split - 1] - mean_left[split - 1])
    spread = math.sqrt(float(within[split - 1]) / n)
    return (
        min(split, n - split) >= MODE_SHARE * n
        and apart >= math.log(MODE_RATIO)
        and apart >= MODE_DISTANCE * spread
    )


def _within(times: Floats, rho: float) -> tuple[float, float, float]:
    """Median of one session's times, and its log distances down and up to the 95 % interval.

    Below 6 times no pair of order statistics covers 95 %, below 8 it is their range: there the
    t-interval on logs is taken where it is wider.
    """
    median, low, high, _ = median_interval(times, CONFIDENCE)
    down, up = math.log(median / low), math.log(high / median)
    if times.size == 1:
        down = up = UNKNOWN_HALF_WIDTH
    elif times.size < 8:
        half = t_half_width(np.log(times))
        down, up = max(down, half), max(up, half)
    wider = widening(rho)
    return median, min(down * wider, MOST_LOG_HALF), min(up * wider, MOST_LOG_HALF)


def _interval(sessions: Sequence[Floats], rho: float) -> tuple[float, float, float]:
    """Value, low and high (seconds) of one cell over its sessions.

    The value is the median over session medians: one bad session of three does not move it. With
    three sessions or more the interval is the t-interval on the logs of the session medians, which
    holds between-session and within-session noise alike; but three medians that agree by luck
    would make it vanish, so it is never narrower than what the iterations alone leave open (the
    root mean square of the within-session half-widths, over the root of the sessions). It is
    centred on the mean log and stretched to hold the value. One or two sessions cannot show how
    sessions differ: the interval is the hull of their within-session intervals.
    """
    parts = [_within(times, rho) for times in sessions]
    medians = np.array([median for median, _, _ in parts])
    value = float(np.median(medians))
    if len(parts) < 3:
        return (
            value,
            min(median * math.exp(-down) for median, down, _ in parts),
            max(median * math.exp(up) for median, _, up in parts),
        )
    logs = np.log(medians)
    plain = [median_interval(times, CONFIDENCE) for times in sessions]
    squares = [(math.log(p.high / p.low) / 2 * widening(rho)) ** 2 for p in plain]
    alone = math.sqrt(sum(squares) / len(squares) / len(squares))
    half = max(t_half_width(logs), alone)
    centre = float(logs.mean())
    return value, min(value, math.exp(centre - half)), max(value, math.exp(centre + half))


def _cells(
    sessions: Sequence[Session], candidate: str, collective: str
) -> dict[_Key, dict[int, list[Sample]]]:
    """Per size and group: the samples of each session that has it, by its place in `sessions`."""
    cells: dict[_Key, dict[int, list[Sample]]] = {}
    for place, session in enumerate(sessions):
        if session.case.candidate != candidate:
            continue
        for sample in session.samples:
            if sample.collective == collective and sample.times_s:
                cell = cells.setdefault((sample.size_bytes, sample.group), {})
                cell.setdefault(place, []).append(sample)
    return cells


def _comparable(cell: Mapping[int, Sequence[Sample]]) -> dict[int, list[Sample]]:
    """The largest set of sessions whose times stand for equally many calls.

    Calls that share a time overlap, so their mean is another quantity than a single call's time:
    pooled, the difference would pass for noise between sessions. Of equal sets the one with the
    fewest calls per time is kept, the nearest to a call by itself.
    """
    counts = Counter(
        calls for samples in cell.values() for calls in {s.calls_per_time for s in samples}
    )
    most = max(counts, key=lambda calls: (counts[calls], -calls))
    kept = {
        place: [s for s in samples if s.calls_per_time == most] for place, samples in cell.items()
    }
    return {place: samples for place, samples in kept.items() if samples}


def _times(samples: Sequence[Sample]) -> Floats:
    return checked([time for sample in samples for time in sample.times_s])


def _skew(samples: Sequence[Sample]) -> tuple[float, float]:
    """Median of (max - min) / max over ranks, and of max - min in seconds; 0 where unknown."""
    pairs = [
        pair
        for sample in samples
        if len(sample.times_min_s) == len(sample.times_s)
        for pair in zip(sample.times_s, sample.times_min_s, strict=True)
    ]
    if not pairs:
        return 0.0, 0.0
    largest, smallest = np.array(pairs).T
    gap = np.maximum(largest - smallest, 0.0)
    return float(np.median(gap / largest)), float(np.median(gap))


def points(
    sessions: Sequence[Session], candidate: str, collective: str, ranks: int
) -> tuple[Point, ...]:
    """The points of one line, ascending in size; broken-off sessions count with what they have.

    Times in seconds, intervals 95 %. Raises BadInput where a time is not a finite number above 0.
    """
    share = factor(collective, ranks)
    found = []
    cells = _cells(sessions, candidate, collective)
    for (size_bytes, group), cell in sorted(cells.items()):
        by_session = _comparable(cell)
        times = [_times(samples) for samples in by_session.values()]
        flat = [sample for samples in by_session.values() for sample in samples]
        rho = float(np.median([lag1(one) for one in times]))
        value, low, high = _interval(times, rho)
        skew, skew_s = _skew(flat)
        algbw_gbs = size_bytes / value / 1e9
        two_modes = 2 * sum(bimodal(one) for one in times) >= len(times)
        found.append(
            Point(
                size_bytes=size_bytes,
                time_s=value,
                low_s=low,
                high_s=high,
                iterations=sum(one.size for one in times),
                sessions=len(times),
                left_out=len(cell) - len(times),
                algbw_gbs=algbw_gbs,
                busbw_gbs=algbw_gbs * share,
                skew=skew,
                skew_s=skew_s,
                autocorrelation=rho,
                noisy=two_modes or (high - low) / (2 * value) > NOISY_HALF_WIDTH,
                settled=all(sample.settled for sample in flat),
                wrong=sum(sample.wrong for samples in cell.values() for sample in samples),
                calls_per_time=flat[0].calls_per_time,
                group=group,
            )
        )
    return tuple(found)


def session_medians(
    sessions: Sequence[Session], candidate: str, collective: str
) -> tuple[Mapping[int, float], ...]:
    """Per session with samples: median time in seconds by size, grid sizes only (see costline).

    A session left out of a point has no median at its size.
    """
    by_place: dict[int, dict[int, float]] = {}
    for (size_bytes, group), cell in sorted(_cells(sessions, candidate, collective).items()):
        if group == "fit":
            for place, samples in _comparable(cell).items():
                medians = by_place.setdefault(place, {})
                medians[size_bytes] = float(np.median(_times(samples)))
    return tuple(by_place[place] for place in sorted(by_place))
