"""PCIe links below what the device can do: lspci, nvidia-smi's query, NCCL's topology XML.

In: a Dossier. Out: pcie-downgraded. Lanes do not go away at rest, so a narrow link is accused; a
low speed alone is what power saving looks like on a GPU, and is only noted, never called the
bottleneck. A link is held against the lesser of both its ends where the listing shows the slot.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from bench.formats.pci_paths import link_gbs
from bench.judge.docket import Docket
from bench.judge.foreign import pci_listing
from bench.judge.foreign.places import place
from bench.judge.words import listed
from bench.records import (
    Dossier,
    Evidence,
    Finding,
    PciBridge,
    Severity,
    TopologyTree,
    Where,
    XmlGpu,
)

# A GPU at rest goes down to Gen 1, some to Gen 2; higher steps are not rest.
RESTING_GTS = 5.0
# NCCL plans with what a topology file says of switches: below this share of the GPU's own link the
# file makes a bottleneck of it (an artificial 2.5 GT/s x1 was seen in files for virtual machines).
NARROW_SHARE = 0.5


def judge(dossier: Dossier, docket: Docket) -> None:
    """Each device once."""
    for listing in pci_listing.listings(dossier.bridges):
        bridges = pci_listing.with_buses(listing)
        for device in listing:
            finding = _of_device(bridges, device)
            if finding is not None:
                docket.add(finding)
    for tree in dossier.trees:
        for finding in _of_tree(tree):
            docket.add(finding)


def _of_device(bridges: Sequence[PciBridge], device: PciBridge) -> Finding | None:
    nameless = device.kind == "other" and not device.address
    if not (device.kind in ("gpu", "nic") or nameless) or not device.link_width:
        return None
    slot = pci_listing.parent(bridges, device) if device.address else None
    able_width = _least(device.max_link_width, slot.max_link_width if slot else None)
    able_gts = _least(device.max_link_gts, slot.max_link_gts if slot else None)
    narrow = bool(able_width and device.link_width < able_width)
    slow = bool(able_gts and device.link_gts and device.link_gts < able_gts)
    if not narrow and not slow:
        return None
    resting = device.kind != "nic" and slow and (device.link_gts or 0) <= RESTING_GTS
    # Without its slot a slower link may be all that an older board can do.
    certain = narrow or (device.kind == "nic" and slot is not None)
    severity: Severity = "degraded" if certain and not nameless else "warning"
    severity = "info" if resting and not narrow else severity
    has = _link(None if resting and narrow else device.link_gts, device.link_width)
    can = _link(None if resting and narrow else able_gts, able_width)
    evidence = [_shown(device, slot)]
    if resting:
        text = "a GPU at rest lowers its speed, never its lanes: read it again under load"
        evidence.append(Evidence(basis="inferred", text=text))
    what = _name(device)
    return Finding(
        code="pcie-downgraded",
        severity=severity,
        summary=f"{what}: PCIe link at {has} where {can} is possible"
        + (", which at rest is how it saves power." if resting and not narrow else "."),
        where=Where(
            host=device.host,
            gpu=device.index,
            device=device.address or None,
            file=device.file,
            line=device.line,
        ),
        evidence=tuple(evidence),
        remedy=f"sudo lspci -vv -s {device.address} | grep -E 'LnkCap|LnkSta'"
        if device.address
        else "nvidia-smi --query-gpu=index,pcie.link.gen.current,pcie.link.width.current,"
        "pcie.link.width.max --format=csv",
        confidence="inferred",
    )


def _least(own: float | None, other: float | None) -> float | None:
    return min(own, other) if own and other else own


def _link(gts: float | None, width: float | None) -> str:
    words = [f"{gts:g} GT/s"] if gts else []
    return " ".join([*words, f"x{width:g}"] if width else words)


def _name(device: PciBridge) -> str:
    kind = "NIC" if device.kind == "nic" else "GPU"
    if not device.address and device.kind == "other":
        return "A device that the lines do not name"
    if device.index is not None:
        return f"{kind} {device.index}"
    name = device.name.partition(" (rev")[0].partition(" [10de:")[0]
    return f"{kind} {device.address.removeprefix('0000:')}" + (f" ({name})" if name else "")


def _shown(device: PciBridge, slot: PciBridge | None) -> Evidence:
    has = _link(device.link_gts, device.link_width)
    can = _link(device.max_link_gts, device.max_link_width)
    text = f"{place(device.file, device.line)}: link {has}, the device can {can}"
    if slot is not None and slot.max_link_width:
        text += f", its slot {slot.address} {_link(slot.max_link_gts, slot.max_link_width)}"
    return Evidence(basis="claimed", text=text)


# ----------------------------------------------------------------------------------- NCCL's XML


def _of_tree(tree: TopologyTree) -> Iterator[Finding]:
    """Since 2.30.7 NCCL writes a GPU's link as it is, before that as it could be."""
    widths = [gpu.link_width for gpu in tree.gpus if gpu.link_width]
    usual, votes = Counter(widths).most_common(1)[0] if widths else (0, 0)
    resting = []
    for at, gpu in enumerate(tree.gpus):
        if gpu.link_width and gpu.link_width < usual and votes * 2 > len(widths):
            yield _narrow(tree, gpu, at, usual, votes)
        elif gpu.link_gts is not None and gpu.link_gts <= RESTING_GTS:
            resting.append(_device(gpu, at))
    if resting:
        yield _at_rest(tree, resting)
    yield from _narrow_switch(tree)


def _narrow(tree: TopologyTree, gpu: XmlGpu, at: int, usual: int, votes: int) -> Finding:
    return Finding(
        code="pcie-downgraded",
        severity="degraded",
        summary=f"GPU {_device(gpu, at)} ({gpu.bus_id}): PCIe link x{gpu.link_width} where "
        f"{votes} other GPUs have x{usual}.",
        where=Where(gpu=gpu.device, device=gpu.bus_id, file=tree.file, line=gpu.line or None),
        evidence=(
            Evidence(
                basis="claimed",
                text=f"{place(tree.file, gpu.line)}: link {_link(gpu.link_gts, gpu.link_width)}",
            ),
        ),
        remedy=f"sudo lspci -vv -s {gpu.bus_id} | grep -E 'LnkCap|LnkSta'",
        confidence="inferred",
    )


def _at_rest(tree: TopologyTree, names: list[str]) -> Finding:
    gpu = next(gpu for at, gpu in enumerate(tree.gpus) if _device(gpu, at) == names[0])
    c2c = any(gpu.c2c_count for gpu in tree.gpus)
    why = (
        "C2C carries the GPU's data here, not PCIe, and a link at rest lowers its speed; it is no "
        "bottleneck by this"
        if c2c
        else "a link at rest lowers its speed to save power: read it under load before believing"
    )
    return Finding(
        code="pcie-downgraded",
        severity="info",
        summary=f"GPU {listed(names)}: the PCIe link reads "
        f"{_link(gpu.link_gts, gpu.link_width)}; {why}.",
        where=Where(gpu=gpu.device, device=gpu.bus_id, file=tree.file, line=gpu.line or None),
        evidence=(
            Evidence(
                basis="claimed",
                text=f"{place(tree.file, gpu.line)}: link_speed {gpu.link_gts:g} GT/s, link_width "
                f"{gpu.link_width}" + (f", c2c count {gpu.c2c_count}" if gpu.c2c_count else ""),
            ),
        ),
        confidence="inferred",
    )


def _narrow_switch(tree: TopologyTree) -> Iterator[Finding]:
    """A switch that the file says is slower than the GPU below it: NCCL plans with that."""
    for at, gpu in enumerate(tree.gpus):
        own = _own_gbs(gpu)
        if gpu.uplink_gbs is not None and own and gpu.uplink_gbs < NARROW_SHARE * own:
            yield Finding(
                code="pcie-downgraded",
                severity="degraded",
                summary=f"GPU {_device(gpu, at)}: by this topology its switch passes "
                f"{gpu.uplink_gbs:.3g} GB/s towards the CPU where the GPU's link has {own:.3g}; "
                "NCCL plans with the smaller figure.",
                where=Where(
                    gpu=gpu.device, device=gpu.bus_id, file=tree.file, line=gpu.line or None
                ),
                evidence=(
                    Evidence(
                        basis="claimed",
                        text=f"{place(tree.file)}: link_speed, link_width of the <pci> above it",
                    ),
                ),
                remedy="export NCCL_TOPO_DUMP_FILE='topo.xml'   # and correct link_speed and "
                "link_width of that switch in the file given as NCCL_TOPO_FILE",
                confidence="predicted",
            )
            return  # the same switch, or the same mistake


def _own_gbs(gpu: XmlGpu) -> float | None:
    return link_gbs(gpu.link_gts, gpu.link_width) if gpu.link_gts and gpu.link_width else None


def _device(gpu: XmlGpu, at: int) -> str:
    return str(at if gpu.device is None else gpu.device)
