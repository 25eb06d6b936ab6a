"""Findings about ranks that never joined, and about collectives that all have joined.

In: roots of waiting, worded by the Scene. Out: hang-first-collective, hang-midrun, hang-end with
the rank that the others wait for; the same without a rank where nobody is missing;
not-determinable where a missing dump may be the reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.hang.scene import Scene, rank_words, sentence, stack_words
from bench.hang.steps import Rhythm, rhythm
from bench.hang.stops import Stop
from bench.records import Evidence, Finding, Phase, Where

CODES: dict[Phase, str] = {
    "rendezvous": "hang-rendezvous",
    "init": "hang-init",
    "first": "hang-first-collective",
    "midrun": "hang-midrun",
    "end": "hang-end",
}
LANES_TOLD = 3  # whose last calls are told one by one
RHYTHMS_SOUGHT = 16  # lanes whose steps are looked at


@dataclass(frozen=True)
class Told:
    """A finding, the phase it speaks of, and the lanes that it names."""

    finding: Finding
    phase: Phase | None
    named: tuple[int, ...] = ()
    suspects: tuple[int, ...] = ()  # ranks


def never_joined(scene: Scene, stop: Stop, idle: tuple[int, ...], *, first: bool) -> Told:
    """Idle lanes that a stop waits for. `first`: nothing has ever finished in the job."""
    table = scene.table
    call = table.call_of(stop.unit)
    what, message = scene.collective(stop.unit), scene.message(stop.unit)
    waiting, absent = scene.names(stop.waiting), scene.names(idle)
    rhythms = [rhythm(table, lane, None, stop.unit) for lane in idle[:RHYTHMS_SOUGHT]]
    ended = all(each is not None and each.whole for each in rhythms)
    phase: Phase = "first" if first else "end" if ended else "midrun"
    # Who has no dump, or one that cannot tell, may not have called it either.
    others = len(idle) + len(stop.no_dump) + len(stop.older)
    few = len(stop.waiting) < others and len(stop.waiting) + others > 2
    wait = "wait" if len(stop.waiting) > 1 else "waits"
    if few:
        summary = f"Only {waiting} called {what} ({message}) and {wait} in it; {absent} did not."
    else:
        summary = f"{sentence(absent)} never joined {what} ({message}); {waiting} {wait} in it."
    evidence = [*_last_calls(scene, idle)]
    if where := scene.called_from(stop.unit):
        evidence.append(Evidence(basis="measured", text=f"{waiting}: called from {where}"))
    evidence += _rhythm_words(scene, idle, rhythms, ended=ended)
    evidence += _doubts(scene, stop)
    if few:
        reading = (
            f"either {absent} are held up together, or the call is one that only {waiting} make"
            f"{'' if len(stop.waiting) > 1 else 's'}: the dumps do not tell which"
        )
        evidence.append(Evidence(basis="inferred", text=reading))
    if few or ended:
        remedy = END_REMEDY if ended else f"look at the branch around the call on {waiting}"
    else:
        remedy = (
            f"on {absent}: its log from the first error, `py-spy dump`, its host's kernel log; a "
            "branch or an exception that leaves out the call"
        )
    sure = not stop.unsure and not stop.group.stateless
    finding = Finding(
        code=CODES[phase],
        severity="broken",
        summary=summary,
        where=Where(collective=call.name) if few else scene.where(idle, call),
        evidence=tuple(evidence),
        remedy=remedy,
        confidence="measured" if sure and phase != "end" else "inferred",
    )
    return Told(finding, phase, () if few else idle)


END_REMEDY = (
    "compare the number of batches per rank: the sampler's length, drop_last, a filter that "
    "depends on the rank; or wrap the loop in the framework's join context"
)


def _last_calls(scene: Scene, idle: Sequence[int]) -> list[Evidence]:
    """What the absent did instead: their newest call, and their stack if somebody asked."""
    evidence = []
    for lane in idle[:LANES_TOLD]:
        name = scene.names([lane])
        newest = scene.newest(lane)
        if newest is None:
            evidence.append(Evidence(basis="measured", text=f"{name}: its dump holds no call"))
            continue
        words = f"{name}: its newest call is {newest[0]}, nothing of it is under way"
        if stack := stack_words(newest[1]):
            words += f"; from {stack}"
        evidence.append(Evidence(basis="measured", text=words))
        rank = scene.table.lanes[lane].rank
        if rank is not None and (now := stack_words(scene.stacks.get(rank, ()))):
            evidence.append(Evidence(basis="measured", text=f"{name} stood at {now} when asked"))
    return evidence


def _rhythm_words(
    scene: Scene, idle: Sequence[int], rhythms: Sequence[Rhythm | None], *, ended: bool
) -> list[Evidence]:
    known = [(lane, each) for lane, each in zip(idle, rhythms, strict=False) if each is not None]
    if not known:
        return []
    lane, one = known[0]
    name = scene.names([lane] if len(known) == 1 or not ended else [at for at, _ in known])
    calls = "1 collective" if one.calls == 1 else f"{one.calls} collectives"
    steps = f"{one.steps:,}" if one.counted else f"at least {one.steps:,}"
    if ended:
        words = (
            f"{name} ended after a whole number of steps ({steps} of {calls} each), as when its "
            "data ran out; being held up between two steps would look the same"
        )
    elif one.whole is False:
        words = f"{name} stopped in the middle of a step ({calls} each): no end of its data"
    else:
        return []
    return [Evidence(basis="inferred", text=words)]


def _doubts(scene: Scene, stop: Stop) -> list[Evidence]:
    evidence = []
    if stop.unsure:
        words = f"{stop.group.label}: its dumps never say what is over, only who called what"
        evidence.append(Evidence(basis="claimed", text=words))
    elif stop.group.stateless and all(scene.table.done[u] for u in _of(scene, stop)):
        words = "gloo marks work as over when it failed too: the dumps were made after the error"
        evidence.append(Evidence(basis="inferred", text=words))
    if stop.older:
        words = f"left aside, their dumps are older: {scene.names(stop.older)}"
        evidence.append(Evidence(basis="measured", text=words))
    if stop.no_dump:
        words = f"no dump of {rank_words(stop.no_dump)}: not cleared by this"
        evidence.append(Evidence(basis="measured", text=words))
    return evidence


def _of(scene: Scene, stop: Stop) -> range:
    span = scene.table.span(stop.group.number, stop.seq)
    return range(span.start, span.stop)


def all_joined(scene: Scene, stop: Stop, *, first: bool) -> Told:
    """Everybody is in the collective. Named is who alone has not finished, or not started."""
    call = scene.table.call_of(stop.unit)
    what, message = scene.collective(stop.unit), scene.message(stop.unit)
    phase: Phase = "first" if first or stop.first_of_group else "midrun"
    members = len(stop.waiting) + len(stop.finished)
    evidence: list[Evidence] = []
    named: tuple[int, ...] = ()
    if stop.finished and 2 * len(stop.waiting) < members:
        named = stop.waiting
        summary = (
            f"{sentence(scene.names(named))} never finished {what} ({message}), which is over on "
            f"{scene.names(stop.finished)}."
        )
        remedy = "look at the GPU of the named rank: Xid in the kernel log, its clocks, its link"
    elif stop.unstarted and 2 * len(stop.unstarted) < len(stop.waiting):
        named = stop.unstarted
        summary = (
            f"{sentence(scene.names(named))} called {what} ({message}), but has not started it on "
            f"the GPU; it has started on all others and waits there."
        )
        remedy = "what runs on that GPU before it: a kernel that does not end, a copy, an Xid"
    else:
        if members < stop.members:
            whom = sentence(scene.names(sorted({*stop.waiting, *stop.finished})))
        else:
            whom = "Both ranks" if members == 2 else f"All {members} ranks"
        summary = f"{whom} called {what} ({message}) and agree in everything; it never finished."
        remedy = _path_remedy(phase)
        evidence.append(
            Evidence(basis="inferred", text="no rank is missing: think of the path between them")
        )
    if where := scene.called_from(stop.unit):
        evidence.append(Evidence(basis="measured", text=f"called from {where}"))
    finding = Finding(
        code=CODES[phase],
        severity="broken",
        summary=summary,
        where=scene.where(named, call) if named else Where(collective=call.name),
        evidence=(*evidence, *_doubts(scene, stop)),
        remedy=remedy,
        confidence="inferred",
    )
    return Told(finding, phase, named)


def _path_remedy(phase: Phase) -> str:
    if phase == "first":
        return (
            "interface, HCA, GID, MTU and P2P between the ranks: NCCL_DEBUG=INFO shows what each "
            "uses; `torchrun bench/sweep.py` measures every network"
        )
    return (
        "the path worked before: link and port counters, Xid, a host that vanished; the ranks' "
        "logs, first fault first"
    )


def missing_dump(scene: Scene, stop: Stop, *, first: bool) -> Told:
    """Everybody who left a dump is in the collective, and a member left none: start there."""
    call = scene.table.call_of(stop.unit)
    ranks = tuple(sorted({*stop.no_dump, *scene.ranks(stop.older)}))
    suspects = rank_words(ranks) if ranks else scene.names(stop.older)
    what = "is missing" if stop.no_dump else "does not reach as far"
    waiting = scene.names(stop.waiting)
    summary = (
        f"{sentence(waiting)} {'wait' if len(stop.waiting) > 1 else 'waits'} at the same "
        f"collective ({scene.collective(stop.unit)}, {scene.message(stop.unit)}) and agree in "
        "everything. "
        f"The dump of {suspects} {what}: start there."
    )
    evidence = []
    if where := scene.called_from(stop.unit):
        evidence.append(Evidence(basis="measured", text=f"{waiting}: called from {where}"))
    evidence.append(
        Evidence(
            basis="inferred",
            text="a rank that was killed, or is stuck in its shutdown, leaves no dump; nor does "
            "one that has nothing to do with it and could not write the file",
        )
    )
    finding = Finding(
        code="not-determinable",
        severity="info",
        summary=summary,
        where=Where(
            rank=ranks[0] if len(ranks) == 1 else None,
            ranks=ranks if len(ranks) > 1 else (),
            collective=call.name,
        ),
        evidence=tuple(evidence),
        remedy=f"the log of {suspects}, and its host's kernel log (Killed process, Xid)",
        confidence="inferred",
    )
    return Told(finding, "first" if first else "midrun", (), ranks)
