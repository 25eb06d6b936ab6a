"""What the kernel says of the machine: maker, IOMMU, PCI words, modules that GPUs and RDMA need.

In: /sys and /proc under a root. Out: records, and why a part is missing. Of the kernel's command
line only words about IOMMU and PCI are kept: the rest may hold secrets.
"""

from __future__ import annotations

from pathlib import Path

from bench.facts import sysfs
from bench.records import Iommu, Machine

MOST_GROUPS = 4096  # a large host has some hundreds
CPU_TEXT_BYTES = 2**20  # /proc/cpuinfo of 256 processors is about 350 KB

# Beginnings of command-line words that decide whether devices may reach each other directly.
_KERNEL_WORDS = (
    "iommu", "intel_iommu", "amd_iommu", "arm-smmu", "pci=", "pcie_", "pci_pwrctrl", "swiotlb",
    "vfio", "nvidia", "rd.driver.blacklist", "modprobe.blacklist",
)  # fmt: skip

# GPUDirect RDMA needs a peer-memory module or dma-buf; the others say which drivers are there.
MODULES = (
    "nvidia", "nvidia_uvm", "nvidia_peermem", "nv_peer_mem", "nvidia_fs", "gdrdrv", "nouveau",
    "mlx5_core", "mlx5_ib", "mlx4_ib", "ib_core", "ib_umad", "efa", "irdma", "bnxt_re",
    "ib_peer_mem", "vfio_pci", "amdgpu",
)  # fmt: skip

# What firmware writes where nobody filled in a value.
_FILLERS = {
    "to be filled by o.e.m.", "default string", "not specified", "system serial number", "none",
    "system product name", "system manufacturer", "not applicable", "empty",
}  # fmt: skip


def read(root: Path = Path("/")) -> tuple[Machine, dict[str, str]]:
    """Maker and processors. The serial number is root's to read."""
    dmi = root / "sys/class/dmi/id"
    cpu = sysfs.text(root / "proc/cpuinfo", CPU_TEXT_BYTES) or ""
    nodes = [name for name in sysfs.names(root / "sys/devices/system/node") if name[4:].isdigit()]
    found = Machine(
        vendor=_told(dmi / "sys_vendor"),
        product=_told(dmi / "product_name"),
        serial=_told(dmi / "product_serial"),
        board=_told(dmi / "board_name"),
        bios=_told(dmi / "bios_version"),
        cpu=_field(cpu, "model name"),
        sockets=_sockets(cpu),
        numa_nodes=len(nodes) or None,
        hypervisor=_hypervisor(cpu),
    )
    unreadable = {}
    if not dmi.is_dir():
        unreadable["machine"] = "no DMI in sysfs (a container, a small virtual machine, or ARM)"
    elif found.serial is None:
        unreadable["machine.serial"] = "DMI shows it to root only, or the maker filled in none"
    return found, unreadable


def _told(file: Path) -> str | None:
    text = sysfs.text(file)
    return None if text is None or text.lower() in _FILLERS else text


def _field(cpuinfo: str, name: str) -> str | None:
    for line in cpuinfo.splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip() or None
    return None


def _sockets(cpuinfo: str) -> int | None:
    """Distinct physical ids: ARM kernels name none."""
    lines = {line for line in cpuinfo.splitlines() if line.startswith("physical id")}
    return len(lines) or None


def _hypervisor(cpuinfo: str) -> bool | None:
    """The processor flag that every hypervisor of x86 sets for its guests."""
    flags = _field(cpuinfo, "flags")
    return None if flags is None else "hypervisor" in flags.split()


def iommu(root: Path = Path("/")) -> Iommu | None:
    """IOMMUs at work and their groups by type; None where sysfs does not tell."""
    groups = root / "sys/kernel/iommu_groups"
    if not groups.is_dir():
        return None
    types: dict[str, int] = {}
    for name in sysfs.names(groups)[:MOST_GROUPS]:
        kind = sysfs.text(groups / name / "type") or "untold"
        types[kind] = types.get(kind, 0) + 1
    return Iommu(units=tuple(sysfs.names(root / "sys/class/iommu")), groups=types)


def kernel_words(root: Path = Path("/")) -> tuple[str, ...] | None:
    """Words of the kernel's command line about IOMMU and PCI; None where it cannot be read."""
    line = sysfs.text(root / "proc/cmdline")
    if line is None:
        return None
    return tuple(word for word in line.split() if word.startswith(_KERNEL_WORDS))


def modules(root: Path = Path("/")) -> tuple[str, ...]:
    """Those of MODULES that are loaded or built in."""
    present = set(sysfs.names(root / "sys/module"))
    return tuple(name for name in MODULES if name in present)
