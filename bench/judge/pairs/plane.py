"""One network's pairs judged: its slow hosts, links, ways; hosts and rails as numbers, no words.

A plane is what one rail's NICs meet on; without rails there is one plane. A host is accused if it
is slow with every good host that it met, two at least, and fast with nobody at all; a link if its
pair is slow in each of three measurements while both its ends are good.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist

import numpy as np

from bench.judge.pairs.effects import (
    DECIDING,
    FEW_ENDS,
    LEAST_NOISE,
    Effects,
    by_pair,
    effects,
    keys,
)
from bench.judge.pairs.subsets import NOISE_SHARE
from bench.judge.pairs.values import SPREAD, Bools, Columns, Floats, Ints
from bench.records import Direction

OTHER_WAY = 0.1  # of what the slow way loses; a busy machine slows the good one by some per cent
AGREEING = 0.5  # every deciding value lies above this share of the threshold
# Where less than this share of the pairs is the norm, or one or two pairs are, it takes so much
# more to accuse all others.
LONE_SHARE, LONE_NORM = 0.25, 1.3
PARTNERS = 2  # different good hosts: one alone might be a slow link
# Times the error of a mean that good hosts' values do not reach, though the unluckiest of all is
# looked at.
SURE, SURE_LONE = 3.0, 2.0  # SURE_LONE beside LONE_NORM
SURE_AGAIN = 2.5  # times the error by repetitions, which knows nothing of who was chosen
FEWEST_FREE, ENOUGH_FREE = 4, 30  # degrees of freedom: below, scatter says nothing; it says all
FEWEST_AGAIN = 3  # of pairs that were measured again
# Where pairs scatter by more than this share of the threshold, more repetitions did not help: what
# pairs have of their own is no noise that more pairs would average out.
NOISY_SHARE, NOISY = 0.8, 4.0
TENTH = 0.1
APART = math.log(SPREAD)  # values of one part that lie farther apart have more than one cause
RMS_OF_TWO = 0.83  # median of the root mean square of two standard normal values
KEPT_SHARE, KEPT_WIDTH = 0.8, 0.66  # the inner 80 % of normal values scatter by 0.66 of all


@dataclass(frozen=True)
class Slow:
    """Log slowdowns of a part: the middle, the smallest and the largest of what decided."""

    middle: float
    low: float
    high: float


@dataclass(frozen=True)
class Plane:
    """`rail` is DEFAULT_RAIL where there are none. `logs` are the slower way's, without what is
    common to all pairs that cross leaves."""

    rail: int
    hosts: int
    columns: Columns
    logs: Floats
    found: Effects
    known_scatter: float | None = None

    @cached_property
    def above(self) -> Floats:
        """Log slowdown of each measurement against the reference."""
        return self.logs - self.found.reference

    @cached_property
    def directed(self) -> tuple[Ints, Ints, Floats]:
        """(sender, receiver, log slowdown against good pairs one way), two rows a measurement."""
        sender, receiver, logs = self.columns.directed()
        shift = self.columns.slower - self.logs
        logs = logs - np.concatenate((shift, shift))
        clean = self.found.good[sender] & self.found.good[receiver]
        norm = float(np.median(logs[clean])) if clean.any() else self.found.reference
        return sender, receiver, logs - norm

    @cached_property
    def slow_hosts(self) -> dict[int, Slow]:
        """Worst first."""
        found = self.found
        bar = found.threshold * (LONE_NORM if self.has_lone_norm else 1.0)
        slow = (
            (found.counts >= PARTNERS)
            & ~found.good
            & (self.middles > np.maximum(bar, self.sure(found.counts)))
            & (found.best > bar * AGREEING)
            & (found.fastest > bar * AGREEING)
        )
        if found.alike < DECIDING and self.both_good.any():
            # one pair fast once may be luck; it must be fast whenever it is measured
            slow &= self.middles > found.threshold + float(self.above[self.both_good].max())
        numbers = np.flatnonzero(slow)
        ranked = numbers[np.argsort(-self.middles[numbers])].tolist()
        return {host: self._slow(host) for host in ranked}

    @cached_property
    def middles(self) -> Floats:
        """Scores; of two values their mean, where a search for good hosts takes the smaller. Where
        values disagree by far (paths that collided by chance), the smallest is what is sure."""
        found = self.found
        few = found.counts < DECIDING
        middles = np.where(few, (found.best + found.worst) / 2, found.scores)
        agreed: Floats = np.where(middles - found.best > APART, found.best, middles)
        return agreed

    @cached_property
    def has_lone_norm(self) -> bool:
        """Whether what good is rests on few of the pairs."""
        return self.found.alike < max(DECIDING, LONE_SHARE * self.by_pair[0].size)

    def sure(self, counts: Ints) -> Floats:
        """Log slowdown that scatter alone does not reach, by how many pairs say so."""
        times = SURE_LONE if self.has_lone_norm else SURE
        with np.errstate(divide="ignore"):
            each = np.sqrt(1 / counts + 1 / max(self.found.alike, 1))
        sure: Floats = np.maximum(times * self.scatter, SURE_AGAIN * self.repetition_error) * each
        noisy = max(self.scatter, self._spread_of_all) > NOISY_SHARE * self.found.threshold
        return np.maximum(sure, NOISY * self.scatter) if noisy else sure

    @cached_property
    def by_pair(self) -> tuple[Ints, Ints, Floats]:
        """A row per pair: its ends, its log slowdown."""
        return by_pair(self.hosts, self.columns.first, self.columns.second, self.above)

    @cached_property
    def scatter(self) -> float:
        """Standard deviation of what hosts leave unexplained. Few pairs are often alike by luck;
        then the measurements of one pair must be as well, and the repetitions of a measurement."""
        if self.known_scatter is not None:
            return self.known_scatter
        between, free = self._between_pairs
        if free < FEWEST_FREE:
            between = NOISE_SHARE * self.found.threshold
        if free >= ENOUGH_FREE:
            return max(LEAST_NOISE, between)
        return max(LEAST_NOISE, between, self._within_pairs, self.repetition_error)

    @property
    def _spread_of_all(self) -> float:
        """Standard deviation from the lower half of all pairs, good or not: nobody has chosen
        them, while good hosts are chosen for being fast."""
        above = self.by_pair[2]
        if self.hosts <= FEW_ENDS:
            return 0.0  # of few pairs too many may be slow
        middle, low = np.quantile(above, (0.5, TENTH))
        return float(middle - low) / NormalDist().inv_cdf(1 - TENTH)

    @property
    def _between_pairs(self) -> tuple[float, int]:
        """What hosts explain is taken off; also told: from how many degrees of freedom."""
        one, other, above = self.by_pair
        good = self.found.good
        level = np.where(good, 0.0, self.found.scores)
        told = (good[one] | good[other]) & ~np.isnan(level[one] + level[other])
        left = (above - np.maximum(level[one], level[other]))[told]
        free = left.size - 1 - int((~good & self.met).sum())
        return _inner_width(left, free), free

    @property
    def _within_pairs(self) -> float:
        """From pairs that were measured again in a later round, but for those whose paths once
        collided."""
        key = keys(self.hosts, self.columns.first, self.columns.second)
        _, group, counts = np.unique(key, return_inverse=True, return_counts=True)
        left = self.above - (np.bincount(group, self.above) / counts)[group]
        wide = np.zeros(counts.size)
        np.maximum.at(wide, group, np.abs(left))
        kept = (counts[group] > 1) & (wide[group] < APART / 2)
        free = int(kept.sum()) - np.unique(group[kept]).size
        return _inner_width(left[kept], free) if free >= FEWEST_AGAIN else 0.0

    @cached_property
    def repetition_error(self) -> float:
        """Standard error of a measurement by its repetitions, where its paths did not collide."""
        told = self.columns.error[self.columns.spread < SPREAD]
        return float(np.median(told)) / RMS_OF_TWO if told.size else 0.0

    def _slow(self, host: int) -> Slow:
        found = self.found
        return Slow(float(self.middles[host]), float(found.best[host]), float(found.worst[host]))

    @cached_property
    def both_good(self) -> Bools:
        found = self.found
        good: Bools = found.good[self.columns.first] & found.good[self.columns.second]
        return good

    @cached_property
    def both_cleared(self) -> Bools:
        """Which measurements are of hosts that are not to blame for them: of good ones; of few
        hosts, too, of any that are as fast as others with somebody, for two slow links are most of
        what a host of four has. Only where the measurement lies so far from the fast one that this
        was no luck: else it is a slow host, and its pairs are no links."""
        if self.hosts > FEW_ENDS:
            return self.both_good
        found = self.found
        fast = found.good | (self.met & (found.fastest <= found.threshold * AGREEING))
        both = fast[self.columns.first] & fast[self.columns.second]
        cleared: Bools = self.both_good | (both & (self.above > APART))
        return cleared

    @cached_property
    def doubtful(self) -> Bools:
        """Hosts that are neither good nor slow for certain."""
        doubtful: Bools = self.met & ~self.found.good
        doubtful[list(self.slow_hosts)] = False
        return doubtful

    @cached_property
    def met(self) -> Bools:
        """Hosts that were measured at all."""
        met = np.zeros(self.hosts, dtype=bool)
        met[self.columns.first] = met[self.columns.second] = True
        return met


def plane(
    rail: int,
    hosts: int,
    columns: Columns,
    logs: Floats,
    threshold: float,
    scatter: float | None = None,
) -> Plane:
    """`columns` of this rail only, at least one; `threshold` a log slowdown."""
    found = effects(hosts, columns.first, columns.second, logs, threshold)
    return Plane(rail, hosts, columns, logs, found, scatter)


def _inner_width(left: Floats, free: int) -> float:
    """Standard deviation of residuals with so many degrees of freedom; a fifth of them, those
    farthest off, does not count: a slow link is no scatter."""
    if free < 1:
        return 0.0
    kept = np.sort(np.abs(left))[: math.ceil(KEPT_SHARE * left.size)]
    return float(np.sqrt((kept**2).mean() * left.size / free)) / KEPT_WIDTH


def is_slow(on: Plane, group: Sequence[int]) -> bool:
    """Whether the pairs of a group of hosts are slow beyond what scatter does by chance."""
    one, other, above = on.by_pair
    inside = np.zeros(on.hosts, dtype=bool)
    inside[list(group)] = True
    good = on.found.good
    own = above[(inside[one] & (inside[other] | good[other])) | (inside[other] & good[one])]
    if not own.size:
        return False
    bar = max(on.found.threshold, float(on.sure(np.array(own.size))))
    return bool(np.median(own) > bar and own.min() > AGREEING * on.found.threshold)


def way_of_host(on: Plane, host: int) -> Direction:
    """Which way is slow: only where the other way clearly is not."""
    sender, receiver, above = on.directed
    out = above[(sender == host) & on.found.good[receiver]]
    back = above[(receiver == host) & on.found.good[sender]]
    return one_way(out, back, on.found.threshold)


def one_way(out: Floats, back: Floats, threshold: float) -> Direction:
    if not out.size or not back.size:
        return "both"
    there, here = float(np.median(out)), float(np.median(back))
    if there > threshold and here <= _unharmed(threshold, there):
        return "transmit"
    if here > threshold and there <= _unharmed(threshold, here):
        return "receive"
    return "both"


def _unharmed(threshold: float, slow: float) -> float:
    """What the good way may lose: less than would be accused, and little beside the slow way."""
    return max(AGREEING * threshold, min(threshold, OTHER_WAY * slow))
