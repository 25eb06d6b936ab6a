"""Ranks × collectives, cell by cell, for a page to draw: what every dump says of each call.

In: what flight.py has put together. Out: a Timeline: a row per rank (those without a dump as
well), columns of numbers for all cells, and tables of the groups, calls and stacks that these
number. Nothing is judged here: what is marked is what the findings are about.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from bench.hang.lanes import Lane, rows_of
from bench.hang.matching import Bools, Ints, Table
from bench.hang.mismatch import Mismatch
from bench.hang.scene import Scene, sentence
from bench.hang.stops import Stop
from bench.records import FlightFrame

MOST_CELLS = 4_000_000  # twice 1,024 ranks of full rings; beyond, the newest of each rank
MOST_CALLS = 60_000  # different ones, of 16 bits; the rest has no name on the page
MOST_STACKS = 2_000
FRAMES_SHOWN = 24
MARKS = 40
SCHEDULED, STARTED, COMPLETED, DIFFERS = range(4)  # states of a cell


@dataclass(frozen=True)
class Row:
    """A rank. `label`: "rank 3", or the file of a dump whose rank is not certain."""

    label: str
    has_dump: bool = True
    named: bool = False


@dataclass(frozen=True)
class Lines:
    """A process group: its rows. `tells`: whether its dumps say what is over."""

    label: str
    rows: tuple[int, ...]
    tells: bool = True


@dataclass(frozen=True)
class Mark:
    """What a finding is about: a collective and the rows that differ in it or never joined."""

    group: int
    seq: int
    rows: tuple[int, ...]
    words: str
    absent: bool


@dataclass(frozen=True)
class Timeline:
    """`counts`: cells of each row; they lie row by row, in the order of the calls. `record` is
    the call's place in its rank's own record, `created_ns` by its rank's own clock."""

    rows: tuple[Row, ...]
    groups: tuple[Lines, ...]
    calls: tuple[tuple[str, str], ...]  # name, message
    stacks: tuple[tuple[str, ...], ...]
    marks: tuple[Mark, ...]
    counts: Ints
    group: Ints
    seq: Ints
    record: Ints
    call: Ints
    state: Ints
    stack: Ints  # -1: none
    created_ns: Ints
    left_out: int = 0  # older cells


def of(
    scene: Scene,
    stops: Sequence[Stop],
    mismatches: Sequence[Mismatch],
    named: Sequence[int],
    missing: Sequence[int],
) -> Timeline:
    """The timeline of all lanes. `named`: lanes that the findings name; `missing`: ranks."""
    table = scene.table
    rows, row_of, row_of_rank = _rows(scene, named, missing)
    order = np.lexsort((table.row, row_of[table.lane])) if len(table.lane) else table.lane
    order, left_out = _newest(order, row_of[table.lane])
    lane, row = table.lane[order], row_of[table.lane][order]
    calls, call = _calls(scene, order)
    stacks = _Stacks()
    state = _states(table, mismatches)[order]
    own = [_own(each, stacks) for each in table.lanes]
    at = table.row[order]
    return Timeline(
        rows=rows,
        groups=_groups(table, row_of, row_of_rank),
        calls=calls,
        stacks=tuple(stacks.shown),
        marks=_marks(scene, stops, mismatches, set(named), row_of),
        counts=np.bincount(row, minlength=len(rows)).astype(np.int64),
        group=table.group[order],
        seq=table.seq[order],
        record=_gathered(own, "record", lane, at),
        call=call,
        state=state,
        stack=_gathered(own, "stack", lane, at),
        created_ns=_gathered(own, "created", lane, at),
        left_out=left_out,
    )


def _rows(
    scene: Scene, named: Sequence[int], missing: Sequence[int]
) -> tuple[tuple[Row, ...], Ints, dict[int, int]]:
    """Lanes and ranks without a dump in the order of ranks; the row of each lane and rank."""
    lanes = scene.table.lanes
    entries: list[tuple[tuple[bool, int, str], Lane | int]] = [
        ((lane.rank is None, lane.rank or 0, lane.dump.file), lane) for lane in lanes
    ]
    entries += [((False, rank, ""), rank) for rank in missing]
    entries.sort(key=lambda each: each[0])
    rows, of_rank = [], {}
    of_lane = np.zeros(max(len(lanes), 1), dtype=np.int64)
    for at, (_, one) in enumerate(entries):
        if isinstance(one, Lane):
            of_lane[one.number] = at
            rows.append(Row(one.label, named=one.number in named))
            if one.rank is not None:
                of_rank[one.rank] = at
        else:
            of_rank[one] = at
            rows.append(Row(f"rank {one}", has_dump=False))
    return tuple(rows), of_lane, of_rank


def _newest(order: Ints, row: Ints) -> tuple[Ints, int]:
    """At most MOST_CELLS: of each row its newest, equally many."""
    if len(order) <= MOST_CELLS:
        return order, 0
    counts = np.bincount(row)
    room = MOST_CELLS // len(counts)
    behind = np.repeat(np.cumsum(counts), counts) - np.arange(len(order))  # 1: the newest
    kept = order[behind <= room]
    return kept, len(order) - len(kept)


def _groups(table: Table, row_of: Ints, row_of_rank: dict[int, int]) -> tuple[Lines, ...]:
    found = []
    for group in table.groups.groups:
        rows = {int(row_of[lane]) for lane in group.lanes}
        rows |= {
            row_of_rank[rank]
            for rank in table.groups.missing(group, table.lanes)
            if rank in row_of_rank
        }
        marked = not group.stateless or bool(table.done[table.span(group.number)].any())
        found.append(Lines(group.label, tuple(sorted(rows)), tells=marked))
    return tuple(found)


def _calls(scene: Scene, order: Ints) -> tuple[tuple[tuple[str, str], ...], Ints]:
    """Names and messages once each; a number per cell."""
    table = scene.table
    if not len(order):
        return (), order
    pair = table.row_call[table.first[order]] * np.int64(1 << 24) + np.minimum(
        table.count[order], (1 << 24) - 1
    )
    _, first, numbers = np.unique(pair, return_index=True, return_inverse=True)
    shown = [
        (table.call_of(unit).name, scene.message(unit))
        for unit in order[first[:MOST_CALLS]].tolist()
    ]
    return tuple(shown), np.minimum(numbers, MOST_CALLS)


def _states(table: Table, mismatches: Sequence[Mismatch]) -> Ints:
    """What is over is completed, also where only `retired` tells; who differs stands out."""
    state: Ints = np.where(table.done, COMPLETED, np.minimum(table.state, COMPLETED))
    for one in mismatches:
        sides = one.sides[1:] if one.majority else one.sides
        lanes = [lane for side in sides for lane in side.lanes]
        inner = table.span(one.group.number, one.seq)
        odd: Bools = np.isin(table.lane[inner], lanes)
        state[inner] = np.where(odd, DIFFERS, state[inner])
    return state


@dataclass
class _Stacks:
    """Stacks by number; a thousand ranks stand in the same place."""

    numbers: dict[tuple[FlightFrame, ...], int] = field(default_factory=dict)
    shown: list[tuple[str, ...]] = field(default_factory=list)

    def of(self, frames: tuple[FlightFrame, ...]) -> int:
        known = self.numbers.get(frames)
        if known is None:
            if len(self.shown) >= MOST_STACKS or not frames:
                return -1
            known = self.numbers[frames] = len(self.shown)
            self.shown.append(tuple(_frame(each) for each in frames[:FRAMES_SHOWN]))
        return known


def _frame(frame: FlightFrame) -> str:
    """ "fsdp/fully_shard.py:310 foreach_all_gather": two parts of the path tell the file."""
    return f"{'/'.join(frame.file.split('/')[-2:])}:{frame.line} {frame.name}"


def _own(lane: Lane, stacks: _Stacks) -> dict[str, Ints]:
    """Columns of a dump's rows, its stacks by their number on the page."""
    dump, rows = lane.dump, rows_of(lane.dump)
    numbers = [stacks.of(tuple(dump.frames[at] for at in stack)) for stack in dump.stacks]
    return {
        "record": rows["record_id"].astype(np.int64),
        "created": rows["created_ns"].astype(np.int64),
        "stack": np.array([*numbers, -1], dtype=np.int64)[rows["stack"]],
    }


def _gathered(own: Sequence[dict[str, Ints]], name: str, lane: Ints, at: Ints) -> Ints:
    """The cells' values of a column that each dump has by itself."""
    if not len(lane):
        return np.zeros(0, dtype=np.int64)
    sizes = [len(each[name]) for each in own]
    begin = np.cumsum([0, *sizes[:-1]])
    joined: Ints = np.concatenate([each[name] for each in own])
    return joined[begin[lane] + at]


def _marks(
    scene: Scene,
    stops: Sequence[Stop],
    mismatches: Sequence[Mismatch],
    named: set[int],
    row_of: Ints,
) -> tuple[Mark, ...]:
    """What the findings name first; all stops, of which the page shows who never joined."""
    found: list[tuple[bool, Mark]] = []
    for one in mismatches:
        lanes = one.odd or tuple(lane for side in one.sides for lane in side.lanes)
        place = scene.collective(one.sides[0].unit)
        many = "" if len(lanes) > 1 else "s"
        words = f"{sentence(scene.names(lanes))} differ{many} at {place}"
        rows = tuple(int(row_of[lane]) for lane in lanes)
        mark = Mark(one.group.number, one.seq, rows, words, absent=False)
        found.append((bool(named & set(lanes)), mark))
    parted = {(one.group.number, one.seq) for one in mismatches}
    for stop in stops:
        if not stop.absent and (stop.group.number, stop.seq) in parted:
            continue  # all are in it, and it is marked already
        lanes = stop.absent or stop.waiting
        deed = "never joined" if stop.absent else "waits in" if len(lanes) == 1 else "wait in"
        words = f"{sentence(scene.names(lanes))} {deed} {scene.collective(stop.unit)}"
        rows = tuple(int(row_of[lane]) for lane in lanes)
        mark = Mark(stop.group.number, stop.seq, rows, words, absent=bool(stop.absent))
        found.append((bool(named & set(stop.absent)), mark))
    found.sort(key=lambda each: (not each[0], not each[1].absent, -len(each[1].rows)))
    return tuple(mark for _, mark in found[:MARKS])
