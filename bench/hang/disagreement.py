"""Findings about ranks that called different things, or the same things in another order.

In: mismatches and rings of waiting, worded by the Scene. Out: collective-mismatch with the odd
ranks where a majority decides, else with both sides and a not-determinable beside it.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.hang import calls as fitting
from bench.hang.absence import Told
from bench.hang.mismatch import Mismatch, Side
from bench.hang.scene import Scene, sentence
from bench.hang.steps import rhythm
from bench.hang.stops import Stop
from bench.records import Evidence, Finding, Phase, Where

SIDES_TOLD = 4
KINDS = {
    "type": "another collective",
    "size": "another size",
    "dtype": "another element type",
    "order": "the collectives in another order",
}
BRANCH = "look for a branch, a loop length or a model part that depends on the rank"


def mismatch(scene: Scene, one: Mismatch, *, first: bool) -> list[Told]:
    """One place of a group's sequence where calls differ. `first`: nothing in the job has ever
    finished."""
    phase: Phase = "first" if first and one.seq <= 1 else "midrun"
    table = scene.table
    usual = one.sides[0]
    call = table.call_of(usual.unit)
    place = f"#{one.seq:,} of {one.group.label}"
    evidence = [_side(scene, each) for each in one.sides[:SIDES_TOLD]]
    if len(one.sides) > SIDES_TOLD:
        rest = len(one.sides) - SIDES_TOLD
        evidence.append(Evidence(basis="measured", text=f"{rest} more kinds of call"))
    if one.shift:
        odd = scene.names(one.odd)
        words = f"{odd} {one.shift}: from there on its calls are the others', moved by one"
        evidence.append(Evidence(basis="inferred", text=words))
    if left := _left_the_loop(scene, one):
        evidence += left
        phase = "end"
    if one.over:
        words = "it is marked as over on all of them: what they received is not what was sent"
        evidence.append(Evidence(basis="measured", text=words))
    if one.majority:
        odd_call = table.call_of(one.sides[1].unit)
        many = "" if len(one.odd) > 1 else "s"
        summary = (
            f"{sentence(scene.names(one.odd))} disagree{many} at {place}: "
            f"{_difference(scene, one.sides[1], one)} where {scene.names(usual.lanes)} "
            f"{_verb(usual)} {_difference(scene, usual, one)}."
        )
        finding = Finding(
            code="collective-mismatch",
            kind=one.kind,
            severity="broken",
            summary=summary,
            where=scene.where(one.odd, odd_call),
            evidence=tuple(evidence),
            remedy=f"its stack shows the call; {BRANCH}",
            confidence="inferred",
        )
        return [Told(finding, phase, one.odd)]
    everyone = [lane for side in one.sides for lane in side.lanes]
    sides = "; ".join(
        f"{scene.names(each.lanes)} {_difference(scene, each, one)}"
        for each in one.sides[:SIDES_TOLD]
    )
    finding = Finding(
        code="collective-mismatch",
        kind=one.kind,
        severity="broken",
        summary=f"{sentence(scene.names(everyone))} disagree at {place}: {sides}.",
        where=Where(ranks=scene.ranks(everyone), collective=call.name),
        evidence=tuple(evidence),
        remedy=f"compare the stacks of both sides; {BRANCH}",
        confidence="measured",
    )
    of = f" of its {one.members} members" if len(everyone) < one.members else ""
    level = Finding(
        code="not-determinable",
        severity="info",
        summary=f"Which side of {place} is wrong the dumps do not tell: no side is a majority"
        f"{of}.",
        where=Where(ranks=scene.ranks(everyone), collective=call.name),
        remedy="the program decides: which of the two calls belongs there",
        confidence="inferred",
    )
    return [Told(finding, phase), Told(level, phase)]


def _verb(side: Side) -> str:
    return "have" if len(side.lanes) > 1 else "has"


def _difference(scene: Scene, side: Side, one: Mismatch) -> str:
    """What a side called, as far as it differs: "all_reduce of [12] float32"."""
    call = scene.table.call_of(side.unit)
    count = int(scene.table.count[side.unit])
    if count > 1:
        return f"{count} calls coalesced"
    names = {scene.table.call_of(each.unit).name for each in one.sides}
    if one.kind in ("type", "order") and len(names) == len(one.sides):
        return call.name
    return f"{call.name} of {fitting.shape(call)}"


def _side(scene: Scene, side: Side) -> Evidence:
    call = scene.table.call_of(side.unit)
    words = f"{scene.names(side.lanes)}: {call.name}, {scene.message(side.unit)}"
    if where := scene.called_from(side.unit):
        words += f"; from {where}"
    return Evidence(basis="measured", text=words)


def _left_the_loop(scene: Scene, one: Mismatch) -> list[Evidence]:
    """Whether the odd lanes had finished a whole number of steps, and the others begin another."""
    if not one.majority:
        return []
    odd, usual = one.sides[1].unit, one.sides[0].unit
    seen = rhythm(scene.table, int(scene.table.lane[odd]), odd, usual)
    if seen is None or not seen.whole:
        return []
    steps = f"{seen.steps:,}" if seen.counted else f"at least {seen.steps:,}"
    words = (
        f"{scene.names(one.odd)} had finished a whole number of steps ({steps} of {seen.calls} "
        "collectives each) and the others begin another: as when its data ran out"
    )
    return [Evidence(basis="inferred", text=words)]


def ring(scene: Scene, stops: Sequence[Stop]) -> list[Told]:
    """Groups of lanes that wait for each other, each in a collective that the other has not
    called: the order of calls differs. The larger side is right."""
    by_size = sorted(stops, key=lambda stop: (-len(stop.waiting), stop.group.number))
    everyone = sorted({lane for stop in stops for lane in stop.waiting})
    odd = _outvoted(stops)
    waits = [f"{scene.names(stop.waiting)} in {scene.collective(stop.unit)}" for stop in by_size]
    evidence = []
    for stop in by_size[:SIDES_TOLD]:
        words = f"{scene.names(stop.waiting)}: in {scene.collective(stop.unit)}"
        if where := scene.called_from(stop.unit):
            words += f"; from {where}"
        evidence.append(Evidence(basis="measured", text=words))
    summary = f"Ranks wait for each other: {'; '.join(waits[:SIDES_TOLD])}."
    if odd:
        whose = "their" if len(odd) > 1 else "its"
        summary += f" {sentence(scene.names(odd))} made {whose} calls in another order."
    finding = Finding(
        code="collective-mismatch",
        kind="order",
        severity="broken",
        summary=summary,
        where=scene.where(odd, scene.table.call_of(by_size[-1].unit))
        if odd
        else Where(ranks=scene.ranks(everyone)),
        evidence=tuple(evidence),
        remedy="call the collectives of different groups in the same order on all ranks",
        confidence="inferred" if odd else "measured",
    )
    if odd:
        return [Told(finding, "midrun", odd)]
    level = Finding(
        code="not-determinable",
        severity="info",
        summary="Which of the orders is wrong the dumps do not tell: no side is a majority.",
        where=Where(ranks=scene.ranks(everyone)),
        remedy="the program decides: which group's collective belongs first",
        confidence="inferred",
    )
    return [Told(finding, "midrun"), Told(level, "midrun")]


def _outvoted(stops: Sequence[Stop]) -> tuple[int, ...]:
    """Who waits in the wrong one of two groups: only those who are in both groups call them in
    an order at all, and most of these are right. Nobody where it is level, where those without a
    dump could make it so, or where there are more groups."""
    if len(stops) != 2:
        return ()
    both = set.intersection(*({*each.group.lanes, *each.group.supposed} for each in stops))
    silent = set.intersection(*(set(each.no_dump) for each in stops))
    few, many = sorted((both & set(stop.waiting) for stop in stops), key=len)
    return tuple(sorted(few)) if 0 < len(few) < len(many) - len(silent) else ()
