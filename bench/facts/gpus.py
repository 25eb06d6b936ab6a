"""GPUs of this host through NVML: links, clocks, throttle reasons, error counters.

In: an `NvmlReader` (the real one speaks pynvml; tests inject a fake). Out: one `Gpu` per device;
what a device, driver or container refuses stands in `unreadable` with NVML's own reason.
NVML makes no CUDA context. Xid events have no counter in NVML; bench.facts.errors looks for them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.facts import sysfs
from bench.facts.nvml import NvmlReader, NvmlRefused, PynvmlReader
from bench.records import Gpu

# nvmlClocksEventReasons*: bits of nvmlDeviceGetCurrentClocksEventReasons
THROTTLE_REASONS = {
    0x1: "idle",
    0x2: "application clocks setting",
    0x4: "software power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
    0x100: "display clocks setting",
}


def read(
    reader: NvmlReader | None = None, *, pci_devices: Path = Path("/sys/bus/pci/devices")
) -> tuple[tuple[Gpu, ...], dict[str, str]]:
    """All GPUs by NVML index, and why there is none ("nvml" -> why). Never raises."""
    reader = reader or PynvmlReader()
    try:
        count = reader.open()
    except NvmlRefused as refused:
        return (), {"nvml": str(refused)}
    try:
        return tuple(_gpu(reader, index, pci_devices) for index in range(count)), {}
    finally:
        reader.close()


def _gpu(reader: NvmlReader, index: int, pci_devices: Path) -> Gpu:
    unreadable: dict[str, str] = {}

    def value(item: str) -> Any:
        try:
            return reader.value(index, item)
        except NvmlRefused as refused:
            unreadable[item] = str(refused)
            return None

    links = value("nvlinks")
    pci_address = value("pci_address")
    reasons = value("throttle_reasons")
    return Gpu(
        index=index,
        name=value("name"),
        uuid=value("uuid"),
        serial=value("serial"),
        pci_address=pci_address,
        # NVML's own NUMA question is about the GPU's memory (Grace), not about its slot.
        numa_node=sysfs.numa_node(pci_devices / pci_address) if pci_address else None,
        cpu_affinity=value("cpu_affinity"),
        memory_bytes=value("memory_bytes"),
        pcie_generation=value("pcie_generation"),
        pcie_max_generation=value("pcie_max_generation"),
        pcie_width=value("pcie_width"),
        pcie_max_width=value("pcie_max_width"),
        nvlinks_active=sum(links) if links is not None else None,
        nvlinks_inactive=len(links) - sum(links) if links is not None else None,
        sm_clock_mhz=value("sm_clock_mhz"),
        max_sm_clock_mhz=value("max_sm_clock_mhz"),
        memory_clock_mhz=value("memory_clock_mhz"),
        throttle_reasons=throttle_names(reasons or 0),
        mig_mode=value("mig_mode"),
        error_counters=value("error_counters") or {},
        unreadable=unreadable,
    )


def throttle_names(mask: int) -> tuple[str, ...]:
    """0x24 -> ("software power cap", "software thermal slowdown"); unknown bits as numbers."""
    names = [name for bit, name in THROTTLE_REASONS.items() if mask & bit]
    rest = mask & ~sum(THROTTLE_REASONS)
    return tuple(names + ([f"reason 0x{rest:x}"] if rest else []))
