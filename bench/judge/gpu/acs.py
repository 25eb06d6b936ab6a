"""ACS on the way between GPUs: switch ports that send a peer's packets up to the root and back.

In: the PCI tree with its ACS flags and IOMMU types, and copies between neighbours. Out:
p2p-blocked where two GPUs share a switch and no NVLink, and the lines of proof that other rules
quote. At root ports ACS is what the kernel sets wherever an IOMMU is on; below them it turns peer
to peer into a detour, or with a translating IOMMU into a hang (NVIDIA/nccl #631, #2079).
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.judge.docket import Docket
from bench.judge.gpu import ways as gpu_ways
from bench.judge.gpu.fleet import peers_of, slowed
from bench.judge.gpu.pcie_copies import raw_gbs
from bench.judge.gpu.ways import P2P_LEVEL
from bench.judge.networks import Networks
from bench.judge.words import listed
from bench.records import (
    CopyFigure,
    Evidence,
    Finding,
    GpuPair,
    HostFacts,
    PciDevice,
    Severity,
    Where,
)

REDIRECTS = ("ReqRedir", "CmpltRedir")  # ACS flags that turn a peer's packets upwards
# A redirected peer shares the root port's way up with itself coming down: half of the link at the
# very best. A pair that copies at more than this share of its link is not held up by ACS.
UNHURT_SHARE = 0.6
SHOWN = 4


def judge(net: Networks, docket: Docket, facts: HostFacts) -> None:
    """GPUs below one switch, joined by nothing else, whose ports send peer packets to the root."""
    ports: dict[str, PciDevice] = {}
    pairs = []
    for pair in facts.gpu_pairs:
        between = _ports_between(facts, pair)
        if pair.nvlinks == 0 and pair.pci_path in P2P_LEVEL and gpu_ways.allowed(pair):
            turning = [port for port in between if set(port.acs or ()) & set(REDIRECTS)]
            if turning:
                pairs.append(pair)
                ports |= {port.address: port for port in turning}
    if not pairs:
        return
    severity: Severity = "degraded"
    copied = _copied(net, facts, pairs)
    if copied and all(share >= UNHURT_SHARE for _, share in copied):
        severity = "info"
    measured = [
        Evidence(
            basis="measured",
            text=f"a copy from GPU {figure.gpu} to GPU {figure.peer} reaches "
            f"{figure.bandwidth_gbs:.3g} GB/s, {share:.0%} of the link".replace("%", " %"),
        )
        for figure, share in copied[:SHOWN]
    ]
    gpus = sorted({n for pair in pairs for n in pair.gpus})
    effect = (
        "yet copies between them are not held up" if severity == "info"
        else "their copies take twice the way, or hang"
    )  # fmt: skip
    docket.add(
        Finding(
            code="p2p-blocked",
            severity=severity,
            summary=f"ACS sends what {len(gpus)} GPUs on {facts.host} write to each other up to "
            f"the root port and back ({len(ports)} switch ports redirect); {effect}.",
            where=Where(
                host=facts.host,
                device=next(iter(ports)) if len(ports) == 1 else None,
                link=tuple(f"GPU{n}" for n in gpus) if len(gpus) == 2 else (),
            ),
            evidence=(*barriers(facts, gpus), *measured),
            remedy=remedy(facts),
            confidence="measured" if copied and severity == "degraded" else "inferred",
        ),
        explains=[peers_of(facts.host), *slowed(net, facts.host, "p2p")]
        if severity == "degraded"
        else [],
    )


def _ports_between(facts: HostFacts, pair: GpuPair) -> list[PciDevice]:
    """The downstream ports of switches from either GPU up to where their ways meet."""
    ways = {gpu.index: gpu.pci_path for gpu in facts.gpus}
    a, b = (set(ways.get(n, ())) for n in pair.gpus)
    apart = a ^ b
    return [d for d in facts.pci_devices if d.port == "downstream" and d.address in apart]


def _copied(
    net: Networks, facts: HostFacts, pairs: Sequence[GpuPair]
) -> list[tuple[CopyFigure, float]]:
    """Copies between these GPUs, as a share of the narrower link; the slowest first."""
    gpus = {gpu.index: gpu for gpu in facts.gpus}
    named = {pair.gpus for pair in pairs}
    found = []
    for check in net.report.copies:
        for figure in check.figures if check.host == facts.host else ():
            ends = (figure.gpu, figure.peer)
            if None in ends or tuple(sorted(n for n in ends if n is not None)) not in named:
                continue
            rates = [
                raw_gbs(gpus[n].pcie_max_generation, gpus[n].pcie_max_width)
                for n in ends
                if n in gpus
            ]
            known = [rate for rate in rates if rate]
            if len(known) == 2:
                found.append((figure, figure.bandwidth_gbs / min(known)))
    return sorted(found, key=lambda one: one[1])


def barriers(facts: HostFacts, gpus: Sequence[int]) -> list[Evidence]:
    """What sysfs shows on the way between GPUs: ports that redirect, and a translating IOMMU."""
    above = {address for gpu in facts.gpus if gpu.index in gpus for address in gpu.pci_path[1:]}
    turning = [
        device
        for device in facts.pci_devices
        if device.address in above and set(device.acs or ()) & set(REDIRECTS)
    ]
    alike: dict[tuple[str, str], list[str]] = {}
    for device in sorted(turning, key=lambda d: d.port != "downstream"):
        key = device.port or "bridge", " ".join(device.acs or ())
        alike.setdefault(key, []).append(device.address)
    lines = [
        Evidence(
            basis="claimed",
            text=f"{port} port{'s' if len(found) > 1 else ''} {listed(found)}: ACS {flags}",
        )
        for (port, flags), found in list(alike.items())[:SHOWN]
    ]
    addresses = {gpu.pci_address for gpu in facts.gpus if gpu.index in gpus}
    kinds = {d.iommu_type for d in facts.pci_devices if d.address in addresses and d.iommu_type}
    translating = sorted(kind for kind in kinds if kind.startswith("DMA"))
    if translating:
        text = f"the IOMMU translates what these GPUs send ({', '.join(translating)})"
        lines.append(Evidence(basis="claimed", text=text))
    return lines


def remedy(facts: HostFacts) -> str | None:
    """A line that clears ACS on the switch ports above GPUs until the next boot."""
    above = {address for gpu in facts.gpus for address in gpu.pci_path[1:]}
    ports = [
        d.address
        for d in facts.pci_devices
        if d.address in above and d.port == "downstream" and set(d.acs or ()) & set(REDIRECTS)
    ]
    if not ports:
        return None
    return f'for port in {" ".join(ports)}; do sudo setpci -s "$port" ECAP_ACS+0x6.w=0000; done'
