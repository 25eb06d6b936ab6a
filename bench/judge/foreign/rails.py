"""Rails that do not meet: GPUs near one NIC, GPUs near another, and a ring edge between them.

In: a matrix with its remarks ("NIC0: … 10.32.16.0/24 (rail 0)"), NCCL's channel lines, variables.
Out: rail-isolated. That two subnets are not routed to each other stands in no file; it is inferred
from the job that hangs, or left open. Where NCCL counts more nodes than hosts, each NVLink group
was taken for a node, and rings run between groups over the network.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from bench.judge.docket import Docket
from bench.judge.foreign.gpu_matrix import Matrix
from bench.judge.foreign.places import place
from bench.judge.words import listed
from bench.records import Dossier, Evidence, Finding, LogCommunicator, LogEdge, NcclLog, Where

_SUBNET = re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}/\d{1,2}\b")
_RAIL = re.compile(r"\brail[ _-]?(\d{1,3})\b", re.IGNORECASE)


@dataclass(frozen=True)
class Rail:
    """One NIC with the GPUs near it and what was remarked of it."""

    nic: str
    gpus: tuple[str, ...]
    number: str | None
    subnet: str | None

    @property
    def text(self) -> str:
        rail = f", rail {self.number}" if self.number is not None else ""
        return f"{self.nic}{rail}"


def judge(dossier: Dossier, docket: Docket) -> None:
    """At most one finding: the first edge between rails of a communicator split into groups."""
    for record in dossier.matrices:
        matrix = Matrix(record)
        rails = of_matrix(matrix)
        if len(rails) < 2:
            continue
        for log in dossier.logs:
            for communicator in log.communicators:
                finding = _isolated(matrix, rails, log, communicator, dossier)
                if finding is not None:
                    docket.add(finding)
                    return


def of_matrix(matrix: Matrix) -> tuple[Rail, ...]:
    """NICs that each have GPUs of their own, with subnets or rail numbers that differ."""
    near = matrix.near_nics
    owners: dict[str, list[str]] = {}
    for gpu, nics in near.items():
        if len(nics) == 1:
            owners.setdefault(nics[0], []).append(gpu)
    remarks = {note.partition(":")[0].strip(): note for note in matrix.record.notes}
    rails = []
    for nic in matrix.record.nics:
        note = remarks.get(nic, "")
        subnet, number = _SUBNET.search(note), _RAIL.search(note)
        if nic in owners and (subnet or number):
            rails.append(
                Rail(
                    nic,
                    tuple(owners[nic]),
                    number[1] if number else None,
                    subnet[0] if subnet else None,
                )
            )
    distinct = {rail.subnet or rail.number for rail in rails}
    return tuple(rails) if len(distinct) == len(rails) else ()


def sentences(dossier: Dossier) -> Iterator[str]:
    """Sockets, and which GPUs sit on which rail."""
    for record in dossier.matrices:
        matrix = Matrix(record)
        of = f"{record.host}: " if record.host else ""
        if record.numa:
            nodes = dict.fromkeys(record.numa[g] for g in record.gpus if g in record.numa)
            names = f"{'s' * (len(nodes) > 1)} ({listed(nodes)})"
            yield f"{of}GPUs on {len(nodes)} NUMA node{names}"
        elif len(groups := [g for g in matrix.sockets if set(g) & set(record.gpus)]) > 1:
            told = "; ".join(listed(group) for group in groups)
            yield f"{of}{len(groups)} sockets with SYS between them: {told}"
        for rail in of_matrix(matrix):
            at = f" ({rail.subnet})" if rail.subnet else ""
            yield f"{of}{rail.text}{at} is near {listed(rail.gpus)}"


def _isolated(
    matrix: Matrix,
    rails: tuple[Rail, ...],
    log: NcclLog,
    communicator: LogCommunicator,
    dossier: Dossier,
) -> Finding | None:
    split = _split(matrix, communicator)
    if split is None:
        return None
    for edge in communicator.edges:
        ends = _ends(edge, communicator, rails)
        if edge.transport == "NET" and ends is not None and ends[0][1] is not ends[1][1]:
            return _finding(matrix, log, communicator, edge, ends, split, dossier)
    return None


def _split(matrix: Matrix, communicator: LogCommunicator) -> int | None:
    """Hosts that the ranks fill, where NCCL counts more nodes than that."""
    per_host = len(matrix.record.gpus)
    ranks, nodes = communicator.ranks, communicator.nodes
    if not ranks or not nodes or ranks % per_host:
        return None
    hosts = ranks // per_host
    return hosts if hosts > 1 and nodes > hosts else None


End = tuple[str, Rail]


def _ends(
    edge: LogEdge, communicator: LogCommunicator, rails: tuple[Rail, ...]
) -> tuple[End, End] | None:
    found: list[End] = []
    for rank, told in (
        (edge.source, edge.source_device),
        (edge.destination, edge.destination_device),
    ):
        member = next((m for m in communicator.members if m.rank == rank), None)
        device = told if told is not None and told.isdigit() else None
        if device is None and member is not None and member.device is not None:
            device = str(member.device)
        gpu = f"GPU{device}"
        rail = next((rail for rail in rails if gpu in rail.gpus), None)
        if rail is None:
            return None
        found.append((gpu, rail))
    return found[0], found[1]


def _finding(
    matrix: Matrix,
    log: NcclLog,
    communicator: LogCommunicator,
    edge: LogEdge,
    ends: tuple[End, End],
    hosts: int,
    dossier: Dossier,
) -> Finding:
    (gpu_a, rail_a), (gpu_b, rail_b) = ends
    told = f"{edge.source}[{gpu_a[3:]}] -> {edge.destination}[{gpu_b[3:]}]"
    subnets = [rail.subnet for rail in (rail_a, rail_b) if rail.subnet]
    nets = f"{listed(subnets)} are different networks; " if len(subnets) == 2 else ""
    evidence = [
        Evidence(
            basis="asked",
            text=f"{place(log.file, edge.line)}: Channel {edge.channel:02d} {told} via "
            f"{edge.transport}/{edge.network}/{edge.device}",
        ),
        Evidence(
            basis="asked",
            text=f"nNodes {communicator.nodes} localRanks {communicator.local_ranks} for "
            f"{communicator.ranks} ranks, which are {hosts} hosts of "
            f"{len(matrix.record.gpus)} GPUs: each NVLink group was taken for a node",
        ),
        Evidence(
            basis="claimed",
            text=f"{place(matrix.record.file)}: {gpu_a}-{gpu_b} "
            f"{matrix.kind(gpu_a, gpu_b) or 'unknown'}; {rail_a.nic} near "
            f"{listed(rail_a.gpus)}, {rail_b.nic} near {listed(rail_b.gpus)}",
        ),
        *_cross_nic(dossier),
        *_without_split(dossier, communicator, hosts),
    ]
    return Finding(
        code="rail-isolated",
        severity="degraded",
        summary=f"Ring edge {told} joins {gpu_a} (near {rail_a.text}) to {gpu_b} (near "
        f"{rail_b.text}): {nets}without a route between the rails that link can never connect.",
        where=Where(
            ranks=(edge.source, edge.destination),
            link=(gpu_a, gpu_b),
            file=log.file,
            line=edge.line or None,
        ),
        evidence=tuple(evidence),
        remedy="export NCCL_NET_DISABLE_INTRA='1'   # GPUs of one host stay one node; or route "
        "between the rails",
        confidence="inferred",
    )


def _cross_nic(dossier: Dossier) -> Iterator[Evidence]:
    for variables in dossier.variables:
        if variables.variables.get("NCCL_CROSS_NIC") == "0":
            yield Evidence(
                basis="claimed",
                text=f"{place(variables.file)}: NCCL_CROSS_NIC=0 keeps rings on one NIC between "
                "hosts, not between groups of one host",
            )


def _without_split(
    dossier: Dossier, communicator: LogCommunicator, hosts: int
) -> Iterator[Evidence]:
    """The same number of ranks counted as hosts in another log: that one shows the way out."""
    for log in dossier.logs:
        for other in log.communicators:
            if other.ranks == communicator.ranks and other.nodes == hosts:
                yield Evidence(
                    basis="asked",
                    text=f"{place(log.file)}: nNodes {other.nodes} localRanks "
                    f"{other.local_ranks} with as many ranks",
                )
                return
