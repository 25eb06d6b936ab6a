"""What the sweep tries: every network two hosts share, RDMA rails, GPU paths, and the default.

In: HostFacts of all hosts. Out: Candidates with the environment that makes NCCL (or gloo) use
just that network on each host. The case with nothing set always comes last: it is what users get.
"""

from __future__ import annotations

import ipaddress
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

import msgspec

from bench.plan.gpu_paths import gpu_paths
from bench.plan.networks import Edge, Network, chosen_by_nccl, expected_network, find_networks
from bench.plan.rails import rails
from bench.records import Backend, BadInput, Candidate, Fabric, HostFacts

DEFAULT = "(default)"
NAMED_HOSTS = 3  # a reason names so many hosts and counts the rest
WIDEST_NAME = 8  # a "network" wider than a /8 says nothing: such a candidate is called "routed"


def find(
    hosts: Sequence[HostFacts],
    *,
    backend: Backend,
    only: Sequence[str] = (),
    edges: Iterable[Edge] | None = None,
    fabric: Fabric | None = None,
) -> tuple[Candidate, ...]:
    """All candidates, in a fixed order; those that cannot be tried have outcome "skipped" and why.

    `only` keeps those with one of these candidate or interface names, and always the default;
    BadInput when a name is none of them. `edges` are pairs that are known to reach each other (see
    networks.Edge). A candidate is called as the fabric file calls it, else as its interface where
    hosts agree, else by its subnet.
    """
    assert hosts, "there is at least the host that asks"
    found = [
        _socket(net, hosts, backend) for net in find_networks(hosts, fabric=fabric, edges=edges)
    ]
    named = _unique(found, [_call(candidate, fabric) for candidate in found])
    if backend == "nccl":
        named += rails(hosts) + gpu_paths(hosts)
    if only:
        _check(only, named, hosts)
        named = [c for c in named if _answers_to(c, set(only))]
    return (*named, _default(hosts, backend))


# ----------------------------------------------------------------------------------- networks


def _socket(network: Network, hosts: Sequence[HostFacts], backend: Backend) -> Candidate:
    interfaces = {host: port.interface.name for host, port in network.ports.items()}
    family = next(iter(network.ports.values())).family
    settings: dict[str, str | None] = {}
    if backend == "nccl":
        # NET=Socket: else RDMA carries the data and the interface only the bootstrap. MNNVL off:
        # else NVLink carries it between hosts of one NVLink domain.
        settings |= {"NCCL_NET": "Socket", "NCCL_MNNVL_ENABLE": "0"}
        settings["NCCL_SOCKET_FAMILY"] = None if family == "inet" else "AF_INET6"
        if len(hosts) == 2:
            settings["NCCL_ALGO"] = "Ring"  # Tree and NVLSTree rightly exceed the wire's rate
        if len(hosts) == 1:  # else its ranks reach each other without any interface
            settings |= {
                "NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1", "NCCL_NVLS_ENABLE": "0"
            }  # fmt: skip
    names = set(interfaces.values())
    per_host: dict[str, dict[str, str | None]] = {}
    if len(names) == 1:
        settings |= _interface_settings(names.pop(), backend)
    else:
        per_host = {host: _interface_settings(name, backend) for host, name in interfaces.items()}
    why = _untriable(network, hosts)
    return Candidate(
        name="",
        kind="network",
        transport="socket",
        interfaces=interfaces,
        addresses={host: port.address for host, port in network.ports.items()},
        subnet=network.subnet,
        environment=settings,
        per_host=per_host,
        outcome="skipped" if why else "planned",
        reason=why or _shared_addresses(network, hosts),
    )


def _interface_settings(name: str, backend: Backend) -> dict[str, str | None]:
    settings: dict[str, str | None] = {"NCCL_SOCKET_IFNAME": f"={name}"}
    if backend == "gloo":
        settings["GLOO_SOCKET_IFNAME"] = name
    return settings


def _untriable(network: Network, hosts: Sequence[HostFacts]) -> str | None:
    """Why a network is not worth a try: a host lacks it, or its interface is down there."""
    if network.lacking:
        where = f"on {network.subnet}" if network.subnet else f"of {_names_of(network)}'s network"
        verb = "has" if len(network.lacking) == 1 else "have"
        return f"{some_hosts(network.lacking)} {verb} no interface {where}"
    ports = network.ports
    down = [host for host, port in ports.items() if not port.interface.up]
    if down:
        return f"{_names_of(network, down)} is down on {_which(down, hosts)}"
    if len({port.address for port in ports.values()}) == 1:
        return (
            None  # a bridge without ports, like docker0, has no carrier: the preflight settles it
        )
    idle = [host for host, port in ports.items() if not port.interface.running]
    if idle:
        return f"{_names_of(network, idle)} has no carrier on {_which(idle, hosts)}"
    return None


def _names_of(network: Network, hosts: Iterable[str] = ()) -> str:
    names = {network.ports[host].interface.name for host in hosts or network.ports}
    return "/".join(sorted(names)[:NAMED_HOSTS])


def _shared_addresses(network: Network, hosts: Sequence[HostFacts]) -> str | None:
    """A note, not a verdict: an address that several hosts call their own leads to oneself."""
    owners: dict[str, list[str]] = defaultdict(list)
    for host, port in network.ports.items():
        owners[port.address].append(host)
    for address, sharing in owners.items():
        if len(sharing) > 1 and len(sharing) == len(hosts):
            return f"{address} is every host's own address"
        if len(sharing) > 1:
            return f"{address} is the address of {some_hosts(sharing)}"
    return None


def some_hosts(hosts: Sequence[str]) -> str:
    """ "host1", "host1 and host2", "host1, host2, host3 and 61 more"."""
    shown, rest = list(hosts[:NAMED_HOSTS]), len(hosts) - NAMED_HOSTS
    if rest > 0:
        return f"{', '.join(shown)} and {rest} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def _which(affected: Sequence[str], hosts: Sequence[HostFacts]) -> str:
    return "every host" if len(affected) == len(hosts) > 1 else some_hosts(affected)


# -------------------------------------------------------------------------------------- names


def _call(candidate: Candidate, fabric: Fabric | None) -> str:
    expected = expected_network(fabric, candidate.interfaces, candidate.addresses)
    if expected is not None:
        return expected.name
    names = set(candidate.interfaces.values())
    return names.pop() if len(names) == 1 else candidate.subnet or _supernet(candidate)


def _supernet(candidate: Candidate) -> str:
    """The smallest network that holds all addresses of a routed candidate."""
    addresses = [ipaddress.ip_address(address) for address in candidate.addresses.values()]
    if len({address.version for address in addresses}) > 1:
        return "routed"
    bits = addresses[0].max_prefixlen
    low, high = min(map(int, addresses)), max(map(int, addresses))
    length = bits - (low ^ high).bit_length()
    kind = ipaddress.IPv4Network if bits == 32 else ipaddress.IPv6Network
    return str(kind((low >> (bits - length) << (bits - length), length))) if (
        length >= WIDEST_NAME
    ) else "routed"  # fmt: skip


def _unique(candidates: Sequence[Candidate], names: Sequence[str]) -> list[Candidate]:
    """Names as wished; where several wish the same, with the interface or subnet behind a slash,
    and as a last resort a number."""
    wishes = Counter(names)
    taken: set[str] = set()
    result = []
    for candidate, wish in zip(candidates, names, strict=True):
        interfaces = set(candidate.interfaces.values())
        longer = [f"{wish}/{interfaces.pop()}"] if len(interfaces) == 1 else []
        longer += [f"{wish}/{candidate.subnet}"] if candidate.subnet else []
        longer += [f"{wish}-{number}" for number in range(2, len(names) + 2)]
        choices = [wish, *longer] if wishes[wish] == 1 else longer
        if wish in candidate.interfaces.values() and wishes[wish] > 1:
            choices = [name for name in longer if name != f"{wish}/{wish}"]
        name = next(name for name in choices if name not in taken)
        taken.add(name)
        result.append(msgspec.structs.replace(candidate, name=name))
    return result


def _answers_to(candidate: Candidate, names: set[str]) -> bool:
    return candidate.name in names or not names.isdisjoint(candidate.interfaces.values())


def _check(
    only: Sequence[str], candidates: Sequence[Candidate], hosts: Sequence[HostFacts]
) -> None:
    for name in only:
        if name == DEFAULT or any(_answers_to(candidate, {name}) for candidate in candidates):
            continue
        there = ", ".join(_with_interface(candidate) for candidate in candidates) or "none"
        exists = any(name == card.name for host in hosts for card in host.interfaces)
        why = (
            f"{name!r} connects no two hosts" if exists and len(hosts) > 1
            else f"{name!r} is no way by which one host reaches itself" if exists
            else f"there is no interface or candidate {name!r}"
        )  # fmt: skip
        raise BadInput(f"{why}; to choose from: {there}")


def _with_interface(candidate: Candidate) -> str:
    names = sorted(set(candidate.interfaces.values()) - {candidate.name})
    return candidate.name + (f" ({'/'.join(names[:NAMED_HOSTS])})" if names else "")


# ------------------------------------------------------------------------------------ default


def _default(hosts: Sequence[HostFacts], backend: Backend) -> Candidate:
    """The case with nothing set. NCCL decides by itself; gloo is told to use what NCCL would
    (its own default is the address of the host's name, which proves nothing about NCCL)."""
    chosen = {host.host: chosen_by_nccl(host) for host in hosts}
    transports = {h.data_path.transport for h in hosts if h.data_path is not None}
    other = next((t for t in ("rdma", "plugin") if t in transports), None)
    interfaces = {host: "+".join(names) for host, names in chosen.items() if names}
    if backend == "nccl":
        interfaces |= {
            host.host: "+".join(host.data_path.interfaces)
            for host in hosts
            if host.data_path is not None and host.data_path.interfaces
        }
    candidate = Candidate(
        name=DEFAULT,
        kind="default",
        transport="socket" if other is None else "rdma" if transports == {"rdma"} else "mixed",
        interfaces=interfaces,
    )
    why = _default_fails(hosts)
    if why is None and backend == "nccl":
        return candidate
    if why is None and other is not None:
        what = "RDMA" if other == "rdma" else "a network plugin"
        why = f"with nothing set NCCL would move data by {what}, which gloo cannot use"
    missing = [host for host, names in chosen.items() if not names]
    if why is None and missing:
        why = f"what NCCL would take on {some_hosts(missing)} is not known"
    if why is not None:
        return msgspec.structs.replace(candidate, outcome="skipped", reason=why)
    return _gloo_default(candidate, chosen)


def _default_fails(hosts: Sequence[HostFacts]) -> str | None:
    """Where NCCL says, or its rules say, that it would find no interface at all."""
    nothing = [
        host
        for host in hosts
        for choice in host.nccl_choices
        if choice.setting is None and choice.bootstrap is None and choice.code not in (None, 0)
    ]
    if not nothing:
        return None
    setting = nothing[0].environment.get("NCCL_SOCKET_IFNAME")
    because = f" with NCCL_SOCKET_IFNAME={setting}" if setting else ""
    return f"NCCL finds no interface on {some_hosts([host.host for host in nothing])}{because}"


def _gloo_default(candidate: Candidate, chosen: dict[str, tuple[str, ...]]) -> Candidate:
    """gloo pairs the n-th device of each rank and needs equally many everywhere, so a host with
    fewer repeats its own; hosts with the same set take the first one's order."""
    first = next(iter(chosen.values()))
    count = max(len(names) for names in chosen.values())
    lists: dict[str, str] = {}
    for host, names in chosen.items():
        order = first if sorted(names) == sorted(first) else names
        lists[host] = ",".join(order[i % len(order)] for i in range(count))
    same = len(set(lists.values())) == 1
    return msgspec.structs.replace(
        candidate,
        interfaces={
            host: "+".join(dict.fromkeys(names.split(","))) for host, names in lists.items()
        },
        devices=count,
        environment={"GLOO_SOCKET_IFNAME": lists[next(iter(lists))]} if same else {},
        per_host={} if same else {h: {"GLOO_SOCKET_IFNAME": names} for h, names in lists.items()},
    )
