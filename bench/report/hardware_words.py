"""The hardware of a host in a sentence per subject: machine, links, pairs, ACS, IOMMU, services.

In: HostFacts. Out: sentences; empty where the host has nothing of the kind, "not readable" where
it could not be told. The same sentences stand on the terminal and on the page, where equal hosts
share one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import TypeVar

from bench.facts.rdma import ERROR_COUNTERS
from bench.records import Gpu, GpuPair, HostFacts, PciDevice
from bench.report import units
from bench.report.text import abbreviated

Thing = TypeVar("Thing", Gpu, GpuPair)

NAMED = 4  # GPUs, bridges, pairs named before "n more"
# Flags that send a peer's request up to the root complex instead of across the switch.
_REDIRECTING = frozenset({"ReqRedir", "CmpltRedir", "EgressCtrl"})
ERRORS_NAMED = 8
CONGESTION = ("port_xmit_wait",)
PEER_MEMORY = ("nvidia_peermem", "nv_peer_mem", "ib_peer_mem", "gdrdrv")


def machine(host: HostFacts) -> str:
    """ "NVIDIA DGXH100 · 2 × Intel Xeon … · 2 NUMA nodes"."""
    told = host.machine
    if told is None:
        return ""
    parts = [
        " ".join(part for part in (told.vendor, told.product) if part),
        " × ".join(part for part in (str(told.sockets or ""), told.cpu or "") if part),
        f"{told.numa_nodes} NUMA nodes" if (told.numa_nodes or 0) > 1 else "",
        "virtual" if told.hypervisor else "",
    ]
    return " · ".join(part for part in parts if part)


def gpus(host: HostFacts) -> str:
    names = Counter(gpu.name or "unknown" for gpu in host.gpus)
    return ", ".join(f"{count} × {name}" for name, count in names.items())


def nvlinks(host: HostFacts) -> str:
    """Links that work, and by number those that do not."""
    told = [gpu for gpu in host.gpus if gpu.nvlinks]
    if not told:
        return ""
    parts = [f"{text} {_of(some, host)}" for text, some in _alike(told, _links)]
    down = [f"{_down(gpu)} of GPU{gpu.index}" for gpu in told if gpu.nvlinks_inactive]
    if down:
        parts.append(f"down: {abbreviated(down, NAMED)}")
    return "; ".join(parts)


def _down(gpu: Gpu) -> str:
    links = [number for link in gpu.nvlinks if not link.active for number in link.links]
    return "+".join(map(str, sorted(links)))


def _links(gpu: Gpu) -> str:
    active = [link for link in gpu.nvlinks if link.active]
    if not active:
        return "no active NVLink"
    speeds = sorted({link.speed_gbs for link in active if link.speed_gbs})
    text = units.count(gpu.nvlinks_active or 0, "NVLink")
    if active[0].version:
        text += f" ({active[0].version})"
    if speeds:
        ends = dict.fromkeys(units.significant(speed) for speed in (speeds[0], speeds[-1]))
        text += f" at {'-'.join(ends)} GB/s each way"
    return text


def pairs(host: HostFacts) -> str:
    """What joins the GPUs, by number of pairs."""
    return "; ".join(f"{text} {_pairs(some, host)}" for text, some in _alike(host.gpu_pairs, _way))


def _way(pair: GpuPair) -> str:
    if pair.nvlinks:
        return units.count(pair.nvlinks, "NVLink")
    return pair.ancestor or pair.pci_path or "unknown path"


def peers(host: HostFacts) -> str:
    """What the driver says of peer access, by number of pairs."""
    told = [pair for pair in host.gpu_pairs if pair.p2p]
    return "; ".join(f"{text} {_pairs(some, host)}" for text, some in _alike(told, _access))


def _access(pair: GpuPair) -> str:
    read, write = pair.p2p.get("read", "U"), pair.p2p.get("write", "U")
    back = {**pair.p2p, **pair.p2p_back}
    text = read if read == write else f"read {read}, write {write}"
    one_way = any(back.get(what) != pair.p2p.get(what) for what in ("read", "write"))
    return text + (" one way only" if one_way else "")


def fabric(host: HostFacts) -> str:
    """What Fabric Manager made of the GPUs; nothing where no GPU has a fabric."""
    registered = [gpu for gpu in host.gpus if _registration(gpu)]
    alike = _alike(registered, _registration)
    return "; ".join(f"{text} {_of(some, host)}" for text, some in alike)


def _registration(gpu: Gpu) -> str:
    told = gpu.fabric
    if told is None or told.state in (None, "not supported"):
        return ""
    failed = [told.status] if told.status and told.status != "Success" else []
    return ", ".join([str(told.state), *failed, *told.health])


def acs(host: HostFacts) -> str:
    """Bridges that redirect peer requests; nothing where there is no bridge."""
    bridges = [device for device in host.pci_devices if device.kind == "bridge"]
    known = [bridge for bridge in bridges if bridge.acs is not None]
    if not bridges or not host.gpus:
        return ""
    if not known:
        return f"not readable: {host.unreadable.get('acs', 'no reason told')}"
    redirecting = [bridge.address for bridge in known if _redirects(bridge)]
    text = f"redirects at {len(redirecting)} of {units.count(len(known), 'bridge')}"
    if redirecting:
        text += f": {abbreviated(redirecting, NAMED)}"
    hidden = len(bridges) - len(known)
    return text + (f"; {hidden} not readable" if hidden else "")


def _redirects(bridge: PciDevice) -> bool:
    return bool(_REDIRECTING.intersection(bridge.acs or ()))


def iommu(host: HostFacts) -> str:
    if not host.gpus and not host.rdma_ports:
        return ""
    parts = []
    if host.iommu is not None:
        parts.append(", ".join(host.iommu.units) or "no unit in sysfs")
        parts += [f"{count} groups {kind}" for kind, count in host.iommu.groups.items()]
    parts += host.kernel_words
    return " · ".join(parts)


def services(host: HostFacts) -> str:
    """Their states, those that could not be read together with the reason."""
    parts = []
    silent: dict[str, list[str]] = {}
    for service in host.services:
        if service.state is None:
            silent.setdefault(service.why or "no reason told", []).append(service.name)
            continue
        text = f"{service.name} {service.state}"
        if service.detail:
            text += f" ({service.detail})"
        if service.nodes:
            text += f", {units.count(service.nodes, 'node')}"
        parts.append(text)
    parts += [f"{', '.join(names)} not readable: {why}" for why, names in silent.items()]
    return " · ".join(parts)


def peer_memory(host: HostFacts) -> str:
    """By what a NIC may read a GPU's memory: a module, or dma-buf, which needs none of them but
    the driver's open kernel modules."""
    if not host.gpus:
        return ""
    loaded = [name for name in PEER_MEMORY if name in host.kernel_modules]
    text = ", ".join(loaded) or "no peer-memory module loaded"
    opened = host.software.driver_open
    if opened is None:
        return text
    return f"{text} · driver's kernel modules {'open: dma-buf possible' if opened else 'closed'}"


def errors(host: HostFacts) -> str:
    """Counters that do not stand at zero, since the driver started or the host came up. Old ones
    prove nothing; what rises during a session stands with the session."""
    told = [
        f"GPU{gpu.index} {name} {count}"
        for gpu in host.gpus
        for name, count in gpu.error_counters.items()
        if count
    ]
    told += [
        f"{port.device}:{port.port} {name} {count}"
        for port in host.rdma_ports
        for name, count in port.counters.items()
        if count and name in ERROR_COUNTERS and name not in CONGESTION
    ]
    told += [
        f"{device.address} PCIe {name} {count}"
        for device in host.pci_devices
        for name, count in (device.errors or {}).items()
    ]
    told += [f"{name} {count}" for name, count in host.error_counters.items()]
    return abbreviated(told, ERRORS_NAMED)


ROWS: tuple[tuple[str, Callable[[HostFacts], str]], ...] = (
    ("machine", machine),
    ("GPUs", gpus),
    ("NVLinks", nvlinks),
    ("fabric", fabric),
    ("pairs", pairs),
    ("P2P", peers),
    ("ACS", acs),
    ("IOMMU", iommu),
    ("services", services),
    ("GPUDirect", peer_memory),
    ("errors", errors),
)


def _alike(things: Iterable[Thing], text: Callable[[Thing], str]) -> list[tuple[str, list[Thing]]]:
    groups: dict[str, list[Thing]] = {}
    for thing in things:
        groups.setdefault(text(thing), []).append(thing)
    return list(groups.items())


def _of(some: list[Gpu], host: HostFacts) -> str:
    if len(some) == len(host.gpus):
        return "on every GPU" if len(some) > 1 else "on the GPU"
    return "on " + abbreviated([f"GPU{gpu.index}" for gpu in some], NAMED)


def _pairs(some: list[GpuPair], host: HostFacts) -> str:
    if len(some) == len(host.gpu_pairs):
        return f"between all {len(some)} pairs" if len(some) > 1 else "between the two"
    names = [f"{first}-{second}" for first, second in (pair.gpus for pair in some)]
    return f"between {units.count(len(some), 'pair')} ({abbreviated(names, NAMED)})"
