"""The few series of a fabric: how nights lie against the baseline's lines.

In: the baseline's lines and nights of its shape. Out: two series for each candidate and
collective: the mean log residual of the small sizes (below 64 KiB, where latency rules) and of the
large ones. A size is held against the baseline's point of that size, not against its fitted line:
what the fit misses there is no drift, and a slow night ends its ladder early, so that not all
sizes are there to make up for it. Sizes weigh as surely as the baseline knew them, the same every
night; a hundred series of single sizes would make a hundred times as many false alarms.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from bench.judge.history.nights import is_usable
from bench.judge.ratio import LARGE_BYTES
from bench.model.costline import point_weights
from bench.records import CostLine, Night, NightLine
from bench.records.history import Part

PARTS: tuple[Part, ...] = ("small", "large")
# Sizes that a night shares with the baseline, by weight. A network at a tenth of its rate ends its
# ladder three sizes early; a night that shares less than this measured something else.
LEAST_SHARE = 0.1


@dataclass(frozen=True)
class Value:
    """Logs of time against the baseline, with the end of the 95 % interval on either side. The
    intervals of sizes are averaged: sizes of one session share its luck."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Series:
    """`values` by night, None for a hole."""

    candidate: str
    collective: str
    part: Part
    values: tuple[Value | None, ...]

    @property
    def key(self) -> str:
        return f"{self.candidate}, {self.collective}, {self.part}"


@dataclass(frozen=True)
class _Expected:
    """What the baseline says of one part of one line: by size, seconds and weight."""

    seconds: dict[int, float]
    weights: dict[int, float]


def series_of(lines: Sequence[CostLine], nights: Sequence[Night]) -> tuple[Series, ...]:
    """All series of the baseline's `lines` over `nights`, in the order of the lines."""
    return tuple(_all(lines, nights))


def _all(lines: Sequence[CostLine], nights: Sequence[Night]) -> Iterator[Series]:
    found = [{(o.candidate, o.collective, o.ranks): o for o in night.lines} for night in nights]
    for line in lines:
        key = line.candidate, line.collective, line.ranks
        own = [by_key.get(key) for by_key in found]
        for part in PARTS:
            expected = _expected(line, part)
            if not expected.weights:
                continue
            values = tuple(_value(expected, one) if one else None for one in own)
            yield Series(line.candidate, line.collective, part, values)


def _expected(line: CostLine, part: Part) -> _Expected:
    """Weights as in the cost line: an interval over three sessions is itself known badly, so it
    weighs simply, not squared, and its neighbours have a word in it."""
    points = [
        p
        for p in line.points
        if is_usable(p) and (p.size_bytes < LARGE_BYTES) == (part == "small")
    ]
    if not points:
        return _Expected({}, {})
    halves = np.array([math.log(p.high_s / p.low_s) / 2 for p in points])
    weights = point_weights(halves).tolist()
    return _Expected(
        {p.size_bytes: p.time_s for p in points},
        {p.size_bytes: weight for p, weight in zip(points, weights, strict=True)},
    )


def _value(expected: _Expected, line: NightLine) -> Value | None:
    total = sum(expected.weights.values())
    weight = value = half = 0.0
    for size, time_s, width in zip(line.sizes_bytes, line.times_s, line.half_widths, strict=True):
        own = expected.weights.get(size)
        if own is None or time_s <= 0:
            continue
        weight += own
        value += own * math.log(time_s / expected.seconds[size])
        half += own * width
    if weight < LEAST_SHARE * total:
        return None
    value, half = value / weight, half / weight
    return Value(value, value - half, value + half)
