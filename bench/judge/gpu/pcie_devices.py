"""Switches above GPUs, and NICs, whose PCIe link is narrower than those of their like.

In: the PCI tree of every host, from sysfs. Out: pcie-downgraded. NCCL's model takes the capability
of such a device (max_link_width), so a link that trained to fewer lanes shows nowhere else.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from bench.judge.docket import Docket
from bench.judge.networks import Networks
from bench.judge.words import listed
from bench.records import Evidence, Finding, HostFacts, PciDevice, Where

LEAST_ALIKE = 2


@dataclass(frozen=True)
class Placed:
    """A device in its host."""

    host: HostFacts
    device: PciDevice

    @property
    def text(self) -> str:
        speed = f"{self.device.link_gts:g} GT/s " if self.device.link_gts else ""
        return f"{speed}x{self.device.link_width}"


def judge(net: Networks, docket: Docket) -> None:
    """Add pcie-downgraded for devices with fewer lanes than most of the same kind, and than their
    own capability. Switches above a GPU weigh more than a NIC: the same NIC may sit in a narrower
    slot because it serves storage."""
    alike: dict[tuple[str, str | None], list[Placed]] = {}
    for facts in net.report.hosts:
        below = {address for gpu in facts.gpus for address in gpu.pci_path[1:]}
        for device in facts.pci_devices:
            switch = device.port == "upstream" and device.address in below
            if (switch or device.kind == "nic") and device.ids and device.link_width:
                alike.setdefault((device.kind, device.ids), []).append(Placed(facts, device))
    for group in alike.values():
        widths = [one.device.link_width or 0 for one in group]
        usual = statistics.median_low(widths)
        votes = widths.count(usual)
        if votes < LEAST_ALIKE or 2 * votes <= len(group):
            continue
        normal = next(one for one in group if one.device.link_width == usual)
        for one in group:
            able = one.device.max_link_width or usual
            if (one.device.link_width or 0) < min(usual, able):
                docket.add(_finding(one, normal, votes))


def _finding(one: Placed, normal: Placed, votes: int) -> Finding:
    facts, device = one.host, one.device
    gpus = [f"GPU {gpu.index}" for gpu in facts.gpus if device.address in gpu.pci_path[1:]]
    ports = [p.device for p in facts.rdma_ports if p.pci_address == device.address]
    names = ports or [i.name for i in facts.interfaces if i.pci_address == device.address]
    nic = device.kind == "nic"
    what = f"NIC {listed(names) or device.address}" if nic else f"PCIe switch {device.address}"
    above = f", above {listed(gpus)}," if gpus else ""
    return Finding(
        code="pcie-downgraded",
        severity="warning" if nic else "degraded",
        summary=f"{what} on {facts.host}{above} has its link at {one.text} where {votes} others "
        f"of its kind run at {normal.text}.",
        where=Where(
            host=facts.host, device=names[0] if nic and len(names) == 1 else device.address
        ),
        evidence=(
            Evidence(
                basis="claimed",
                text=f"sysfs on {facts.host}: {device.address} ({device.ids}) at {one.text}, "
                f"capable of x{device.max_link_width or '?'}",
            ),
            Evidence(basis="claimed", text=f"{votes} others of {device.ids} at {normal.text}"),
        ),
        remedy=f"sudo lspci -vv -s {device.address} | grep -E 'LnkCap|LnkSta'",
        confidence="inferred",
    )
