"""The collectives of all lanes side by side, matched by group and sequence number.

In: lanes and groups. Out: a Table whose units are a lane's share in one collective, sorted by
group, number and lane; the calls inside a coalesced collective make one unit. Point-to-point calls
are kept apart. Where a group's numbers mean something else on each rank (batches of sends count as
collectives; torchcomms counts all groups together), they are counted anew if the record reaches
back to its beginning, else the group cannot be compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bench.hang import calls as fitting
from bench.hang.groups import Groups
from bench.hang.lanes import Lane, rows_of
from bench.records import FlightCall

Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]
COMPLETED = 2  # of FLIGHT_STATES
# Of a polynomial over the keys of a coalesced collective: any odd number with many bits.
MIXER = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class Table:
    """Columns of units. `first` and `count`: their rows in `row_*`, in the order of the calls;
    `row`: where the first stands in its dump. `done`: the recorder says that it is over, or that
    it failed (only a group that is stateless can mean that). `key`: equal where calls fit."""

    lanes: tuple[Lane, ...]
    groups: Groups
    calls: tuple[FlightCall, ...]
    keys: tuple[fitting.Key, ...]  # by call
    group: Ints
    seq: Ints
    lane: Ints
    key: Ints
    done: Bools
    state: Ints
    first: Ints
    count: Ints
    row_call: Ints
    row: Ints  # of the first row within its lane's dump
    p2p: tuple[NDArray[np.void], ...]  # each lane's rows of sends and receives, as in its dump
    incomparable: frozenset[int] = frozenset()  # groups

    def call_of(self, unit: int) -> FlightCall:
        return self.calls[int(self.row_call[self.first[unit]])]

    def keys_of(self, unit: int) -> tuple[fitting.Key, ...]:
        begin = int(self.first[unit])
        return tuple(self.keys[at] for at in self.row_call[begin : begin + int(self.count[unit])])

    def entry(self, unit: int) -> Any:
        """The row of its dump, with all its columns."""
        return rows_of(self.lanes[self.lane[unit]].dump)[self.row[unit]]

    def span(self, group: int, seq: int | None = None) -> slice:
        """The units of a group, or of one of its collectives."""
        begin, end = np.searchsorted(self.group, [group, group + 1])
        if seq is None:
            return slice(int(begin), int(end))
        inner = np.searchsorted(self.seq[begin:end], [seq, seq + 1]) + begin
        return slice(int(inner[0]), int(inner[1]))


def of(lanes: Sequence[Lane], groups: Groups) -> Table:
    """The table of all lanes."""
    calls, by_lane = _calls(lanes)
    columns = [_columns(lane, groups.numbers[lane.number], by_lane[lane.number]) for lane in lanes]
    incomparable = _renumber(columns, lanes)
    for each in columns:
        each["row"] = np.arange(len(each["seq"]))
    kept = [_without_p2p(each) for each in columns]
    joined = {
        name: np.concatenate([each[name] for each in kept])
        if kept
        else np.zeros(0, dtype=np.int64)
        for name in ("group", "seq", "call", "state", "retired", "row")
    }
    joined["lane"] = np.repeat(
        np.arange(len(kept), dtype=np.int64), [len(each["seq"]) for each in kept]
    )
    order = _order(joined["group"], joined["seq"], joined["lane"])
    joined = {name: column[order] for name, column in joined.items()}
    stateless = np.array([group.stateless for group in groups.groups] or [False], dtype=bool)
    done = np.where(
        stateless[joined["group"]] if len(order) else np.zeros(0, dtype=bool),
        joined["retired"] > 0,
        joined["state"] == COMPLETED,
    )
    keys, numbers = _keys(calls)
    return _units(
        joined, done, numbers, lanes, groups, calls, keys, _p2p(columns, lanes), incomparable
    )


def _calls(lanes: Sequence[Lane]) -> tuple[tuple[FlightCall, ...], list[Ints]]:
    """All calls once, and each dump's numbers in that list."""
    numbers: dict[FlightCall, int] = {}
    by_lane = [
        np.array([numbers.setdefault(call, len(numbers)) for call in lane.dump.calls] or [0])
        for lane in lanes
    ]
    return tuple(numbers), by_lane


def _keys(calls: Sequence[FlightCall]) -> tuple[tuple[fitting.Key, ...], Ints]:
    """The key of each call, and its number."""
    keys = tuple(map(fitting.key, calls))
    numbers: dict[fitting.Key, int] = {}
    return keys, np.array([numbers.setdefault(key, len(numbers)) for key in keys] or [0])


Columns: TypeAlias = dict[str, NDArray[Any]]


def _columns(lane: Lane, group_numbers: list[int], call_numbers: Ints) -> Columns:
    rows = rows_of(lane.dump)
    return {
        "group": np.array(group_numbers or [-1], dtype=np.int64)[rows["group"]],
        "call": call_numbers[rows["call"]],
        "seq": rows["seq"].astype(np.int64),
        "state": rows["state"].astype(np.int64),
        "retired": rows["retired"].astype(np.int64),
        "p2p": rows["p2p"] > 0,
    }


def _renumber(columns: list[Columns], lanes: Sequence[Lane]) -> frozenset[int]:
    """Counts anew where sequence numbers are not the group's own; groups that stay unsure."""
    counted = _counted_together(columns, lanes)
    batched: set[int] = set()
    for each, lane in zip(columns, lanes, strict=True):
        if each["p2p"].any():
            closing = np.array([call.name == "coalesced" for call in lane.dump.calls] or [False])
            batched |= _mark_batches(each, closing[rows_of(lane.dump)["call"]])
    if counted:
        batched = {int(group) for each in columns for group in np.unique(each["group"])}
    whole = [
        len(rows := rows_of(lane.dump)) == 0 or int(rows["record_id"][0]) == 0 for lane in lanes
    ]
    unsure = set()
    for group in batched:
        mine = [each["group"] == group for each in columns]
        if not all(whole[at] for at, own in enumerate(mine) if own.any()):
            unsure.add(group)
            continue
        for each, own in zip(columns, mine, strict=True):
            own = own & ~each["p2p"]
            if own.any():
                each["seq"][own] = np.unique(each["seq"][own], return_inverse=True)[1] + 1
    return frozenset(unsure)


def _counted_together(columns: list[Columns], lanes: Sequence[Lane]) -> bool:
    """torchcomms: one counter for all groups, so that the number is the entry's own."""
    found = False
    for each, lane in zip(columns, lanes, strict=True):
        if not len(each["seq"]) or len(np.unique(each["group"])) < 2:
            continue
        if np.any(each["seq"] - rows_of(lane.dump)["record_id"] != each["seq"][0]):
            return False
        found = True
    return found


def _mark_batches(columns: Columns, names: Bools) -> set[int]:
    """Groups with batches of sends: such a batch takes a collective's number, only on the ranks
    that send. Its closing entry is marked as one of them where torch did not. `names`: rows that
    close something coalesced."""
    keys = columns["group"] * np.int64(1 << 40) + columns["seq"]
    p2p = columns["p2p"]
    closing = names & (p2p | np.isin(keys, keys[p2p]))
    # A send outside of a batch has the number of the collective before it.
    groups = {int(group) for group in columns["group"][closing]}
    for group in np.unique(columns["group"][p2p]).tolist():
        mine = columns["group"] == group
        seq = np.where(mine & ~p2p, columns["seq"], np.iinfo(np.int64).min)
        before = np.maximum.accumulate(seq)
        ahead = mine & p2p & (columns["seq"] > before) & (before > np.iinfo(np.int64).min)
        if ahead.any():
            groups.add(group)
    columns["p2p"] = p2p | closing
    return groups


def _without_p2p(columns: Columns) -> Columns:
    kept = ~columns["p2p"] & (columns["group"] >= 0)
    return columns if kept.all() else {name: column[kept] for name, column in columns.items()}


def _p2p(columns: list[Columns], lanes: Sequence[Lane]) -> tuple[NDArray[np.void], ...]:
    return tuple(
        rows_of(lane.dump)[each["p2p"]] for lane, each in zip(lanes, columns, strict=True)
    )


def _order(group: Ints, seq: Ints, lane: Ints) -> Ints:
    """Sorted by group, number and lane; calls of one collective stay in their order."""
    if not len(seq):
        return np.zeros(0, dtype=np.int64)
    low = int(seq.min())
    width, height = int(lane.max()) + 1, int(seq.max()) - low + 1
    if (int(group.max()) + 1) * width * height < 1 << 62:  # one key sorts three times as fast
        return np.argsort((group * height + (seq - low)) * width + lane, kind="stable")
    return np.lexsort((lane, seq, group))


def _units(
    rows: Columns,
    done: Bools,
    key_of_call: Ints,
    lanes: Sequence[Lane],
    groups: Groups,
    calls: tuple[FlightCall, ...],
    keys: tuple[fitting.Key, ...],
    p2p: tuple[NDArray[np.void], ...],
    incomparable: frozenset[int],
) -> Table:
    """Rows of one collective and lane become a unit."""
    group, seq, lane = rows["group"], rows["seq"], rows["lane"]
    key = key_of_call[rows["call"]] if len(seq) else np.zeros(0, dtype=np.int64)
    new = np.ones(len(seq), dtype=bool)
    new[1:] = (group[1:] != group[:-1]) | (seq[1:] != seq[:-1]) | (lane[1:] != lane[:-1])
    first = np.flatnonzero(new)
    count = np.diff(np.append(first, len(seq)))
    state = rows["state"]
    if len(first) < len(seq):
        key = _mixed(key, first, count)
        done = np.logical_or.reduceat(done, first)
        state = np.maximum.reduceat(state, first)
    return Table(
        lanes=tuple(lanes),
        groups=groups,
        calls=calls,
        keys=keys,
        group=group[first],
        seq=seq[first],
        lane=lane[first],
        key=key,
        done=done,
        state=state,
        first=first,
        count=count,
        row_call=rows["call"],
        row=rows["row"][first],
        p2p=p2p,
        incomparable=incomparable,
    )


def _mixed(key: Ints, first: Ints, count: Ints) -> Ints:
    """One number for the keys of all calls of a unit, in their order; a single call keeps its."""
    place = np.arange(len(key)) - np.repeat(first, count)
    with np.errstate(over="ignore"):
        weight = MIXER * (2 * place.astype(np.uint64) + np.uint64(1))
        mixed = np.add.reduceat((key.astype(np.uint64) + np.uint64(1)) * weight, first)
    return np.where(count == 1, key[first], (mixed >> np.uint64(1)).astype(np.int64))
