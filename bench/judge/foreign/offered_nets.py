"""What NCCL's topology XML offers as networks, and whether it knows where they are.

In: a Dossier. Out: interface-virtual where nothing but Wi-Fi, tunnels and bridges is offered, and
topology-unknown where the file leaves out what NCCL plans with. Speed 10000 without hardware is
what NCCL writes when a device tells none; it is no measurement of 10 Gbit/s.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.facts import kinds
from bench.judge.docket import Docket
from bench.judge.foreign.places import place
from bench.judge.virtual import VIRTUAL_KINDS, VIRTUAL_NAMES
from bench.judge.words import listed
from bench.records import Dossier, Evidence, Finding, TopologyTree, Where, XmlNet

WORDS = {
    "wifi": "Wi-Fi card", "vpn": "VPN tunnel", "docker": "container bridge", "bridge": "bridge",
    "veth": "virtual Ethernet", "virtual": "virtual interface",
}  # fmt: skip
# ConnectX, E810 and ENA virtual functions, virtio: a virtual machine's NICs.
VIRTUAL_FUNCTIONS = (
    "0x15b3:0x101e", "0x15b3:0x101c", "0x15b3:0x1018", "0x8086:0x1889", "0x1af4:0x1000",
    "0x1af4:0x1041",
)  # fmt: skip
FEWEST_GPUS = 2


def judge(dossier: Dossier, docket: Docket) -> None:
    """Each tree by itself."""
    for tree in dossier.trees:
        for finding in (_only_virtual(tree), _unknown(tree)):
            if finding is not None:
                docket.add(finding)


def kind_of(net: XmlNet) -> str:
    """What a network is, by PCI class where there is one, else by its name."""
    if net.kind is not None:
        return net.kind
    kind = kinds.classify(net.name, has_device=None if not net.virtual else False)
    named = kinds.classify(net.name)
    return named if kind == "virtual" and named != "physical" else kind


def _only_virtual(tree: TopologyTree) -> Finding | None:
    told = {net.name: kind_of(net) for net in tree.nets}
    virtual = {name: kind for name, kind in told.items() if _leads_nowhere(name, kind)}
    if not told or len(virtual) < len(told) or set(told.values()) == {"loopback"}:
        return None  # loopback alone is a job on one host
    names = listed(f"{name} ({WORDS.get(kind, kind)})" for name, kind in virtual.items())
    several = len(virtual) > 1
    whole = "both are misselections" if len(virtual) == 2 else "all are misselections"
    whole = whole if several else "it is a misselection"
    # With several GPUs in the dump the job may need no network at all.
    alone = len(tree.gpus) < FEWEST_GPUS
    first = tree.nets[0]
    return Finding(
        code="interface-virtual",
        severity="degraded" if alone else "warning",
        summary=f"Only {names} {'are' if several else 'is'} offered to NCCL; there is no wired "
        f"or RDMA NIC in the dump. For work over several hosts {whole}.",
        where=Where(
            interface=first.name if not several else None, file=tree.file, line=first.line or None
        ),
        evidence=tuple(_shown(tree, net, told[net.name]) for net in tree.nets[:4]),
        remedy="ip -br link; ibv_devices   # connect a wired port, then name it exactly in "
        "NCCL_SOCKET_IFNAME",
        confidence="asked",
    )


def _leads_nowhere(name: str, kind: str) -> bool:
    if kind in ("wifi", "vpn", "docker", "loopback"):
        return True
    # A veth or an unknown virtual device may be a pod's only way out: its name must tell.
    return kind in (*VIRTUAL_KINDS, "veth") and bool(VIRTUAL_NAMES.match(name))


def _shown(tree: TopologyTree, net: XmlNet, kind: str) -> Evidence:
    hardware = f"PCI class {net.pci_class}" if net.pci_class else "no PCI device"
    speed = ""
    if net.speed_mbit and not net.speed_told:
        speed = (
            f", speed={net.speed_mbit} which is NCCL's default for an unknown link, not a "
            f"measured {net.speed_mbit / 1000:g} Gbit/s"
        )
    elif net.speed_mbit:
        speed = f", speed={net.speed_mbit}"
    text = f"{place(tree.file, net.line)}: {net.name} is dev {net.device}: {WORDS.get(kind, kind)}"
    return Evidence(basis="asked", text=f"{text}, {hardware}{speed}")


def _unknown(tree: TopologyTree) -> Finding | None:
    """What NCCL would have to guess; a note for one GPU, a warning where paths are planned."""
    lacks = []
    gpus_without = [gpu for gpu in tree.gpus if gpu.link_gts is None or gpu.link_width is None]
    if gpus_without and len(gpus_without) == len(tree.gpus):
        lacks.append("the PCIe speed of every GPU (NCCL takes Gen 3 x16)")
    if tree.cpus and not tree.numa_known and tree.arch == "x86_64" and len(tree.gpus) > 1:
        lacks.append("the NUMA node of a CPU (numaid -1)")
    functions = _virtual_functions(tree.nets)
    if functions and len(tree.gpus) >= FEWEST_GPUS and not tree.switches:
        lacks.append(
            f"any PCI switch, though {listed(functions)} are virtual functions, so this is a "
            "virtual machine that hides them"
        )
    if not lacks:
        return None
    planned = len(tree.gpus) > 1 and any(kind_of(net) == "rdma" for net in tree.nets)
    return Finding(
        code="topology-unknown",
        severity="warning" if planned else "info",
        summary=f"The topology lacks {'; '.join(lacks)}. NCCL plans rings and GPUDirect without "
        "it.",
        where=Where(file=tree.file),
        evidence=(
            Evidence(
                basis="asked",
                text=f"{place(tree.file)}: {len(tree.gpus)} GPUs, {len(tree.nets)} networks, "
                f"{tree.switches} PCI switches, {tree.cpus} CPUs",
            ),
        ),
        remedy="export NCCL_TOPO_FILE='topo.xml'   # the provider's file for this machine type",
        confidence="inferred",
    )


def _virtual_functions(nets: Sequence[XmlNet]) -> list[str]:
    return [net.name for net in nets if net.pci_device in VIRTUAL_FUNCTIONS]
