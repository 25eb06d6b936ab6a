"""The sessions of one line as rows of logs: halves put together, repetitions formed.

In: SessionCurves of the sessions of a side. Out: arrays (k, P), NaN where a session lacks a size.
The halves of a table's row are two measurements of one thing; where they lie far apart the slower
one was disturbed, for what disturbs a call only ever makes it slower.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from bench.judge.sides import call_counts
from bench.model.contrast import Bools, Floats
from bench.records import SessionCurve

ONE_OFF = math.log(1.5)  # halves of a row that far apart
AGREES = 0.5  # of the change: what each half must show of it to be sure


def common_parts(sessions: Sequence[Sequence[SessionCurve]]) -> frozenset[str]:
    """The halves that all sessions of both sides have; all there are where no half is common."""
    sets = [frozenset(curve.part for curve in own) for own in sessions]
    return frozenset.intersection(*sets) or frozenset.union(*sets)


def logs_of(
    own: Sequence[SessionCurve], parts: frozenset[str], calls: call_counts.Compared
) -> dict[int, float]:
    """ln of a session's time by size. `calls`: whose times count."""
    found: dict[int, list[float]] = {}
    for curve in own:
        if curve.part not in parts:
            continue
        for size, time_s, number in zip(
            curve.sizes_bytes, curve.times_s, curve.calls, strict=True
        ):
            if call_counts.admitted(number, time_s, calls[size]):
                found.setdefault(size, []).append(math.log(time_s))
    return {
        size: min(logs) if max(logs) - min(logs) > ONE_OFF else sum(logs) / len(logs)
        for size, logs in found.items()
    }


def table(sessions: Sequence[dict[int, float]], sizes: Sequence[int]) -> Floats:
    return np.array([[one.get(size, math.nan) for size in sizes] for one in sessions])


def expanded(rows: Floats, curve: SessionCurve, sizes: Sequence[int]) -> Floats:
    """Rows for the sessions that a report's points stand for: with the mean and spread that the
    points tell, all sizes of a session moving together, which is the worst that they may do."""
    spreads = dict(zip(curve.sizes_bytes, curve.spreads, strict=True))
    steps = np.arange(curve.sessions) - (curve.sessions - 1) / 2
    steps = steps / steps.std(ddof=1)
    return np.asarray(rows + steps[:, None] * np.array([spreads[size] for size in sizes]))


def repetitions(rows: Floats, names: Sequence[str]) -> tuple[Floats, list[str]]:
    """The mean of the sessions of each repetition, and the repetitions' names."""
    distinct = list(dict.fromkeys(names))
    if len(distinct) == len(names):
        return rows, distinct
    places = {name: [at for at, one in enumerate(names) if one == name] for name in distinct}
    return np.array([mean(rows[places[name]]) for name in distinct]), distinct


def mean(rows: Floats) -> Floats:
    """Over rows, NaN left out and NaN where there is nothing else."""
    present = np.isfinite(rows)
    count = present.sum(0)
    sums = np.where(present, rows, 0.0).sum(0)
    return np.where(count > 0, sums / np.maximum(count, 1), np.nan)


def aligned(
    first: tuple[Floats, Sequence[str]], second: tuple[Floats, Sequence[str]]
) -> list[Floats]:
    """Rows of both sides, those of one name in the same place; others are left out, and so is a
    size where one of the two lacks it."""
    common = [name for name in first[1] if name in set(second[1])]
    before, after = (
        rows[[list(names).index(name) for name in common]] for rows, names in (first, second)
    )
    apart = after - before
    return [np.where(np.isfinite(apart), rows, np.nan) for rows in (before, after)]


Side = Sequence[Sequence[SessionCurve]]


def within(
    sides: tuple[Side, Side], parts: frozenset[str], sizes: Sequence[int]
) -> tuple[Floats, Bools]:
    """Standard error of each size's change by what scatters within sessions, and whether all
    halves of a row show it."""
    squares = np.zeros(len(sizes))
    means: list[dict[str, Floats]] = []
    for side in sides:
        curves = [curve for own in side for curve in own if curve.part in parts]
        scatters = table(
            [dict(zip(c.sizes_bytes, c.scatters, strict=True)) for c in curves], sizes
        )
        squares += np.nan_to_num(mean(scatters**2)) / max(len(curves), 1)
        halves: dict[str, list[dict[int, float]]] = {}
        for curve in curves:
            logs = dict(zip(curve.sizes_bytes, map(math.log, curve.times_s), strict=True))
            halves.setdefault(curve.part, []).append(logs)
        means.append({part: mean(table(logs, sizes)) for part, logs in halves.items()})
    changes = [means[1][part] - means[0][part] for part in means[0] if part in means[1]]
    sure = np.ones(len(sizes), bool)
    if len(changes) > 1:
        middle = mean(np.array(changes))
        for change in changes:
            agrees = change * np.sign(middle) >= AGREES * np.abs(middle)
            sure &= ~np.isfinite(change) | agrees
    return np.sqrt(squares), sure
