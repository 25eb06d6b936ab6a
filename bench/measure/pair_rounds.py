"""Rank 0's side of a round of pairs: who is whose peer, and what each pair came to.

In: a PairRound, the network to measure on, how much to move. Out: a PairFigure per pair and rail.
All pairs of a round are measured at the same time, by one rank a host; each is a group of its own,
so a peer that hangs, dies or never comes costs its pair's deadline and nobody else's figures.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec

from bench.measure.agent import TOLD_TO_STOP, CaseEnd, Deadlines
from bench.measure.conductor import Conductor, phase_of, reason_of
from bench.measure.control import Control
from bench.measure.member import Member, Pulse
from bench.measure.messages import Order, Pairs, Part
from bench.measure.transfers import Arrivals
from bench.plan.amounts import Amounts
from bench.records import (
    Backend,
    HostFacts,
    PairFigure,
    PairRound,
    PairTime,
    RankOutcome,
)

# A healthy group of two forms in milliseconds over gloo; over NCCL a context and the search for
# the topology take seconds. Thousands of workers ask one store for their peers' addresses.
_PHASE_S: dict[str, float] = {"gloo": 6.0, "nccl": 20.0}
_PHASE_S_PER_PAIR = 0.005
# Else NCCL goes to the peer's rail over NVLink inside the host, and no packet crosses the spine.
CROSSING: dict[str, str | None] = {"NCCL_PXN_DISABLE": "1"}


@dataclass(frozen=True)
class _Pair:
    """Two ends: hosts, the rails (GPUs) they use where those are asked for, ranks."""

    hosts: tuple[str, str]
    rails: tuple[int, int] | None
    ranks: tuple[int, int] = (-1, -1)


Ends = tuple[CaseEnd | None, CaseEnd | None]


class PairRounds:
    """Runs rounds one after the other. `lost` are hosts that stopped answering: their pairs are
    "absent" from then on, without a wait."""

    def __init__(
        self,
        control: Control,
        conductor: Conductor,
        member: Member,
        hosts: Sequence[HostFacts],
        backend: Backend,
    ) -> None:
        self._control, self._conductor, self._member = control, conductor, member
        self._hosts = {facts.host: facts for facts in hosts}
        self._backend = backend
        self.lost: set[str] = set()
        self.interrupted = False

    def run(self, order: PairRound, candidate: str, amounts: Amounts) -> tuple[PairFigure, ...]:
        """Carry the round out; a figure for each of its pairs and rails, in order."""
        told = Told(order, amounts.size_bytes)
        figures: list[PairFigure | None] = []
        there: list[_Pair] = []
        for pair in _pairs(order):
            silent = tuple(host for host in pair.hosts if host in self.lost)
            found, lacking = self._seated(pair)
            if silent:
                figures.append(told.absent(pair, "stopped answering in an earlier round", silent))
            elif found is None:
                figures.append(told.absent(pair, lacking))
            else:
                there.append(found)
                figures.append(None)
        ends = iter(self._ends(there, order, candidate, amounts))
        pairs = iter(there)
        return tuple(
            self._figure(next(pairs), next(ends), told) if figure is None else figure
            for figure in figures
        )

    def _seated(self, pair: _Pair) -> tuple[_Pair | None, str]:
        """The pair with its ranks, or what keeps it from being measured."""
        ranks = []
        for host, rail in zip(pair.hosts, pair.rails or (None, None), strict=True):
            rank = rank_of(self._hosts[host], rail)
            if rank is None:
                return None, f"{host} has no rank on GPU {rail}"
            ranks.append(rank)
        return _Pair(pair.hosts, pair.rails, (ranks[0], ranks[1])), ""

    def _ends(
        self, pairs: Sequence[_Pair], order: PairRound, candidate: str, amounts: Amounts
    ) -> list[Ends]:
        """What both ends of each pair reported, None for one that never did."""
        if not pairs:
            return []
        number = self._conductor.next_order()
        ranks = [rank for pair in pairs for rank in pair.ranks]
        for at, rank in enumerate(ranks):
            self._control.put(f"pair/{number}/{rank}", Part(pair=at // 2, end=at % 2))
        deadlines = _deadlines(self._backend, len(pairs))
        common = Pairs(
            candidate=candidate,
            amounts=amounts,
            repeats=order.repeats,
            environment=CROSSING if order.shift else {},
            deadlines=deadlines,
        )
        self._control.put(f"case/{number}", Order(case=None, pairs=common))
        own = self._member.pair(number, common)
        patience_s = deadlines.longest + self._conductor.settle_s
        ends = self._control.gather(
            [f"end/{number}/{rank}" for rank in ranks],
            CaseEnd,
            deadline_s=patience_s,
            settle_s=patience_s,
            alive=Pulse(self._control).moved,
        )
        ends = [
            own if rank == self._control.rank and own is not None else end
            for rank, end in zip(ranks, ends, strict=True)
        ]
        if all(end is not None for end in ends):  # everybody has read and written its keys
            keys = (f"{kind}/{number}/{rank}" for rank in ranks for kind in ("pair", "end"))
            self._control.drop(keys)
        return list(zip(ends[::2], ends[1::2], strict=True))

    def _figure(self, pair: _Pair, ends: Ends, told: Told) -> PairFigure:
        silent = [host for host, end in zip(pair.hosts, ends, strict=True) if end is None]
        stopped = self._control.stop() or any(
            end is not None and end.rank.error == TOLD_TO_STOP for end in ends
        )
        if stopped:
            self.interrupted = True
        elif silent:
            self.lost.update(silent)
            return told.absent(pair, "stopped answering", tuple(silent))
        outcomes = [
            end.rank if end is not None else RankOutcome(rank=rank, host=host, outcome="lost")
            for host, rank, end in zip(pair.hosts, pair.ranks, ends, strict=True)
        ]
        first, second = ends
        if first is None or second is None or any(o.outcome != "ok" for o in outcomes):
            return told.ended(pair, outcomes)
        times = [_time(*both) for both in zip(first.transfers, second.transfers, strict=True)]
        return told.measured(pair, times)


class Told:
    """Figures of one round, filled in."""

    def __init__(self, order: PairRound, size_bytes: int) -> None:
        self._order, self._size_bytes = order, size_bytes

    def measured(self, pair: _Pair, times: Sequence[PairTime]) -> PairFigure:
        return msgspec.structs.replace(self._empty(pair), times=tuple(times))

    def absent(self, pair: _Pair, reason: str, silent: tuple[str, ...] = ()) -> PairFigure:
        """Of a pair that was not measured: a host is `silent`, or it has no such GPU."""
        told = f"{' and '.join(silent)} {reason}" if silent else reason
        return msgspec.structs.replace(
            self._empty(pair), outcome="absent", reason=told, silent=silent
        )

    def ended(self, pair: _Pair, outcomes: Sequence[RankOutcome]) -> PairFigure:
        """Of a pair that hung or failed, with the worse end's own words."""
        hung = any(o.outcome == "hung" for o in outcomes)
        return msgspec.structs.replace(
            self._empty(pair),
            outcome="hung" if hung else "failed",
            reason=reason_of(outcomes),
            phase=phase_of(outcomes),
        )

    def _empty(self, pair: _Pair) -> PairFigure:
        first, second = pair.rails or (None, None)
        return PairFigure(
            round=self._order.number, stage=self._order.stage, hosts=pair.hosts, rail=first,
            other_rail=second if second != first else None, size_bytes=self._size_bytes,
        )  # fmt: skip


def _pairs(order: PairRound) -> Iterator[_Pair]:
    """Each pair of hosts, on each rail where the round names rails."""
    rails = order.rails
    for hosts in order.pairs:
        if not rails:
            yield _Pair(hosts, None)
        for at, rail in enumerate(rails):
            yield _Pair(hosts, (rail, rails[(at + order.shift) % len(rails)]))


def _time(here: Arrivals, there: Arrivals) -> PairTime:
    """One repetition as both ends saw it: each tells what arrived at it."""
    return PairTime(
        forward_s=there.alone_s,
        backward_s=here.alone_s,
        both_s=max(here.both_s, there.both_s),
        latency_s=here.latency_s,
    )


def rank_of(facts: HostFacts, rail: int | None) -> int | None:
    """The rank that stands for a host: its lowest; for a rail, the one that works on that GPU."""
    if rail is None:
        return min(facts.ranks, default=None)
    placed = {place.gpu: place.rank for place in facts.placements if place.gpu is not None}
    if placed:
        return placed.get(rail)
    return facts.ranks[rail] if 0 <= rail < len(facts.ranks) else None


def _deadlines(backend: Backend, pairs: int) -> Deadlines:
    phase_s = _PHASE_S[backend] + _PHASE_S_PER_PAIR * pairs
    return Deadlines(rendezvous=phase_s, init=phase_s, first=phase_s, midrun=phase_s, end=phase_s)
