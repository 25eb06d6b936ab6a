"""Which interfaces NCCL takes, by our own reading of its rules: always *predicted*.

In: a value of NCCL_SOCKET_IFNAME, the interfaces of a host. Out: names in NCCL's order. After
NCCL's src/misc/socket.cc (ncclFindInterfaces), src/os/linux.cc (ncclOsFindInterfaces) and
src/misc/utils.cc (parseStringList, matchIfList); tests/facts holds it against the real library.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from bench.facts import name_lists
from bench.records import Interface

MAX_INTERFACES = 16  # MAX_IFS: devices of NET/Socket, and tokens of a list
RUNNING_SINCE = (2, 28, 3)  # from here on interfaces that are not running are skipped, and
VIRBR_SINCE = (2, 28, 3)  # virbr* (libvirt) comes last

_FAMILIES = {"AF_INET": "inet", "AF_INET6": "inet6"}  # any other string is silently ignored


class Match(NamedTuple):
    """One interface as NCCL names it (an alias such as eth0:1 is one more) and its address."""

    name: str
    address: str


class _Listed(NamedTuple):
    """One line of getifaddrs."""

    name: str
    family: str
    address: str
    prefix_length: int
    running: bool


def matching(
    setting: str | None,
    interfaces: Sequence[Interface],
    *,
    family: str | None = None,
    comm_id: str | None = None,
    version: str | None = None,
) -> tuple[str, ...]:
    """Names of all interfaces NCCL offers as NET/Socket devices, in its order, at most 16.

    `setting` is NCCL_SOCKET_IFNAME (None: unset), `family` NCCL_SOCKET_FAMILY, `comm_id`
    NCCL_COMM_ID, each as the user wrote it; `version` such as "2.27.7" (None: the newest rules).
    """
    found = matches(setting, interfaces, family=family, comm_id=comm_id, version=version)
    return tuple(match.name for match in found)


def matches(
    setting: str | None,
    interfaces: Sequence[Interface],
    *,
    family: str | None = None,
    comm_id: str | None = None,
    version: str | None = None,
) -> tuple[Match, ...]:
    """As `matching`, with the address NCCL listens on."""
    listed = list(_listing(interfaces))
    if setting is not None and len(setting) > 1:
        return _select(setting, listed, family, version)
    found = _select("ib", listed, family, version)
    if not found and comm_id is not None and len(comm_id) > 1:
        found = _same_subnet(comm_id, listed)
    has_virbr = parse_version(version) >= VIRBR_SINCE
    groups = ("^docker,lo,virbr", "docker", "lo", "virbr")
    for group in groups if has_virbr else ("^docker,lo", "docker", "lo"):
        found = found or _select(group, listed, family, version)
    return found


def bootstrap(
    setting: str | None,
    interfaces: Sequence[Interface],
    *,
    family: str | None = None,
    comm_id: str | None = None,
    version: str | None = None,
) -> Match | None:
    """The interface ranks meet on: the first match; with NCCL_COMM_ID set, that one's subnet.

    It carries the rendezvous, not the data. None: NCCL finds no interface and fails.
    """
    if comm_id is not None:
        found = _same_subnet(comm_id, list(_listing(interfaces)))
    else:
        found = matches(setting, interfaces, family=family, version=version)
    return found[0] if found else None


def parse_version(version: str | None) -> tuple[int, ...]:
    """ "2.27.7+cuda12.9" -> (2, 27, 7); None or unreadable -> newer than everything."""
    numbers = []
    for part in (version or "").partition("+")[0].split("."):
        if not part.isdigit():
            break
        numbers.append(int(part))
    return tuple(numbers) or (999,)


def _listing(interfaces: Sequence[Interface]) -> Iterator[_Listed]:
    """The interfaces as getifaddrs lists them: all IPv4 addresses, then all IPv6 addresses."""
    ordered = sorted(interfaces, key=lambda interface: interface.index)
    for family in ("inet", "inet6"):
        for interface in ordered:
            for address in interface.addresses:
                if address.family == family:
                    yield _Listed(
                        address.label or interface.name,
                        family,
                        address.address,
                        address.prefix_length,
                        interface.running,
                    )


def _select(
    setting: str, listed: Sequence[_Listed], family: str | None, version: str | None
) -> tuple[Match, ...]:
    wanted = _FAMILIES.get(family or "")
    admitted = name_lists.parse(setting, MAX_INTERFACES)
    only_running = parse_version(version) >= RUNNING_SINCE
    found: dict[str, Match] = {}
    for entry in listed:
        if only_running and not entry.running:
            continue
        if wanted is not None and entry.family != wanted:
            continue
        if entry.family == "inet6" and entry.address == "::1":
            continue
        if admitted.admits(entry.name):
            found.setdefault(entry.name, Match(entry.name, entry.address))
        if len(found) == MAX_INTERFACES:
            break
    return tuple(found.values())


def _same_subnet(comm_id: str, listed: Sequence[_Listed]) -> tuple[Match, ...]:
    """The first interface in the subnet of NCCL_COMM_ID ("<ipv4>:port" or "[<ipv6>%if]:port").

    No state, family or loopback check here. A host name is not looked up: no match.
    """
    scope = ""
    if comm_id.startswith("["):
        text, _, scope = comm_id[1:].partition("]")[0].partition("%")
    else:
        text = comm_id.partition(":")[0]
        try:
            text = socket.inet_ntoa(socket.inet_aton(text))  # short forms too, as getaddrinfo
        except (OSError, ValueError):
            return ()
    try:
        remote = ipaddress.ip_address(text)
    except ValueError:
        return ()
    for entry in listed:
        network = ipaddress.ip_interface(f"{entry.address}/{entry.prefix_length}").network
        if remote.version != network.version or remote not in network:
            continue
        own = ipaddress.ip_address(entry.address)
        # Link-local addresses carry the interface as their scope, and scopes must be equal.
        if own.version == 6 and (entry.name if own.is_link_local else "") != scope:
            continue
        return (Match(entry.name, entry.address),)
    return ()
