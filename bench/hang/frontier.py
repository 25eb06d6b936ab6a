"""How far each lane got in a group: called, finished, waiting.

In: the Table. Out: for one group a Front: arrays over its lanes. `last` is the newest collective
that a lane called, `finished` the newest that is over on it, `pending` the first after that, which
is what the lane waits in. A ring buffer forgets the oldest entries only, so `last` is certain.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bench.hang.groups import Group
from bench.hang.matching import Bools, Ints, Table

NONE = -(1 << 62)  # no collective called, or none finished
NEVER = 1 << 62  # none pending


@dataclass(frozen=True)
class Front:
    """Columns over the group's lanes, all of them, whether they have entries or not."""

    group: Group
    lanes: Ints
    first: Ints  # the oldest that the dump still holds; NEVER without entries
    last: Ints  # NONE without entries
    finished: Ints
    pending: Ints
    tells_states: bool  # whether "not over" means anything: its library has marked some work

    @property
    def has_entries(self) -> Bools:
        return self.last > NONE


def fronts(table: Table) -> Iterator[Front]:
    """A Front per group that anything was called in."""
    if not len(table.seq):
        return
    lanes = len(table.lanes)
    pair = table.group * lanes + table.lane
    order = np.argsort(pair, kind="stable")  # by number within each, as units are sorted so
    pair, seq, done = pair[order], table.seq[order], table.done[order]
    begin = np.flatnonzero(np.append(True, pair[1:] != pair[:-1]))
    first, last = np.minimum.reduceat(seq, begin), np.maximum.reduceat(seq, begin)
    finished = np.maximum.reduceat(np.where(done, seq, NONE), begin)
    size = np.diff(np.append(begin, len(seq)))
    waits = ~done & (seq > np.repeat(finished, size))
    pending = np.minimum.reduceat(np.where(waits, seq, NEVER), begin)
    own_group, own_lane = np.divmod(pair[begin], lanes)
    stateless = np.array([group.stateless for group in table.groups.groups])
    marked = bool((table.done & stateless[table.group]).any())
    for group in table.groups.groups:
        here = slice(*np.searchsorted(own_group, [group.number, group.number + 1]))
        if here.start == here.stop:
            continue
        members = np.array(sorted({*group.lanes, *own_lane[here].tolist()}), dtype=np.int64)
        at = np.searchsorted(members, own_lane[here])
        columns = []
        for values, absent in ((first, NEVER), (last, NONE), (finished, NONE), (pending, NEVER)):
            column = np.full(len(members), absent, dtype=np.int64)
            column[at] = values[here]
            columns.append(column)
        a, b, c, d = columns
        yield Front(group, members, a, b, c, d, tells_states=marked or not group.stateless)
