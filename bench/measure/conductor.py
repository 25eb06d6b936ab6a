"""Rank 0's side of a sweep: gathers what members say, orders the cases, collects the sessions.

It waits for nobody for ever: an absent member is named in `lost`, and the sweep then ends with
what was measured, because no group of all ranks can form any more.
"""

from __future__ import annotations

import textwrap
import time
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from bench.measure import copy_check, nccl_log
from bench.measure.agent import TOLD_TO_STOP, CaseEnd, Deadlines
from bench.measure.control import Control, StoreGone
from bench.measure.member import Member, Pulse
from bench.measure.messages import Arrival, Layout, Order, Probed
from bench.measure.worker import Ladder
from bench.records import (
    PHASES,
    Backend,
    Candidate,
    Case,
    CopyCheck,
    HostEvidence,
    HostFacts,
    Phase,
    PlanSettings,
    RankOutcome,
    RankPlacement,
    Session,
)

_FACTS_S, _FACTS_PER_NODE_S = 20.0, 0.02
_PROBED_S, _PROBED_PER_NODE_S = 20.0, 0.05  # a wave of 256 silent calls takes 13 s at worst
_SETTLE_S, _SETTLE_PER_RANK_S = 4.0, 0.01  # how far apart healthy members may answer


class Conductor:
    """Orders cases through the control plane; `lost` are the ranks that stopped answering."""

    def __init__(self, control: Control, member: Member) -> None:
        self._control, self._member = control, member
        self._ordered = 0
        self._leading: list[int] = []  # nodes that report a host's counters
        self.lost: tuple[int, ...] = ()
        self.mapped: dict[str, set[str]] = {}  # host -> library files its workers had mapped

    @property
    def settle_s(self) -> float:
        """How far apart healthy members may answer."""
        return _SETTLE_S + _SETTLE_PER_RANK_S * self._control.ranks

    def next_order(self) -> int:
        """The number under which every member looks for what comes next."""
        self._ordered += 1
        return self._ordered - 1

    def arrivals(self) -> list[Arrival | None]:
        """One per node, None for a node whose facts did not come in time."""
        nodes = self._member.seat.nodes
        return self._control.gather(
            [f"facts/{node}" for node in range(nodes)],
            Arrival,
            deadline_s=_FACTS_S + _FACTS_PER_NODE_S * nodes,
        )

    def placements(self) -> dict[int, RankPlacement]:
        """Where each rank may run, of all ranks that said so."""
        keys = [f"placement/{rank}" for rank in range(self._control.ranks)]
        said = self._control.gather(keys, RankPlacement, deadline_s=self.settle_s)
        return {one.rank: one for one in said if one is not None}

    def lay_out(self, layouts: Mapping[int, Layout]) -> None:
        """Publish each node's layout; this rank's own included."""
        self._leading = [node for node, layout in layouts.items() if layout.leads]
        for node, layout in layouts.items():
            self._control.put(f"layout/{node}", layout)

    def probes(self) -> list[Probed | None]:
        """One per node, after this rank's own probe."""
        nodes = self._member.seat.nodes
        return self._control.gather(
            [f"probed/{node}" for node in range(nodes)],
            Probed,
            deadline_s=_PROBED_S + _PROBED_PER_NODE_S * nodes,
            settle_s=self.settle_s + 3.0,
        )

    def run(
        self,
        case: Case,
        candidate: Candidate,
        settings: PlanSettings,
        ladders: Sequence[Ladder],
        hosts: Sequence[HostFacts],
        backend: Backend,
    ) -> Session:
        """Order one case, take part in it, and put together what everybody reported."""
        number = self.next_order()
        among = candidate.ranks or tuple(range(self._control.ranks))
        case = msgspec.structs.replace(case, number=number)
        deadlines = Deadlines.scaled(ranks=len(among), backend=backend)
        order = Order(case=case, plan=settings, ladders=tuple(ladders), deadlines=deadlines)
        started_at, started = time.time(), time.monotonic()
        self._control.put(f"case/{number}", order)
        own = self._member.run(order)
        # A rank may still be in its last phase when the others are through.
        settle_s = self.settle_s + deadlines.end
        ends = self._control.gather(
            [f"end/{number}/{rank}" for rank in among],
            CaseEnd,
            deadline_s=deadlines.longest + self.settle_s,
            settle_s=settle_s,
            alive=Pulse(self._control).moved if own is None else lambda: False,
        )
        ends = [
            own if own is not None and rank == self._control.rank else end
            for rank, end in zip(among, ends, strict=True)
        ]
        host_of = {rank: host.host for host in hosts for rank in host.ranks}
        outcomes = tuple(
            end.rank
            if end is not None
            else RankOutcome(
                rank=rank, host=host_of.get(rank, "?"), outcome="lost", error=self._farewell(rank)
            )
            for rank, end in zip(among, ends, strict=True)
        )
        evidence = self._control.gather(
            [f"evidence/{number}/{node}" for node in self._leading],
            HostEvidence,
            deadline_s=self.settle_s,
        )
        interrupted = self._control.stop() or any(o.error == TOLD_TO_STOP for o in outcomes)
        if not interrupted:
            self.lost = tuple(o.rank for o in outcomes if o.outcome == "lost")
        for end in ends:
            if end is not None:
                self.mapped.setdefault(end.rank.host, set()).update(end.mapped)
        self._forget(number, among)
        first = ends[0]
        return Session(
            case=case,
            outcome=_outcome(outcomes, interrupted=interrupted),
            phase=phase_of(outcomes),
            reason=reason_of(outcomes),
            samples=first.samples if first is not None else (),
            ranks=outcomes,
            hosts=tuple(_with_edges(e, ends) for e in evidence if e is not None),
            started_at=started_at,
            duration_s=round(time.monotonic() - started, 3),
            group_s=first.group_s if first is not None else None,
        )

    def copies(self) -> tuple[CopyCheck, ...]:
        """Order the copy check: all hosts at once, for nothing of it leaves a host."""
        number = self.next_order()
        self._control.put(f"case/{number}", Order(case=None, copies=True))
        self._member.copy()
        checks = self._control.gather(
            [f"copies/{node}" for node in self._leading],
            CopyCheck,
            deadline_s=copy_check.START_S + self.settle_s,  # then as long as a host beats
            alive=Pulse(self._control).moved,
        )
        return tuple(check for check in checks if check is not None)

    def leavers(self) -> tuple[int, ...]:
        """Ranks that said they were told to stop."""
        if self._control.add("leaving", 0) == 0:
            return ()
        return tuple(r for r in range(self._control.ranks) if self._control.has(f"left/{r}"))

    def _farewell(self, rank: int) -> str | None:
        """What a rank that answers no more had said on leaving."""
        try:
            return TOLD_TO_STOP if self._control.has(f"left/{rank}") else None
        except StoreGone:
            return None  # the next order will tell; this session is kept

    def _forget(self, number: int, among: Sequence[int]) -> None:
        """Drop a case's keys once everybody has reported: a long night must not fill the store."""
        if self.lost:
            return
        keys = [f"end/{number}/{rank}" for rank in among]
        keys += [f"evidence/{number}/{node}" for node in self._leading]
        try:
            self._control.drop(keys)
        except StoreGone:
            pass  # the next order will tell; this session is kept

    def finish(self, *, everybody: bool) -> None:
        """Order the end: every member leaves. `everybody` false: some have left before."""
        self._control.put("bye", everybody)
        self._control.put(f"case/{self._ordered}", Order(case=None))


def _with_edges(evidence: HostEvidence, ends: Sequence[CaseEnd | None]) -> HostEvidence:
    """A host's evidence with the edges that its other ranks told."""
    more = [
        line
        for end in ends
        if end is not None and end.rank.host == evidence.host
        for line in end.nccl_log
    ]
    return msgspec.structs.replace(evidence, nccl_log=nccl_log.united(evidence.nccl_log, more))


Outcome = Literal["measured", "hung", "failed", "interrupted"]


def _outcome(outcomes: Sequence[RankOutcome], *, interrupted: bool) -> Outcome:
    kinds = {o.outcome for o in outcomes}
    if kinds == {"ok"}:
        return "measured"
    if interrupted:
        return "interrupted"
    return "hung" if kinds & {"hung", "lost"} else "failed"


def phase_of(outcomes: Sequence[RankOutcome]) -> Phase:
    """The earliest phase that a rank with a voice was in: nobody got further together."""
    spoke = [o.phase for o in outcomes if o.outcome != "lost"]
    return min(spoke, key=PHASES.index, default="rendezvous")


def reason_of(outcomes: Sequence[RankOutcome]) -> str | None:
    """The worst rank's own words: a death before a silence before a complaint."""
    order = {"died": 0, "lost": 1, "hung": 2, "failed": 3, "aborted": 4, "ok": 5}
    worst = min(outcomes, key=lambda o: order[o.outcome])
    if worst.outcome == "ok":
        return None
    said = worst.error or {
        "lost": "stopped answering",
        "hung": f"made no progress in {worst.phase}",
    }.get(worst.outcome, worst.outcome)
    return f"rank {worst.rank} ({worst.host}): {textwrap.shorten(said, 100, placeholder=' …')}"
