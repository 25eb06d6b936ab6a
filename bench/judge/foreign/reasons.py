"""Why a plateau may be low: the likeliest reasons in order, each with the check that decides.

In: what was reached and what the system should show. Out: sentences. Nothing here accuses: a level
is compared with what one port of eight, Ethernet sockets, host memory or a ring alone would give,
and those that fit come first; the rest follow as they occur in public reports.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from bench.judge import limits
from bench.judge.foreign.amounts import gbs
from bench.judge.foreign.surroundings import Run
from bench.judge.limits import Limit
from bench.judge.systems import BusbwExpectation

MOST = 6
# A level explains a plateau within this factor: real links give 85-98 % of their rate.
FITS = 1.2
PORT_SHARE = 0.95  # of a port's rate: 46-49 of 50 GB/s a port (nccl-tests#290)
# NCCL over TCP, all sockets of a host: 1-12 GB/s in public tables, whatever the ports' rate.
SOCKETS_GBS = 13.0
# Through host memory: 5-12 GB/s in public tables of boxes without peer to peer.
HOST_MEMORY_GBS = 13.0
PCIE_SHARE = 0.75  # of a PCIe link's rate, peer to peer: 20-25 of 32, 40-50 of 63
RING_FROM = 0.75  # of the wire, ring between hosts: 80-97 % in public tables
RING_SHARE = 0.8  # of NVLink's rate, ring: 360-370 of 450, 230 of 300


@dataclass(frozen=True)
class Low:
    """A plateau below its expectation."""

    run: Run
    plateau_gbs: float
    expectation: BusbwExpectation
    limit: Limit | None

    @property
    def share(self) -> float:
        return self.plateau_gbs / self.expectation.busbw_gbs

    def near(self, level: float) -> bool:
        return abs(math.log(self.plateau_gbs / level)) <= math.log(FITS)


def likely(low: Low) -> tuple[str, ...]:
    """The likeliest first. A reason that the file itself proves goes before all."""
    proven: list[str] = []
    if low.run.over_sockets and (low.run.hosts or 1) > 1:
        why = f"TCP sockets carry it: {low.run.over_sockets}. Unset it, or see why RDMA failed"
        proven.append(why)
    proven += [
        f"{name}={value} is set for this run: repeat without it"
        for name, value in low.run.forced.items()
        if not (proven and name in ("NCCL_NET", "NCCL_IB_DISABLE"))
    ]
    own = _inside(low) if low.run.hosts == 1 else _between(low)
    ordered = sorted(own, key=lambda reason: not reason[0])
    return tuple([*proven, *(text for _, text in ordered)][:MOST])


def _between(low: Low) -> list[tuple[bool, str]]:
    """(fits the figure, sentence) for several hosts."""
    fabric = low.expectation.fabric
    data = [n for n in fabric.network if n.role == "data" and n.rate_gbps]
    rate = data[0].rate_gbps if len(data) == 1 and data[0].rate_gbps else None
    ports = data[0].ports_per_host if len(data) == 1 else None
    share = low.share
    found: list[tuple[bool, str]] = []
    if low.plateau_gbs <= SOCKETS_GBS:
        text = (
            f"TCP sockets instead of RDMA: they carry up to about {SOCKETS_GBS:g} GB/s a host, "
            "whatever the ports are. Check: NCCL_DEBUG=INFO says 'Using network IB' (or the "
            "plugin's name), not Socket; channel lines say via NET/IB"
        )
        found.append((True, text))
    if rate and ports and ports > 1:
        one = PORT_SHARE * rate / 8
        several = max(1, round(low.plateau_gbs / one))
        if several < ports:
            two = low.run.hosts == 2 and not low.run.ring_forced
            tree = " (half as many with a tree over two hosts)" if two else ""
            ring = "; NCCL_ALGO=Ring shows what the network alone carries" if two else ""
            text = (
                f"as much as {several} of {ports} ports of {rate:g} Gbit/s give{tree}: fewer "
                "ports in use, or the hosts have no more. Check: the line 'NET/IB : Using [0]…' "
                f"lists {ports} devices on every host, NCCL_IB_HCA, and that port_xmit_data of "
                f"all of them counts up{ring}"
            )
            found.append((low.near(several * one), text))
    gdr = (
        "GPUDirect RDMA is not used, data is staged in host memory. Check: channel lines end in "
        "/GDRDMA; lsmod shows nvidia_peermem, or the kernel has dma-buf"
    )
    found.append((0.15 <= share <= 0.65, gdr))
    acs = (
        "PCIe between GPU and NIC goes through the root complex (ACS, translating IOMMU) or is "
        "narrow. Check: lspci -vvv, ACSCtl without ReqRedir+; iommu=pt; LnkSta of NIC and GPU "
        "under load"
    )
    found.append((0.2 <= share <= 0.8, acs))
    algorithm = low.expectation.entry.algorithm
    wire = low.limit.ring_gbs if low.limit else 0.0
    if algorithm not in (None, "Ring") and RING_FROM * wire <= low.plateau_gbs <= wire:
        ring = (
            f"Ring instead of {algorithm}: a ring stops at the wire, {gbs(wire)}. Check: "
            "NCCL_DEBUG_SUBSYS=TUNING names each size's algorithm; NCCL_ALGO, NCCL_NVLS_ENABLE"
        )
        found.insert(0, (True, ring))
    slow = (
        "ports run at half their rate, or MTU and congestion control hold them back. Check: "
        "ibstat or ethtool for rate and MTU on every host; discards, PFC pauses and CNPs of "
        "the switch; ib_write_bw per port"
    )
    found.append((low.near(low.expectation.busbw_gbs / 2), slow))
    few = (
        "too few channels or queue pairs, or other traffic on the fabric. Check: 'coll "
        "channels' of NCCL_DEBUG=INFO; NCCL_IB_QPS_PER_CONNECTION=4; repeat at a quiet hour"
    )
    found.append((share > 0.5, few))
    return found


def _inside(low: Low) -> list[tuple[bool, str]]:
    """(fits the figure, sentence) for one host."""
    gpus = low.expectation.fabric.gpus
    found: list[tuple[bool, str]] = []
    linked = gpus.path in ("nvlink", "xgmi")
    name = "xGMI" if gpus.path == "xgmi" else "NVLink"
    if low.plateau_gbs <= HOST_MEMORY_GBS:
        memory = (
            f"through host memory: about {HOST_MEMORY_GBS:g} GB/s is the most that gives. Check: "
            "NCCL_DEBUG=INFO, channel lines via SHM instead of P2P; NCCL_P2P_DISABLE; nvidia-smi "
            "topo -p2p r"
        )
        found.append((True, memory))
    rate = limits.pcie_gbs(gpus.pcie)
    if linked and rate:
        pcie = (
            f"PCIe carries it instead of {name}: {gpus.pcie} gives about "
            f"{gbs(PCIE_SHARE * rate)}. Check: nvidia-smi topo -m shows {name} between all GPUs; "
            "nvidia-smi nvlink -s; Fabric Manager runs with the driver's version"
        )
        found.append((low.near(PCIE_SHARE * rate), pcie))
    if linked and gpus.nvlink_gbs and low.expectation.entry.algorithm == "NVLS":
        ring = (
            "NVLink SHARP (NVLS) is off, a ring stops at about "
            f"{gbs(RING_SHARE * gpus.nvlink_gbs)}. Check: NCCL_DEBUG=INFO, 'NVLS multicast "
            "support is available' and 'nvls channels'; NCCL_NVLS_ENABLE; Fabric Manager"
        )
        found.append((low.near(RING_SHARE * gpus.nvlink_gbs), ring))
    if linked and gpus.nvlinks:
        links = round(low.share * gpus.nvlinks)
        down = (
            f"{name}s are down: the share is that of {links} of {gpus.nvlinks} links. Check: "
            "nvidia-smi nvlink -s on every GPU"
        )
        found.append((0 < links < gpus.nvlinks and low.share < 0.95, down))
    if not linked:
        narrow = (
            "a PCIe link is narrow or slow, or ranks of two sockets cross the CPUs. Check: "
            "LnkSta under load (nvidia-smi -q -d PERFORMANCE; lspci -vvv), nvidia-smi topo -m"
        )
        found.append((low.near(low.expectation.busbw_gbs / 2) or low.share > 0.2, narrow))
        acs = (
            "peer to peer is off or redirected (ACS, IOMMU). Check: channel lines via P2P or SHM; "
            "lspci -vvv, ACSCtl; iommu=pt"
        )
        found.append((True, acs))
    busy = (
        "another job, throttled clocks. Check: nvidia-smi -q -d PERFORMANCE,CLOCK during the run; "
        "repeat on an idle host"
    )
    found.append((low.share > 0.5, busy))
    return found
