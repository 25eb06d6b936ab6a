"""The hardware side of a host: GPUs, RDMA ports, the PCI tree between them, the machine.

In: an NVML reader, the interfaces, a root for /sys and /proc (a test's tree). Out: `Hardware`,
whose fields are HostFacts' of the same names. Nothing here raises for a missing thing.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import msgspec

from bench.facts import affinity, errors, gpus, machine, pci, rdma, services, tool
from bench.facts.nvml import NvmlReader
from bench.records import Gpu, GpuPair, Interface, Iommu, Machine, PciDevice, RdmaPort, Service

# What a tool prints is kept as it stands: people paste it into tickets.
TOOLS: dict[str, tuple[str, ...]] = {"nvidia-smi topo -m": ("nvidia-smi", "topo", "-m")}


class Hardware(msgspec.Struct, frozen=True, kw_only=True):
    """Fields of HostFacts, except the driver's versions, which go to its Software."""

    gpus: tuple[Gpu, ...] = ()
    gpu_pairs: tuple[GpuPair, ...] = ()
    rdma_ports: tuple[RdmaPort, ...] = ()
    pci_devices: tuple[PciDevice, ...] = ()
    iommu: Iommu | None = None
    machine: Machine | None = None
    services: tuple[Service, ...] = ()
    kernel_words: tuple[str, ...] = ()
    kernel_modules: tuple[str, ...] = ()
    tool_outputs: dict[str, str] = {}
    error_counters: dict[str, int] = {}
    unreadable: dict[str, str] = {}
    driver: str | None = None
    cuda_driver: str | None = None


def read(
    nvml: NvmlReader | None = None,
    interfaces: Sequence[Interface] = (),
    *,
    root: Path = Path("/"),
    tools: bool = True,
) -> Hardware:
    """All of it. NVML, ibv_devinfo and nvidia-smi have deadlines of their own and run side by
    side, so that a driver that stands still costs one deadline."""
    with ThreadPoolExecutor(max_workers=len(TOOLS) + 2, thread_name_prefix="facts") as side:
        texts = {
            name: side.submit(tool.output, command) for name, command in TOOLS.items() if tools
        }
        asked = side.submit(gpus.survey, nvml, devices=root / "sys/bus/pci/devices")
        ports, unreadable = rdma.read(root / "sys/class/infiniband", tools=tools)
        found = asked.result()
        outputs, why = _outputs(texts, bool(found.gpus))
    unreadable = {**found.unreadable, **unreadable, **why}
    return _joined(found, ports, interfaces, root, outputs, unreadable)


def _outputs(
    texts: dict[str, Future[str]], expected: bool
) -> tuple[dict[str, str], dict[str, str]]:
    """Where there is no GPU, a missing tool is no loss and not worth a line."""
    outputs, why = {}, {}
    for name, text in texts.items():
        try:
            outputs[name] = text.result()
        except tool.NoText as no:
            if expected:
                why[name] = str(no)
    return outputs, why


def _joined(
    found: gpus.Found,
    ports: Sequence[RdmaPort],
    interfaces: Sequence[Interface],
    root: Path,
    outputs: dict[str, str],
    unreadable: dict[str, str],
) -> Hardware:
    devices = root / "sys/bus/pci/devices"
    cards, near_ports = affinity.joined(found.gpus, ports, interfaces, devices)
    addresses = [gpu.pci_address for gpu in cards if gpu.pci_address]
    addresses += affinity.nics(near_ports, interfaces).values()
    tree, more = pci.read(addresses, devices)
    unreadable |= more
    maker, more = machine.read(root)
    unreadable |= more
    iommu, words = machine.iommu(root), machine.kernel_words(root)
    if iommu is None:
        unreadable["iommu"] = "no iommu_groups in sysfs"
    if words is None:
        unreadable["kernel_words"] = "/proc/cmdline cannot be read"
    modules = machine.modules(root)
    nvidia = bool(cards) or "nvidia" in modules
    counters: dict[str, int] = {}
    if nvidia:
        counters, more = errors.xid(root / "dev/kmsg")
        unreadable |= more
    return Hardware(
        gpus=cards,
        gpu_pairs=found.pairs,
        rdma_ports=near_ports,
        pci_devices=tree,
        iommu=iommu,
        machine=maker,
        services=services.read(root) if nvidia else (),
        kernel_words=words or (),
        kernel_modules=modules,
        tool_outputs=outputs,
        error_counters=counters,
        unreadable=unreadable,
        driver=found.driver,
        cuda_driver=found.cuda_driver,
    )
