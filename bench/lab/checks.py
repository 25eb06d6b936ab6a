"""Reads a lab file and refuses, in one sentence with file and line, what cannot be built.

In: a path. Out: a `Lab` in which every default is filled in and every name, address and fault has
been checked, or BadInput. Limits are the kernel's (interface and host names, MTU, tbf's 32 bits).
"""

from __future__ import annotations

import ipaddress
import re
from pathlib import Path

import msgspec

from bench.formats import toml_file
from bench.formats.toml_lines import KeyLines, KeyPath
from bench.lab.description import Fault, Lab, Network
from bench.records import BadInput

MAX_HOSTS = 64  # five processes per host and a bridge with that many ports: a laptop still copes
MAX_RANKS_PER_HOST = 16
MAX_NETWORKS = 16  # NCCL itself looks at no more than 16 interfaces (MAX_IFS)
MIN_MTU, MAX_MTU = 576, 65535  # IPv4 hosts must take 576 bytes; veth and bridge take up to 65535
# tbf keeps its burst as a 32 bit time and rates as 32 bit bytes/s: 34 Gbit/s is the format's end.
MIN_RATE_MBIT, MAX_RATE_MBIT = 0.1, 30_000.0
INTERFACE_NAME = re.compile(r"[^\s/:%\x00-\x1f\x7f]{1,15}")  # IFNAMSIZ - 1; no ':' and no '%'
ENVIRONMENT_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
HOST_NAME_BYTES = 64  # the kernel's limit for sethostname

# Which keys each kind of fault must have, and which it may have besides; anything else is refused.
FAULT_KEYS: dict[str, tuple[set[str], set[str]]] = {
    "rate": ({"host", "network", "rate_mbit"}, {"direction", "peer"}),
    "loss": ({"host", "network", "percent"}, {"direction"}),
    "delay": ({"host", "network", "delay_ms"}, {"direction"}),
    "mtu": ({"host", "network", "mtu"}, {"at"}),
    "down": ({"host", "network"}, set()),
    "firewall": ({"host", "network"}, {"port"}),
    "duplicate-address": ({"host", "network"}, {"peer"}),
    "absent": ({"host"}, set()),
    "kill": ({"rank", "phase"}, set()),
    "stop": ({"rank", "phase"}, set()),
}


class _Wrong(Exception):
    """A complaint and the place in the file it is about; turned into BadInput by `load`."""

    def __init__(self, path: KeyPath, sentence: str) -> None:
        self.path, self.sentence = path, sentence


def load(path: Path) -> Lab:
    """The checked lab in `path`; BadInput with file and line where something is wrong."""
    lab = toml_file.load(path, Lab)
    try:
        return checked(lab)
    except _Wrong as wrong:
        line = KeyLines(path.read_text("utf-8-sig")).of(wrong.path)
        raise BadInput(wrong.sentence, file=str(path), line=line) from None


def checked(lab: Lab) -> Lab:
    """`lab` with defaults filled in; raises _Wrong at the first thing that cannot be built."""
    _within(("hosts",), "hosts", lab.hosts, 1, MAX_HOSTS)
    _within(("ranks_per_host",), "ranks_per_host", lab.ranks_per_host, 1, MAX_RANKS_PER_HOST)
    _check_hostnames(lab)
    for name in lab.environment:
        if not ENVIRONMENT_NAME.fullmatch(name):
            raise _Wrong(("environment",), f'"{name}" is no name of an environment variable')
    if len(lab.network) > MAX_NETWORKS:
        raise _Wrong(("network",), f"more than {MAX_NETWORKS} networks; NCCL sees 16 interfaces")
    networks = tuple(_completed(network, number) for number, network in enumerate(lab.network))
    lab = msgspec.structs.replace(lab, network=networks)
    if all(network.isolated for network in networks):
        raise _Wrong(("network",), "no network joins the hosts; expected one without isolated")
    for number, network in enumerate(networks):
        _check_network(network, number, lab)
    _check_names(lab)
    for number, fault in enumerate(lab.fault):
        _check_fault(fault, ("fault", number), lab)
    return lab


def _completed(network: Network, number: int) -> Network:
    name = network.name or f"net{number + 1}"
    isolated = network.isolated
    return msgspec.structs.replace(
        network,
        name=name,
        interface=network.interface or f"{name}0",
        subnet=network.subnet or ("" if isolated else f"10.{number + 1}.0.0/24"),
        address=network.address or (f"172.{17 + number}.0.1/16" if isolated else ""),
    )


def _check_hostnames(lab: Lab) -> None:
    if lab.hostnames and len(lab.hostnames) != lab.hosts:
        count = len(lab.hostnames)
        raise _Wrong(("hostnames",), f"{count} names for {lab.hosts} hosts; expected one for each")
    for name in lab.hostnames:
        if not name or len(name.encode()) > HOST_NAME_BYTES or re.search(r"[\s\x00#]", name):
            raise _Wrong(
                ("hostnames",), f'"{name}" is no host name; expected 1 to 64 bytes, no spaces'
            )


def _check_network(network: Network, number: int, lab: Lab) -> None:
    at: KeyPath = ("network", number)
    names = network.interface
    if not isinstance(names, str) and len(names) != lab.hosts:
        sentence = f"{len(names)} interface names for {lab.hosts} hosts; expected one for each"
        raise _Wrong((*at, "interface"), sentence)
    for name in (names,) if isinstance(names, str) else names:
        if not INTERFACE_NAME.fullmatch(name) or name in (".", "..", "lo"):
            sentence = f'"{name}" is no interface name; expected 1 to 15 characters without /'
            raise _Wrong((*at, "interface"), sentence)
    if network.rate_mbit is not None:
        _check_rate((*at, "rate_mbit"), network.rate_mbit)
    _within((*at, "mtu"), "mtu", network.mtu, MIN_MTU, MAX_MTU)
    if network.isolated:
        if network.subnet:
            raise _Wrong((*at, "subnet"), "an isolated network has an address, not a subnet")
        if network.rate_mbit is not None:
            raise _Wrong((*at, "rate_mbit"), "an isolated network leads nowhere and has no rate")
        try:
            ipaddress.IPv4Interface(network.address)
        except ValueError:
            sentence = f'"{network.address}" is no address; expected one such as "172.17.0.1/16"'
            raise _Wrong((*at, "address"), sentence) from None
        return
    if network.address:
        raise _Wrong((*at, "address"), "only an isolated network has one address; expected subnet")
    try:
        subnet = ipaddress.IPv4Network(network.subnet)
    except ValueError:
        sentence = f'"{network.subnet}" is no IPv4 subnet; expected one such as "10.1.0.0/24"'
        raise _Wrong((*at, "subnet"), sentence) from None
    if subnet.num_addresses - 2 < lab.hosts:
        sentence = f"{network.subnet} has no room for {lab.hosts} hosts"
        raise _Wrong((*at, "subnet"), sentence)


def _check_names(lab: Lab) -> None:
    """Names of networks and of a host's interfaces are unique; subnets do not overlap."""
    seen: dict[str, int] = {}
    for number, network in enumerate(lab.network):
        if network.name in seen:
            raise _Wrong(("network", number, "name"), f'two networks are called "{network.name}"')
        seen[network.name] = number
    for host in range(1, lab.hosts + 1):
        owners: dict[str, str] = {}
        for number, network in enumerate(lab.network):
            interface = network.interface_of(host)
            if interface in owners:
                sentence = f"host {host} has two interfaces called {interface}"
                raise _Wrong(("network", number, "interface"), sentence)
            owners[interface] = network.name
    ranges = [ipaddress.IPv4Interface(network.address_of(1)).network for network in lab.network]
    for number, later in enumerate(ranges):
        for earlier in ranges[:number]:
            if later.overlaps(earlier):
                sentence = f"{later} overlaps {earlier} of another network"
                raise _Wrong(("network", number), sentence)


def _check_fault(fault: Fault, at: KeyPath, lab: Lab) -> None:
    needed, allowed = FAULT_KEYS[fault.kind]
    given = {
        key for key in fault.__struct_fields__ if key != "kind" and getattr(fault, key) is not None
    }
    if missing := sorted(needed - given):
        raise _Wrong(at, f'a fault of kind {fault.kind} lacks the key "{missing[0]}"')
    if surplus := sorted(given - needed - allowed):
        wanted = ", ".join(sorted(needed | allowed))
        sentence = f'"{surplus[0]}" is no key of a fault of kind {fault.kind}; expected {wanted}'
        raise _Wrong((*at, surplus[0]), sentence)
    for key in ("host", "peer"):
        number = getattr(fault, key)
        if number is not None and not 1 <= number <= lab.hosts:
            raise _Wrong((*at, key), f"{key} {number}; expected a host from 1 to {lab.hosts}")
    if fault.peer is not None and fault.peer == fault.host:
        raise _Wrong((*at, "peer"), f"host {fault.host} cannot be its own peer")
    if fault.kind == "duplicate-address" and lab.hosts < 2:
        raise _Wrong(at, "a duplicate-address fault needs two hosts")
    ranks = lab.hosts * lab.ranks_per_host
    if fault.rank is not None and not 0 <= fault.rank < ranks:
        raise _Wrong((*at, "rank"), f"rank {fault.rank}; expected a rank from 0 to {ranks - 1}")
    if fault.network is not None:
        known = {network.name: network for network in lab.network}
        if fault.network not in known:
            sentence = f'no network is called "{fault.network}"; expected {", ".join(known)}'
            raise _Wrong((*at, "network"), sentence)
        if known[fault.network].isolated:
            sentence = f'"{fault.network}" is isolated: there is no link to break'
            raise _Wrong((*at, "network"), sentence)
    if fault.rate_mbit is not None:
        _check_rate((*at, "rate_mbit"), fault.rate_mbit)
    if fault.percent is not None and not 0 < fault.percent <= 100:
        raise _Wrong((*at, "percent"), f"percent {fault.percent}; expected above 0, at most 100")
    if fault.delay_ms is not None and not 0 < fault.delay_ms <= 10_000:
        raise _Wrong(
            (*at, "delay_ms"), f"delay_ms {fault.delay_ms}; expected above 0, at most 10000"
        )
    if fault.mtu is not None:
        _within((*at, "mtu"), "mtu", fault.mtu, MIN_MTU, MAX_MTU)
    if fault.port is not None:
        _within((*at, "port"), "port", fault.port, 0, 65535)


def _check_rate(at: KeyPath, rate_mbit: float) -> None:
    if not MIN_RATE_MBIT <= rate_mbit <= MAX_RATE_MBIT:
        sentence = f"rate_mbit {rate_mbit:g}; expected {MIN_RATE_MBIT:g} to {MAX_RATE_MBIT:g}"
        raise _Wrong(at, sentence)


def _within(at: KeyPath, key: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise _Wrong(at, f"{key} is {value}; expected {low} to {high}")
