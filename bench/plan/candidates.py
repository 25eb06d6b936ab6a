"""What the sweep tries: every network two hosts share, RDMA rails, GPU paths, and the default.

In: HostFacts of all hosts. Out: Candidates with the environment that makes NCCL (or gloo) use
just that network on each host. The case with nothing set always comes last: it is what users get.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from bench.plan.default_case import DEFAULT, default_case
from bench.plan.gpu_paths import gpu_paths
from bench.plan.naming import NAMED_HOSTS, named_once, some_hosts, wished_name
from bench.plan.networks import Network, find_networks
from bench.plan.rails import rails
from bench.records import Backend, BadInput, Candidate, Fabric, HostFacts


def find(
    hosts: Sequence[HostFacts],
    *,
    backend: Backend,
    only: Sequence[str] = (),
    fabric: Fabric | None = None,
    networks_only: bool = False,
) -> tuple[Candidate, ...]:
    """All candidates, in a fixed order; those that cannot be tried have outcome "skipped" and why.

    `only` keeps those with one of these candidate or interface names, and always the default;
    BadInput when a name is none of them; `networks_only` leaves out GPU paths and single rails
    where nothing is named. A candidate is called as the fabric file calls it, else
    as its interface where hosts agree, else by its subnet.
    """
    assert hosts, "there is at least the host that asks"
    found = [_socket(net, hosts, backend) for net in find_networks(hosts, fabric=fabric)]
    named = named_once(found, [wished_name(candidate, fabric) for candidate in found])
    if backend == "nccl":
        named += rails(hosts) + gpu_paths(hosts)
    if only:
        _check(only, named, hosts)
        named = [c for c in named if _answers_to(c, set(only))]
    elif networks_only:
        named = [c for c in named if c.kind == "network" and not c.ranks]
    return (*named, default_case(hosts, backend))


# ----------------------------------------------------------------------------------- networks


def _socket(network: Network, hosts: Sequence[HostFacts], backend: Backend) -> Candidate:
    interfaces = {host: port.interface.name for host, port in network.ports.items()}
    family = next(iter(network.ports.values())).family
    settings: dict[str, str | None] = {}
    if backend == "nccl":
        # NET=Socket: else RDMA carries the data and the interface only the bootstrap. MNNVL off:
        # else NVLink carries it between hosts of one NVLink domain.
        settings |= {"NCCL_NET": "Socket", "NCCL_MNNVL_ENABLE": "0"}
        # An empty one is none, and unlike an unset one is not filled in from nccl.conf.
        settings["NCCL_SOCKET_FAMILY"] = "" if family == "inet" else "AF_INET6"
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


def _which(affected: Sequence[str], hosts: Sequence[HostFacts]) -> str:
    return "every host" if len(affected) == len(hosts) > 1 else some_hosts(affected)


# ------------------------------------------------------------------------------------- choice


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
