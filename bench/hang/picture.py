"""What the dumps show together, as records for a screen, for JSON and for a page.

In: everything that flight.py has put together. Out: a FlightPicture. Nothing is judged here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from bench.hang.absence import Told
from bench.hang.frontier import NEVER, Front
from bench.hang.lanes import Lanes, rows_of
from bench.hang.lateness import Lateness
from bench.hang.matching import Table
from bench.hang.mismatch import Mismatch
from bench.hang.scene import Scene
from bench.hang.selection import Selection, listed
from bench.hang.stops import Stop
from bench.records import FlightFrame, FlightPicture
from bench.records.diagnosis import FlightMismatch, FlightRank, FlightSide, FlightStop


def of(
    scene: Scene,
    processes: Lanes,
    fronts: Sequence[Front],
    stops: Sequence[Stop],
    mismatches: Sequence[Mismatch],
    told: Sequence[Told],
    missing: Sequence[int],
    habits: Sequence[Lateness],
    selection: Selection,
    *,
    undecided: bool = False,
) -> FlightPicture:
    """`undecided`: something is under way beside the stops."""
    table = scene.table
    stacks = _Stacks()
    rows, number = listed(table, fronts, mismatches, selection)
    named = {lane for each in told for lane in each.named}
    return FlightPicture(
        phase=next((each.phase for each in told if each.phase), None),
        world=table.groups.world or scene.ranks(range(len(table.lanes))),
        schemas=tuple(sorted({lane.dump.version for lane in table.lanes}, key=_version)),
        ranks=_ranks(scene, fronts, habits, stacks),
        missing=tuple(missing),
        left_out=processes.left_out,
        groups=len({front.group.number for front in fronts}),
        collectives=_collectives(table),
        stops=tuple(_stop(scene, stop, stacks) for stop in stops),
        mismatches=tuple(_mismatch(scene, one, stacks) for one in mismatches),
        listed=rows,
        listed_of=number,
        named=scene.ranks(named),
        named_files=scene.files(sorted(named)),
        suspects=tuple(sorted({rank for each in told for rank in each.suspects})),
        incomparable=tuple(table.groups.groups[at].label for at in sorted(table.incomparable)),
        undecided=undecided,
        stacks=tuple(stacks.numbers),
    )


class _Stacks:
    """Stacks by number: a thousand ranks stand in the same place."""

    def __init__(self) -> None:
        self.numbers: dict[tuple[FlightFrame, ...], int] = {}

    def of(self, frames: tuple[FlightFrame, ...]) -> int:
        return self.numbers.setdefault(frames, len(self.numbers)) if frames else -1


def _version(version: str) -> tuple[int, ...]:
    """ "2.10" is after "2.9"."""
    return tuple(int(part) for part in version.split(".") if part.isdigit())


def _collectives(table: Table) -> int:
    if not len(table.seq):
        return 0
    new = (table.group[1:] != table.group[:-1]) | (table.seq[1:] != table.seq[:-1])
    return int(new.sum()) + 1


def _ranks(
    scene: Scene, fronts: Sequence[Front], habits: Sequence[Lateness], stacks: _Stacks
) -> tuple[FlightRank, ...]:
    table = scene.table
    late = {each.lane: each.late_s for each in habits}
    pending = _pending(table, fronts)
    found = []
    for lane in table.lanes:
        rows = rows_of(lane.dump)
        unit = pending.get(lane.number)
        newest = scene.newest(lane.number)
        stack = newest[1] if newest else ()
        found.append(
            FlightRank(
                rank=lane.rank,
                file=lane.dump.file,
                entries=lane.dump.entries,
                first_record=int(rows["record_id"][0]) if len(rows) else None,
                last_record=int(rows["record_id"][-1]) if len(rows) else None,
                last=newest[0] if newest else "",
                waits_in=scene.collective(unit) if unit is not None else "",
                stack=stacks.of(scene.frames(unit) if unit is not None else stack),
                late_s=late.get(lane.number),
            )
        )
    return tuple(found)


def _pending(table: Table, fronts: Sequence[Front]) -> Mapping[int, int]:
    """The unit that each lane waits in first, by the order of its own record."""
    found: dict[int, int] = {}
    for front in fronts:
        if not front.tells_states:
            continue
        for lane, seq in zip(front.lanes.tolist(), front.pending.tolist(), strict=True):
            if seq == NEVER:
                continue
            inner = table.span(front.group.number, seq)
            unit = inner.start + int(np.searchsorted(table.lane[inner], lane))
            if lane not in found or table.row[unit] < table.row[found[lane]]:
                found[lane] = unit
    return found


def _stop(scene: Scene, stop: Stop, stacks: _Stacks) -> FlightStop:
    return FlightStop(
        group=stop.group.label,
        seq=stop.seq,
        call=scene.table.call_of(stop.unit),
        waiting=scene.ranks(stop.waiting),
        waiting_files=scene.files(stop.waiting),
        finished=scene.ranks(stop.finished),
        absent=scene.ranks(stop.absent),
        absent_files=scene.files(stop.absent),
        older=scene.ranks(stop.older),
        no_dump=stop.no_dump,
        stack=stacks.of(scene.frames(stop.unit)),
    )


def _mismatch(scene: Scene, one: Mismatch, stacks: _Stacks) -> FlightMismatch:
    return FlightMismatch(
        group=one.group.label,
        seq=one.seq,
        kind=one.kind,
        sides=tuple(
            FlightSide(
                call=scene.table.call_of(side.unit),
                ranks=scene.ranks(side.lanes),
                files=scene.files(side.lanes),
                stack=stacks.of(scene.frames(side.unit)),
            )
            for side in one.sides
        ),
        odd=scene.ranks(one.odd),
    )
