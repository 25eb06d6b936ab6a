"""What a host is besides its GPUs and ports: PCI tree, IOMMU, maker, services."""

from __future__ import annotations

from typing import Literal

from bench.records.words import Fact


class PciDevice(Fact, frozen=True, kw_only=True):
    """A GPU, a NIC or a bridge on the way from one to the root, from sysfs.

    `parent` is the next device upwards, None below the root complex. Speeds in GT/s per lane; the
    maxima are the device's own capability, so a link runs at the least of both its ends.
    `acs` are the flags that are on in its ACS control register, as lspci names them (SrcValid
    ReqRedir CmpltRedir UpstreamFwd …); empty: none on, or no such register; None: not readable, or
    no bridge.
    `errors` are totals of Advanced Error Reporting above zero (correctable, nonfatal, fatal), None
    where not readable. Driver and NUMA node are told of devices, not of bridges: theirs follow.
    """

    address: str
    parent: str | None = None
    kind: Literal["gpu", "nic", "bridge", "other"] = "other"
    port: Literal["endpoint", "root", "upstream", "downstream", "bridge"] | None = None
    ids: str | None = None  # vendor:device
    driver: str | None = None
    numa_node: int | None = None
    link_gts: float | None = None
    link_width: int | None = None
    max_link_gts: float | None = None
    max_link_width: int | None = None
    acs: tuple[str, ...] | None = None
    iommu_group: int | None = None
    iommu_type: str | None = None
    errors: dict[str, int] | None = None


class Iommu(Fact, frozen=True, kw_only=True):
    """`units` are the IOMMUs at work (dmar0, ivhd0; none: off or hidden), `groups` how many groups
    of each type: DMA and DMA-FQ translate, identity passes through."""

    units: tuple[str, ...] = ()
    groups: dict[str, int] = {}


class Machine(Fact, frozen=True, kw_only=True):
    """Who made it, from DMI; `hypervisor` True in a virtual machine."""

    vendor: str | None = None
    product: str | None = None
    serial: str | None = None
    board: str | None = None
    bios: str | None = None
    cpu: str | None = None
    sockets: int | None = None
    numa_nodes: int | None = None
    hypervisor: bool | None = None


class Service(Fact, frozen=True, kw_only=True):
    """A service that GPUs rely on. `state` in systemd's words (active, inactive, failed,
    not-found), "running" where only its process was seen; None: not readable, `why` says why.
    `detail` is what it says of itself (IMEX: READY), `nodes` the size of its domain."""

    name: Literal["fabric-manager", "imex", "persistence"]
    state: str | None = None
    why: str | None = None
    detail: str | None = None
    nodes: int | None = None
    channels: int | None = None
