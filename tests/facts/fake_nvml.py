"""A fake of bench.facts.nvml.NvmlReader, and four fake hosts that it plays.

No GPU is read: devices are dicts of items, a missing item is refused as NVML refuses it. A fake
host is a reader plus a tree that stands in for its /sys (tests/facts/fake_sysfs.py). Tests get
both from the fixtures `fake_nvml` and `gpu_hosts` of tests/conftest.py. What the hosts look like
follows public descriptions: an HGX H100 has 8 GPUs with 18 NVLinks each into 4 NVSwitches and a
400 Gbit/s NIC beside every GPU (NVIDIA, "DGX H100/H200 User Guide", topology).
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.facts import hardware
from bench.facts.nvml import NvmlRefused
from bench.records import GpuFabric, HostFacts, Interface, Nvlink

fake_sysfs: Any = sys.modules["fake_sysfs"]  # put there by tests/conftest.py

COUNTERS = {
    "ecc_corrected": 0, "ecc_uncorrected": 0, "pcie_replays": 0, "remapped_rows": 0,
    "nvlink_replays": 0, "nvlink_recoveries": 0, "nvlink_crc_flit": 0,
}  # fmt: skip
H100: dict[str, Any] = {
    "name": "NVIDIA H100 80GB HBM3", "uuid": "GPU-1", "serial": "1650",
    "board_part_number": "692-2G520-0200-000", "vbios": "96.00.74.00.01",
    "pci_address": "0000:18:00.0", "cpu_affinity": "0-47", "memory_bytes": 85_520_809_984,
    "bar1_bytes": 137_438_953_472,
    "pcie_generation": 5, "pcie_max_generation": 5, "pcie_device_max_generation": 5,
    "pcie_width": 16, "pcie_max_width": 16, "performance_state": 0,
    "nvlinks": [True] * 18,
    "fabric": GpuFabric(state="completed", status="Success", clique=0),
    "sm_clock_mhz": 1980, "max_sm_clock_mhz": 1980, "memory_clock_mhz": 2619,
    "temperature_c": 34, "power_w": 72.5, "power_limit_w": 700.0,
    "throttle_reasons": 0, "throttled_s": {"power": 0.0, "thermal": 0.0},
    "mig_mode": False, "ecc_mode": True, "persistence_mode": True, "compute_mode": "default",
    "error_counters": COUNTERS,
}  # fmt: skip
L40S: dict[str, Any] = {
    **{k: v for k, v in H100.items() if k not in ("nvlinks", "fabric")},
    "name": "NVIDIA L40S", "memory_bytes": 48_305_799_168, "bar1_bytes": 68_719_476_736,
    "pcie_generation": 1, "pcie_max_generation": 4, "pcie_device_max_generation": 4,
    "performance_state": 8, "throttle_reasons": 0x1, "nvlinks": [],
    "sm_clock_mhz": 210, "max_sm_clock_mhz": 2520, "power_limit_w": 350.0,
}  # fmt: skip
NVSWITCHES = ("0000:05:00.0", "0000:06:00.0", "0000:07:00.0", "0000:08:00.0")
LINKS_PER_SWITCH = (4, 5, 5, 4)  # of each H100 of an HGX board


class FakeNvml:
    """A fake NVML. `pairs` is (first, second) -> items, `every_pair` what holds for the others."""

    def __init__(
        self,
        *devices: dict[str, Any],
        pairs: dict[tuple[int, int], dict[str, Any]] | None = None,
        every_pair: dict[str, Any] | None = None,
        system: dict[str, Any] | None = None,
    ) -> None:
        self.devices = devices
        self.pairs, self.every_pair = pairs or {}, every_pair or {}
        self.told_of_system = system or {}
        self.asked: list[str] = []
        self.closed = False

    def open(self) -> int:
        return len(self.devices)

    def value(self, index: int, item: str) -> Any:
        return self._told(self.devices[index], item)

    def pair(self, first: int, second: int, item: str) -> Any:
        return self._told({**self.every_pair, **self.pairs.get((first, second), {})}, item)

    def system(self, item: str) -> Any:
        return self._told(self.told_of_system, item)

    def _told(self, items: dict[str, Any], item: str) -> Any:
        self.asked.append(item)
        if item not in items:
            raise NvmlRefused("Not Supported")
        return items[item]

    def close(self) -> None:
        self.closed = True


def switched_links(
    down: tuple[int, ...] = (), errors: dict[str, int] | None = None
) -> list[Nvlink]:
    """The 18 NVLinks of an H100 on an HGX board, some of them down."""
    switches = [s for s, n in zip(NVSWITCHES, LINKS_PER_SWITCH, strict=True) for _ in range(n)]
    return [
        Nvlink(links=(link,), active=False, errors=errors or {})
        if link in down
        else Nvlink(
            links=(link,), active=True, version="4.0", speed_gbs=26.562, remote="switch",
            remote_pci_address=switch,
        )
        for link, switch in enumerate(switches)
    ]  # fmt: skip


@dataclass
class FakeHost:
    """A host that does not exist. `facts()` reads it as a real one is read."""

    name: str
    reader: FakeNvml
    root: Path
    interfaces: tuple[Interface, ...] = ()
    ranks: tuple[int, ...] = field(default=())

    def facts(self) -> HostFacts:
        parts = hardware.read(self.reader, self.interfaces, root=self.root, tools=False)
        software = {"driver": parts.driver, "cuda_driver": parts.cuda_driver}
        fields = {name: getattr(parts, name) for name in parts.__struct_fields__}
        for name in software:
            del fields[name]
        empty = HostFacts(host=self.name, hostname=self.name, identity=self.name)
        return _replaced(
            empty, **fields, software=_replaced(empty.software, **software), cores=96,
            interfaces=self.interfaces, ranks=self.ranks,
        )  # fmt: skip


def _replaced(record: Any, **fields: Any) -> Any:
    return type(record)(**{**{n: getattr(record, n) for n in record.__struct_fields__}, **fields})


def _hgx(
    name: str, root: Path, *changes: tuple[int, dict[str, Any]], fabric: bool = True
) -> FakeHost:
    """8 GPUs, each with a NIC below a switch of its own, four to a socket."""
    addresses = fake_sysfs.hgx(root)
    devices = []
    for index, address in enumerate(addresses):
        device = {
            **H100, "uuid": f"GPU-{name}-{index}", "serial": f"16502300{index:05}",
            "pci_address": address, "cpu_affinity": "0-47" if index < 4 else "48-95",
            "nvlink_details": switched_links(),
        }  # fmt: skip
        devices.append(device)
    for index, change in changes:
        devices[index].update(change)
    p2p = {"read": "OK", "write": "OK", "nvlink": "OK", "atomics": "OK", "pci": "OK"}
    pairs = {
        (a, b): {"ancestor": "NODE" if (a < 4) == (b < 4) else "SYS"}
        for a in range(8)
        for b in range(8)
    }
    reader = FakeNvml(
        *devices, pairs=pairs, every_pair={"p2p": p2p},
        system={"driver": "570.86.10", "cuda_driver": "12.8"},
    )  # fmt: skip
    return FakeHost(name=name, reader=reader, root=root, ranks=tuple(range(8)))


def h100_nvlink(root: Path) -> FakeHost:
    """8 x H100, all 18 NVLinks of each into four NVSwitches: nothing wrong."""
    return _hgx("h100-a", root)


def h100_two_links_down(root: Path) -> FakeHost:
    """The same, but links 7 and 12 of GPU 3 are down."""
    down = (7, 12)
    return _hgx(
        "h100-b", root,
        (3, {
            "nvlinks": [link not in down for link in range(18)],
            "nvlink_details": switched_links(down, {"nvlink_recoveries": 41}),
            "error_counters": {**COUNTERS, "nvlink_recoveries": 82},
        }),
    )  # fmt: skip


def h100_narrow_slot(root: Path) -> FakeHost:
    """The same, but GPU 5's PCIe link trained to 8 lanes of 16."""
    host = _hgx("h100-c", root, (5, {"pcie_width": 8}))
    address = host.reader.devices[5]["pci_address"]
    fake_sysfs.retrain(root, address, width=8)
    return host


def pcie_behind_acs_bridge(root: Path) -> FakeHost:
    """4 x L40S below one PCIe switch whose ports redirect peer requests (ACS), IOMMU translating;
    the driver reports P2P as allowed. At rest, so PCIe shows generation 1."""
    addresses = fake_sysfs.pcie_switch(root, gpus=4)
    devices = [
        {**L40S, "uuid": f"GPU-l40s-{i}", "serial": f"13240000{i:05}", "pci_address": address}
        for i, address in enumerate(addresses)
    ]
    p2p = {"read": "OK", "write": "OK", "nvlink": "NS", "atomics": "NS", "pci": "OK"}
    reader = FakeNvml(
        *devices, every_pair={"p2p": p2p, "ancestor": "PIX"},
        system={"driver": "570.86.10", "cuda_driver": "12.8"},
    )  # fmt: skip
    return FakeHost(name="l40s-a", reader=reader, root=root, ranks=tuple(range(4)))


def four_hosts(folder: Path) -> dict[str, HostFacts]:
    """All four by what they are: "healthy", "links-down", "narrow-slot", "acs"."""
    made = {
        "healthy": h100_nvlink, "links-down": h100_two_links_down,
        "narrow-slot": h100_narrow_slot, "acs": pcie_behind_acs_bridge,
    }  # fmt: skip
    return {name: make(folder / name).facts() for name, make in made.items()}
