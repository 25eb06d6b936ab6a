"""Findings about sends and receives: one without its other half, a ring of them, those in flight.

In: what waits for a peer, worded by the Scene. Out: hang-midrun with the rank that never posted
its half; hang-midrun that names all of a ring, and not-determinable beside it; not-determinable
where both halves are posted, or where numbers do not tell what is under way.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.hang.absence import Told
from bench.hang.frontier import NEVER, Front
from bench.hang.groups import Group
from bench.hang.peers import HALVES, OpenCall, PeerStop
from bench.hang.scene import Scene, rank_words, sentence, stack_words
from bench.hang.stops import Stop
from bench.records import Evidence, Finding, Where

WAYS = {"send": "to", "recv": "from"}
SHOWN = 4


def unmatched(scene: Scene, one: PeerStop) -> Told:
    """A send or receive without its other half."""
    table = scene.table
    lane = one.waiting[0]
    half = HALVES[one.name]
    waiting, awaited = scene.names([lane]), scene.names([one.awaited])
    way = WAYS[one.name]
    number = _number(scene, one.group, lane, one.row)
    evidence = _called_from(scene, lane, one.row)
    if newest := scene.newest(one.awaited):
        words = f"{awaited}: its newest call is {newest[0]}, nothing of it is under way"
        if stack := stack_words(newest[1]):
            words += f"; from {stack}"
        evidence.append(Evidence(basis="measured", text=words))
    call = table.lanes[lane].dump.calls[int(table.p2p[lane][one.row]["call"])]
    finding = Finding(
        code="hang-midrun",
        severity="broken",
        summary=f"{sentence(waiting)} waits in {one.name} {way} {awaited} ({number}), which never "
        f"posted the {half}.",
        where=scene.where([one.awaited], call),
        evidence=tuple(evidence),
        remedy=f"on {awaited}: its log from the first error, `py-spy dump`; the order of sends "
        "and receives in the pipeline's schedule",
        confidence="inferred",
    )
    return Told(finding, "midrun", (one.awaited,))


def _number(scene: Scene, group: Group, lane: int, row: int) -> str:
    return f"#{int(scene.table.p2p[lane][row]['p2p_seq']):,} of {group.label}"


def _called_from(scene: Scene, lane: int, row: int) -> list[Evidence]:
    dump = scene.table.lanes[lane].dump
    at = int(scene.table.p2p[lane][row]["stack"])
    if at < 0:
        return []
    words = stack_words(tuple(dump.frames[n] for n in dump.stacks[at]))
    text = f"{scene.names([lane])}: called from {words}"
    return [Evidence(basis="measured", text=text)]


def ring(scene: Scene, waits: Sequence[Stop | PeerStop]) -> list[Told]:
    """Lanes that wait for each other: each in something that the next has not called."""
    everyone = sorted({lane for each in waits for lane in each.waiting})
    ranks = scene.ranks(everyone)
    told = [_wait(scene, each) for each in waits[:SHOWN]]
    more = f"; {len(waits) - SHOWN} more" if len(waits) > SHOWN else ""
    evidence = [
        proof
        for each in waits[:SHOWN]
        if isinstance(each, PeerStop)
        for proof in _called_from(scene, each.waiting[0], each.row)
    ]
    finding = Finding(
        code="hang-midrun",
        severity="broken",
        summary=f"Ranks wait for each other: {'; '.join(told)}{more}. Nobody has posted the other "
        "half.",
        where=Where(ranks=ranks),
        evidence=tuple(evidence),
        remedy="the order of sends and receives in the pipeline's schedule: one of them sends "
        "first, or both post asynchronously",
        confidence="inferred",
    )
    level = Finding(
        code="not-determinable",
        severity="info",
        summary=f"Which of {rank_words(ranks)} should have called something else first the dumps "
        "do not tell.",
        where=Where(ranks=ranks),
        remedy="the program decides: whose half belongs first",
        confidence="inferred",
    )
    return [Told(finding, "midrun"), Told(level, "midrun")]


def _wait(scene: Scene, one: Stop | PeerStop) -> str:
    """ "rank 0 in recv from rank 1 (#4 of default_pg)"."""
    names = scene.names(one.waiting)
    if isinstance(one, Stop):
        return f"{names} in {scene.collective(one.unit)}"
    number = _number(scene, one.group, one.waiting[0], one.row)
    return f"{names} in {one.name} {WAYS[one.name]} {scene.names([one.awaited])} ({number})"


def unjudged(scene: Scene, fronts: Sequence[Front]) -> list[Front]:
    """Groups that cannot be compared, and in which something is under way."""
    return [
        front
        for front in fronts
        if front.group.number in scene.table.incomparable
        and front.tells_states
        and bool((front.pending < NEVER).any())
    ]


def under_way(
    scene: Scene, calls: Sequence[OpenCall], fronts: Sequence[Front], absent: Sequence[int]
) -> Told:
    """What is not over, and whether it stands still nothing tells. `fronts`: of groups that
    cannot be compared; `absent`: ranks without a dump."""
    told = [_open(scene, each) for each in calls[:SHOWN]]
    for front in fronts[: SHOWN - len(told)]:
        lanes = front.lanes[front.pending < NEVER].tolist()
        told.append(
            f"{scene.names(lanes)} in a collective of {front.group.label}, whose numbers do not "
            "belong together"
        )
    rest = len(calls) + len(fronts) - len(told)
    more = f"; {rest:,} more" if rest else ""
    suspects = sorted(
        {each.peer for each in calls if each.peer is not None and each.peer in absent}
    )
    evidence = [proof for each in calls[:1] for proof in _called_from(scene, each.lane, each.row)]
    if absent:
        text = f"no dump of {rank_words(absent)}: not cleared by this"
        evidence.append(Evidence(basis="measured", text=text))
    path = any(each.posted for each in calls)
    finding = Finding(
        code="not-determinable",
        severity="info",
        summary=f"Under way: {'; '.join(told)}{more}. Whether that stands still, or only was on "
        "its way when the dumps were made, they do not tell.",
        where=Where(ranks=tuple(suspects)),
        evidence=tuple(evidence),
        remedy="take the dumps again after a few seconds: in a job that moves they differ"
        + ("; if they do not, the path between the two: link and port counters" if path else ""),
        confidence="inferred",
    )
    return Told(finding, None, (), tuple(suspects))


def _open(scene: Scene, one: OpenCall) -> str:
    """ "rank 2 in send to rank 3 (#4 of default_pg), which has posted the recv"."""
    whom = "an unknown rank" if one.peer is None else f"rank {one.peer}"
    words = f"{scene.names([one.lane])} in {one.name} {WAYS[one.name]} {whom} "
    words += f"({_number(scene, one.group, one.lane, one.row)})"
    return f"{words}, which has posted the {HALVES[one.name]}" if one.posted else words
