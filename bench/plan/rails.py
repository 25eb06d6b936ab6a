"""RDMA networks as candidates: all rails together, and each rail alone.

In: HostFacts with RDMA ports, GPUs and rank placements. Out: candidates that pin NCCL to those
adapters (NCCL_IB_HCA, exact names). A rail alone runs with one rank per host, on the GPU nearest
to its adapter: all ranks through one adapter would measure PCIe detours, not the rail.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from bench.records import Candidate, Gpu, HostFacts, RdmaPort

MOST_PORTS = 32  # NCCL's own limit (MAX_IB_DEVS)


def rails(hosts: Sequence[HostFacts]) -> list[Candidate]:
    """The candidate "rdma" over all active ports, then one per rail where there are several.

    Empty where fewer than two hosts have an active port. Rails are ports of the same name on every
    host, or in PCI order where names differ but their number does not.
    """
    ports = {host.host: _active(host) for host in hosts}
    having = {host: mine for host, mine in ports.items() if mine}
    if len(having) < 2:
        return []
    lacking = [host for host, mine in ports.items() if not mine]
    if lacking:
        shown = ", ".join(lacking[:3]) + (f" and {len(lacking) - 3} more" if lacking[3:] else "")
        return [_candidate("rdma", having, len(hosts), why=f"no active RDMA port on {shown}")]
    barred = [host for host in hosts if "rdma.verbs" in host.unreadable]
    if barred:
        missing = barred[0].unreadable["rdma.verbs"]
        said = f"NCCL cannot use RDMA on {barred[0].host}: {missing}"
        return [_candidate("rdma", ports, len(hosts), why=said)]
    found = [_candidate("rdma", ports, len(hosts))]
    lanes = _lanes(ports)
    for i, lane in enumerate(lanes if len(lanes) > 1 else []):
        names = set(lane.values())
        label = names.pop() if len(names) == 1 else f"rail{i}"
        ranks = tuple(_nearest_rank(host, lane[host.host]) for host in hosts)
        one = {host: {name: ports[host][name]} for host, name in lane.items()}
        why = None if all(host.ranks for host in hosts) else "a host has no rank of its own"
        found.append(_candidate(f"rdma/{label}", one, len(hosts), ranks=ranks, why=why))
    return found


Ports = dict[str, RdmaPort]
"""By the name that NCCL_IB_HCA knows it by: "mlx5_0", or "mlx5_0:1" of a device with two ports."""


def _active(host: HostFacts) -> Ports:
    """Ports NCCL's verbs transport would take, in PCI order. An EFA's link layer is "Unspecified":
    it needs a plugin, and the case with nothing set measures it."""
    usable = [
        port
        for port in host.rdma_ports
        if "ACTIVE" in (port.state or "").upper() and port.link_layer in ("InfiniBand", "Ethernet")
    ]
    usable.sort(key=lambda port: (port.pci_address or "~", port.device, port.port))
    several = Counter(port.device for port in host.rdma_ports)
    names = [p.device if several[p.device] == 1 else f"{p.device}:{p.port}" for p in usable]
    return dict(list(zip(names, usable, strict=True))[:MOST_PORTS])


def _lanes(ports: Mapping[str, Ports]) -> list[dict[str, str]]:
    """Host to port name, one per rail. Unequal hosts keep the names they have in common."""
    first = next(iter(ports.values()))
    common = [name for name in first if all(name in mine for mine in ports.values())]
    if len(common) < len(first) and len({len(mine) for mine in ports.values()}) == 1:
        return [{host: list(mine)[i] for host, mine in ports.items()} for i in range(len(first))]
    return [dict.fromkeys(ports, name) for name in common]


def _candidate(
    name: str, ports: Mapping[str, Ports], hosts: int, *, ranks: tuple[int, ...] = (),
    why: str | None = None,
) -> Candidate:  # fmt: skip
    lists = {host: "=" + ",".join(mine) for host, mine in ports.items()}
    same = len(set(lists.values())) == 1
    settings: dict[str, str | None] = {
        "NCCL_NET": "IB", "NCCL_IB_DISABLE": "0", "NCCL_MNNVL_ENABLE": "0"
    }  # fmt: skip
    if hosts == 2:
        settings["NCCL_ALGO"] = "Ring"  # Tree and NVLSTree rightly exceed the wire's rate
    if same:
        settings["NCCL_IB_HCA"] = next(iter(lists.values()))
    return Candidate(
        name=name,
        kind="network",
        transport="rdma",
        interfaces={host: "+".join(mine) for host, mine in ports.items()},
        environment=settings,
        per_host={} if same else {host: {"NCCL_IB_HCA": text} for host, text in lists.items()},
        ranks=ranks,
        outcome="skipped" if why else "planned",
        reason=why,
    )


def _nearest_rank(host: HostFacts, name: str) -> int:
    """The rank on the GPU nearest to this port: same NUMA node first, then the nearest PCI bus
    number of the same domain. Where nothing is known of the GPUs, the host's first rank."""
    port = _active(host)[name]
    on_gpu: dict[int, int] = {}
    for placement in host.placements:
        if placement.gpu is not None:
            on_gpu.setdefault(placement.gpu, placement.rank)
    gpus = [gpu for gpu in host.gpus if gpu.index in on_gpu]
    if not gpus:
        return host.ranks[0] if host.ranks else -1
    nearest = min(gpus, key=lambda gpu: (_far(port, gpu), gpu.index))
    return on_gpu[nearest.index]


def _far(port: RdmaPort, gpu: Gpu) -> tuple[bool, bool, int]:
    here, there = _bus(port.pci_address), _bus(gpu.pci_address)
    numa = port.numa_node is None or port.numa_node != gpu.numa_node
    if here is None or there is None:
        return numa, True, 0
    return numa, here[0] != there[0], abs(here[1] - there[1])


def _bus(address: str | None) -> tuple[int, int] | None:
    """Domain and bus of "0000:3b:00.0" (NVML writes the domain with eight digits)."""
    parts = (address or "").split(":")
    try:
        return int(parts[0], 16), int(parts[1], 16)
    except (ValueError, IndexError):
        return None
