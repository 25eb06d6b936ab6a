"""Bridges, links, addresses and rates: the network of a lab, built in the caller's namespace.

In: a checked Lab, in a process of one thread that owns its network and mount namespace. Out: the
keepers of its hosts; bridges live in the caller's namespace (the switch), so that two labs share
nothing. Interfaces are made in the file's order: getifaddrs, hence NCCL, lists them so.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from bench.lab import keeper, namespaces, shaping
from bench.lab.description import Fault, Lab, Network
from bench.lab.keeper import Keeper
from bench.records import BadInput

# The kernel lets carrier changes wait up to a second (linkwatch); three are plenty.
RUNNING_DEADLINE_S = 3.0
# tcp_congestion_control is inherited from the real machine; BBR leaves holes at 512 KiB under tbf
# and cubic is refused inside namespaces (facts/lab.md, Shaping).
CONGESTION_CONTROL = "reno"


@contextmanager
def inside(host: Keeper) -> Iterator[IPRoute]:
    """A netlink socket in the host's network namespace; the caller is in it meanwhile."""
    with namespaces.network_of(host.pid), IPRoute() as netlink:
        yield netlink


def port(host: int, number: int) -> str:
    """The switch's name for the port of host `host` on network `number` (both from 1)."""
    return f"h{host}n{number}"


def build(lab: Lab, *, needed: Sequence[str]) -> tuple[Keeper, ...]:
    """Make everything in `lab` but its faults; paths in `needed` stay visible inside."""
    scratch = keeper.scratch_place(needed)
    hosts = tuple(
        keeper.start(host, lab.hostname(host), hosts_file(lab, host), scratch)
        for host in range(1, lab.hosts + 1)
    )
    with IPRoute() as switch:
        bridges = {
            network.name: _bridge(switch, f"sw{number}", network.mtu)
            for number, network in enumerate(lab.network, start=1)
            if not network.isolated
        }
        for host in hosts:
            for number, network in enumerate(lab.network, start=1):
                if network.isolated:
                    _isolated(switch, network, host, number)
                else:
                    _plug(switch, bridges[network.name], network, host, number)
    for host in hosts:
        with inside(host) as netlink:
            netlink.link("set", index=1, state="up")  # lo is always 1
            _set_congestion_control()
            for network in lab.network:
                _address(netlink, network, host.host)
    return hosts


def hosts_file(lab: Lab, host: int) -> str:
    """/etc/hosts of host `host`: every host by its address on the rendezvous network.

    The own line comes first, which settles hosts that are all called alike. Addresses on other
    networks have a line too, or a reverse look-up would ask a name server that is not there.
    """
    lines = ["127.0.0.1 localhost", "::1 localhost"]
    others = [other for other in range(1, lab.hosts + 1) if other != host]
    first = lab.rendezvous_network
    for network in (first, *(n for n in lab.network if not n.isolated and n is not first)):
        suffix = "" if network is first else f"-{network.name}"
        for other in (host, *others):
            address, name = network.address_of(other).partition("/")[0], lab.hostname(other)
            lines.append(f"{address} {name}{suffix}")
            # c10d asks for names of addresses as its IPv6 sockets see them, and warns if unknown
            lines.append(f"::ffff:{address} {name}{suffix}-mapped")
    return "\n".join(lines) + "\n"


def shape(lab: Lab, hosts: Sequence[Keeper]) -> None:
    """Put a rate (and delay) on both ends of every link, as the networks and faults say."""
    for host in hosts:
        for number, network in enumerate(lab.network, start=1):
            if network.isolated:
                continue
            faults = [
                fault
                for fault in lab.faults("rate", "delay")
                if fault.host == host.host and fault.network == network.name
            ]
            with inside(host) as netlink:
                index = index_of(netlink, network.interface_of(host.host))
                _shape_end(netlink, index, network, faults, "transmit")
            with IPRoute() as switch:
                index = index_of(switch, port(host.host, number))
                _shape_end(switch, index, network, faults, "receive")


def wait_until_running(lab: Lab, hosts: Sequence[Keeper]) -> None:
    """Until every link that should be is IFF_RUNNING: NCCL skips an interface that is not yet."""
    deadline = time.monotonic() + RUNNING_DEADLINE_S
    down = {(fault.host, fault.network) for fault in lab.faults("down")}
    for host in hosts:
        names = {
            network.interface_of(host.host)
            for network in lab.network
            if (network.carrier or not network.isolated) and (host.host, network.name) not in down
        }
        with inside(host) as netlink:
            while waiting := names - _running(netlink):
                if time.monotonic() > deadline:
                    raise BadInput(
                        f"{', '.join(sorted(waiting))} of host {host.host} did not come up "
                        f"within {RUNNING_DEADLINE_S:g} s"
                    )
                time.sleep(0.02)


def index_of(netlink: IPRoute, interface: str) -> int:
    """The kernel's index of an interface that is known to exist."""
    index: int = netlink.link_lookup(ifname=interface)[0]
    return index


def _running(netlink: IPRoute) -> set[str]:
    return {
        str(link.get("ifname"))
        for link in netlink.get_links()
        if link.get("operstate") in ("UP", "UNKNOWN")
    }


def _add_link(netlink: IPRoute, **wanted: Any) -> None:
    try:
        netlink.link("add", **wanted)
    except NetlinkError as error:
        kind = wanted["kind"]
        if error.code not in shaping.MISSING:
            raise
        raise BadInput(
            f"this kernel has no {kind} interfaces, which a lab is made of; "
            f"as root, modprobe {kind}, or use a kernel that has them"
        ) from None


def _bridge(netlink: IPRoute, name: str, mtu: int) -> int:
    _add_link(netlink, ifname=name, kind="bridge")
    index = index_of(netlink, name)
    # An MTU set by hand stays: else the bridge follows its smallest port, and tells everybody.
    netlink.link("set", index=index, mtu=mtu, state="up")
    return index


def _plug(switch: IPRoute, bridge: int, network: Network, host: Keeper, number: int) -> None:
    name = port(host.host, number)
    peer = {"ifname": network.interface_of(host.host), "net_ns_pid": host.pid}
    _add_link(switch, ifname=name, kind="veth", peer=peer)
    index = index_of(switch, name)
    switch.link("set", index=index, mtu=network.mtu)
    switch.link("set", index=index, master=bridge, state="up")


def _isolated(switch: IPRoute, network: Network, host: Keeper, number: int) -> None:
    """A bridge joined to nothing, as docker0 is; with carrier, as if a container ran behind it."""
    with inside(host) as netlink:
        bridge = _bridge(netlink, network.interface_of(host.host), network.mtu)
    if not network.carrier:
        return
    far, near = port(host.host, number), f"veth{number}"
    _add_link(switch, ifname=far, kind="veth", peer={"ifname": near, "net_ns_pid": host.pid})
    switch.link("set", index=index_of(switch, far), state="up")
    with inside(host) as netlink:
        # The port's own fe80:: address would be one more interface for NCCL to take.
        setting = Path(f"/proc/sys/net/ipv6/conf/{near}/disable_ipv6")
        if setting.exists():
            setting.write_text("1")
        netlink.link("set", index=index_of(netlink, near), master=bridge, state="up")


def _address(netlink: IPRoute, network: Network, host: int) -> None:
    index = index_of(netlink, network.interface_of(host))
    address, _, length = network.address_of(host).partition("/")
    netlink.link("set", index=index, mtu=network.mtu)
    netlink.addr("add", index=index, address=address, prefixlen=int(length))
    netlink.link("set", index=index, state="up")


def _set_congestion_control() -> None:
    try:
        Path("/proc/sys/net/ipv4/tcp_congestion_control").write_text(CONGESTION_CONTROL)
    except OSError as error:
        raise BadInput(
            f"this kernel refuses the congestion control {CONGESTION_CONTROL} inside a namespace "
            f"({error.strerror}), without which shaped rates are not true"
        ) from None


def _shape_end(
    netlink: IPRoute, index: int, network: Network, faults: Sequence[Fault], direction: str
) -> None:
    """One end of a link: "transmit" is the host's interface, "receive" the switch's port."""
    rate, delay = network.rate_mbit, None
    slow: dict[str, tuple[float, str, str]] = {}
    for fault in faults:
        if fault.direction not in (None, "both", direction):
            continue
        if fault.kind == "delay":
            delay = fault.delay_ms
        elif fault.peer is None:
            rate = fault.rate_mbit
        elif fault.rate_mbit is not None:
            side = "destination" if direction == "transmit" else "source"
            address = network.address_of(fault.peer).partition("/")[0]
            slow[address] = (fault.rate_mbit, side, address)
    shaping.limit(netlink, index, rate, delay_ms=delay, slow=list(slow.values()))
