"""Slow links of a plane: pairs that are slow although neither of their hosts is to blame.

In: a Plane. Out: links by what they lose, which way, and those that are worth another three
measurements. Of a map what the pairs of a host have in common is known, and is taken off.
"""

from __future__ import annotations

import numpy as np

from bench.judge.pairs.effects import DECIDING, keys, link_residuals
from bench.judge.pairs.plane import APART, Plane, Slow, one_way
from bench.judge.pairs.values import Floats
from bench.plan.rounds import Pair, ordered
from bench.records import Direction

SIGMAS = 3.0  # of the noise between links that a map shows: 0.1 % of healthy ones are retested
LINK_BAR = 1.25  # times the bar: the middle of a link's values; there are many links
POLISHED = 6  # measurements a host from which a map's residuals are trusted: that of seven hosts


def slow(on: Plane, *, mapped: bool, times: int = DECIDING) -> dict[Pair, Slow]:
    """Worst first; measured slow at least so many `times`. `mapped`: every pair was measured, so
    that what a host's pairs have in common is known and taken off."""
    columns, above, bar = on.columns, on.above, on.found.threshold
    if mapped and len(columns) * 2 >= POLISHED * on.hosts:
        above, noise = _residuals(on)
        bar = max(SIGMAS * noise, on.found.threshold)
    else:
        bar = max(bar, float(on.sure(np.array(1))))
    key = keys(on.hosts, columns.first, columns.second)
    rows = np.flatnonzero(np.isin(key, key[on.both_cleared & (above > bar)]))
    seen: dict[int, list[float]] = {}
    for row in rows:
        seen.setdefault(int(key[row]), []).append(float(above[row]))
    found = {
        (number // on.hosts, number % on.hosts): Slow(float(np.median(v)), min(v), max(v))
        for number, v in seen.items()
        if len(v) >= times and min(v) > bar and _agree(v, LINK_BAR * bar)
    }
    return dict(sorted(found.items(), key=lambda item: -item[1].middle))


def _agree(values: list[float], bar: float) -> bool:
    middle = float(np.median(values))
    return middle > bar and middle - min(values) <= APART


def doubtful(on: Plane) -> list[Pair]:
    """Links of a map that stand out from what their hosts explain, worst first."""
    columns = on.columns
    residuals, noise = _residuals(on)
    bar = max(SIGMAS * noise, on.found.threshold)
    rows = np.flatnonzero((residuals > bar) & on.both_cleared)
    rows = rows[np.argsort(-residuals[rows])]
    pairs = zip(columns.first[rows].tolist(), columns.second[rows].tolist(), strict=True)
    return list(dict.fromkeys(ordered(a, b) for a, b in pairs))


def _residuals(on: Plane) -> tuple[Floats, float]:
    """What a host's pairs have in common taken off; not where most of them are slow links."""
    columns, good = on.columns, on.found.good
    left, noise = link_residuals(on.hosts, columns.first, columns.second, on.logs)
    ends_good = good[columns.first] & good[columns.second]
    return np.where(ends_good, left, on.above), noise


def way(on: Plane, pair: Pair) -> Direction:
    """ "transmit": from the first to the second."""
    sender, receiver, above = on.directed
    out = above[(sender == pair[0]) & (receiver == pair[1])]
    back = above[(sender == pair[1]) & (receiver == pair[0])]
    return one_way(out, back, on.found.threshold)
