"""What is said where nothing stands still: who is late, what is missing, what cannot be seen.

In: fronts, habits of lateness, missing and unreadable dumps. Out: findings: skewed for a rank that
keeps the others waiting, not-determinable where dumps are missing, empty, have something under way
that may stand still, or were made with TORCH_DISTRIBUTED_DEBUG=DETAIL, which keeps the failing
call out; nothing for a healthy job.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from bench.hang import exchanges
from bench.hang.absence import Told
from bench.hang.frontier import Front
from bench.hang.groups import Groups
from bench.hang.lanes import Lane, rows_of
from bench.hang.lateness import Lateness
from bench.hang.peers import OpenCall
from bench.hang.scene import Scene, rank_words, sentence
from bench.records import Evidence, Finding, Where

FILES_TOLD = 4
LATE_SHOWN = 3


def missing(lanes: Sequence[Lane], groups: Groups) -> tuple[int, ...]:
    """Ranks of the job without a dump; none while a dump without a rank may be theirs."""
    if any(lane.rank is None for lane in lanes):
        return ()
    known = set(groups.world).union(*(group.ranks for group in groups.groups if group.known))
    return tuple(sorted(known - {lane.rank for lane in lanes if lane.rank is not None}))


def moving(
    scene: Scene,
    fronts: Sequence[Front],
    habits: Sequence[Lateness],
    absent: Sequence[int],
    unread: Sequence[str],
    calls: Sequence[OpenCall] = (),
) -> list[Told]:
    """Findings of a job in which no collective stands still, as far as its dumps tell. `calls`:
    sends and receives under way."""
    unjudged = exchanges.unjudged(scene, fronts)
    told = [_late(scene, each) for each in habits[:LATE_SHOWN]]
    if any(front.group.nameless for front in fronts):
        told.append(_detail(scene))
    elif calls or unjudged:
        told.append(exchanges.under_way(scene, calls, unjudged, absent))
    elif not fronts:
        told.append(_empty(scene))
    elif forgotten := _forgotten(scene):
        told.append(_too_short(scene, forgotten))
    elif absent or unread:
        told.append(_gaps(absent, unread))
    elif not told and (open_ := [front for front in fronts if _open(front)]):
        told.append(_unmarked(scene, open_))
    return told


def _late(scene: Scene, one: Lateness) -> Told:
    name = scene.names([one.lane])
    how = "GPU events" if one.timed else "the recorder's times, each rank by its own clock"
    verb = "reaches" if one.timed else "calls"
    summary = (
        f"{sentence(name)} {verb} its collectives last: in {one.last_share:.0%} of "
        f"{one.collectives:,} that were timed on all their ranks, the others waited "
        f"{one.late_s * 1e3:,.3g} ms for it (median)."
    )
    finding = Finding(
        code="skewed",
        severity="warning",
        summary=summary,
        where=scene.where([one.lane]),
        evidence=(
            Evidence(basis="measured", text=f"by {how}; no clocks of two hosts were compared"),
            Evidence(
                basis="measured",
                text=f"{one.period_s * 1e3:,.3g} ms between its collectives (median); nothing "
                "stands still",
            ),
        ),
        remedy="what that rank does between collectives: its data loader, CPU mask, clocks, "
        "throttling",
        confidence="measured" if one.timed else "inferred",
    )
    return Told(finding, None, (one.lane,))


def _detail(scene: Scene) -> Told:
    summary = (
        "Nothing is under way in the dumps. They were made with TORCH_DISTRIBUTED_DEBUG=DETAIL, "
        "which checks each call before it is recorded: the one that failed is not in them."
    )
    finding = Finding(
        code="not-determinable",
        severity="info",
        summary=summary,
        evidence=(
            Evidence(
                basis="measured",
                text="groups without names, and the checks' own all_gathers between the calls",
            ),
        ),
        remedy="the ranks' logs: DETAIL writes 'Detected mismatch between collectives' there, or "
        "the ranks that failed to pass monitoredBarrier",
        confidence="inferred",
    )
    return Told(finding, None)


def _empty(scene: Scene) -> Told:
    number = len(scene.table.lanes)
    finding = Finding(
        code="not-determinable",
        severity="info",
        summary=f"The {number} dumps hold no collective."
        if number > 1
        else "The dump holds no collective.",
        remedy="export TORCH_FR_BUFFER_SIZE=2000 TORCH_NCCL_TRACE_BUFFER_SIZE=2000",
        confidence="inferred",
    )
    return Told(finding, None)


def _forgotten(scene: Scene) -> list[int]:
    """Lanes whose status has work under way in a group of which their ring holds nothing."""
    found = []
    for lane in scene.table.lanes:
        used = set(rows_of(lane.dump)["group"].tolist())
        for at, group in enumerate(lane.dump.groups):
            enqueued, completed = group.last_enqueued, group.last_completed
            own = scene.table.groups.numbers[lane.number][at]
            if at in used or own < 0 or scene.table.groups.groups[own].stateless:
                continue
            if enqueued is not None and completed is not None and enqueued > completed:
                found.append(lane.number)
    return found


def _too_short(scene: Scene, lanes: Sequence[int]) -> Told:
    finding = Finding(
        code="not-determinable",
        severity="info",
        summary=f"{sentence(scene.names(lanes))}: work is under way that the recorder's ring has "
        "forgotten; what it still holds is over.",
        where=scene.where(list(lanes)),
        evidence=(
            Evidence(
                basis="claimed",
                text="pg_status: more enqueued than completed in a group without an entry",
            ),
        ),
        remedy="a longer ring: export TORCH_FR_BUFFER_SIZE=20000 "
        "TORCH_NCCL_TRACE_BUFFER_SIZE=20000",
        confidence="inferred",
    )
    return Told(finding, None)


def _gaps(absent: Sequence[int], unread: Sequence[str]) -> Told:
    parts = []
    if absent:
        parts.append(f"{rank_words(absent)} left no dump")
    if unread:
        names = ", ".join(PurePath(file).name for file in unread[:FILES_TOLD])
        more = f" and {len(unread) - FILES_TOLD} more" if len(unread) > FILES_TOLD else ""
        parts.append(f"{names}{more} could not be read")
    finding = Finding(
        code="not-determinable",
        severity="info",
        summary=f"Nothing stands still in the dumps that are there, but {' and '.join(parts)}: "
        "start there.",
        where=Where(
            rank=absent[0] if len(absent) == 1 else None,
            ranks=tuple(absent) if len(absent) > 1 else (),
        ),
        remedy="the logs of those ranks, first fault first",
        confidence="inferred",
    )
    return Told(finding, None, (), tuple(absent))


def _open(front: Front) -> bool:
    """Everybody's newest call, and nobody's is marked as over."""
    newest = int(front.last.max())
    return front.group.stateless and bool(
        (front.last == newest).all() and (front.finished < newest).all()
    )


def _unmarked(scene: Scene, open_: Sequence[Front]) -> Told:
    front = open_[0]
    unit = scene.table.span(front.group.number, int(front.last.max())).start
    finding = Finding(
        code="not-determinable",
        severity="info",
        summary=f"All ranks have called {scene.collective(unit)} and agree in everything. Whether "
        "it is over, gloo does not tell.",
        evidence=(
            Evidence(basis="claimed", text="gloo marks work as over some time after it is"),
        ),
        remedy="take the dumps again after a few seconds: in a job that moves they differ",
        confidence="inferred",
    )
    return Told(finding, None)
