"""Flight Recorder dumps of a job into findings: the whole way, in the order it is gone.

In: dumps as formats/flight_dump reads them, in any order and of any names, and a docket. Out: the
findings on the docket and a FlightPicture. Whose dump is whose, which groups there are, what was
called together, where calls part, where it stands, who waits for whom; then the words.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from bench.hang import (
    absence,
    disagreement,
    exchanges,
    frontier,
    groups,
    lanes,
    lateness,
    matching,
    mismatch,
    motion,
    peers,
    picture,
    stops,
    timeline,
    waiting,
)
from bench.hang.absence import Told
from bench.hang.mismatch import Mismatch
from bench.hang.peers import PeerStop
from bench.hang.scene import Scene
from bench.hang.selection import Selection
from bench.hang.stops import Stop
from bench.hang.timeline import Timeline
from bench.hang.waiting import Roots
from bench.judge.docket import Docket
from bench.records import FlightDump, FlightFrame, FlightPicture

FINDINGS = 6  # of one kind; more of them have one cause that none of them names


@dataclasses.dataclass(frozen=True)
class Seen:
    """The picture, and what a timeline is drawn from."""

    picture: FlightPicture
    scene: Scene
    stops: tuple[Stop, ...]
    mismatches: tuple[Mismatch, ...]
    named: tuple[int, ...]  # lanes

    def timeline(self) -> Timeline:
        """Every cell of ranks × collectives: only a page needs them."""
        missing = self.picture.missing
        return timeline.of(self.scene, self.stops, self.mismatches, self.named, missing)


def judge(
    dumps: Iterable[FlightDump],
    docket: Docket,
    *,
    unread: Sequence[str] = (),
    stacks: Mapping[int, tuple[FlightFrame, ...]] | None = None,
    selection: Selection | None = None,
) -> FlightPicture:
    """Findings and picture, where no page is asked for."""
    return look(dumps, docket, unread=unread, stacks=stacks, selection=selection).picture


def look(
    dumps: Iterable[FlightDump],
    docket: Docket,
    *,
    unread: Sequence[str] = (),
    stacks: Mapping[int, tuple[FlightFrame, ...]] | None = None,
    selection: Selection | None = None,
) -> Seen:
    """Findings on the docket, and what was seen. `unread`: files of dumps that could not be read;
    `stacks`: where ranks stood when somebody asked them; `selection`: what the picture lists."""
    processes = lanes.of(dumps)
    table = matching.of(processes.lanes, groups.of(processes.lanes))
    parted, misnumbered = mismatch.mismatches(table)
    table = dataclasses.replace(table, incomparable=table.incomparable | misnumbered)
    fronts = list(frontier.fronts(table))
    stopped = [one for front in fronts if (one := stops.stop(table, front))]
    missing = motion.missing(processes.lanes, table.groups)
    exchanged = peers.PeerWaits()
    if any(len(rows) for rows in table.p2p):
        older = {lane for front in fronts for lane in stops.older(table, front)}
        exchanged = peers.waits(table, older)
    roots = waiting.roots(
        stopped,
        parted,
        exchanged.stops,
        len(table.lanes),
        all_dumped=not missing,
        exchanging=exchanged.exchanging,
    )
    scene = Scene(table, stacks)
    told = _told(scene, roots)
    habits = []
    if not told:
        habits = [each for each in lateness.lateness(table) if each.habitual]
        calls = [*exchanged.open, *(exchanged.unmarked if stopped else ())]
        told = motion.moving(scene, fronts, habits, missing, unread, calls)
    for each in told:
        docket.add(each.finding)
    shown = picture.of(
        scene,
        processes,
        fronts,
        stopped,
        parted,
        told,
        missing,
        habits,
        selection or Selection(),
        undecided=bool(exchanged.stops or exchanged.open or exchanges.unjudged(scene, fronts)),
    )
    named = tuple(sorted({lane for each in told for lane in each.named}))
    return Seen(shown, scene, tuple(stopped), tuple(parted), named)


def _told(scene: Scene, roots: Roots) -> list[Told]:
    """Causes; where there is none, who is in what."""
    fresh = _nothing_finished(scene)
    told: list[Told] = []
    for differing in sorted(roots.mismatched, key=lambda each: (each.over, each.group.number)):
        if len(told) < FINDINGS:
            told += disagreement.mismatch(scene, differing, first=fresh)
    for ring in roots.cycles[:FINDINGS]:
        told += disagreement.ring(scene, ring)
    for stop, idle in _merged(roots.idle)[:FINDINGS]:
        told.append(absence.never_joined(scene, stop, idle, first=fresh and stop.at_first))
    awaited: dict[int, PeerStop] = {}
    for one in roots.peers:
        awaited.setdefault(one.awaited, one)
    told += [exchanges.unmatched(scene, one) for one in list(awaited.values())[:FINDINGS]]
    if told:
        return told
    if roots.no_dump:
        stop = max(roots.no_dump, key=lambda each: len(each.waiting))
        return [absence.missing_dump(scene, stop, first=fresh and stop.at_first)]
    if roots.joined:
        stop = _earliest(scene, roots.joined)
        return [absence.all_joined(scene, stop, first=fresh and stop.at_first)]
    return [each for ring in roots.rings[:FINDINGS] for each in exchanges.ring(scene, ring)]


def _merged(idle: Sequence[tuple[Stop, tuple[int, ...]]]) -> list[tuple[Stop, tuple[int, ...]]]:
    """One finding for the same lanes: where the most wait for them."""
    best: dict[tuple[int, ...], Stop] = {}
    for stop, absent in idle:
        known = best.get(absent)
        if known is None or len(stop.waiting) > len(known.waiting):
            best[absent] = stop
    return sorted(
        ((stop, absent) for absent, stop in best.items()),
        key=lambda each: (-len(each[0].waiting), each[0].group.number),
    )


def _earliest(scene: Scene, joined: Sequence[Stop]) -> Stop:
    """The one that was called first, by the waiting rank's own record."""
    return min(joined, key=lambda stop: int(scene.table.entry(stop.unit)["created_ns"]))


def _nothing_finished(scene: Scene) -> bool:
    """Whether the job never got through a single collective, and its dumps reach back to its
    beginning."""
    all_rows = (lanes.rows_of(lane.dump) for lane in scene.table.lanes)
    whole = all(not len(rows) or int(rows["record_id"][0]) == 0 for rows in all_rows)
    return whole and not scene.table.done.any()
