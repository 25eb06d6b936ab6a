"""Whether a lane ended at a whole number of training steps: the mark of data that ran out.

In: a lane's calls in their order and the call that the others made next. Out: a Rhythm, or None
where no pattern repeats. A step begins where the loop began, if the record reaches back to it, or
after the longest pause of the pattern; both must agree where both speak. A pattern of one call
says nothing: every place in it is the end of a step.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bench.hang.lanes import rows_of
from bench.hang.matching import Ints, Table

REPEATS = 3  # of a pattern, or it is none
# The pause before a step (optimizer, loading data) against the longest within: below this ratio
# of medians the pauses do not tell where a step begins.
PAUSE_RATIO = 1.5
SEARCHED = 8192  # newest calls of a lane that are searched for a pattern


@dataclass(frozen=True)
class Rhythm:
    """`calls` in a step, `steps` seen whole (`counted`: from the job's first), `whole`: the lane
    ended between two steps; None: it cannot be told."""

    calls: int
    steps: int
    counted: bool
    whole: bool | None


def rhythm(table: Table, lane: int, before: int | None, expected: int | None) -> Rhythm | None:
    """Of the lane's calls, up to its unit `before` where one is given; `expected`: the unit of
    the call that the others made instead of stopping."""
    mine = np.flatnonzero(table.lane == lane)
    mine = mine[np.argsort(table.row[mine], kind="stable")]
    if before is not None:
        mine = mine[table.row[mine] < table.row[before]]
    mine = mine[-SEARCHED:]
    names = table.group[mine] * np.int64(1 << 31) + table.key[mine] % (1 << 31)
    period = _period(names)
    if period is None:
        return None
    begin = _beginning(names, period)
    rows = rows_of(table.lanes[lane].dump)
    from_start = len(mine) < SEARCHED and len(rows) > 0 and int(rows["record_id"][0]) == 0
    whole = _whole(rows["created_ns"][table.row[mine]], names, period, begin, from_start)
    if expected is not None:
        following = table.group[expected] * np.int64(1 << 31) + table.key[expected] % (1 << 31)
        if following != names[len(names) - period]:
            whole = False  # the others do not begin another step of this kind
    return Rhythm(period, (len(names) - begin) // period, from_start, whole)


def _period(names: Ints) -> int | None:
    """The shortest pattern that fills the end REPEATS times."""
    length = len(names)
    for period in range(1, length // REPEATS + 1):
        if names[-1] == names[-1 - period] and np.array_equal(
            names[length - (REPEATS - 1) * period :],
            names[length - REPEATS * period : length - period],
        ):
            return period
    return None


def _beginning(names: Ints, period: int) -> int:
    """Where the pattern begins that the calls end with."""
    unlike = np.flatnonzero(names[:-period] != names[period:])
    return int(unlike[-1]) + 1 if len(unlike) else 0


def _whole(created: Ints, names: Ints, period: int, begin: int, from_start: bool) -> bool | None:
    if period == 1:
        return None
    by_pause = _by_pause(created[begin:], period)
    if not from_start:
        return by_pause
    # The loop's first pattern may reach back into calls before it that happen to be alike.
    by_count = (len(names) - begin) % period == 0
    return by_count if by_pause in (None, by_count) else None


def _by_pause(created: Ints, period: int) -> bool | None:
    """Whether the next call would come after the longest of the pattern's pauses."""
    pauses = np.diff(created)
    place = (len(created) - 1 - np.arange(len(pauses))) % period  # 0: as before the next call
    if len(pauses) < 2 * period:
        return None
    medians = np.array([np.median(pauses[place == at]) for at in range(period)])
    longest, second = np.sort(medians)[[-1, -2]]
    if longest <= 0 or longest < PAUSE_RATIO * second:
        return None
    return bool(medians.argmax() == 0)
