"""Leaves and islands: pairs that are slow because of where their hosts hang, not of a host.

In: log times of pairs and, where the fabric file tells it, the leaf of each host. Out: leaves that
are slow to all others (their uplinks) or in everything (the switch), and what all pairs that cross
leaves have in common. Without leaves, islands: hosts fast among themselves and slow to all others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bench.judge.pairs.effects import LOW_SHARE, by_pair, keys, together
from bench.judge.pairs.plane import Plane, plane
from bench.judge.pairs.values import DEFAULT_RAIL, Bools, Columns, Floats, Ints

AGREEING = 0.5  # nine of ten deciding values lie above this share of the threshold
FEWEST_ACROSS = 3  # pairs that must agree, of two hosts at least on either side
FEWEST_ALIKE = 4  # pairs of a kind from which on they are a norm
LOWER = 0.25
FEWEST_LEAVES = 3  # of two, nobody can say which one's uplink it is
WHOLE_LEAF = 3  # hosts; two that are both slow are two slow hosts


@dataclass(frozen=True)
class SlowLeaf:
    """`hosts` as numbers; `across`: only what leaves the leaf is slow. Log slowdowns: the middle,
    and the middle nine tenths of the pairs that decided."""

    hosts: tuple[int, ...]
    across: bool
    middle: float
    low: float
    high: float
    pairs: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class LeafView:
    """What leaves explain. `offset`: log slowdown of all pairs that cross leaves against those
    inside, 0 where it is none worth a word or cannot be told; `crossing` pairs of measurements."""

    slow: tuple[SlowLeaf, ...] = ()
    offset: float = 0.0
    crossing: Bools | None = None
    explained: Bools | None = None  # measurements that a slow leaf accounts for

    def telling(self, home: Ints, first: Ints, second: Ints) -> Bools | None:
        """Measurements that say something of hosts; None where all do. A pair across leaves that
        are slow to each other hides a host that is less slow, unless it is alone in its leaf."""
        if self.crossing is None or self.explained is None:
            return None
        telling = ~self.explained
        if self.offset > 0:
            met = np.union1d(first, second)
            company = np.bincount(home[met][home[met] >= 0], minlength=int(home.max()) + 1)
            alone = company[home] < 2
            telling &= ~self.crossing | alone[first] | alone[second]
        return telling


def leaves(
    home: Ints, hosts: int, first: Ints, second: Ints, logs: Floats, threshold: float
) -> LeafView:
    """`home`: each host's leaf, -1 for none known. `threshold` a log slowdown."""
    known = (home[first] >= 0) & (home[second] >= 0)
    crossing = known & (home[first] != home[second])
    if not crossing.any():
        return LeafView()
    rows = _Leaves(home, hosts, first, second, logs, crossing, known & ~crossing, threshold)
    slow = [*rows.slow_inside(), *rows.slow_across()]
    explained = np.zeros(first.size, dtype=bool)
    for leaf in slow:
        own = np.isin(np.arange(hosts), leaf.hosts)
        touches = own[first] | own[second]
        explained |= touches & crossing if leaf.across else touches
    offset = rows.offset()
    return LeafView(tuple(slow), offset, crossing, explained)


class _Leaves:
    """Pairs inside leaves and pairs across them, a row per pair of hosts."""

    def __init__(
        self, home: Ints, hosts: int, first: Ints, second: Ints, logs: Floats,
        crossing: Bools, inside: Bools, threshold: float,
    ) -> None:  # fmt: skip
        self._home, self._threshold = home, threshold
        self._count = int(home.max()) + 1
        one, other, across = by_pair(hosts, first[crossing], second[crossing], logs[crossing])
        self._one, self._other, self._across = one, other, across
        self._here, self._there = home[one], home[other]
        if inside.any():
            one, other, own = by_pair(hosts, first[inside], second[inside], logs[inside])
            self._at, self._inside = home[one], own
        else:
            self._at, self._inside = one[:0], across[:0]
        enough = np.union1d(self._here, self._there).size >= FEWEST_LEAVES
        self._plane = self._as_plane() if enough else None
        self._whole = {leaf.hosts for leaf in self.slow_inside()}

    def _as_plane(self) -> Plane:
        """Leaves in the place of hosts: what it takes to accuse one is the same."""
        none = np.full(self._here.size, DEFAULT_RAIL)
        columns = Columns(
            first=self._here, second=self._there, rail=none, other_rail=none,
            forward=self._across, backward=self._across, latency=self._across,
            spread=np.ones(none.size), error=np.zeros(none.size),
        )  # fmt: skip
        return plane(DEFAULT_RAIL, self._count, columns, self._across, self._threshold)

    def _members(self, leaf: int) -> tuple[int, ...]:
        return tuple(int(host) for host in np.flatnonzero(self._home == leaf))

    def _norm(self) -> float | None:
        """Log time of a pair inside a good leaf: the lower middle of the leaves' middles."""
        middles = [np.median(self._inside[self._at == leaf]) for leaf in np.unique(self._at)]
        return float(sorted(middles)[(len(middles) - 1) // 2]) if middles else None

    def slow_inside(self) -> list[SlowLeaf]:
        """Leaves whose own pairs are all slow, and none of whose pairs with others is fast: the
        switch itself. Of one or two hosts it would be the hosts."""
        norm, found = self._norm(), []
        for leaf in np.unique(self._at).tolist() if norm is not None else ():
            above = self._inside[self._at == leaf] - norm
            out = self._across[(self._here == leaf) | (self._there == leaf)] - norm
            agree = above.size > 1 and above.min() > AGREEING * self._threshold
            if not agree or float(np.median(above)) <= self._threshold or not out.size:
                continue
            hosts = self._members(leaf)
            if len(hosts) >= WHOLE_LEAF and np.quantile(out, LOW_SHARE) > self._threshold:
                slow = float(np.median(above)), float(above.min()), float(above.max())
                found.append(SlowLeaf(hosts, False, *slow, ()))
        return found

    def slow_across(self) -> list[SlowLeaf]:
        """Leaves whose pairs with good leaves are all slow while those inside are not."""
        if self._plane is None:
            return []
        found, slow, norm = self._plane.found, [], self._norm()
        for leaf in self._plane.slow_hosts:
            own = self._here == leaf, self._there == leaf
            deciding = (own[0] & found.good[self._there]) | (own[1] & found.good[self._here])
            above = self._across[deciding] - found.reference
            if above.size < FEWEST_ACROSS:
                continue
            low, high = (float(q) for q in np.quantile(above, (LOW_SHARE, 1 - LOW_SHARE)))
            mine = np.where(own[0], self._one, self._other)[deciding]
            theirs = np.where(own[0], self._other, self._one)[deciding]
            wide = min(np.unique(mine).size, np.unique(theirs).size) > 1
            at_home = self._inside[self._at == leaf]
            if not wide or low <= AGREEING * found.threshold or not at_home.size:
                continue
            assert norm is not None, "there are pairs inside"
            if float(np.median(at_home)) - norm > found.threshold:
                continue  # slow in everything: its hosts, or slow_inside
            pairs = zip(self._one[deciding].tolist(), self._other[deciding].tolist(), strict=True)
            hosts = self._members(leaf)
            slow.append(SlowLeaf(hosts, True, float(np.median(above)), low, high, tuple(pairs)))
        return slow

    def offset(self) -> float:
        """Log slowdown of pairs across good leaves against those inside; 0 where it is none worth
        a word. Of two leaves, which one's uplink is slow cannot be told: all pairs count."""
        norm = self._norm()
        if norm is None:
            return 0.0
        clean = np.ones(self._across.size, dtype=bool)
        if self._plane is not None:
            good = self._plane.found.good
            clean = good[self._here] & good[self._there]
        elif self._whole:
            return 0.0  # all pairs across lead to a slow leaf
        if min(int(clean.sum()), self._inside.size) < FEWEST_ALIKE:
            return 0.0
        # the lower quarter: a slow host takes half of the pairs of a leaf of two with it
        quarter = float(np.quantile(self._across[clean], LOWER))
        offset = quarter - float(np.quantile(self._inside, LOWER))
        return offset if offset > AGREEING * self._threshold else 0.0


def islands(hosts: int, first: Ints, second: Ints, above: Floats, threshold: float) -> list[Ints]:
    """Groups of hosts, the largest first, that are fast inside and slow to each other in every
    pair that was measured; empty where there are none. `above`: log slowdowns."""
    one, other, value = by_pair(hosts, first, second, above)
    slow = value > threshold
    if slow.sum() < FEWEST_ACROSS:
        return []
    label = together(hosts, one[~slow], other[~slow])
    fast = value <= AGREEING * threshold
    sure = np.zeros(hosts, dtype=bool)  # fast with somebody of its own
    sure[one[fast]] = sure[other[fast]] = True
    members = _members(label)
    # Every pair between two groups is slow, or they were one group.
    here, there = label[one[slow]], label[other[slow]]
    between = keys(hosts, here, there)[here != there]
    found: set[int] = set()
    numbers, times = np.unique(between, return_counts=True)
    for number in numbers[times >= FEWEST_ACROSS].tolist():
        groups = number // hosts, number % hosts
        rows = slow & (keys(hosts, label[one], label[other]) == number)
        met = np.union1d(one[rows], other[rows])
        wide = all((label[met] == group).sum() > 1 for group in groups)
        if wide and all(sure[members[group]].all() for group in groups):
            found.update(groups)
    return sorted((members[group] for group in found), key=lambda group: -group.size)


def _members(label: Ints) -> list[Ints]:
    order = np.argsort(label, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(label[order])) + 1)
