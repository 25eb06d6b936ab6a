"""The case with nothing set: what users get.

In: HostFacts with what NCCL would choose. Out: one candidate. Over NCCL its environment is
untouched. gloo is told to use what NCCL would: its own default is the address of the host's name,
which proves nothing about NCCL.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import msgspec

from bench.plan.naming import some_hosts
from bench.records import Backend, Candidate, HostFacts

DEFAULT = "(default)"


def chosen_by_nccl(host: HostFacts) -> tuple[str, ...]:
    """The interfaces by which NCCL would move data over sockets with the environment as it is, in
    its order; the bootstrap's where the data path is not predicted. Empty: none, or not known."""
    if host.data_path is not None and host.data_path.transport == "socket":
        return host.data_path.interfaces
    for choice in host.nccl_choices:
        if choice.setting is None and choice.bootstrap is not None:
            return (choice.bootstrap,)
    return ()


def default_case(hosts: Sequence[HostFacts], backend: Backend) -> Candidate:
    """The candidate "(default)". Outcome "skipped", with why, where NCCL itself would not start,
    or where gloo cannot stand in for it: RDMA, a plugin, or a choice that nobody knows."""
    paths = {host.host: host.data_path for host in hosts if host.data_path is not None}
    transports = {path.transport for path in paths.values()}
    chosen = {host.host: chosen_by_nccl(host) for host in hosts}
    shown = {host: names for host, names in chosen.items() if names}
    if backend == "nccl":
        shown |= {host: path.interfaces for host, path in paths.items() if path.interfaces}
    other = transports - {"socket", "unknown"}
    candidate = Candidate(
        name=DEFAULT,
        kind="default",
        transport="socket" if not other else "rdma" if transports == {"rdma"} else "mixed",
        interfaces={host: "+".join(names) for host, names in shown.items()},
    )
    why = _cannot_start(hosts)
    if why is None and backend == "gloo":
        why = _cannot_stand_in(other, chosen)
    if why is not None:
        return msgspec.structs.replace(candidate, outcome="skipped", reason=why)
    return candidate if backend == "nccl" else _gloo(candidate, chosen)


def _cannot_start(hosts: Sequence[HostFacts]) -> str | None:
    """Where NCCL says, or its rules say, that it would find nothing to use."""
    nothing = [
        host
        for host in hosts
        for choice in host.nccl_choices
        if choice.setting is None and choice.bootstrap is None and choice.code not in (None, 0)
    ]
    if nothing:
        setting = nothing[0].environment.get("NCCL_SOCKET_IFNAME")
        because = f" with NCCL_SOCKET_IFNAME={setting}" if setting else ""
        return f"NCCL finds no interface on {some_hosts([host.host for host in nothing])}{because}"
    for host in hosts:
        path = host.data_path
        if path is not None and path.transport == "unknown" and not path.interfaces and path.why:
            return f"on {host.host} {path.why}"
    return None


def _cannot_stand_in(other: Collection[str], chosen: Mapping[str, tuple[str, ...]]) -> str | None:
    if other:
        what = "RDMA" if "rdma" in other else "a network plugin"
        return f"with nothing set NCCL would move data by {what}, which gloo cannot use"
    unknown = [host for host, names in chosen.items() if not names]
    if unknown:
        return f"what NCCL would take on {some_hosts(unknown)} is not known"
    return None


def _gloo(candidate: Candidate, chosen: Mapping[str, tuple[str, ...]]) -> Candidate:
    """gloo pairs the n-th device of each rank and needs equally many everywhere, so a host with
    fewer repeats its own; hosts with the same set take the first one's order."""
    first = next(iter(chosen.values()))
    count = max(len(names) for names in chosen.values())
    lists: dict[str, str] = {}
    for host, names in chosen.items():
        order = first if sorted(names) == sorted(first) else names
        lists[host] = ",".join(order[i % len(order)] for i in range(count))
    everywhere = set(lists.values())
    same = len(everywhere) == 1
    return msgspec.structs.replace(
        candidate,
        devices=count,
        environment={"GLOO_SOCKET_IFNAME": everywhere.pop()} if same else {},
        per_host={} if same else {h: {"GLOO_SOCKET_IFNAME": names} for h, names in lists.items()},
    )
