"""What candidates are called: as the fabric file calls them, else by what hosts agree on.

In: interfaces and addresses by host, and the fabric file. Out: names, each given once, and the
words in which a reason names hosts.
"""

from __future__ import annotations

import ipaddress
import socket
from collections import Counter
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache

import msgspec

from bench.records import Candidate, Fabric, FabricNetwork

NAMED_HOSTS = 3  # a reason names so many hosts and counts the rest
WIDEST = 8  # a "network" wider than a /8 says nothing: such a candidate is called "routed"


def expected_network(
    fabric: Fabric | None, interfaces: Mapping[str, str], addresses: Mapping[str, str]
) -> FabricNetwork | None:
    """The fabric file's network that these are, by host; None where it names none.

    More than half of the hosts decide: one host with a mistaken address is a finding about that
    host, not another network.
    """
    for network in fabric.network if fabric else ():
        fitting = sum(fits(network, n, addresses.get(host)) for host, n in interfaces.items())
        if fitting * 2 > len(interfaces):
            return network
    return None


def fits(network: FabricNetwork, name: str, address: str | None) -> bool:
    """Whether an interface is what the fabric file describes, by its name or its address; of
    several that act together ("mlx5_0+mlx5_1:1") all have to be."""
    parts = [part.partition(":")[0] for part in name.split("+")]  # RDMA devices may name a port
    if all(any(fnmatchcase(part, glob) for glob in network.interfaces) for part in parts):
        return True
    if any("+" in glob and fnmatchcase(name, glob) for glob in network.interfaces):
        return True  # an interface may have a plus in its own name
    span = _span(network.subnet) if network.subnet is not None and address is not None else None
    if span is None or address is None:
        return False
    six, first, last = span
    return six == (":" in address) and first <= number(address) <= last


def number(address: str) -> int:
    """An IP address as an integer (the ipaddress module takes ten times as long, which ten
    thousand interfaces feel)."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return int.from_bytes(socket.inet_pton(family, address), "big")


@lru_cache(maxsize=256)
def _span(subnet: str) -> tuple[bool, int, int] | None:
    """Whether it is IPv6, and its first and last address."""
    try:
        network = ipaddress.ip_network(subnet, strict=False)
    except ValueError:
        return None  # the fabric file's own check says so, with its line
    return network.version == 6, int(network[0]), int(network[-1])


def wished_name(candidate: Candidate, fabric: Fabric | None) -> str:
    """The fabric network's name, the interface's where all hosts agree, the subnet, or the
    smallest network that holds all addresses of a routed candidate."""
    expected = expected_network(fabric, candidate.interfaces, candidate.addresses)
    if expected is not None:
        return expected.name
    names = set(candidate.interfaces.values())
    return names.pop() if len(names) == 1 else candidate.subnet or _supernet(candidate)


def _supernet(candidate: Candidate) -> str:
    families = {":" in address for address in candidate.addresses.values()}
    if len(families) != 1:
        return "routed"
    bits = 128 if families.pop() else 32
    numbers = [number(address) for address in candidate.addresses.values()]
    low, high = min(numbers), max(numbers)
    length = bits - (low ^ high).bit_length()
    if length < WIDEST:
        return "routed"
    kind = ipaddress.IPv4Network if bits == 32 else ipaddress.IPv6Network
    return str(kind((low, length), strict=False))


def named_once(candidates: Sequence[Candidate], names: Sequence[str]) -> list[Candidate]:
    """Candidates with the names they wish; where several wish the same, with the interface or the
    subnet behind a slash, and as a last resort a number."""
    wishes = Counter(names)
    taken: set[str] = set()
    result = []
    for candidate, wish in zip(candidates, names, strict=True):
        interfaces = set(candidate.interfaces.values()) - {wish}
        choices = [wish] if wishes[wish] == 1 else []
        choices += [f"{wish}/{interfaces.pop()}"] if len(interfaces) == 1 else []
        choices += [f"{wish}/{candidate.subnet}"] if candidate.subnet else []
        choices += [f"{wish}-{number}" for number in range(1, len(names) + 1)]
        name = next(name for name in choices if name not in taken)
        taken.add(name)
        result.append(msgspec.structs.replace(candidate, name=name))
    return result


def some_hosts(hosts: Sequence[str]) -> str:
    """ "host1", "host1 and host2", "host1, host2, host3 and 61 more"."""
    shown, rest = list(hosts[:NAMED_HOSTS]), len(hosts) - NAMED_HOSTS
    if rest > 0:
        return f"{', '.join(shown)} and {rest} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)
