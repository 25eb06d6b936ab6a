"""One host, as it describes itself before anything is measured."""

from __future__ import annotations

from typing import Literal

from bench.records.gpus import Gpu, GpuPair
from bench.records.machine import Iommu, Machine, PciDevice, Service
from bench.records.readiness import Readiness
from bench.records.words import Fact, InterfaceKind


class Address(Fact, frozen=True, kw_only=True):
    """One address of an interface.

    `label` is the name getifaddrs lists it under where that is not the interface's own (an alias
    such as "eth0:1"): NCCL takes such an alias for one more interface.
    """

    family: Literal["inet", "inet6"]
    address: str
    prefix_length: int
    scope: Literal["global", "link", "host"] = "global"
    label: str | None = None


class InterfaceCounters(Fact, frozen=True, kw_only=True):
    """Kernel byte and error counters of an interface since it came up."""

    rx_bytes: int = 0
    tx_bytes: int = 0
    rx_errors: int = 0
    tx_errors: int = 0
    rx_dropped: int = 0
    tx_dropped: int = 0


class Interface(Fact, frozen=True, kw_only=True):
    """One network interface as the kernel (and getifaddrs order) shows it.

    `speed_mbit` is what the sysfs file claims, None where it claims nothing or is unreadable.
    A virtual interface claims nothing about a wire whatever that file says: `kind` tells.
    `index` orders interfaces the way getifaddrs lists them, which is the order NCCL sees.
    `lower` is the one that it lies on (a VLAN's parent, a tunnel's device), which carries its
    bytes; None where it lies on none, or on one of another namespace.
    """

    name: str
    kind: InterfaceKind
    index: int
    addresses: tuple[Address, ...] = ()
    mtu: int = 0
    up: bool = False
    running: bool = False
    speed_mbit: int | None = None
    max_speed_mbit: int | None = None
    driver: str | None = None
    mac: str | None = None
    master: str | None = None
    lower: str | None = None
    pci_address: str | None = None
    numa_node: int | None = None
    counters: InterfaceCounters | None = None


class Route(Fact, frozen=True, kw_only=True):
    """By which interface the kernel leaves towards `destination`, with which source address."""

    destination: str
    interface: str | None = None
    source: str | None = None
    gateway: str | None = None
    why: str | None = None  # the kernel's reason where there is no route


class RdmaPort(Fact, frozen=True, kw_only=True):
    """One port of an RDMA device, from /sys/class/infiniband.

    `state` is the logical one (ACTIVE, DOWN), `physical_state` the cable's (LinkUp, Polling).
    `gid_count` counts GIDs in use. `counters` holds errors and congestion besides the data
    counters: the kernel's, the adapter's (hw_counters), and the pauses that its interface counted.
    `nearest_gpus` are GPU indexes at the shortest PCI path, of the class `gpu_path` as NCCL
    classes it (PIX PXB PHB SYS).
    """

    device: str
    port: int
    state: str | None = None
    physical_state: str | None = None
    rate_gbit: float | None = None
    link_layer: str | None = None
    interface: str | None = None
    driver: str | None = None
    firmware: str | None = None
    board_id: str | None = None
    node_guid: str | None = None
    port_guid: str | None = None
    active_mtu: int | None = None
    max_mtu: int | None = None
    lid: int | None = None
    numa_node: int | None = None
    pci_address: str | None = None
    gid_types: tuple[str, ...] = ()
    gid_count: int | None = None
    nearest_gpus: tuple[int, ...] = ()
    gpu_path: str | None = None
    counters: dict[str, int] = {}


class Software(Fact, frozen=True, kw_only=True):
    """Versions that explain a change of behaviour; None where not installed.

    `cuda` is what torch was built for, `cuda_driver` the newest that the driver can run.
    `driver_open`: the driver's kernel modules are the open ones, without which there is no dma-buf
    for NICs.
    """

    python: str | None = None
    torch: str | None = None
    nccl: str | None = None
    nccl_library: str | None = None
    cuda: str | None = None
    cuda_driver: str | None = None
    driver: str | None = None
    driver_open: bool | None = None
    kernel: str | None = None
    packages: dict[str, str] = {}


class NcclConf(Fact, frozen=True, kw_only=True):
    """An nccl.conf file in force: its settings apply where the environment does not."""

    path: str
    settings: dict[str, str] = {}


class NcclChoice(Fact, frozen=True, kw_only=True):
    """What NCCL takes for one setting of NCCL_SOCKET_IFNAME.

    `setting` None means: the environment as it is. `interfaces` are all matches in NCCL's order
    (the NET/Socket devices); `bootstrap` is the first one. basis "asked": ncclGetUniqueId said so
    (`line` is its own log line); "predicted": our implementation of the rules.
    `code` is ncclResult_t of the call when asked (0 = success, 5 = ncclInvalidUsage: no match).
    """

    setting: str | None = None
    basis: Literal["asked", "predicted"] = "predicted"
    bootstrap: str | None = None
    address: str | None = None
    interfaces: tuple[str, ...] = ()
    code: int | None = None
    line: str | None = None
    nccl_version: str | None = None


class DataPath(Fact, frozen=True, kw_only=True):
    """Predicted carrier of NCCL's data with the environment as it is (always basis predicted)."""

    transport: Literal["socket", "rdma", "plugin", "unknown"] = "unknown"
    interfaces: tuple[str, ...] = ()  # socket devices that share the channels, or RDMA device:port
    why: str = ""


class RankPlacement(Fact, frozen=True, kw_only=True):
    """Where a rank may run: CPU list (kernel list format) and NUMA nodes that it touches.

    `visible` is its own CUDA_VISIBLE_DEVICES: some launchers give each rank another one.
    """

    rank: int
    local_rank: int
    cpus: str | None = None
    numa_nodes: tuple[int, ...] = ()
    visible: str | None = None
    gpu: int | None = None


class HostFacts(Fact, frozen=True, kw_only=True):
    """All that is known of one host before anything is measured.

    `host` is the label used everywhere (the host name, made unique by the merger); `identity`
    (boot id + network namespace) tells hosts apart whose names are alike.
    `gpu_pairs` has every pair of GPUs once. `pci_devices` are GPUs, NICs and all bridges between
    them and the root; `kernel_words` those words of the kernel's command line that steer IOMMU and
    PCI; `kernel_modules` the loaded ones of those that GPUs and RDMA need (nvidia_peermem …).
    `tool_outputs` are texts of tools as they print them ("nvidia-smi topo -m").
    `error_counters` are Xid messages since boot; other errors stand with their GPU, port, device.
    `unreadable` maps what could not be read to why; nothing unreadable is ever told as zero.
    """

    host: str
    hostname: str
    identity: str
    node_rank: int = 0
    ranks: tuple[int, ...] = ()
    boot_id: str | None = None
    cores: int = 0
    interfaces: tuple[Interface, ...] = ()
    routes: tuple[Route, ...] = ()
    rdma_ports: tuple[RdmaPort, ...] = ()
    gpus: tuple[Gpu, ...] = ()
    gpu_pairs: tuple[GpuPair, ...] = ()
    pci_devices: tuple[PciDevice, ...] = ()
    iommu: Iommu | None = None
    machine: Machine | None = None
    services: tuple[Service, ...] = ()
    kernel_words: tuple[str, ...] = ()
    kernel_modules: tuple[str, ...] = ()
    tool_outputs: dict[str, str] = {}
    software: Software = Software()
    environment: dict[str, str] = {}
    nccl_conf: tuple[NcclConf, ...] = ()
    nccl_choices: tuple[NcclChoice, ...] = ()
    data_path: DataPath | None = None
    congestion_control: str | None = None
    readiness: Readiness | None = None
    placements: tuple[RankPlacement, ...] = ()
    mapped_libraries: tuple[str, ...] = ()
    error_counters: dict[str, int] = {}
    unreadable: dict[str, str] = {}
