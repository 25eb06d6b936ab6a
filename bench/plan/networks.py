"""Which interfaces of different hosts belong to one network.

In: HostFacts of all hosts. Out: Network records, one interface per host, whatever each host calls
it. By subnet where hosts share one. Where the fabric is routed (a /31 per host, a subnet per rack
or rail, per-node pod ranges) by the fabric file, by name, or by likeness. All of this is a guess
of what reaches what: the preflight calls every such network and settles those that do not.
Interfaces that only one host has form no network.
"""

from __future__ import annotations

import ipaddress
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from bench.plan.default_case import chosen_by_nccl
from bench.plan.naming import fits, number
from bench.records import Address, Fabric, HostFacts, Interface


@dataclass(frozen=True)
class Port:
    """One host's interface with the address that NCCL and gloo would listen on."""

    host: str
    interface: Interface
    address: str
    family: str
    value: int
    prefix_length: int

    @property
    def segment(self) -> tuple[str, int, int]:
        """The subnet as (family, network number, prefix length)."""
        shift = (32 if self.family == "inet" else 128) - self.prefix_length
        return self.family, self.value >> shift << shift, self.prefix_length


Lane = dict[str, Port]
"""At most one port per host."""


@dataclass(frozen=True)
class Network:
    """Ports by host; `subnet` in CIDR form where all share one; `lacking` hosts have no port."""

    ports: Mapping[str, Port]
    subnet: str | None
    lacking: tuple[str, ...] = ()


def find_networks(
    hosts: Sequence[HostFacts], *, fabric: Fabric | None = None
) -> tuple[Network, ...]:
    """The networks that two or more hosts have, ordered as the first host lists its interfaces.

    Of one host only the loopback is a network: its traffic to itself leaves by no interface.
    """
    names = [host.host for host in hosts]
    if len(hosts) == 1:
        lanes = [{names[0]: port} for port in _ports(hosts[0], _loopback)][:1]
        return tuple(_network(lane, names) for lane in lanes)
    ports = [port for host in hosts for port in _ports(host, _global)]
    whole, partial = _by_subnet(ports, len(hosts))
    loose = [port for lane in partial for port in lane.values()]
    for group in (lambda rest: _by_fabric(rest, fabric), _by_name, _by_likeness):
        for lane in group(loose):
            if len(lane) == len(hosts):
                whole.append(lane)
        taken = {id(port) for lane in whole for port in lane.values()}
        loose = [port for port in loose if id(port) not in taken]
    left = {id(port) for port in loose}
    kept = [{h: p for h, p in lane.items() if id(p) in left} for lane in partial]
    kept = [lane for lane in kept if len(lane) > 1]
    named = {id(port) for lane in kept for port in lane.values()}
    kept += [x for x in _by_name([p for p in loose if id(p) not in named]) if len(x) > 1]
    lanes = whole + kept + _link_local(hosts, alone=not whole and not kept)
    position = {host: i for i, host in enumerate(names)}
    lanes.sort(key=lambda lane: min((position[h], p.interface.index) for h, p in lane.items()))
    return tuple(_network(lane, names) for lane in lanes)


# ------------------------------------------------------------------------------------ ports


def _loopback(interface: Interface, address: Address) -> bool:
    return interface.kind == "loopback" and address.address in ("127.0.0.1", "::1")


def _global(interface: Interface, address: Address) -> bool:
    return (
        interface.kind != "loopback"
        and address.scope == "global"
        and not _is_link_local(address)
        and not address.address.startswith("127.")
        and address.address != "::1"
    )


def _is_link_local(address: Address) -> bool:
    return address.scope == "link" or address.address.lower().startswith(("169.254.", "fe8"))


def _link(interface: Interface, address: Address) -> bool:
    return interface.kind != "loopback" and _is_link_local(address)


def _ports(host: HostFacts, wanted: Callable[[Interface, Address], bool]) -> list[Port]:
    """One port per interface that has a `wanted` address: the first IPv4, else the first IPv6, as
    NCCL keeps one address per interface, the first that getifaddrs gives (IPv4 as a rule)."""
    ports = []
    for interface in host.interfaces:
        # an address under an alias ("eth0:1") is no match for the exact name of the interface
        addresses = [a for a in interface.addresses if a.label is None and wanted(interface, a)]
        addresses.sort(key=lambda address: address.family)  # stable: inet before inet6
        for address in addresses[:1]:
            plain = address.address.partition("%")[0]
            ports.append(
                Port(
                    host.host,
                    interface,
                    plain,
                    address.family,
                    number(plain),
                    address.prefix_length,
                )
            )
    return ports


# ----------------------------------------------------------------------------------- groups


def _by_subnet(ports: Sequence[Port], hosts: int) -> tuple[list[Lane], list[Lane]]:
    """Lanes that cover all hosts, and the others."""
    segments: dict[tuple[str, int, int], list[Port]] = defaultdict(list)
    for port in ports:
        segments[port.segment].append(port)
    lanes = [lane for members in segments.values() for lane in _lanes(members)]
    return [x for x in lanes if len(x) == hosts], [x for x in lanes if len(x) < hosts]


def _lanes(ports: Sequence[Port]) -> list[Lane]:
    """Split ports of which hosts may have several (rails of one flat subnet): interfaces of the
    same name belong together, what is left by its order on each host."""
    by_host: dict[str, list[Port]] = defaultdict(list)
    for port in ports:
        by_host[port.host].append(port)
    if all(len(mine) == 1 for mine in by_host.values()):
        return [{host: mine[0] for host, mine in by_host.items()}]
    named = {
        name: lane for name, lane in _named(ports).items() if len(lane) == len(by_host)
    }  # names that every one of these hosts uses
    lanes = list(named.values())
    rest = {h: [p for p in mine if p.interface.name not in named] for h, mine in by_host.items()}
    for position in range(max(len(mine) for mine in rest.values())):
        lanes.append({h: mine[position] for h, mine in rest.items() if position < len(mine)})
    return lanes


def _named(ports: Iterable[Port]) -> dict[str, Lane]:
    by_name: dict[str, Lane] = defaultdict(dict)
    for port in ports:
        by_name[port.interface.name].setdefault(port.host, port)
    return by_name


def _by_name(ports: Sequence[Port]) -> list[Lane]:
    return list(_named(ports).values())


def _by_fabric(ports: Sequence[Port], fabric: Fabric | None) -> list[Lane]:
    groups: list[Lane] = []
    for network in fabric.network if fabric else ():
        members = [port for port in ports if fits(network, port.interface.name, port.address)]
        groups += _lanes(members) if members else []
    return groups


def _by_likeness(ports: Sequence[Port]) -> list[Lane]:
    """Same prefix length, MTU, kind and claimed speed; in the order of addresses where a host has
    several such, because address plans number networks alike on all hosts. Hosts that differ in
    how many they have are not guessed at. A wrong guess shows in the preflight, unless all these
    networks are routed to each other."""
    alike: dict[object, dict[str, list[Port]]] = defaultdict(lambda: defaultdict(list))
    for port in ports:
        card = port.interface
        key = (port.family, port.prefix_length, card.mtu, card.kind, card.speed_mbit)
        alike[key][port.host].append(port)
    lanes = []
    for by_host in alike.values():
        if len({len(mine) for mine in by_host.values()}) == 1:
            ordered = {h: sorted(mine, key=lambda p: p.value) for h, mine in by_host.items()}
            count = len(next(iter(ordered.values())))
            lanes += [{h: mine[i] for h, mine in ordered.items()} for i in range(count)]
    return lanes


def _link_local(hosts: Sequence[HostFacts], *, alone: bool) -> list[Lane]:
    """Interfaces with nothing but link-local addresses: only where there is nothing else, or
    where NCCL would take one. All of fe80::/64 looks like one subnet, so the name decides."""
    chosen = {name for host in hosts for name in chosen_by_nccl(host)}
    ports = []
    for host in hosts if alone or chosen else ():
        reachable = {port.interface.name for port in _ports(host, _global)}
        ports += [
            port
            for port in _ports(host, _link)
            if port.interface.name not in reachable and (alone or port.interface.name in chosen)
        ]
    return [lane for lane in _by_name(ports) if len(lane) > 1]


# ----------------------------------------------------------------------------------- result


def _network(lane: Lane, hosts: Sequence[str]) -> Network:
    ordered = {host: lane[host] for host in hosts if host in lane}
    segments = {port.segment for port in ordered.values()}
    subnet = None
    if len(segments) == 1:
        family, number, length = segments.pop()
        kind = ipaddress.IPv4Network if family == "inet" else ipaddress.IPv6Network
        subnet = str(kind((number, length)))
    return Network(ordered, subnet, tuple(host for host in hosts if host not in lane))
