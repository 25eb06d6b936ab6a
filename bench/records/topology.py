"""How GPUs and NICs of one host hang together, as its tools print it."""

from __future__ import annotations

from typing import Literal

from bench.records.words import InterfaceKind, Record


class MatrixLink(Record, frozen=True, kw_only=True):
    """`kind` is NV, XGMI, PCIE, PIX, PXB, PHB, NODE or SYS (old drivers' SOC is SYS, their PSB is
    PIX); `nvlinks` the number of NV12; `hops` and `weight` are AMD's."""

    source: str
    destination: str
    kind: str
    nvlinks: int | None = None
    hops: int | None = None
    weight: int | None = None


class TopologyMatrix(Record, frozen=True, kw_only=True):
    """`nvidia-smi topo -m` (or rocm-smi's): devices in the order of its columns.

    `links` has both directions where the file has them. `nic_names` is the legend (NIC0 ->
    mlx5_0); `numa` and `cpus` are the affinity columns. `host` is a launcher's prefix, where the
    lines had one.
    """

    file: str
    line: int = 1
    host: str | None = None
    vendor: Literal["nvidia", "amd"] = "nvidia"
    gpus: tuple[str, ...] = ()
    nics: tuple[str, ...] = ()
    links: tuple[MatrixLink, ...] = ()
    nic_names: dict[str, str] = {}
    numa: dict[str, str] = {}
    cpus: dict[str, str] = {}
    notes: tuple[str, ...] = ()  # lines behind the matrix that annotate it
    missing: tuple[str, ...] = ()


class XmlNvlink(Record, frozen=True, kw_only=True):
    """Active NVLinks (AMD: XGMI links) to one target: another GPU's bus id, or an NVSwitch's."""

    target: str
    count: int
    target_kind: Literal["gpu", "switch", "cpu", "unknown"] = "unknown"


class XmlGpu(Record, frozen=True, kw_only=True):
    """A <gpu> with the link that its own PCI function shows (speed in GT/s per lane).

    In a file handed to NCCL a GPU may be only a PCI function of that class: `device` is None.
    `pci_device` is vendor:device, `uplink_gbs` what the narrowest switch above it is said to carry
    towards the CPU, in NCCL's own arithmetic (None: no switch, or nothing said).
    """

    device: int | None = None
    rank: int | None = None
    sm: int | None = None
    bus_id: str | None = None
    gdr: bool | None = None
    nvlinks: tuple[XmlNvlink, ...] = ()
    link_kind: Literal["NVLink", "XGMI"] = "NVLink"
    c2c_count: int | None = None
    c2c_mb_per_s: int | None = None
    mlo_part: int | None = None
    link_gts: float | None = None
    link_width: int | None = None
    numa: int | None = None
    pci_class: str | None = None
    pci_device: str | None = None
    uplink_gbs: float | None = None
    line: int = 0


class XmlNet(Record, frozen=True, kw_only=True):
    """A <net>. `speed_mbit` as written; `speed_told` False where 10000 is NCCL's default for a
    device that claims nothing. `paths` is GPU -> PIX, PXB, PHB, SYS as NCCL would class it; the
    GPU is its place in TopologyTree.gpus. `virtual`: no PCI function behind it. In a file handed
    to NCCL a NIC may be only a PCI function of that class, and its bus id is its name.
    """

    name: str
    device: int | None = None
    speed_mbit: int | None = None
    speed_told: bool = True
    port: int | None = None
    guid: str | None = None
    gdr: bool | None = None
    kind: InterfaceKind | Literal["rdma"] | None = None
    pci_class: str | None = None
    bus_id: str | None = None
    link_gts: float | None = None
    link_width: int | None = None
    numa: int | None = None
    virtual: bool = False
    pci_device: str | None = None
    paths: dict[int, str] = {}
    line: int = 0


class TopologyTree(Record, frozen=True, kw_only=True):
    """NCCL's topology XML, dumped or handed in. `cpus` counts NUMA nodes, as NCCL does; `switches`
    the PCI switches between them and the devices."""

    file: str
    side: Literal["before", "after"] | None = None  # of a diff between two such files
    host_hash: str | None = None
    version: str | None = None
    arch: str | None = None
    vendor: str | None = None
    model: str | None = None  # family and model numbers
    cpus: int = 0
    numa_known: bool = True  # no numaid is -1
    switches: int = 0
    gpus: tuple[XmlGpu, ...] = ()
    nets: tuple[XmlNet, ...] = ()
    missing: tuple[str, ...] = ()


class NvlinkState(Record, frozen=True, kw_only=True):
    """One link of one GPU; `rate_gbs` as printed, None where inactive."""

    link: int
    active: bool
    rate_gbs: float | None = None


class NvlinkStatus(Record, frozen=True, kw_only=True):
    """One GPU of `nvidia-smi nvlink -s`. `all_inactive`: the tool said only that, so the number of
    links is not known."""

    file: str
    line: int
    gpu: int
    host: str | None = None
    name: str | None = None
    uuid: str | None = None
    links: tuple[NvlinkState, ...] = ()
    all_inactive: bool = False


class PeerMatrix(Record, frozen=True, kw_only=True):
    """Which GPU may reach into which, and how fast: p2pBandwidthLatencyTest, simpleP2P,
    `nvidia-smi topo -p2p`, nvbandwidth.

    `status` is (source, destination) as "0-1" -> OK, or the tool's own word (CNS, GNS, NO).
    `bandwidth_gbs` likewise for bandwidth measured one way with P2P on (writes where the tool
    tells them apart), `staged_gbs` with P2P off, `both_ways_gbs` for both directions at once,
    `staged_both_ways_gbs` that with P2P off;
    `latency_us` with P2P on. `host_gbs` is GPU -> copy from host memory. `wrong` counts values
    that the tool read back wrong; `failed` is its own verdict.
    """

    file: str
    line: int
    gpus: int
    tool: str | None = None
    host: str | None = None
    names: tuple[str, ...] = ()
    bus_ids: tuple[str, ...] = ()
    status: dict[str, str] = {}
    bandwidth_gbs: dict[str, float] = {}
    staged_gbs: dict[str, float] = {}
    both_ways_gbs: dict[str, float] = {}
    staged_both_ways_gbs: dict[str, float] = {}
    latency_us: dict[str, float] = {}
    host_gbs: dict[int, float] = {}
    wrong: int = 0
    failed: bool = False


class PciBridge(Record, frozen=True, kw_only=True):
    """One device of `lspci -vvv` (or of nvidia-smi's PCIe query): a bridge, a GPU or a NIC.

    `control` are the flags of ACSCtl, `register` its value; `address` is empty where lines were
    filtered out of their device. `secondary` and `subordinate` are the buses below a bridge.
    `link_*` is LnkSta, `max_link_*` LnkCap: this device's own capability, not its slot's. `port`
    is what a bridge is: a root port of the CPU, or a switch's port; None where it is not told.
    """

    file: str
    line: int
    address: str
    host: str | None = None
    name: str = ""
    kind: Literal["bridge", "gpu", "nic", "other"] = "other"
    port: Literal["root", "upstream", "downstream"] | None = None
    index: int | None = None  # the GPU's, where the tool counts GPUs
    control: dict[str, bool] = {}
    register: str | None = None
    secondary: int | None = None
    subordinate: int | None = None
    link_gts: float | None = None
    link_width: int | None = None
    max_link_gts: float | None = None
    max_link_width: int | None = None
    driver: str | None = None


class KernelHints(Record, frozen=True, kw_only=True):
    """A kernel command line or the IOMMU lines of dmesg. `iommu` as the kernel says it.

    Of the command line only what bears on PCI and memory is kept: it may hold secrets.
    """

    file: str
    line: int = 1
    host: str | None = None
    command_line: str | None = None
    iommu: Literal["translated", "passthrough", "off", "on"] | None = None
    lines: tuple[str, ...] = ()
