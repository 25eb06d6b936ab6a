"""What a network should carry: the operator's word first, else what its hardware claims.

In: a candidate, the fabric file, the hosts' facts. Out: the bus bandwidth that a collective should
reach, and the word for its source: the file's figure for this very line before its rate, its rate
before a claim. Payload shares of Ethernet follow from frame layout; NCCL's and gloo's rings load
one host's link with the bus bandwidth, whatever the ranks per host.
"""

from __future__ import annotations

import fnmatch
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from bench.judge import limits, stated, systems
from bench.plan import naming
from bench.records import (
    BadInput,
    Candidate,
    CostLine,
    Fabric,
    FabricNetwork,
    HostFacts,
    Interface,
    Report,
    Tolerance,
)

HEADERS_BYTES = 52  # IPv4 20 + TCP 20 + timestamps 12, inside the MTU
ETHERNET_BYTES = 14  # header that every device counts
WIRE_BYTES = 24  # preamble 8, checksum 4, gap 12: on a wire only, not under a shaper on a veth
# InfiniBand and RoCE at MTU 4096: 26-82 bytes of headers a packet, 0.97-0.99.
RDMA_SHARE = 0.97
# One TCP flow rarely fills more; a shortfall against the port's claim alone says nothing above it.
CLAIM_LIMIT_MBIT = 25_000
# gloo reduces on one CPU thread; up to 10 Gbit/s that keeps up on any server of the last decade.
GLOO_CLAIM_LIMIT_MBIT = 10_000
RING_COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter")
# torch's gloo reduce_scatter is an all-reduce of which most is thrown away: half the ring's rate.
GLOO_RING_COLLECTIVES = ("all_reduce", "all_gather")


@dataclass(frozen=True)
class Expectation:
    """busbw in 1e9 bytes/s; `judged` is False where it is shown but decides nothing. `tolerance`
    is the figure's own, where it was learned."""

    busbw_gbs: float
    basis: Literal["expected", "claimed"]
    source: str
    judged: bool = True
    tolerance: float | None = None


def payload_share(mtu: int, *, on_wire: bool) -> float:
    """Share of an Ethernet's rate that TCP payload can take: 0.941 at MTU 1500 on a wire."""
    frame = mtu + ETHERNET_BYTES + (WIRE_BYTES if on_wire else 0)
    return max(mtu - HEADERS_BYTES, 0) / frame


def tolerance(report: Report) -> Tolerance:
    return report.fabric.tolerance if report.fabric else Tolerance()


def ring_collectives(backend: str) -> tuple[str, ...]:
    """Collectives whose busbw may be held against a link's rate."""
    return GLOO_RING_COLLECTIVES if backend == "gloo" else RING_COLLECTIVES


def of_line(report: Report, candidate: Candidate, line: CostLine) -> Expectation | None:
    """What `line` should reach over `candidate`; None where nothing says so.

    A hint is shown beside the line and decides nothing: it is another site's figure.
    """
    fabric = report.fabric
    entry = stated.entry_for(
        fabric, candidate, line, hosts=len(report.hosts), backend=report.backend
    )
    if entry is None or fabric is None:
        ring = line.collective in ring_collectives(report.backend)
        return of_report(report, candidate) if ring else None
    told = f"the fabric file's {entry.busbw_gbs:.4g} GB/s for {entry.collective}"
    if entry.runs:
        told += f", learned from {entry.runs} good run{'s' if entry.runs > 1 else ''}"
    return Expectation(
        entry.busbw_gbs, "expected", told, judged=not fabric.hint, tolerance=entry.tolerance
    )


def of_report(report: Report, candidate: Candidate) -> Expectation | None:
    """What a ring over a candidate of this report should reach; None where nothing says so.

    The default case is held against the fastest data network of the fabric file that some
    candidate is: that is what the operator paid for.
    """
    if candidate.kind == "network":
        return of_network(candidate, report.fabric, report.hosts, backend=report.backend)
    if candidate.kind != "default" or report.fabric is None:
        return None
    known = []
    for other in report.candidates:
        network = network_of(other, report.fabric)
        if other.kind == "network" and network is not None and network.role == "data":
            known.append(of_network(other, report.fabric, report.hosts, backend=report.backend))
    return max(
        (e for e in known if e is not None and e.basis == "expected"),
        key=lambda expectation: expectation.busbw_gbs,
        default=None,
    )


def of_network(
    candidate: Candidate, fabric: Fabric | None, hosts: Sequence[HostFacts], *, backend: str
) -> Expectation | None:
    """The ring's busbw over one network between at least two hosts.

    The slowest host's claim counts, because the ring waits for it. Only physical interfaces claim
    anything: a veth says 10 Gbit/s whatever carries it, a bond adds up links that one flow cannot.
    """
    if len(candidate.interfaces) < 2:
        return None
    members = [
        interface
        for facts in hosts
        for name in candidate.interfaces.get(facts.host, "").split("+")
        for interface in facts.interfaces
        if interface.name == name
    ]
    network = network_of(candidate, fabric)
    if network is not None and network.rate_gbps is not None:
        share, how = _share(candidate, members, network.mtu)
        ports, sure = ports_used(candidate, hosts)
        rate = network.rate_gbps * ports
        if network.claimed:
            source = f"the ports' {rate:g} Gbit/s (fabric file) × {share:.3f} of payload {how}"
            judged = candidate.transport == "socket" and rate * 1000 <= _claim_limit(backend)
            return Expectation(rate / 8 * share, "claimed", source, judged=judged)
        source = f"the fabric file's {rate:g} Gbit/s × {share:.3f} of payload {how}"
        # A hint's rate is of the system, through a plugin or RDMA: sockets need not reach it.
        hint = fabric is not None and fabric.hint
        return Expectation(rate / 8 * share, "expected", source, judged=sure and not hint)
    claims = [interface.speed_mbit for interface in members if interface.kind == "physical"]
    told = [claim for claim in claims if claim]
    if candidate.transport != "socket" or len(told) < len(candidate.interfaces):
        return None
    share, how = _share(candidate, members, None)
    source = f"the ports' claim of {min(told) / 1000:g} Gbit/s × {share:.3f} of payload {how}"
    judged = min(told) <= _claim_limit(backend)
    return Expectation(min(told) / 8000 * share, "claimed", source, judged=judged)


def ports_used(candidate: Candidate, hosts: Sequence[HostFacts]) -> tuple[int, bool]:
    """How many ports of a host carry a candidate's traffic at once, at most: each GPU takes the
    nearest one. Also told: whether it is sure; some GPUs of a host may share a port."""
    if candidate.transport != "rdma":
        return 1, True
    ports = max((len(name.split("+")) for name in candidate.interfaces.values()), default=1)
    ranks = min(
        (len(f.ranks) for f in hosts if f.ranks and f.host in candidate.interfaces), default=ports
    )
    return min(ports, ranks), ranks >= ports or ranks == 1


def _claim_limit(backend: str) -> int:
    return GLOO_CLAIM_LIMIT_MBIT if backend == "gloo" else CLAIM_LIMIT_MBIT


def _share(
    candidate: Candidate, members: Sequence[Interface], mtu: int | None
) -> tuple[float, str]:
    if candidate.transport == "rdma":
        return RDMA_SHARE, "over RDMA"
    known = [interface.mtu for interface in members if interface.mtu]
    mtu = mtu or min(known, default=1500)
    on_wire = not any(interface.kind == "veth" for interface in members)
    return payload_share(mtu, on_wire=on_wire), f"at MTU {mtu}"


def network_of(candidate: Candidate, fabric: Fabric | None) -> FabricNetwork | None:
    """The network of the fabric file that a candidate is, as the plan named it."""
    if candidate.kind != "network":
        return None
    return naming.expected_network(fabric, candidate.interfaces, candidate.addresses)


def interfaces_of(network: FabricNetwork, facts: HostFacts) -> tuple[Interface, ...]:
    """A host's interfaces that belong to a network of the fabric file, up or down."""
    return tuple(
        i
        for i in facts.interfaces
        if naming.fits(network, i.name, None)
        or any(naming.fits(network, i.name, a.address.partition("%")[0]) for a in i.addresses)
    )


def check_fabric(fabric: Fabric, hosts: Sequence[HostFacts], *, file: str | None = None) -> None:
    """Raise BadInput where a fabric file speaks of hosts or networks that are not here.

    A network that only some hosts lack is not bad input but a finding, and so is another number of
    GPUs. Domains may be left out. A hint speaks of a kind of system: what it does not find here it
    says nothing of.
    """
    present = {name for facts in hosts for name in (facts.host, facts.hostname)}
    present |= {name.partition(".")[0] for name in present}
    absent = [h for h in fabric.hosts if h not in present and h.partition(".")[0] not in present]
    here = ", ".join(facts.host for facts in hosts)
    if absent:
        names = ", ".join(absent)
        raise BadInput(
            f"fabric {fabric.name} names {names}, absent from this run; hosts here: {here}",
            file=file,
        )
    _check_gpus(fabric, hosts, file)
    for network in fabric.network:
        if not network.interfaces and network.subnet is None:
            if fabric.hint:
                continue
            raise BadInput(
                f"network {network.name} of fabric {fabric.name} needs interfaces or a subnet",
                file=file,
            )
        if network.subnet is not None:
            try:
                ipaddress.ip_network(network.subnet, strict=False)
            except ValueError:
                raise BadInput(
                    f"network {network.name}: subnet {network.subnet!r} is not of the form "
                    "10.2.0.0/24",
                    file=file,
                ) from None
        here_somewhere = any(interfaces_of(network, f) or _rdma(network, f) for f in hosts)
        if not here_somewhere and not fabric.hint:
            wanted = ", ".join(network.interfaces) or str(network.subnet)
            found = sorted({i.name for facts in hosts for i in facts.interfaces})
            raise BadInput(
                f"network {network.name} of fabric {fabric.name} wants {wanted}, which no host "
                f"has; interfaces here: {', '.join(found) or 'none'}",
                file=file,
            )


def _rdma(network: FabricNetwork, facts: HostFacts) -> bool:
    return any(
        fnmatch.fnmatchcase(port.device, glob)
        for port in facts.rdma_ports
        for glob in network.interfaces
    )


def _check_gpus(fabric: Fabric, hosts: Sequence[HostFacts], file: str | None) -> None:
    """A file of other GPUs is the wrong file; another number of the right ones is a finding."""
    if fabric.gpus.pcie is not None and limits.pcie_gbs(fabric.gpus.pcie) is None:
        raise BadInput(
            f"pcie of fabric {fabric.name} is {fabric.gpus.pcie!r}; expected generation x lanes, "
            'such as "5x16"',
            file=file,
        )
    names = sorted({gpu.name for facts in hosts for gpu in facts.gpus if gpu.name})
    if names and not any(systems.fits(fabric, [name]) for name in names):
        raise BadInput(
            f"fabric {fabric.name} is of {' or '.join(fabric.gpus.model)}; GPUs here: "
            f"{', '.join(names)}",
            file=file,
        )
