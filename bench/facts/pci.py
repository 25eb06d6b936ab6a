"""The PCI devices between GPUs, NICs and the root, from sysfs, and how near two of them are.

In: /sys/bus/pci/devices and the addresses of GPUs and NICs. Out: one `PciDevice` per device and
bridge on the way, chains of addresses, and the class of the path between two chains as NCCL makes
it: src/graph/xml.cc (every switch is two bridges) and src/graph/paths.cc (PIX, PXB, PHB, SYS).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

from bench.facts import pci_config, sysfs
from bench.records import PciDevice

DEVICES = Path("/sys/bus/pci/devices")
MOST_DEVICES = 512  # 16 GPUs and 20 NICs below three levels of switches make about 120

PATH_CLASSES = ("PIX", "PXB", "PHB", "SYS")  # nearest first
_SWITCH_LEVELS = 2  # bridges of one switch on a path: its downstream and its upstream port
_NO_WIDTH = (0, 63, 255)  # link down, or the register could not be read

_KINDS: tuple[tuple[str, Literal["gpu", "nic", "bridge"]], ...] = (
    ("0x03", "gpu"), ("0x12", "gpu"), ("0x02", "nic"), ("0x0604", "bridge"),
)  # fmt: skip
_AER = ("correctable", "nonfatal", "fatal")


def chain(address: str, devices: Path = DEVICES) -> tuple[str, ...]:
    """The device's own address, then every bridge above it up to the root port; () if absent."""
    try:
        parts = (devices / address).resolve(strict=True).parts
    except (OSError, RuntimeError, ValueError):  # a loop of links; a NUL in a name
        return ()
    return tuple(part for part in reversed(parts) if sysfs.is_pci_address(part))


def read(
    addresses: Iterable[str], devices: Path = DEVICES
) -> tuple[tuple[PciDevice, ...], dict[str, str]]:
    """All devices on the way from these addresses to the root, by address; "acs" -> why the ACS
    control of some bridges could not be read."""
    parents: dict[str, str | None] = {}
    for address in sorted(set(addresses)):
        way = chain(address, devices)
        parents |= dict(zip(way, [*way[1:], None][: len(way)], strict=True))
    hidden: dict[str, int] = {}
    found = []
    for address in sorted(parents)[:MOST_DEVICES]:
        device, why = _device(address, parents[address], devices / address)
        found.append(device)
        if why:
            hidden[why] = hidden.get(why, 0) + 1
    bridges = sum(device.kind == "bridge" for device in found)
    unreadable = {}
    if hidden:
        why = "; ".join(f"{count} of {bridges} bridges: {why}" for why, count in hidden.items())
        unreadable["acs"] = why
    if len(parents) > MOST_DEVICES:
        unreadable["pci"] = f"{len(parents)} devices; only the first {MOST_DEVICES} were read"
    return tuple(found), unreadable


def _device(address: str, parent: str | None, folder: Path) -> tuple[PciDevice, str | None]:
    code = sysfs.text(folder / "class") or ""
    kind = next((kind for prefix, kind in _KINDS if code.startswith(prefix)), None)
    bridge = kind == "bridge"
    port, flags = _bridge(folder / "config") if bridge else ("endpoint", "")
    if port is None and parent is None:
        port = "root"  # a bridge that hangs below nothing else
    vendor, device = (
        (sysfs.text(folder / name) or "?").removeprefix("0x") for name in ("vendor", "device")
    )
    group = folder / "iommu_group"
    group_name = sysfs.link_name(group)
    counted = _errors(folder)
    record = PciDevice(
        address=address,
        parent=parent,
        kind=kind or "other",
        port=port,
        ids=f"{vendor}:{device}",
        driver=None if bridge else sysfs.link_name(folder / "driver"),
        numa_node=None if bridge else sysfs.numa_node(folder),
        link_gts=gigatransfers(sysfs.text(folder / "current_link_speed")),
        link_width=_width(folder / "current_link_width"),
        max_link_gts=gigatransfers(sysfs.text(folder / "max_link_speed")),
        max_link_width=_width(folder / "max_link_width"),
        acs=flags if isinstance(flags, tuple) else None,
        iommu_group=int(group_name) if group_name and group_name.isdigit() else None,
        iommu_type=sysfs.text(group / "type") if group_name else None,
        errors={name: n for name, n in counted.items() if n} if counted else None,
    )
    return record, flags if isinstance(flags, str) else None


def _bridge(config: Path) -> tuple[pci_config.Port | None, tuple[str, ...] | str]:
    """What kind of port a bridge is, and its ACS flags or why they cannot be told."""
    try:
        file = os.open(config, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        return None, f"{error.strerror}"
    try:

        def read(offset: int, count: int) -> bytes:
            return os.pread(file, count, offset)

        return pci_config.port(read), pci_config.acs(read)
    except OSError as error:
        return None, f"{error.strerror}"
    finally:
        os.close(file)


def gigatransfers(speed: str | None) -> float | None:
    """ "32.0 GT/s PCIe" -> 32.0; "Unknown" -> None."""
    number = (speed or "").partition(" ")[0]
    try:
        return float(number) or None
    except ValueError:
        return None


def _width(file: Path) -> int | None:
    width = sysfs.number(file)
    return None if width in _NO_WIDTH else width


def errors(address: str, devices: Path = DEVICES) -> dict[str, int]:
    """Totals of Advanced Error Reporting since boot: correctable, nonfatal, fatal."""
    return _errors(devices / address)


def _errors(folder: Path) -> dict[str, int]:
    found = {}
    for name in _AER:
        for line in (sysfs.text(folder / f"aer_dev_{name}") or "").splitlines():
            key, _, count = line.rpartition(" ")
            if key.startswith("TOTAL_ERR_") and count.isdigit():
                found[name] = int(count)
    return found


def path_class(
    first: Sequence[str], second: Sequence[str], numa: tuple[int | None, int | None]
) -> str | None:
    """PIX (one switch), PXB (several), PHB (the CPU of one NUMA node) or SYS between two chains,
    as NCCL classes them; None where one of them is not known.

    A switch shows as two bridges, so NCCL climbs two at a time and calls what it finds there the
    switch. Without a common one the path goes through the CPU: a NUMA node is one to NCCL, and
    what the firmware gives to no node counts as a node of its own.
    """
    if not first or not second:
        return None
    above = first[_SWITCH_LEVELS::_SWITCH_LEVELS], second[_SWITCH_LEVELS::_SWITCH_LEVELS]
    common = next((bridge for bridge in above[0] if bridge in above[1]), None)
    if common is None:
        return "PHB" if numa[0] == numa[1] else "SYS"
    return "PIX" if above[0].index(common) == above[1].index(common) == 0 else "PXB"


def nearest(paths: dict[str, str]) -> tuple[str, ...]:
    """Of name -> class those of the best class, in their order."""
    best = min(paths.values(), key=PATH_CLASSES.index, default=None)
    return tuple(name for name, path in paths.items() if path == best)
