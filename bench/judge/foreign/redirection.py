"""What keeps GPUs and NICs from reaching each other directly: ACS at the ports above them, or an
IOMMU that translates.

In: a Dossier (lspci, kernel lines, peer tests, variables). Out: p2p-blocked, told once. With ACS a
switch sends a peer's packets up to the root port (ReqRedir, CmpltRedir, UpstreamFwd; SrcValid
alone does not); clearing it is NCCL's own advice (user guide, troubleshooting). Above a root port
there is no shorter way to bar: there it only shows that an IOMMU is on. iommu=pt does not clear
ACS. In a virtual machine neither may be changed from inside.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bench.judge.docket import Docket
from bench.judge.foreign import experiments, iommu, peers
from bench.judge.foreign.pci_listing import MAX_BRIDGES, is_below, listings, with_buses
from bench.judge.foreign.places import place
from bench.judge.words import listed
from bench.records import Dossier, Evidence, Finding, PciBridge, Where

REDIRECTS = ("ReqRedir", "CmpltRedir", "UpstreamFwd")
SHOWN = 8
MAX_ENDS = 256  # GPUs and RDMA functions of a host
# With each message split over all queue pairs, pieces are small and a long way round costs more.
SPLIT = "NCCL_IB_SPLIT_DATA_ON_QPS"


def judge(dossier: Dossier, docket: Docket) -> None:
    """One finding for ACS, with the IOMMU as evidence; else one for the IOMMU."""
    finding = _redirected(dossier) or iommu.finding(dossier)
    if finding is not None:
        docket.add(finding)


def _redirected(dossier: Dossier) -> Finding | None:
    turning = [d for d in dossier.bridges if any(d.control.get(f) for f in REDIRECTS)]
    named = [d for listing in listings(dossier.bridges) for d in _that_bear(listing)]
    nameless = [d for d in turning if not d.address]
    if not named and not nameless:
        return None
    barring = [d for d in named if d.port != "root"]
    at_roots = bool(named) and not barring
    named = barring or named
    ports = named or nameless
    flags = listed_flags(ports)
    registers = sorted({d.register for d in ports if d.register})
    register = f", ACSCtl {registers[0]}" if len(registers) == 1 else ""
    addresses = [_short(d.address) for d in named]
    where = f" ({', '.join(addresses[:SHOWN])})" if addresses else ""
    translated = iommu.translating(dossier.kernels)
    beside = " and the IOMMU translates what passes" if translated else ""
    shown = len([d for d in dossier.bridges if d.control])
    of = f" of {shown} listed" if shown > len(ports) else ""
    what = _between(dossier)
    known = any(d.name for d in named)  # setpci's list does not say which ports lead to a GPU
    hurt = bool(translated) or any(peers.suffers(each) for each in dossier.peers)
    effect = (
        "passes the root complex as it has to anyway; what is redirected there costs time only "
        "where the IOMMU translates"
        if at_roots and not hurt
        else "goes up through the root complex and back, which is slow or hangs"
    )
    return Finding(
        code="p2p-blocked",
        severity="degraded" if known and (hurt or not at_roots) else "warning",
        summary=f"ACS redirects peer traffic at {len(ports)}{of} PCI {'root ' * at_roots}port"
        f"{'s' * (bool(of) or len(ports) > 1)}{where}: {flags}{register}{beside}. "
        f"{what} {effect}.",
        where=Where(
            host=ports[0].host,
            device=", ".join(d.address for d in named[:SHOWN]) or None,
            file=ports[0].file,
            line=ports[0].line,
        ),
        evidence=(
            *(_port(d) for d in ports[:4]),
            *iommu.kernel_lines(translated),
            *_settings(dossier),
            *experiments.measured(dossier),
        ),
        remedy=_remedy(dossier, named, at_roots),
        confidence="inferred",
    )


def _that_bear(listing: Sequence[PciBridge]) -> list[PciBridge]:
    """Redirecting ports above a GPU or an RDMA NIC; a listing that shows neither was cut to what
    matters, by who filed it."""
    turning = [d for d in listing if d.address and any(d.control.get(f) for f in REDIRECTS)]
    ends = [d for d in listing if d.address and (d.kind == "gpu" or _is_rdma(d))][:MAX_ENDS]
    if not ends:
        return [d for d in turning if d.kind != "nic"]
    if not with_buses(listing):
        return [d for d in turning if d.kind == "bridge"]
    return [d for d in turning[:MAX_BRIDGES] if any(is_below(d, end) for end in ends)]


def _is_rdma(device: PciBridge) -> bool:
    words = ("Mellanox", "ConnectX", "BlueField", "nfiniband", "mlx5")
    told = f"{device.name} {device.driver or ''}"
    return device.kind == "nic" and any(word in told for word in words)


def listed_flags(ports: Sequence[PciBridge]) -> str:
    """ "ReqRedir+ CmpltRedir+ UpstreamFwd+": what is on at any of them."""
    return " ".join(f"{flag}+" for flag in REDIRECTS if any(d.control.get(flag) for d in ports))


def _short(address: str) -> str:
    return address.removeprefix("0000:")


def _port(device: PciBridge) -> Evidence:
    flags = " ".join(f"{name}{'+' if on else '-'}" for name, on in device.control.items())
    name = f" {device.name}" if device.name else ""
    text = f"{place(device.file, device.line)}: {_short(device.address)}{name}: ACSCtl {flags}"
    return Evidence(basis="claimed", text=text)


def _between(dossier: Dossier) -> str:
    """Whose traffic: between GPUs that share no NVLink, and between GPU and NIC."""
    kinds = {
        link.kind
        for matrix in dossier.matrices
        for link in matrix.links
        if link.source in matrix.gpus and link.destination in matrix.gpus
    }
    if kinds and kinds <= {"NV", "XGMI"}:
        return "Between GPU and NIC (GPUDirect RDMA) it"
    if kinds and not any(matrix.nics for matrix in dossier.matrices) and not dossier.figures:
        return f"What GPUs write to each other ({listed(sorted(kinds))}, no NVLink)"
    return "What GPUs and NICs write to each other (P2P, GPUDirect RDMA)"


def _settings(dossier: Dossier) -> Iterator[Evidence]:
    for variables in dossier.variables:
        if variables.variables.get(SPLIT, "0") != "0":
            text = (
                f"{place(variables.file)}: {SPLIT}={variables.variables[SPLIT]} splits every "
                "message over all queue pairs, which costs more on a long way"
            )
            yield Evidence(basis="claimed", text=text)
        if variables.variables.get("NCCL_P2P_DISABLE") == "1":
            text = f"{place(variables.file)}: NCCL_P2P_DISABLE=1 works around it"
            yield Evidence(basis="claimed", text=text)


def _remedy(dossier: Dossier, ports: Sequence[PciBridge], at_roots: bool) -> str:
    steps = []
    if at_roots:
        steps.append("sudo dmesg | grep -i 'default domain type'; nvidia-smi topo -p2p r")
    elif ports:
        names = " ".join(_short(d.address) for d in ports[:64])
        steps.append(f'for port in {names}; do sudo setpci -s "$port" ECAP_ACS+0x6.w=0000; done')
    else:
        steps.append("sudo lspci -vvv   # with the ports' own lines, then clear ACS with setpci")
    if any(v.variables.get(SPLIT, "0") != "0" for v in dossier.variables):
        steps.append(f"unset {SPLIT}")
    after = "for good: ACS off in the BIOS; boot with iommu=pt, which alone does not clear ACS"
    if at_roots:
        after = "Translated: boot with iommu=pt; then measure with p2pBandwidthLatencyTest"
    return f"{'; '.join(steps)}   # {after}"
