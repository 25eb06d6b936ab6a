"""What topologies show, one sentence each: paths between GPUs, which NIC belongs to which GPU.

In: a Dossier. Out: sentences without judgement, with the numbers that an operator would count
himself: pairs per kind of path, NVLinks per GPU, NICs near and far.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import PurePath

from bench.judge.foreign import offered_nets
from bench.judge.words import listed
from bench.records import (
    Dossier,
    MatrixLink,
    NvlinkStatus,
    PciBridge,
    PeerMatrix,
    PortsOf,
    TopologyMatrix,
    TopologyTree,
    XmlGpu,
    XmlNet,
)

# NCCL's path order, nearest first (graph/topo.h); NODE is nvidia-smi's word for a part of SYS.
NEAREST_FIRST = ("NV", "XGMI", "PIX", "PXB", "PHB", "PCIE", "NODE", "SYS")
FAR = ("NODE", "SYS")  # a NIC at that distance from every GPU is no rail
REDIRECTIONS = ("ReqRedir", "CmpltRedir", "UpstreamFwd")  # what keeps peers from going direct

KINDS = {"wifi": "Wi-Fi", "vpn": "VPN", "rdma": "RDMA"}


def sentences(dossier: Dossier) -> Iterator[str]:
    """In the order of the files' kinds; a topology that shows nothing gives none."""
    for matrix in dossier.matrices:
        place = _place(matrix, dossier.matrices)
        yield from (f"{place}{sentence}" for sentence in _matrix(matrix))
    for tree in dossier.trees:
        place = _place(tree, dossier.trees)
        yield from (f"{place}{sentence}" for sentence in _tree(tree))
    yield from _nvlinks(dossier.nvlinks)
    for peers in dossier.peers:
        place = _place(peers, dossier.peers)
        yield from (f"{place}{sentence}" for sentence in _peers(peers))
    yield from _bridges(dossier.bridges)
    for kernel in dossier.kernels:
        if kernel.iommu:
            name = PurePath(kernel.file).name
            yield f"{_of(kernel.host)}{name} says that the IOMMU is {kernel.iommu}"
    for ports in dossier.ports:
        yield from _ports(ports)


def _of(host: str | None) -> str:
    return f"{host}: " if host else ""


def _place(
    one: TopologyMatrix | TopologyTree | PeerMatrix,
    alike: tuple[TopologyMatrix | TopologyTree | PeerMatrix, ...],
) -> str:
    """ "hostA: ", or the file's name where several files of a kind do not tell their host."""
    host = None if isinstance(one, TopologyTree) else one.host
    several = len({other.file for other in alike}) > 1
    return _of(host or (PurePath(one.file).name if several else None))


def _matrix(matrix: TopologyMatrix) -> Iterator[str]:
    paths: dict[tuple[str, str], str] = {}
    near: dict[str, dict[str, str]] = {}
    for link in matrix.links:
        if link.source in matrix.gpus and link.destination in matrix.gpus:
            first, second = sorted((link.source, link.destination), key=matrix.gpus.index)
            paths[first, second] = _word(link)
        elif link.source in matrix.gpus:
            near.setdefault(link.destination, {})[link.source] = link.kind
        elif link.destination in matrix.gpus:
            near.setdefault(link.source, {}).setdefault(link.destination, link.kind)
    if paths:
        yield f"{len(matrix.gpus)} GPUs: {_pairs(paths)}"
    if near:
        yield _nics(near, matrix)


def _word(link: MatrixLink) -> str:
    return f"{link.kind}{link.nvlinks}" if link.nvlinks is not None else link.kind


def _pairs(paths: dict[tuple[str, str], str]) -> str:
    """ "all 28 pairs NV12", "GPU0-GPU1 and GPU2-GPU3 NV18, the other 4 pairs SYS"."""
    kinds = Counter(paths.values())
    if len(kinds) == 1:
        (kind,) = kinds
        return f"{'the' if len(paths) == 1 else f'all {len(paths)}'} pair{_s(len(paths))} {kind}"
    told: list[str] = []
    for kind, number in sorted(kinds.items(), key=lambda item: item[1]):
        rest = len(told) == len(kinds) - 1
        if rest:
            told.append(f"the other {number} pair{_s(number)} {kind}")
        elif number <= 4:
            members = (f"{a}-{b}" for (a, b), path in paths.items() if path == kind)
            told.append(f"{listed(members)} {kind}")
        else:
            told.append(f"{number} pairs {kind}")
    return ", ".join(told)


def _nics(near: dict[str, dict[str, str]], matrix: TopologyMatrix) -> str:
    """ "NIC0 and NIC1 are nearest to GPU0 and GPU1 (PXB), …; NIC8 and NIC9 SYS to all"."""
    groups: dict[tuple[tuple[str, ...], str], list[str]] = {}
    for nic, kinds in near.items():
        best = min(kinds.values(), key=_distance)
        gpus = tuple(gpu for gpu in matrix.gpus if kinds.get(gpu) == best)
        everywhere = len(set(kinds.values())) == 1
        groups.setdefault(((), best) if everywhere else (gpus, best), []).append(
            f"{nic} ({matrix.nic_names[nic]})" if nic in matrix.nic_names else nic
        )
    told = []
    for (gpus, kind), nics in groups.items():
        to = f"{'are' if len(nics) > 1 else 'is'} nearest to {listed(gpus)} ({kind})"
        told.append(f"{listed(nics)} {to if gpus else f'{kind} to all'}")
    return "; ".join(told)


def _distance(kind: str) -> int:
    return NEAREST_FIRST.index(kind) if kind in NEAREST_FIRST else len(NEAREST_FIRST)


def _tree(tree: TopologyTree) -> Iterator[str]:
    kinds: dict[str, list[str]] = {}
    for at, gpu in enumerate(tree.gpus):
        name = str(at if gpu.device is None else gpu.device)
        kinds.setdefault(_gpu(gpu), []).append(name)
    for words, names in kinds.items():
        if words:
            yield f"GPU{_s(len(names))} {listed(names)}: {words}"
    for net in tree.nets:
        yield f"{net.name}: {_net(net, tree)}"


def _gpu(gpu: XmlGpu) -> str:
    words = []
    if gpu.nvlinks:
        total = sum(link.count for link in gpu.nvlinks)
        shares = "+".join(str(link.count) for link in gpu.nvlinks)
        switches = sum(link.target_kind == "switch" for link in gpu.nvlinks)
        to = f"NVSwitch{'es' * (switches > 1)}" if switches else f"peer{_s(len(gpu.nvlinks))}"
        split = f" ({shares})" if len(gpu.nvlinks) > 1 else ""
        words.append(f"{total} {gpu.link_kind}{_s(total)} to {len(gpu.nvlinks)} {to}{split}")
    if gpu.c2c_count:
        words.append(f"{gpu.c2c_count} C2C links to the CPU")
    if gpu.link_gts and gpu.link_width:
        words.append(f"PCIe {gpu.link_gts:g} GT/s x{gpu.link_width}")
    return ", ".join(words)


def _net(net: XmlNet, tree: TopologyTree) -> str:
    kind = offered_nets.kind_of(net)
    words = [KINDS[kind]] if kind in KINDS else []
    if net.speed_mbit:
        speed = f"{net.speed_mbit / 1000:g} Gbit/s"
        words.append(speed if net.speed_told else f"claims no speed ({speed} is NCCL's default)")
    if net.gdr is not None:
        words.append("GPUDirect RDMA" if net.gdr else "no GPUDirect RDMA")
    if net.paths:
        best = min(net.paths.values(), key=_distance)
        gpus = [_device(tree, at) for at, kind in net.paths.items() if kind == best]
        words.append(f"{best} to GPU{_s(len(gpus))} {listed(gpus)}")
    elif net.virtual:
        words.append("no PCI device behind it")
    return ", ".join(words) or "a network device of which nothing more is told"


def _device(tree: TopologyTree, at: int) -> str:
    device = tree.gpus[at].device if at < len(tree.gpus) else None
    return str(at if device is None else device)


def _nvlinks(gpus: Iterable[NvlinkStatus]) -> Iterator[str]:
    """GPUs that show the same are told together: eight complete ones are one sentence."""
    alike: dict[tuple[str | None, str], list[str]] = {}
    for gpu in gpus:
        active = [link for link in gpu.links if link.active]
        if gpu.all_inactive:
            words = "all NVLinks inactive"
        elif not gpu.links:
            continue
        else:
            rates = [link.rate_gbs for link in active if link.rate_gbs is not None]
            total = f", {sum(rates):.1f} GB/s together" if rates else ""
            words = f"{len(active)} of {len(gpu.links)} NVLinks active{total}"
        alike.setdefault((gpu.host, words), []).append(str(gpu.gpu))
    for (host, words), names in alike.items():
        yield f"{_of(host)}GPU{_s(len(names))} {listed(names)}: {words}"


def _peers(peers: PeerMatrix) -> Iterator[str]:
    allowed = {tuple(sorted(pair.split("-"))) for pair, word in peers.status.items() if _ok(word)}
    pairs = peers.gpus * (peers.gpus - 1) // 2
    if peers.status and pairs:
        which = f": {listed('-'.join(pair) for pair in sorted(allowed))}" if allowed else ""
        which = which if len(allowed) < pairs else ""
        yield f"peer access on {len(allowed)} of {pairs} pair{_s(pairs)} of GPUs{which}"
    if peers.bandwidth_gbs:
        slowest, fastest = min(peers.bandwidth_gbs.values()), max(peers.bandwidth_gbs.values())
        yield f"measured {slowest:g} to {fastest:g} GB/s between two GPUs"


def _ok(word: str) -> bool:
    return word.upper() in ("OK", "YES", "1")


def _bridges(devices: Iterable[PciBridge]) -> Iterator[str]:
    with_acs = [device for device in devices if device.control]
    redirecting = [d for d in with_acs if any(d.control.get(flag) for flag in REDIRECTIONS)]
    if with_acs:
        names = listed(device.address for device in redirecting if device.address)
        number = f"{len(redirecting)} of {len(with_acs)}" if redirecting else "none of the"
        yield f"ACS redirects peer traffic at {number} listed PCI ports" + (
            f" ({names})" if names else ""
        )


def _ports(ports: PortsOf) -> Iterator[str]:
    for port in ports.ports:
        words = [port.state or "", port.link_layer or ""]
        words.append(f"{port.rate_gbit:g} Gbit/s" if port.rate_gbit else "")
        words.append(f"MTU {port.active_mtu}" if port.active_mtu else "")
        told = ", ".join(word for word in words if word)
        if told:
            yield f"{_of(ports.host)}{port.device} port {port.port}: {told}"


def _s(number: int) -> str:
    return "" if number == 1 else "s"
