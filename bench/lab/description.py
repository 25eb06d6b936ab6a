"""A lab file: hosts, networks, what the user has set, and what is broken (design.md, TOML).

In: a path. Out: a `Lab` in which every default is filled in and every name, address and fault has
been checked, or one BadInput that names file, line and what was expected. Opens no namespace.
"""

from __future__ import annotations

import ipaddress
from typing import Literal

import msgspec

FaultKind = Literal[
    "rate",
    "loss",
    "delay",
    "mtu",
    "down",
    "firewall",
    "duplicate-address",
    "absent",
    "kill",
    "stop",
]
Direction = Literal["both", "transmit", "receive"]
VictimPhase = Literal["rendezvous", "init", "first", "midrun"]


class Network(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One network: a bridge with a shaped link to every host, or one isolated bridge per host.

    `interface` is one name for all hosts or a list with one name per host. Host i (from 1) gets
    address i of `subnet`; an isolated network has one `address` for all. `rate_mbit` None means
    unshaped. `carrier`: an isolated bridge has a container behind it, hence is IFF_RUNNING
    (NCCL skips interfaces without since 2.28.3).
    """

    name: str = ""
    interface: str | tuple[str, ...] = ""
    subnet: str = ""
    rate_mbit: float | None = None
    mtu: int = 1500
    isolated: bool = False
    address: str = ""
    carrier: bool = True

    def interface_of(self, host: int) -> str:
        """What host `host` (from 1) calls its interface on this network."""
        return self.interface if isinstance(self.interface, str) else self.interface[host - 1]

    def address_of(self, host: int) -> str:
        """Address of host `host` (from 1) with prefix length, "10.1.0.3/24"."""
        if self.isolated:
            return self.address
        subnet = ipaddress.ip_network(self.subnet)
        return f"{subnet.network_address + host}/{subnet.prefixlen}"


class Fault(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One thing that is wrong on purpose; FAULT_KEYS says which keys belong to which kind.

    `peer`: rate, only traffic with that host; duplicate-address, whose address is taken.
    `direction` is seen from the host. `at`: the host's own interface, or the switch port it is
    plugged into (a black hole: nobody is told). `port` 0 means all traffic.
    """

    kind: FaultKind
    host: int | None = None
    network: str | None = None
    rate_mbit: float | None = None
    direction: Direction | None = None
    peer: int | None = None
    percent: float | None = None
    delay_ms: float | None = None
    mtu: int | None = None
    at: Literal["switch", "host"] | None = None
    port: int | None = None
    rank: int | None = None
    phase: VictimPhase | None = None


class Lab(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A whole lab file, defaults filled in. Hosts count from 1, ranks from 0."""

    hosts: int
    network: tuple[Network, ...]
    ranks_per_host: int = 1
    fabric: str | None = None
    hostnames: tuple[str, ...] = ()
    environment: dict[str, str] = {}
    fault: tuple[Fault, ...] = ()

    def hostname(self, host: int) -> str:
        """Host name of host `host` (from 1)."""
        return self.hostnames[host - 1] if self.hostnames else f"host{host}"

    def network_named(self, name: str) -> Network:
        """The network of that name; the names of all faults have been checked."""
        return next(network for network in self.network if network.name == name)

    @property
    def rendezvous_network(self) -> Network:
        """Where the ranks meet: the first network that joins the hosts."""
        return next(network for network in self.network if not network.isolated)

    def faults(self, *kinds: FaultKind) -> tuple[Fault, ...]:
        """The faults of these kinds, in the file's order."""
        return tuple(fault for fault in self.fault if fault.kind in kinds)
