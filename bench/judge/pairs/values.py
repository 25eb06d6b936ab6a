"""Figures of pairs turned into numbers: one log time per measurement and direction.

A repetition runs over fresh connections. Where a fabric has several paths, the hash of one
connection can put it beside another and halve it: that is chance, not a broken link. So a pair is
worth its faster repetitions, and how far they lie apart is reported as path spread.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bench.records import PairFigure

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

SPREAD = 1.3  # slowest repetition over fastest from which a pair is listed as spread
# The 2nd of 5, the 3rd of 9, the fastest of up to 4: chance slows repetitions, never hastens them.
QUANTILE = 0.25
DEFAULT_RAIL = -1  # of figures that name none


def typical(times: Iterable[float]) -> float:
    """The lower quartile (an order statistic) of repetitions, seconds."""
    ranked = sorted(times)
    return ranked[int(QUANTILE * (len(ranked) - 1))]


@dataclass(frozen=True)
class Columns:
    """Measurements, a row each; hosts as numbers. Times are natural logarithms of seconds, the
    slowest of `forward` (first to second) and `backward` being what a ring would feel; `latency`
    is NaN where it was not measured. `spread` is the slowest repetition over the fastest, `error`
    the standard error that repetitions give a time of their row (log; 0 where there is one)."""

    first: Ints
    second: Ints
    rail: Ints
    other_rail: Ints
    forward: Floats
    backward: Floats
    latency: Floats
    spread: Floats
    error: Floats

    def __len__(self) -> int:
        return len(self.first)

    @property
    def slower(self) -> Floats:
        return np.maximum(self.forward, self.backward)

    @property
    def crossed(self) -> Bools:
        """Which rows lead from one rail to another."""
        crossed: Bools = self.rail != self.other_rail
        return crossed

    def where(self, rows: Bools) -> Columns:
        if rows.all():
            return self
        names = self.__dataclass_fields__
        return Columns(**{name: getattr(self, name)[rows] for name in names})

    def directed(self) -> tuple[Ints, Ints, Floats]:
        """(sender, receiver, log time), two rows per measurement."""
        return (
            np.concatenate((self.first, self.second)),
            np.concatenate((self.second, self.first)),
            np.concatenate((self.forward, self.backward)),
        )


class Values:
    """Measurements as they come in. Figures without times have nothing to add."""

    def __init__(self, index: Mapping[str, int]) -> None:
        self.index = index
        self._parts = [_columns([], index)]

    def add(self, figure: PairFigure) -> None:
        self.extend((figure,))

    def extend(self, figures: Iterable[PairFigure]) -> None:
        """Turned into numbers at once: a map's half a million figures come round by round."""
        by_number: dict[int, list[PairFigure]] = {}
        for figure in figures:
            if figure.outcome == "ok" and figure.times:
                by_number.setdefault(len(figure.times), []).append(figure)
        self._parts += (_columns(alike, self.index) for alike in by_number.values())

    def columns(self) -> Columns:
        """All of them. Times that are no positive numbers are left out: nobody measured those."""
        if len(self._parts) > 1:
            names = Columns.__dataclass_fields__
            together = {n: np.concatenate([getattr(p, n) for p in self._parts]) for n in names}
            self._parts = [Columns(**together)]
        return self._parts[0]

    def __len__(self) -> int:
        return len(self.columns())


def _columns(figures: Sequence[PairFigure], index: Mapping[str, int]) -> Columns:
    """Figures that all have the same number of repetitions."""
    ahead = _times([[time.forward_s for time in figure.times] for figure in figures])
    back = _times([[time.backward_s for time in figure.times] for figure in figures])
    ends = _whole([(index[a], index[b]) for a, b in (figure.hosts for figure in figures)]).T
    rails = _whole([_rails(figure) for figure in figures]).T
    found = Columns(
        first=ends[0], second=ends[1], rail=rails[0], other_rail=rails[1],
        forward=_logs(ahead), backward=_logs(back),
        latency=_latencies(figures), spread=np.maximum(_apart(ahead), _apart(back)),
        error=np.sqrt((_variance(ahead) + _variance(back)) / 2),
    )  # fmt: skip
    return found.where(np.isfinite(found.forward) & np.isfinite(found.backward))


def _rails(figure: PairFigure) -> tuple[int, int]:
    rail = DEFAULT_RAIL if figure.rail is None else figure.rail
    return rail, rail if figure.other_rail is None else figure.other_rail


def _whole(rows: list[Any]) -> Ints:
    return np.array(rows, dtype=np.int64).reshape(-1, 2)


def _times(rows: list[list[float]]) -> Floats:
    """Repetitions in a row each, the fastest first."""
    width = len(rows[0]) if rows else 1
    times: Floats = np.sort(np.array(rows, dtype=float).reshape(-1, width), axis=1)
    return times


def _logs(times: Floats) -> Floats:
    best = times[:, int(QUANTILE * (times.shape[1] - 1))]
    good = (best > 0) & np.isfinite(best)
    logs: Floats = np.log(np.where(good, best, np.nan))
    return logs


def _apart(times: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        apart: Floats = times[:, -1] / times[:, 0]
    return apart


def _variance(times: Floats) -> Floats:
    """Of what `_logs` takes from each row: no better than the mean of half the repetitions."""
    repeats = times.shape[1]
    if repeats < 2:
        return np.zeros(len(times))
    with np.errstate(divide="ignore", invalid="ignore"):
        found: Floats = np.log(times).var(axis=1, ddof=1) / (repeats / 2)
    return found


def _latencies(figures: Sequence[PairFigure]) -> Floats:
    found = np.full(len(figures), math.nan)
    for at, figure in enumerate(figures):
        small = [t.latency_s for t in figure.times if t.latency_s is not None and t.latency_s > 0]
        if small:
            found[at] = math.log(typical(small))
    return found
