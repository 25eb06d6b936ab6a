"""A fabric file from what machines say of themselves: a first expectation, to be read and mended.

In: HostFacts. Out: a Fabric whose rates are marked as claims, and sentences about what was left
out or guessed. A claim is what the hardware says it can do, not what anybody paid for; nothing
here is measured, so what a network is for is guessed from its speed.
"""

from __future__ import annotations

import glob
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from bench.judge.gpu.expectation import gpus_of
from bench.plan.networks import find_networks
from bench.records import (
    Fabric,
    FabricNetwork,
    HostFacts,
    Interface,
    InterfaceKind,
    RdmaPort,
)

# What a network between hosts is made of; the others stay on a host, or are nobody's data path.
WIRED: tuple[InterfaceKind, ...] = ("physical", "bond", "veth")
MOST_NAMES = 8  # interfaces of one network listed by name; a subnet says it shorter
TECHNOLOGY = {"InfiniBand": "infiniband", "Ethernet": "roce", "Unspecified": "efa"}

Lane = Mapping[str, tuple[str, ...]]
"""Host -> its interfaces (or RDMA devices) of one network."""


@dataclass(frozen=True)
class Draft:
    """A fabric file to be, and what its reader should know, one sentence each."""

    fabric: Fabric
    notes: tuple[str, ...]


def draft(hosts: Sequence[HostFacts], *, name: str) -> Draft:
    """The fabric file that these hosts' own claims give."""
    assert hosts, "there is at least the host that asks"
    notes: list[str] = []
    rdma = _rdma_networks(hosts, notes)
    sockets = _socket_networks(hosts, busy=bool(rdma), notes=notes)
    return Draft(
        Fabric(
            name=name,
            source=f"claimed by {', '.join(facts.host for facts in hosts[:4])}"
            + (f" and {len(hosts) - 4} more" if len(hosts) > 4 else ""),
            network=(*rdma, *sockets),
            gpus=gpus_of(hosts, notes),
        ),
        tuple(notes),
    )


# ---------------------------------------------------------------------------------- networks


def network_of(
    name: str,
    lane: Lane,
    hosts: Sequence[HostFacts],
    *,
    role: Literal["data", "management", "storage"],
    subnet: str | None = None,
    notes: list[str],
) -> FabricNetwork:
    """A network of the file: how to recognise it, and what its ports claim where all claim
    something."""
    names = sorted({one for mine in lane.values() for one in mine})
    members = [i for f in hosts for i in f.interfaces if i.name in lane.get(f.host, ())]
    ports = [p for f in hosts for p in f.rdma_ports if _port_in(p, lane.get(f.host, ()))]
    told: list[float | None] = [p.rate_gbit for p in ports]
    told += [i.speed_mbit / 1000 if i.speed_mbit else None for i in members if _claims(i)]
    rates = [rate for rate in told if rate]
    wires = bool(told) and len(rates) == len(told) and len(told) >= sum(map(len, lane.values()))
    if len(set(rates)) > 1 and wires:
        low, high = min(rates), max(rates)
        notes.append(f"{name}: ports claim {low:g} to {high:g} Gbit/s; the usual rate is written")
    mtus = {interface.mtu for interface in members if interface.mtu}
    if len(mtus) > 1:
        notes.append(f"{name}: MTU {min(mtus)} to {max(mtus)} on its interfaces; none is written")
    counts = {len(mine) for mine in lane.values()}
    by_name = len(names) <= MOST_NAMES or subnet is None
    return FabricNetwork(
        name=name,
        role=role,
        interfaces=tuple(glob.escape(one.partition(":")[0]) for one in names) if by_name else (),
        subnet=None if by_name else subnet,
        rate_gbps=Counter(rates).most_common(1)[0][0] if wires else None,
        mtu=mtus.pop() if len(mtus) == 1 else None,
        ports_per_host=counts.pop() if len(counts) == 1 and ports else None,
        claimed=wires,
        technology=_technology(ports),
    )


def _claims(interface: Interface) -> bool:
    """A bond adds up links that one flow cannot fill, a virtual interface says any number."""
    return interface.kind == "physical"


def _port_in(port: RdmaPort, names: Sequence[str]) -> bool:
    return port.device in names or f"{port.device}:{port.port}" in names


def _technology(ports: Sequence[RdmaPort]) -> str | None:
    layers = {port.link_layer for port in ports}
    words = {"InfiniBand": "InfiniBand", "Ethernet": "RoCE", "Unspecified": "EFA"}
    return words.get(layers.pop() or "") if len(layers) == 1 else None


def _rdma_networks(hosts: Sequence[HostFacts], notes: list[str]) -> list[FabricNetwork]:
    """Active ports by link layer and rate; the group that carries most is for data."""
    groups: dict[tuple[str, float], dict[str, list[str]]] = {}
    for facts in hosts:
        for port in facts.rdma_ports:
            if "ACTIVE" in (port.state or "").upper() and port.link_layer in TECHNOLOGY:
                key = port.link_layer or "", port.rate_gbit or 0.0
                groups.setdefault(key, {}).setdefault(facts.host, []).append(port.device)
    ranked = sorted(groups.items(), key=lambda g: -g[0][1] * max(len(n) for n in g[1].values()))
    found: list[FabricNetwork] = []
    for (layer, rate), lane in ranked:
        name = TECHNOLOGY[layer]
        if any(network.name == name for network in found):
            name = f"{name}-{rate:g}"
        made = {host: tuple(names) for host, names in lane.items()}
        role: Literal["data", "storage"] = "data" if not found else "storage"
        found.append(network_of(name, made, hosts, role=role, notes=notes))
    if len(found) > 1:
        others = ", ".join(network.name for network in found[1:])
        notes.append(f"{others}: fewer or slower RDMA ports than {found[0].name}, so taken for "
                     "storage")  # fmt: skip
    return found


def _socket_networks(
    hosts: Sequence[HostFacts], *, busy: bool, notes: list[str]
) -> list[FabricNetwork]:
    """Networks of wired interfaces with an address; the fastest are for data, unless RDMA is."""
    lanes = [(lane, subnet) for lane, subnet in _lanes(hosts) if _wired(lane, hosts)]
    rates = [_slowest(lane, hosts) for lane, _ in lanes]
    best = max((rate for rate in rates if rate), default=None)
    over = {port.interface for facts in hosts for port in facts.rdma_ports if port.interface}
    found = []
    for (lane, subnet), rate in zip(lanes, rates, strict=True):
        names = {one for mine in lane.values() for one in mine}
        first = best is None or rate == best
        data = bool(names & over) if busy else first
        name = names.pop() if len(names) == 1 else subnet or "+".join(sorted(names))
        role: Literal["data", "management"] = "data" if data else "management"
        found.append(network_of(name, lane, hosts, role=role, subnet=subnet, notes=notes))
    slower = [network.name for network in found if network.role == "management"]
    if slower:
        notes.append(f"{', '.join(slower)}: slower than others, so taken for management")
    kept = {i for lane, _ in lanes for mine in lane.values() for i in mine}
    left = sorted(
        {f"{i.name} ({i.kind})" for f in hosts for i in f.interfaces
         if i.addresses and i.name not in kept and i.kind not in ("loopback", *WIRED)}
    )  # fmt: skip
    if left:
        notes.append(f"left out: {', '.join(left[:6])}{', …' if len(left) > 6 else ''}")
    return found


def _lanes(hosts: Sequence[HostFacts]) -> list[tuple[Lane, str | None]]:
    if len(hosts) > 1:
        found = find_networks(hosts)
        return [
            (
                {host: (port.interface.name,) for host, port in network.ports.items()},
                network.subnet,
            )
            for network in found
        ]
    (facts,) = hosts
    return [
        ({facts.host: (interface.name,)}, None)
        for interface in facts.interfaces
        if interface.up and interface.running and interface.master is None
        and any(address.scope == "global" for address in interface.addresses)
    ]  # fmt: skip


def _wired(lane: Lane, hosts: Sequence[HostFacts]) -> bool:
    kinds = [i.kind for f in hosts for i in f.interfaces if i.name in lane.get(f.host, ())]
    return bool(kinds) and all(kind in WIRED for kind in kinds)


def _slowest(lane: Lane, hosts: Sequence[HostFacts]) -> int | None:
    members = [i for f in hosts for i in f.interfaces if i.name in lane.get(f.host, ())]
    claims = [i.speed_mbit for i in members if i.kind in ("physical", "bond") and i.speed_mbit]
    return min(claims) if len(claims) == len(members) else None
