"""Which way NCCL's channels really go, by its own log lines: read once, asked by several rules.

In: a session's NCCL lines, as the hosts kept them. Out: edges between ranks with the transport,
their hosts and their GPUs. Only the sender prints P2P and SHM edges, so a host is known as far as
its ranks told theirs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.formats import nccl_log
from bench.formats.source import Source
from bench.judge.networks import Networks
from bench.records import BadInput, Candidate, HostFacts, LogEdge, Session


@dataclass(frozen=True)
class Edge:
    """One direction between two ranks (of the whole job); GPUs are NVML's indexes."""

    line: LogEdge
    host: str  # of the sender
    peer_host: str
    rank: int
    peer: int
    gpu: int | None
    peer_gpu: int | None

    @property
    def local(self) -> bool:
        return self.host == self.peer_host

    @property
    def text(self) -> str:
        """As NCCL says it, but with the ranks of the whole job."""
        way = self.line.transport + (f"/{self.line.network}" if self.line.network else "")
        way += f"/{self.line.device}" if self.line.device is not None else ""
        way += "/GDRDMA" if self.line.gdr else ""
        way += f"/{self.line.kind}" if self.line.kind else ""
        ends = f"{self.rank}[{_shown(self.gpu)}] -> {self.peer}[{_shown(self.peer_gpu)}]"
        return f"{ends} via {way}"


def _shown(gpu: int | None) -> str:
    return "?" if gpu is None else str(gpu)


Told = Mapping[str, Mapping[str, Sequence[Edge]]]
"""Candidate -> host -> the edges that its ranks told."""


def of_all(net: Networks) -> Told:
    """The edges of every candidate whose sessions told any."""
    found: dict[str, dict[str, list[Edge]]] = {}
    for candidate in net.report.candidates:
        for edge in _of(net, candidate):
            teller = edge.peer_host if edge.line.direction == "receive" else edge.host
            found.setdefault(candidate.name, {}).setdefault(teller, []).append(edge)
    return found


def _of(net: Networks, candidate: Candidate) -> list[Edge]:
    """The edges of a candidate's first measured session that told any."""
    ranks = candidate.ranks or tuple(sorted(r for f in net.report.hosts for r in f.ranks))
    host_of = {rank: facts.host for facts in net.report.hosts for rank in facts.ranks}
    gpu_of = {p.rank: p.gpu for facts in net.report.hosts for p in facts.placements}
    for session in net.report.sessions:
        if session.case.candidate != candidate.name or session.outcome != "measured":
            continue
        found = [
            edge
            for line in _lines(session)
            if (edge := _placed(line, ranks, host_of, gpu_of)) is not None
        ]
        if found:
            return found
    return []


def _lines(session: Session) -> list[LogEdge]:
    found = []
    for evidence in session.hosts:
        if not evidence.nccl_log:
            continue
        text = "\n".join(evidence.nccl_log) + "\n"
        try:
            log = nccl_log.read(Source.of_text(text, file=evidence.host))
        except BadInput:
            continue  # lines that hold nothing of NCCL's prove nothing
        found += [edge for communicator in log.communicators for edge in communicator.edges]
    return found


def _placed(
    line: LogEdge,
    ranks: tuple[int, ...],
    host_of: Mapping[int, str],
    gpu_of: Mapping[int, int | None],
) -> Edge | None:
    """The log counts ranks within the case's own group."""
    if max(line.source, line.destination) >= len(ranks) or line.source == line.destination:
        return None
    rank, peer = ranks[line.source], ranks[line.destination]
    if rank not in host_of or peer not in host_of:
        return None
    return Edge(
        line=line,
        host=host_of[rank],
        peer_host=host_of[peer],
        rank=rank,
        peer=peer,
        gpu=_gpu(gpu_of.get(rank), line.source_device),
        peer_gpu=_gpu(gpu_of.get(peer), line.destination_device),
    )


def _gpu(placed: int | None, told: str | None) -> int | None:
    """NCCL names NVML's index itself since 2.18.3 (before, a bus id, which is longer)."""
    if placed is not None or told is None or not told.isdecimal() or len(told) > 2:
        return placed
    return int(told)


def shares_gpus(facts: HostFacts) -> bool:
    """Ranks that share a GPU pass for hosts of their own here, so that NCCL starts at all: their
    way is the network, whatever lies between them."""
    taken = [p.gpu for p in facts.placements if p.gpu is not None]
    return len(set(taken)) < len(taken) or len(facts.ranks) > len(facts.gpus) > 0
