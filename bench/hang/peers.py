"""Sends and receives that one side waits in and the other never posted.

In: the Table's point-to-point rows. Out: PeerStops. Both sides count their calls over all peers,
so numbers do not match; what matches is the end: all that is over is over on both sides, and the
one that is not must stand at the end of the other's record too. Where a library never marks a
batch as over (torch does not for some), nothing is said.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass

import numpy as np

from bench.hang.groups import Group
from bench.hang.matching import COMPLETED, Table

MAX_OPEN = 4096  # rows looked at per lane; a pipeline has tens under way


@dataclass(frozen=True)
class PeerStop:
    """`waiting`: the lane in the call (a tuple, as elsewhere); `awaited`: the lane that has not
    posted the other half; `name`: "send" or "recv"; `row` in the lane's point-to-point rows."""

    group: Group
    name: str
    waiting: tuple[int, ...]
    awaited: int
    row: int


def peer_stops(table: Table) -> list[PeerStop]:
    """Every half that is under way without its other half, the first of each pair of lanes."""
    open_ = {lane.number: _open(table, lane.number) for lane in table.lanes}
    by_rank = {lane.rank: lane.number for lane in table.lanes if lane.rank is not None}
    posted: Counter[tuple[int, int, int, str]] = Counter()
    for lane, calls in open_.items():
        for group, name, peer, _ in calls:
            if (other := _lane(table, by_rank, group, peer)) is not None:
                posted[lane, other, group, name] += 1
    found = []
    for lane, calls in open_.items():
        seen: Counter[tuple[int, int, str]] = Counter()
        for group, name, peer, row in calls:
            other = _lane(table, by_rank, group, peer)
            if other is None or other == lane:
                continue
            seen[other, group, name] += 1
            half = "recv" if name == "send" else "send"
            if seen[other, group, name] == posted[other, lane, group, half] + 1:
                own = table.groups.groups[group]
                found.append(PeerStop(own, name, (lane,), other, row))
    return found


def _lane(table: Table, by_rank: dict[int, int], group: int, peer: int) -> int | None:
    """The lane of a rank within a group."""
    ranks = table.groups.groups[group].ranks
    if not table.groups.groups[group].known or peer >= len(ranks):
        return None
    return by_rank.get(ranks[peer])


def _open(table: Table, lane: int) -> list[tuple[int, str, int, int]]:
    """(group, name, peer, row) of the calls after the newest that is over, in their order."""
    rows = table.p2p[lane]
    if not len(rows):
        return []
    dump = table.lanes[lane].dump
    numbers = table.groups.numbers[lane]
    over = rows["state"] == COMPLETED  # retired alone means that it timed out
    by_group: dict[int, list[int]] = defaultdict(list)
    for at in range(max(len(rows) - MAX_OPEN, 0), len(rows)):
        by_group[numbers[int(rows["group"][at])]].append(at)
    found = []
    for group, mine in by_group.items():
        done = over[mine]
        if group < 0 or not done.any():
            continue  # nothing of the group is ever marked as over
        for at in mine[int(np.flatnonzero(done)[-1]) + 1 :]:
            call = dump.calls[int(rows["call"][at])]
            if call.peer is not None:
                found.append((group, call.name, call.peer, at))
    return found
