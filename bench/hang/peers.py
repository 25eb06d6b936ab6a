"""Sends and receives that one side waits in, and whether the other has posted its half.

In: the Table's point-to-point rows, and the lanes whose dumps are older than others. Out:
PeerWaits: halves whose other half is nowhere, and the other calls under way. Both sides count
their calls over all peers, so numbers do not match; what matches is the end: all that is over is
over on both sides. Who waits is told only by calls behind one that is over, for torch never marks
some batches; what is posted, by all that are not over. Where the other dump may be of an earlier
moment, nobody is awaited.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from bench.hang.groups import Group
from bench.hang.lanes import newest, rows_of
from bench.hang.matching import COMPLETED, Bools, Ints, Table

MAX_OPEN = 4096  # rows looked at per lane; a pipeline has tens under way
# The clocks of two hosts may differ by as much: below it a dump is not taken for an older one.
CLOCKS_NS = 1_000_000_000
HALVES = {"send": "recv", "recv": "send"}
Kind: TypeAlias = tuple[int, str, int]  # group, name and peer of a call


@dataclass(frozen=True)
class PeerStop:
    """`waiting`: the lane in the call (a tuple, as elsewhere); `awaited`: the lane that has not
    posted the other half; `name`: "send" or "recv"; `row` in the lane's point-to-point rows."""

    group: Group
    name: str
    waiting: tuple[int, ...]
    awaited: int
    row: int


@dataclass(frozen=True)
class OpenCall:
    """A send or receive under way that accuses nobody. `peer`: the other rank, None where nobody
    lists the group; `posted`: its dump has the other half under way."""

    group: Group
    name: str
    lane: int
    peer: int | None
    row: int
    posted: bool


@dataclass(frozen=True)
class PeerWaits:
    """`stops`: the first half of each pair of lanes without its other half; `open`: the first
    call of each pair that waits for a half which is posted, or may be; `unmarked`: newest calls of
    lanes on which nothing of the group is marked as over, so that they may be."""

    stops: list[PeerStop] = field(default_factory=list)
    open: list[OpenCall] = field(default_factory=list)
    unmarked: list[OpenCall] = field(default_factory=list)

    @property
    def exchanging(self) -> set[int]:
        """Lanes in a call for which nobody is to blame, or that may be."""
        return {each.lane for each in (*self.open, *self.unmarked)}


def waits(table: Table, older: Collection[int] = ()) -> PeerWaits:
    """All halves that are under way. `older`: lanes whose dump is of an earlier moment."""
    by_rank = {lane.rank: lane.number for lane in table.lanes if lane.rank is not None}
    found = PeerWaits()
    seen: set[tuple[int, Kind]] = set()
    posted: dict[int, Counter[Kind]] = {}
    for lane in table.lanes:
        if (newest_one := _unmarked(table, lane.number)) is not None:
            (group, name, peer), row = newest_one
            own = table.groups.groups[group]
            rank = _rank(own, peer)
            found.unmarked.append(OpenCall(own, name, lane.number, rank, row, posted=False))
        for kind, row in _waiting(table, lane.number):
            group, name, peer = kind
            if (lane.number, kind) in seen or name not in HALVES:
                continue
            seen.add((lane.number, kind))
            own = table.groups.groups[group]
            rank = _rank(own, peer)
            other = by_rank.get(rank) if rank is not None else None
            if other == lane.number:
                continue
            has_half = False
            if other is not None and lane.rank in own.ranks:
                half = group, HALVES[name], own.ranks.index(lane.rank)
                if other not in posted:
                    posted[other] = _count(table, other, ~_over(table, other))
                has_half = posted[other][half] > 0
                stale = other in older or _may_be_posted(
                    table, lane.number, kind, row, other, half
                )
                if not has_half and not stale:
                    found.stops.append(PeerStop(own, name, (lane.number,), other, row))
                    continue
            found.open.append(OpenCall(own, name, lane.number, rank, row, has_half))
    return found


def _rank(group: Group, peer: int) -> int | None:
    return group.ranks[peer] if group.known and peer < len(group.ranks) else None


def _over(table: Table, lane: int) -> Bools:
    """Rows that are over. Of a batch only the closing entry says so: the calls before it that
    have its number are over with it."""
    rows = table.p2p[lane]
    over: Bools = rows["state"] == COMPLETED  # retired alone means that it timed out
    single = np.array([call.peer is not None for call in table.lanes[lane].dump.calls] or [True])
    closing = np.flatnonzero(over & ~single[rows["call"]])
    if len(closing):
        keys = _numbers(table, lane) * np.int64(1 << 40) + rows["seq"]
        closed, last = np.unique(keys[closing[::-1]], return_index=True)
        at = np.minimum(np.searchsorted(closed, keys), len(closed) - 1)
        until = closing[::-1][last][at]
        over = over | ((closed[at] == keys) & (np.arange(len(rows)) < until))
    return over


def _may_be_posted(table: Table, lane: int, kind: Kind, row: int, other: int, half: Kind) -> bool:
    """Whether the other half may be over already, or the other's dump be of an earlier moment:
    it lacks what both have finished with each other, or its newest entry was made before that."""
    over = _over(table, lane)
    if _is_whole(table, lane) and _is_whole(table, other):
        halves = _count(table, other, np.ones(len(table.p2p[other]), dtype=bool))[half]
        this = _count(table, lane, np.arange(len(over)) <= row)[kind]
        return not _count(table, lane, over)[kind] <= halves < this
    calls = table.lanes[lane].dump.calls
    fits = np.array([(each.name, each.peer) == kind[1:] for each in calls] or [False])
    rows = table.p2p[lane]
    mine = (_numbers(table, lane) == kind[0]) & over & fits[rows["call"]]
    done = rows["created_ns"][mine]
    return bool(len(done)) and newest(table.lanes[other].dump) + CLOCKS_NS < int(done[-1])


def _is_whole(table: Table, lane: int) -> bool:
    rows = rows_of(table.lanes[lane].dump)
    return not len(rows) or int(rows["record_id"][0]) == 0


def _numbers(table: Table, lane: int) -> Ints:
    """The group of each of the lane's point-to-point rows."""
    own = np.array(table.groups.numbers[lane] or [-1], dtype=np.int64)
    numbers: Ints = own[table.p2p[lane]["group"]]
    return numbers


def _count(table: Table, lane: int, which: Bools) -> Counter[Kind]:
    """How many of these rows there are of each kind."""
    calls = table.lanes[lane].dump.calls
    width = max(len(calls), 1)
    pairs = _numbers(table, lane) * np.int64(width) + table.p2p[lane]["call"]
    found: Counter[Kind] = Counter()
    for pair, number in zip(*np.unique(pairs[which], return_counts=True), strict=True):
        group, at = divmod(int(pair), width)
        if group >= 0 and (peer := calls[at].peer) is not None:
            found[group, calls[at].name, peer] += int(number)
    return found


def _waiting(table: Table, lane: int) -> list[tuple[Kind, int]]:
    """The calls after the newest that is over, in their order, with their rows."""
    rows = table.p2p[lane]
    if not len(rows):
        return []
    dump, over = table.lanes[lane].dump, _over(table, lane)
    numbers = _numbers(table, lane).tolist()
    by_group: dict[int, list[int]] = defaultdict(list)
    for at in range(max(len(rows) - MAX_OPEN, 0), len(rows)):
        by_group[numbers[at]].append(at)
    found = []
    for group, mine in by_group.items():
        done = over[mine]
        if group < 0 or not done.any():
            continue  # nothing of the group is ever marked as over
        for at in mine[int(np.flatnonzero(done)[-1]) + 1 :]:
            call = dump.calls[int(rows["call"][at])]
            if call.peer is not None:
                found.append(((group, call.name, call.peer), at))
    return found


def _unmarked(table: Table, lane: int) -> tuple[Kind, int] | None:
    """The lane's newest call of any kind, if it is a send or receive in a group of which nothing
    is ever marked as over."""
    rows, all_rows = table.p2p[lane], rows_of(table.lanes[lane].dump)
    if not len(rows) or rows[-1]["record_id"] != all_rows[-1]["record_id"]:
        return None
    numbers = _numbers(table, lane)
    call = table.lanes[lane].dump.calls[int(rows["call"][-1])]
    group = int(numbers[-1])
    if group < 0 or call.name not in HALVES or call.peer is None:
        return None
    if _over(table, lane)[numbers == group].any():
        return None
    return (group, call.name, call.peer), len(rows) - 1
