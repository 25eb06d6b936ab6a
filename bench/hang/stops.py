"""Where a group does not go on: its first collective that somebody never called, or never ended.

In: the Table and a group's Front. Out: a Stop, or None where the group has come to an end or still
moves. A lane is absent only if its dump is of the same moment: one whose ring ends where the
others' begin, or that lacks what others have completed with it, is older and accuses nobody.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bench.hang import calls as fitting
from bench.hang.frontier import NEVER, NONE, Front
from bench.hang.groups import Group
from bench.hang.lanes import rows_of
from bench.hang.matching import Bools, Table

STARTED = 1  # of FLIGHT_STATES


@dataclass(frozen=True)
class Stop:
    """Lanes by what they did with one collective. `unit` is a waiting lane's share in it.

    `older`: their dump cannot tell, or ends before; `no_dump`: ranks; `members`: lanes of the
    group. `unsure`: the group's library does not say what is over, so that only who called it is
    known. `unstarted`: waiting, but their GPU has not begun, while others' have, by the starts
    that all of them record. `at_first`: the oldest collective that the dumps hold of the group;
    `first_of_group`: and the group's own first, none of which ever finished. `lags`: all have
    called it and it is the newest of a group whose library marks the newest late: no evidence by
    itself.
    """

    group: Group
    seq: int
    unit: int
    waiting: tuple[int, ...]
    finished: tuple[int, ...] = ()
    absent: tuple[int, ...] = ()
    older: tuple[int, ...] = ()
    no_dump: tuple[int, ...] = ()
    members: int = 0
    unstarted: tuple[int, ...] = ()
    unsure: bool = False
    first_of_group: bool = False
    at_first: bool = False
    lags: bool = False

    @property
    def joined(self) -> bool:
        """Everybody who left a dump has called it."""
        return not self.absent


def stop(table: Table, front: Front) -> Stop | None:
    """The group's stop; a group that cannot be compared has none."""
    if front.group.number in table.incomparable:
        return None
    absent_at, absent, older = _absent(table, front)
    if not front.tells_states and (never := _never_recorded(table, front)):
        absent_at, absent = min(absent_at, int(front.first.min())), never
    told = front.has_entries & ~np.isin(front.lanes, older)
    speaks = front.tells_states or not front.group.known
    pending = int(front.pending[told].min()) if told.any() and speaks else NEVER
    seq = min(absent_at, pending)
    if seq == NEVER:
        return None
    if seq < absent_at:
        absent = ()
    absent = tuple({*absent, *_never_used(table, front, seq)})
    unseen = set(front.lanes[~front.has_entries].tolist()) - set(absent)
    older += sorted(unseen - _told_as_called(table, front.group, seq))
    called = front.has_entries & (front.last >= seq) & ~np.isin(front.lanes, older)
    # A ring may have lost the entry itself; whoever has something open in the group waits in it.
    waits = called & (front.pending < NEVER)
    units = _units(table, front.group, seq, set(older))
    if not units:
        return None
    if absent and _cannot_be_over(table, front, units[0]):
        waits |= called & (front.last == seq)
    if absent and not waits.any():
        waits = called  # gloo marks work that failed as over
    if not waits.any():
        return None
    waiting = set(front.lanes[waits].tolist())
    open_ = [unit for unit in units if int(table.lane[unit]) in waiting]
    oldest = int(front.first.min())
    return Stop(
        group=front.group,
        seq=seq,
        unit=_usual(table, open_ or units),
        waiting=tuple(sorted(waiting)),
        finished=tuple(front.lanes[called & ~waits & (front.finished >= seq)].tolist()),
        absent=tuple(sorted(absent)),
        older=tuple(sorted(older)),
        no_dump=table.groups.missing(front.group, table.lanes),
        members=len(front.lanes),
        unstarted=_unstarted(table, open_, waiting),
        unsure=not front.tells_states,
        first_of_group=seq == oldest <= 1 and not (front.finished > NONE).any(),
        at_first=seq == oldest,
        lags=not absent and not older and _only_lags(front, seq),
    )


def older(table: Table, front: Front) -> list[int]:
    """Lanes whose dump is of an earlier moment than the others', by what the group has done."""
    return [] if front.group.number in table.incomparable else _absent(table, front)[2]


def _absent(table: Table, front: Front) -> tuple[int, tuple[int, ...], list[int]]:
    """The first collective that not all lanes with entries have called, who has not, and the
    lanes whose dump is older than the others'."""
    older: list[int] = []
    while True:
        told = front.has_entries & ~np.isin(front.lanes, older)
        if not told.any():
            return NEVER, (), older
        lowest, highest = int(front.last[told].min()), int(front.last[told].max())
        if lowest == highest:
            return NEVER, (), older
        behind = told & (front.last == lowest)
        lanes = front.lanes[behind].tolist()
        following = _following(table, front, told, lowest)
        if following is not None and not _is_past(table, front, lowest):
            return following, tuple(lanes), older
        older += lanes


def _following(table: Table, front: Front, told: Bools, seq: int) -> int | None:
    """The first collective after this one that anybody recorded: those that a CUDA graph captured
    have numbers and no entries. None where no ring of a lane that went on reaches back as far."""
    if not (told & (front.last > seq) & (front.first <= seq + 1)).any():
        return None
    span = table.span(front.group.number)
    later = table.seq[span][table.seq[span] > seq]
    return int(later.min())


def _is_past(table: Table, front: Front, seq: int) -> bool:
    """Whether anything after this collective ended on some lane, which it could not have without
    everybody. Of a broadcast or a reduce that is no proof, of what followed it is."""
    span = table.span(front.group.number)
    ended = np.flatnonzero(table.done[span] & (table.seq[span] > seq)) + span.start
    if front.group.stateless:  # over may mean failed, but not if more went well after
        at = np.searchsorted(front.lanes, table.lane[ended])
        ended = ended[front.finished[at] > table.seq[ended]]
    calls = np.unique(table.row_call[table.first[ended]]).tolist()
    return any(fitting.family(table.calls[call]) in fitting.SYNCHRONOUS for call in calls)


def _unstarted(table: Table, units: Sequence[int], waiting: set[int]) -> tuple[int, ...]:
    """Lanes whose GPU has not begun, while others' have. Without TORCH_NCCL_ENABLE_TIMING a dump
    records no start at all: where one of these is so, or has lost its share, nobody is told."""
    begun = {int(table.lane[unit]) for unit in units if table.state[unit] >= STARTED}
    held = {int(table.lane[unit]) for unit in units}
    if not begun or held != waiting or not all(_tells_starts(table, lane) for lane in waiting):
        return ()
    return tuple(sorted(waiting - begun))


def _tells_starts(table: Table, lane: int) -> bool:
    rows = rows_of(table.lanes[lane].dump)
    timed = (rows["started_ns"] > 0) | (rows["duration_ms"] > 0)
    return bool((timed | (rows["state"] == STARTED)).any())


def _cannot_be_over(table: Table, front: Front, unit: int) -> bool:
    """gloo marks work that failed as over: what somebody never joined did fail, on whoever it was
    the newest call of, also where the others' dumps were made before they noticed."""
    synchronous = fitting.family(table.call_of(unit)) in fitting.SYNCHRONOUS
    return front.group.stateless and synchronous


def _only_lags(front: Front, seq: int) -> bool:
    """gloo marks its newest work as over a moment after it is, on each rank by itself: while
    nobody has called anything after it, that mark says nothing."""
    return front.group.stateless and seq == int(front.last.max())


def _never_used(table: Table, front: Front, seq: int) -> tuple[int, ...]:
    """Members without an entry of the group, if their ring reaches back far enough for it."""
    blank = front.lanes[~front.has_entries].tolist()
    if not blank or not front.group.known:
        return ()
    never = _never_recorded(table, front)
    unit = next(iter(_units(table, front.group, seq, set())))
    own = _names(table, int(table.lane[unit]))
    before = own[1][own[0] < table.row[unit]]
    found = []
    for lane in blank:
        enqueued = _enqueued(table, front.group, lane)
        if enqueued is not None:
            found += [lane] if enqueued < seq else []
        elif lane in never or np.isin(_names(table, lane)[1], before).any():
            found.append(lane)
    return tuple(found)


def _never_recorded(table: Table, front: Front) -> tuple[int, ...]:
    """Members that never called anything in the group: their record reaches back to its beginning
    (or is empty, and no status says otherwise) and holds nothing of it."""
    if not front.group.known:
        return ()
    found = []
    for lane in front.lanes[~front.has_entries].tolist():
        rows, told = rows_of(table.lanes[lane].dump), table.lanes[lane].dump.groups
        empty = not len(rows) and all((group.last_enqueued or -1) < 0 for group in told)
        if empty or (len(rows) and int(rows["record_id"][0]) == 0):
            found.append(lane)
    return tuple(found)


def _told_as_called(table: Table, group: Group, seq: int) -> set[int]:
    """Lanes whose dump holds no entry of the group, but says how many it has called."""
    return {lane for lane in group.lanes if (_enqueued(table, group, lane) or -1) >= seq}


def _enqueued(table: Table, group: Group, lane: int) -> int | None:
    """What pg_status says. gloo counts operations there, not collectives."""
    numbers = table.groups.numbers[lane]
    if group.stateless or group.number not in numbers:
        return None
    return table.lanes[lane].dump.groups[numbers.index(group.number)].last_enqueued


def _names(table: Table, lane: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and names of the collectives of one lane."""
    mine = np.flatnonzero(table.lane == lane)
    return table.row[mine], table.group[mine] * np.int64(1 << 40) + table.seq[mine]


def _units(table: Table, group: Group, seq: int, without: set[int]) -> list[int]:
    span = table.span(group.number, seq)
    return [u for u in range(span.start, span.stop) if int(table.lane[u]) not in without]


def _usual(table: Table, units: Sequence[int]) -> int:
    """A unit of the kind that most have."""
    keys = table.key[list(units)]
    values, counts = np.unique(keys, return_counts=True)
    return units[int(np.flatnonzero(keys == values[counts.argmax()])[0])]
