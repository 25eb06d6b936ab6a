"""One GPU, its NVLinks, and what stands between it and the next, as NVML and sysfs tell it."""

from __future__ import annotations

from typing import Literal

from bench.records.words import Fact


class Nvlink(Fact, frozen=True, kw_only=True):
    """NVLinks of one GPU that are alike in all that follows; `links` are their numbers.

    `speed_gbs` is one link's in one direction, 1e9 bytes/s, None where inactive or not told.
    `errors` are counters above zero (of one link then); which kinds are counted at all stands in
    the GPU's `error_counters`, where they are summed over links.
    """

    links: tuple[int, ...]
    active: bool
    version: str | None = None
    speed_gbs: float | None = None
    remote: Literal["gpu", "switch", "cpu", "unknown"] | None = None
    remote_pci_address: str | None = None
    errors: dict[str, int] = {}


class GpuFabric(Fact, frozen=True, kw_only=True):
    """The GPU's registration with Fabric Manager (nvmlDeviceGetGpuFabricInfo).

    `state` "completed" with `status` "Success" is a GPU whose NVSwitch fabric works; "not
    supported" is a GPU without one. `health` holds what the driver complains of.
    """

    state: Literal["not supported", "not started", "in progress", "completed"] | None = None
    status: str | None = None
    cluster_uuid: str | None = None
    clique: int | None = None
    health: tuple[str, ...] = ()


class Gpu(Fact, frozen=True, kw_only=True):
    """One GPU, from NVML. PCIe speeds are generation numbers; clocks in MHz.

    `pcie_max_*` is what GPU and slot can do together, `pcie_device_max_generation` the GPU alone;
    what each bridge offers stands in HostFacts.pci_devices under the addresses of `pci_path` (the
    GPU's own first, then upwards to the root port).
    `pcie_idle` True: the GPU was at rest when it was read, so a lower *generation* may be power
    saving alone; load the link before believing it. The width does not fall at rest.
    `nvlinks_active` and `nvlinks_inactive` count the links of `nvlinks`.
    `nic_paths` is NIC -> PIX, PXB, PHB, SYS as NCCL classes the PCI path (RDMA device names, and
    interfaces that have none); `nearest_nics` those of the shortest class.
    """

    index: int
    name: str | None = None
    uuid: str | None = None
    serial: str | None = None
    board_part_number: str | None = None
    vbios: str | None = None
    pci_address: str | None = None
    pci_path: tuple[str, ...] = ()
    numa_node: int | None = None
    cpu_affinity: str | None = None
    memory_bytes: int | None = None
    bar1_bytes: int | None = None
    pcie_generation: int | None = None
    pcie_max_generation: int | None = None
    pcie_device_max_generation: int | None = None
    pcie_width: int | None = None
    pcie_max_width: int | None = None
    pcie_idle: bool | None = None
    performance_state: int | None = None  # 0 (P0, fastest) to 15
    pci_power_state: str | None = None  # D0, D3hot: sysfs
    nvlinks: tuple[Nvlink, ...] = ()
    nvlinks_active: int | None = None
    nvlinks_inactive: int | None = None
    c2c_links: int | None = None
    fabric: GpuFabric | None = None
    nic_paths: dict[str, str] = {}
    nearest_nics: tuple[str, ...] = ()
    sm_clock_mhz: int | None = None
    max_sm_clock_mhz: int | None = None
    memory_clock_mhz: int | None = None
    temperature_c: int | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    throttle_reasons: tuple[str, ...] = ()
    throttled_s: dict[str, float] = {}  # by policy (power, thermal …), since the driver started
    mig_mode: bool | None = None
    ecc_mode: bool | None = None
    persistence_mode: bool | None = None
    compute_mode: str | None = None  # default, exclusive-process, prohibited
    error_counters: dict[str, int] = {}
    unreadable: dict[str, str] = {}


class GpuPair(Fact, frozen=True, kw_only=True):
    """Two GPUs of one host, `gpus` ascending.

    `ancestor` is NVML's common ancestor in nvidia-smi's words (PIX PXB PHB NODE SYS), `pci_path`
    the class that NCCL makes of the PCI path in sysfs (PIX PXB PHB SYS). `nvlinks` are active
    links that join the two, straight or through switches.
    `p2p` is read, write, nvlink, atomics, pci -> OK, or the reason in the words of
    `nvidia-smi topo -p2p` (CNS chipset, GNS GPU, TNS topology not supported, DR disabled by
    registry key, NS not supported, U unknown); `p2p_back` holds what differs in the other
    direction.
    """

    gpus: tuple[int, int]
    ancestor: str | None = None
    pci_path: str | None = None
    nvlinks: int | None = None
    p2p: dict[str, str] = {}
    p2p_back: dict[str, str] = {}
