"""Which lane keeps the others waiting in a job that moves.

In: the Table. Out: a Lateness per lane, or none where the recorder timed nothing. Clocks of
different hosts are never compared: a collective ends everywhere at once, so whoever came last has
spent the shortest time in it, each measured by its own clock. Durations of the GPU's events are
exact (TORCH_NCCL_ENABLE_TIMING); times that the watchdog discovered are late by its poll.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.hang import calls as fitting
from bench.hang.lanes import rows_of
from bench.hang.matching import Bools, Ints, Table

LEAST = 20  # collectives in which a lane was timed, below which a habit is an accident
# A lane that is last in this share of its collectives is late by habit: among two equal lanes 20
# coin flips give 16 heads once in 170, among more lanes far less.
HABIT = 0.8
# What the others wait for it, against the time between collectives, that is worth a word.
WORTH = 0.05
WORTH_S = 1e-3
POLL_S = 0.1  # of NCCL's watchdog, which discovers ends
MAX_UNITS = 2_000_000


@dataclass(frozen=True)
class Lateness:
    """`last_share`: of the collectives it was timed in; `late_s`: the median by which the others
    waited for it; `period_s`: the median time between its collectives; `timed`: by GPU events."""

    lane: int
    collectives: int
    last_share: float
    late_s: float
    period_s: float
    timed: bool

    @property
    def habitual(self) -> bool:
        floor = WORTH_S if self.timed else POLL_S
        return (
            self.last_share >= HABIT
            and self.late_s >= max(floor, WORTH * self.period_s)
            and self.collectives >= LEAST
        )


def lateness(table: Table) -> list[Lateness]:
    """Of every lane that was timed in collectives with others, in their order."""
    if not 0 < len(table.seq) <= MAX_UNITS:
        return []
    spent, timed, created = _spent(table)
    known = ~np.isnan(spent) & table.done & _synchronous(table)
    unit = np.flatnonzero(known)
    if not len(unit):
        return []
    group, seq = table.group[unit], table.seq[unit]
    begin = np.flatnonzero(np.append(True, (group[1:] != group[:-1]) | (seq[1:] != seq[:-1])))
    size = np.diff(np.append(begin, len(unit)))
    members = np.array([len(each.lanes) for each in table.groups.groups])[group[begin]]
    whole = np.repeat((size > 1) & (size == members), size)  # timed on all of its lanes
    shortest = np.repeat(np.minimum.reduceat(spent[unit], begin), size)
    waited = np.repeat(_second(spent[unit], begin, size), size) - shortest
    last = whole & (spent[unit] == shortest) & (waited > 0)
    order = np.argsort(table.lane[unit], kind="stable")
    bounds = np.searchsorted(table.lane[unit][order], np.arange(len(table.lanes) + 1))
    found = []
    for lane in range(len(table.lanes)):
        mine = order[bounds[lane] : bounds[lane + 1]]
        mine = mine[whole[mine]]
        if not len(mine):
            continue
        behind = mine[last[mine]]
        starts = np.sort(created[unit[mine]])
        period_s = float(np.median(np.diff(starts))) / 1e9 if len(mine) > 1 else 0.0
        late_s = float(np.median(waited[behind])) if len(behind) else 0.0
        found.append(Lateness(lane, len(mine), len(behind) / len(mine), late_s, period_s, timed))
    return found


def _spent(table: Table) -> tuple[NDArray[np.float64], bool, Ints]:
    """Seconds that each unit took on its own lane, NaN where not told; and when it was called."""
    duration = np.full(len(table.seq), np.nan)
    between = np.full(len(table.seq), np.nan)
    created = np.zeros(len(table.seq), dtype=np.int64)
    order = np.argsort(table.lane, kind="stable")
    bounds = np.searchsorted(table.lane[order], np.arange(len(table.lanes) + 1))
    for lane in table.lanes:
        units = order[bounds[lane.number] : bounds[lane.number + 1]]
        rows = rows_of(lane.dump)[table.row[units]]
        duration[units] = rows["duration_ms"] / 1e3
        created[units] = rows["created_ns"]
        ended = rows["completed_ns"] > 0
        between[units] = np.where(ended, (rows["completed_ns"] - rows["created_ns"]) / 1e9, np.nan)
    timed = bool((~np.isnan(duration)).sum() >= LEAST)
    return (duration if timed else between), timed, created


def _synchronous(table: Table) -> Bools:
    """Units of collectives that end everywhere at once, of a single call."""
    fits = np.array([fitting.family(call) in fitting.SYNCHRONOUS for call in table.calls])
    single: Bools = fits[table.row_call[table.first]] & (table.count == 1)
    return single


def _second(values: NDArray[np.float64], begin: Ints, size: Ints) -> NDArray[np.float64]:
    """The second smallest of each run: what the others took who waited least."""
    order = np.lexsort((values, np.repeat(np.arange(len(begin)), size)))
    at = np.where(size > 1, begin + 1, begin)
    return values[order][at]
