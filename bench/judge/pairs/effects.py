"""Which ends explain slow pairs: the arithmetic, without names and without words.

A pair is as slow as its slower end or its link: log t = reference + max(end, end, link) + noise.
An end is good if it is fast with somebody; it is slow if it is slow with every good end. Found by
repetition: good ends give the reference, the reference gives the good ends (facts of localisation:
bench/plan/rounds.py measures them). Ends are hosts; or leaves, or rails. Times are natural
logarithms of seconds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from bench.judge.pairs.subsets import slow_subset
from bench.judge.pairs.values import Bools, Floats, Ints

# Where the good pairs may begin: few hosts of which half are slow have few good pairs, and a low
# start among many alike takes luck for the norm. The start that explains most pairs is believed.
START_QUANTILES = (0.1, 0.25, 0.5)
MANY = 20_000  # pairs, from which on one start will do
FEW = 500  # pairs, up to which being fast with one host and with two are both tried as a start
FEW_ENDS = 10  # up to which every choice of slow ones, half of them at most, is tried
TURNS = 12
DECIDING = 3  # pairs with good hosts from which on their median is believed
MAD = 1.4826  # median absolute deviation to standard deviation, for normal noise
LEAST_NOISE = 0.003
FAST_WEIGHT = 3
LOW_SHARE = 0.1  # of a host's values is luck: with many, the smallest says nothing
# A threshold is at least so many times the noise of good pairs: the median of five normal values
# lies above it once in a quarter of a million. Pairs that scatter more hide what is below it.
NOISE_MULTIPLE = 2.5
NOISE_ERROR = 1.2  # relative, over the root of the pairs it is taken from (half of them, by MAD)
FEWEST_NOISY = 8  # pairs that alone can say how much pairs scatter
CORE_SHARE, CORE_ROOM = 0.25, 1.5


@dataclass(frozen=True)
class Effects:
    """`scores`: each end's log slowdown against good partners, NaN where it met none; `worst` and
    `best` the largest and smallest of the values behind it (but for a tenth at either end, from
    ten values up), `counts` how many there were; `fastest` the smallest with anybody (but for a
    tenth again). `threshold` is the log slowdown in use."""

    threshold: float
    reference: float
    noise: float
    alike: int  # pairs of good ends that the reference rests on
    good: Bools
    scores: Floats
    best: Floats
    worst: Floats
    fastest: Floats
    counts: Ints


def effects(count: int, first: Ints, second: Ints, logs: Floats, threshold: float) -> Effects:
    """Fixpoint over measurements `first[m], second[m], logs[m]` of `count` ends; `threshold` is a
    log slowdown, raised where good pairs scatter too much for it.

    A pair that was measured more often counts once, with its median: a link that was tried three
    times must not outvote what its ends do with others.
    """
    rows = _Rows(count, first, second, logs)
    found = _best_explained(rows, threshold)
    # of few pairs scatter is known badly: only what it surely exceeds is held against it
    noise = found.noise / (1 + NOISE_ERROR / max(found.alike, 1) ** 0.5)
    wanted = NOISE_MULTIPLE * min(noise, core_noise(rows.pair_logs))
    if wanted <= threshold or found.alike < FEWEST_NOISY:
        return found
    return _settled(rows, wanted, found.good)


def _best_explained(rows: _Rows, threshold: float) -> Effects:
    if rows.count <= FEW_ENDS:
        good = ~slow_subset(rows.count, rows.one, rows.other, rows.pair_logs, threshold)
        return _settled(rows, threshold, good)
    size = rows.pair_logs.size
    starts = START_QUANTILES if size <= MANY else START_QUANTILES[1:2]
    generous = (0, 1) if size <= FEW else (1,)
    answers = []
    for start in starts:
        reference = float(np.quantile(rows.pair_logs, start, method="lower"))
        for skip in generous:
            scores = rows.scores(None, reference, skip)[0]
            good = np.where(np.isnan(scores), True, scores <= threshold)
            answers.append(_settled(rows, threshold, good))
    return min(answers, key=lambda found: _unexplained(found, rows))


def _unexplained(found: Effects, rows: _Rows) -> tuple[int, int]:
    """How much is left unexplained, fewer is better; then how many ends are blamed.

    A slow pair of good ends may be a link, and costs as much as blaming an end. A pair faster
    than the norm has no explanation but a wrong norm.
    """
    clean = found.good[rows.one] & found.good[rows.other]
    above = rows.pair_logs[clean] - found.reference
    blamed = int((~found.good).sum())
    slow, fast = (above > found.threshold).sum(), (above < -found.threshold).sum()
    return int(slow) + FAST_WEIGHT * int(fast) + blamed, blamed


def _settled(rows: _Rows, threshold: float, good: Bools) -> Effects:
    """From a first guess of who is good to one that holds."""
    reference = float(np.median(rows.pair_logs))
    scores, best, worst, counts = rows.scores(None, reference)
    for _ in range(TURNS):
        clean = good[rows.one] & good[rows.other]
        if not clean.any():
            break
        reference = float(np.median(rows.pair_logs[clean]))
        scores, best, worst, counts = rows.scores(good, reference)
        before = good
        # who met no good end has not shown anything: neither good nor a yardstick for others
        good = np.where(np.isnan(scores), False, scores <= threshold)
        if (good == before).all():
            break
    clean = good[rows.one] & good[rows.other]
    noise = noise_of(rows.pair_logs[clean] - reference)
    fastest = rows.scores(None, reference)[1]
    return Effects(
        threshold, reference, noise, int(clean.sum()), good, scores, best, worst, fastest, counts
    )


def noise_of(residuals: Floats) -> float:
    """Standard deviation of good pairs' log times, from those faster than their middle.

    What is slow is above it, and what was left out for being slow is missing above it: the lower
    half is honest either way.
    """
    below = residuals[residuals < 0]
    return max(LEAST_NOISE, MAD * float(np.median(-below))) if below.size else LEAST_NOISE


def core_noise(logs: Floats) -> float:
    """What scatter can be at most: that of the quarter of pairs that lie closest together, with
    room for slow pairs among all that the quarter is taken of."""
    ranked = np.sort(logs)
    size = max(DECIDING, math.ceil(CORE_SHARE * ranked.size))
    if ranked.size < size:
        return math.inf
    width = float((ranked[size - 1 :] - ranked[: ranked.size - size + 1]).min())
    share = (size - 1) / ranked.size
    return max(LEAST_NOISE, CORE_ROOM * width / (2 * NormalDist().inv_cdf((1 + share) / 2)))


def by_pair(count: int, first: Ints, second: Ints, logs: Floats) -> tuple[Ints, Ints, Floats]:
    """One row per pair of ends, whoever is named first: the median of its measurements."""
    low, high = np.minimum(first, second), np.maximum(first, second)
    key = low * count + high
    order = _ranked(key, logs)
    key, ranked = key[order], logs[order]
    fresh = np.ones(key.size, dtype=bool)
    fresh[1:] = key[1:] != key[:-1]
    starts = np.flatnonzero(fresh)
    counts = np.diff(starts, append=key.size)
    medians = (ranked[starts + (counts - 1) // 2] + ranked[starts + counts // 2]) / 2
    return key[starts] // count, key[starts] % count, medians


def _ranked(groups: Ints, values: Floats) -> Ints:
    """The order by group, then value. Two passes, of which the second is a radix sort where there
    are few groups: five times as fast as numpy.lexsort for a million rows."""
    order = np.argsort(values)
    few = groups.size > 0 and int(groups.max()) < 2**15
    kind = np.int16 if few else np.int64
    ranked: Ints = order[np.argsort(groups[order].astype(kind), kind="stable")]
    return ranked


class _Rows:
    """A row per pair, and two per pair as its ends see it, sorted by end and time once: to take a
    reference off or to leave partners out changes no order."""

    def __init__(self, count: int, first: Ints, second: Ints, logs: Floats) -> None:
        self.count = count
        self.one, self.other, self.pair_logs = by_pair(count, first, second, logs)
        ends = np.concatenate((self.one, self.other))
        values = np.concatenate((self.pair_logs, self.pair_logs))
        order = _ranked(ends, values)
        self._ends, self._values = ends[order], values[order]
        self._partners = np.concatenate((self.other, self.one))[order]

    def scores(
        self, good: Bools | None, reference: float, skip: int | None = None
    ) -> tuple[Floats, Floats, Floats, Ints]:
        """Per end a score, the smallest, the largest value, the count; with `good` partners only.

        The score is the median; the smallest where there are fewer than DECIDING. For a start,
        with `skip`, it is the smallest but `skip` (of more than DECIDING): fast with anybody is
        good.
        """
        ends, values = self._ends, self._values
        if good is not None:
            kept = good[self._partners]
            ends, values = ends[kept], values[kept]
        return ranked_scores(self.count, ends, values - reference, skip)


def ranked_scores(
    count: int, ends: Ints, values: Floats, skip: int | None = None
) -> tuple[Floats, Floats, Floats, Ints]:
    """See _Rows.scores; `values` are sorted by end, then by size."""
    counts = np.bincount(ends, minlength=count)
    starts = np.concatenate(([0], np.cumsum(counts)[:-1]))
    scores, best, worst = (np.full(count, np.nan) for _ in range(3))
    some = counts > 0
    at, n = starts[some], counts[some]
    luck = (n * LOW_SHARE).astype(np.int64)
    best[some], worst[some] = values[at + luck], values[at + n - 1 - luck]
    medians = (values[at + (n - 1) // 2] + values[at + n // 2]) / 2
    if skip is None:
        scores[some] = np.where(n < DECIDING, values[at], medians)
    else:
        scores[some] = values[at + np.where(n > DECIDING, skip, 0)]
    return scores, best, worst, counts.astype(np.int64)


def link_residuals(
    count: int, first: Ints, second: Ints, logs: Floats, turns: int = 4
) -> tuple[Floats, float]:
    """What ends leave unexplained per measurement, and its noise: log t = m + a_i + a_j + r by
    median polish (Tukey), each pair counting once. Wants many pairs an end: for maps."""
    one, other, values = by_pair(count, first, second, logs)
    matrix = np.full((count, count), np.nan)
    matrix[one, other] = matrix[other, one] = values
    counts = (~np.isnan(matrix)).sum(axis=1)
    at = np.arange(count)
    centre = float(np.median(values))
    host = np.zeros(count)
    for _ in range(turns):
        ranked = np.sort(matrix - centre - host, axis=1)  # NaN comes last
        low, high = ranked[at, np.maximum(counts - 1, 0) // 2], ranked[at, counts // 2]
        high = np.where(counts > 1, high, low)
        medians = (low + high) / 2
        host = np.where((counts >= DECIDING) & ~np.isnan(medians), medians, 0.0)
        shift = float(np.median(host))
        host -= shift
        centre += 2 * shift
    left = values - centre - host[one] - host[other]
    noise = max(LEAST_NOISE, MAD * float(np.median(np.abs(left))))
    return logs - centre - host[first] - host[second], noise


def keys(hosts: int, first: Ints, second: Ints) -> Ints:
    """A number per pair of hosts, whoever is named first."""
    return np.minimum(first, second) * hosts + np.maximum(first, second)


def together(hosts: int, first: Ints, second: Ints) -> Ints:
    """The number of each host's group, hosts that share a pair being in one."""
    graph = coo_array((np.ones(first.size, dtype=bool), (first, second)), shape=(hosts, hosts))
    labels: Ints = connected_components(graph, directed=False)[1].astype(np.int64)
    return labels
