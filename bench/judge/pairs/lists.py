"""Pairs of hosts that somebody else measured: a list of bandwidths as a Location.

In: figures that name two hosts each, of one size and collective. Out: what they prove, by the very
judge of our own rounds. Nothing can be repeated: weaker evidence, so only clear gaps count, unless
each host was measured with several others.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

import msgspec

from bench.judge.pairs import suspects
from bench.judge.pairs.search import Search
from bench.judge.pairs.values import Values
from bench.records import Location, PairFigure, PairTime, PlainFigure

FEWEST_PAIRS = 3
# Pairs of one fabric scatter by a few per cent: good ones lie within 15 % of each other, slow ones
# that much below the worst of the good. A list that wanders in between decides nothing.
SPARSE_INTEREST, LEAST_GAP = 0.30, math.log1p(0.15)
# Where hosts have three pairs or more on average, their middle is no luck, and pairs tell by
# themselves how far they scatter.
DENSE, DENSE_INTEREST = 3.0, 0.22
LEAST_SCATTER = 0.02


def locate(figures: Sequence[PlainFigure]) -> Location:
    """Hosts in the order of the list. Seconds are those of one byte; 0 GB/s is a pair that failed
    rather than one that is slow."""
    hosts = tuple(dict.fromkeys(host for figure in figures for host in figure.hosts))
    pairs = tuple(_figure(at, figure) for at, figure in enumerate(figures))
    values = Values({host: at for at, host in enumerate(hosts)})
    values.extend(pairs)
    distinct = {frozenset(figure.hosts) for figure in figures}
    search = Search(interest=DENSE_INTEREST, once=True)
    if 2 * len(distinct) < DENSE * len(hosts):
        logs = [-math.log(f.busbw_gbs) for f in figures if f.busbw_gbs > 0]
        scatter = _scatter(logs)
        search = Search(interest=SPARSE_INTEREST, once=True, scatter=scatter)
        if scatter is None:
            wanders = Location(hosts=hosts, figures=pairs)
            return _alike(wanders, logs, search) if len(logs) == len(figures) else wanders
    return suspects.conclude(values, pairs, (), hosts=hosts, search=search)


def _alike(location: Location, logs: Sequence[float], search: Search) -> Location:
    """The same, with what a good pair does where all of them lie within what good ones do."""
    if max(logs) - min(logs) > LEAST_GAP:
        return location
    return msgspec.structs.replace(
        location,
        reference_s=math.exp(statistics.median(logs)) / 1e9,
        noise=statistics.pstdev(logs),
        threshold=search.threshold,
    )


def _scatter(logs: Sequence[float]) -> float | None:
    """Standard deviation of the good pairs' log times; None where no gap sets them apart."""
    ranked = sorted(logs)
    good = [value for value in ranked if value - ranked[0] <= LEAST_GAP] if ranked else []
    slow = ranked[len(good) :]
    if not slow or slow[0] - good[-1] < LEAST_GAP:
        return None
    return max(LEAST_SCATTER, statistics.pstdev(good))


def _figure(at: int, figure: PlainFigure) -> PairFigure:
    a, b = figure.hosts
    moves = figure.busbw_gbs > 0
    seconds = 1 / (figure.busbw_gbs * 1e9) if moves else 0.0
    return PairFigure(
        round=at,
        stage="map",
        hosts=(a, b),
        outcome="ok" if moves else "failed",
        reason=None if moves else "0 GB/s",
        times=(PairTime(forward_s=seconds, backward_s=seconds),) if moves else (),
        basis="foreign",
    )
