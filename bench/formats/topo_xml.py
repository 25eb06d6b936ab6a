"""NCCL's topology XML (NCCL_TOPO_DUMP_FILE, NCCL_TOPO_FILE), whole, cut off or an excerpt.

In: the file. Out: one TopologyTree with GPUs, NICs, their links and the class of the path between
each GPU and each NIC. What the elements mean: src/graph/xml.cc and topo.cc of NCCL; in a file that
is handed in, GPUs and NICs may be nothing but PCI functions of their class.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

import msgspec

from bench.formats import pci_paths, xml_nodes
from bench.formats.pci_paths import Place, Switch
from bench.formats.source import Source
from bench.formats.xml_nodes import Node
from bench.records import (
    BadInput,
    InterfaceKind,
    TopologyTree,
    XmlGpu,
    XmlNet,
    XmlNvlink,
)

KIND = "NCCL topology XML"

_TOP = re.compile(r"<(system|cpu|pci|gpu|net|nic)[\s/>]")
_NORMAL_DIFF = re.compile(rb"^\d{1,7}(?:,\d{1,7})?[acd]\d{1,7}(?:,\d{1,7})?\r?$", re.MULTILINE)
_UNIFIED_DIFF = re.compile(rb"^@@ -\d{1,7}(?:,\d{1,7})? \+\d{1,7}(?:,\d{1,7})? @@", re.MULTILINE)
_SPEED = re.compile(r"(\d{1,3}(?:\.\d{1,3})?)")
# What NCCL writes for a device that tells no speed (ncclNetSocket: "Defaulting to 10 Gbps").
DEFAULT_SPEED_MBIT = 10_000
MAX_WIDTH = 32  # virtual machines show 63 or 255 where they know nothing
MAX_DEVICES = 1024

_Kind = InterfaceKind | Literal["rdma"]

_GPU_CLASSES = ("0x03", "0x12")  # display and accelerators
_NIC_CLASSES = ("0x0200", "0x0207", "0x0280")
_WIFI_CLASS, _INFINIBAND_CLASS = "0x0280", "0x0207"
_Target = Literal["gpu", "switch", "cpu", "unknown"]
_TARGETS: dict[str, _Target] = {"0x068000": "switch", "0x068001": "cpu"}
# Devices of ibverbs and libfabric: mlx5_0, mlx5_bond_0, rocep80s0, ibp12s0, bnxt_re0, rdmap0s6 …
_RDMA_NAME = re.compile(
    r"(?:mlx[45]_|roce|ibp|ibs|ibo|bnxt_re|hfi1_|rdmap|efa_|irdma|erdma|qedr|hns_|ionic_|mana_|hsn)"
)


def likeness(head: str, name: str) -> float:
    """By its elements; a graph file of NCCL has none of them."""
    found = {match[1] for match in _TOP.finditer(head)}
    if "system" in found and found & {"cpu", "pci"}:
        return 1.0
    if len(found & {"cpu", "pci", "gpu", "net", "nic"}) >= 2 and "busid=" in head:
        return 0.9 if head.lstrip().startswith("<") else 0.7
    if found and (_NORMAL_DIFF.search(head.encode()) or _UNIFIED_DIFF.search(head.encode())):
        return 0.8
    if re.search(r"<!(?:DOCTYPE|ENTITY)", head[:4096], re.IGNORECASE) and "<html" not in head:
        return 0.3  # refused in one sentence, should it be nothing else
    return 0.0


def read(source: Source) -> tuple[TopologyTree, ...]:
    """The tree; of a diff between two files, what it shows of either."""
    content = source.bytes_()
    sides = _sides(content)
    if sides is None:
        return (_tree(content, source.file),)
    before, after = (_tree(side, source.file) for side in sides)
    return (
        msgspec.structs.replace(before, side="before"),
        msgspec.structs.replace(after, side="after"),
    )


def _sides(content: bytes) -> tuple[bytes, bytes] | None:
    """The lines of `diff` or `diff -u` that stand in one file and in the other."""
    head = content[:4096]
    if _NORMAL_DIFF.search(head):
        marks = b"<", b">"
    elif _UNIFIED_DIFF.search(head):
        marks = b"-", b"+"
    else:
        return None
    lines = content.split(b"\n")
    before, after = (
        b"\n".join(line[1:] if line[:1] == mark else b"" for line in lines) for mark in marks
    )
    return before, after


def _tree(content: bytes, file: str) -> TopologyTree:
    tops, ended = xml_nodes.parse(content, file=file)
    cpus = list(_cpus(tops))
    walker = _Walker()
    for number, cpu in enumerate(cpus):
        walker.walk(cpu, number)
    if not walker.gpus and not walker.nets and not any(cpu.name == "cpu" for cpu in cpus):
        raise BadInput("holds no CPU, GPU or network of an NCCL topology", file=file)
    system = next((top for top in tops if top.name == "system"), None)
    known = [cpu for cpu in cpus if cpu.name == "cpu"]
    first = known[0] if known else Node("cpu", {}, 0)
    family, model = first.get("familyid"), first.get("modelid")
    missing = [ended] if ended else []
    if not known:
        missing.append("no <cpu>: NUMA nodes and what hangs from them are not in the file")
    return TopologyTree(
        file=file,
        host_hash=first.get("host_hash"),
        version=system.get("version") if system else None,
        arch=first.get("arch"),
        vendor=first.get("vendor"),
        model=f"{family}/{model}" if family and model else family,
        cpus=len(known),
        numa_known=all(_integer(cpu.get("numaid")) not in (None, -1) for cpu in known),
        switches=walker.switches,
        gpus=tuple(gpu for gpu, _ in walker.gpus),
        nets=tuple(walker.with_paths()),
        missing=tuple(missing),
    )


def _cpus(tops: list[Node]) -> Iterator[Node]:
    """All <cpu> of the file; what stands outside any is taken as hanging from one nameless CPU."""
    loose = []
    for top in tops:
        for node in top.children if top.name == "system" else [top]:
            if node.name == "cpu":
                yield node
            elif node.name in ("pci", "nic", "gpu", "net"):
                loose.append(node)
    if loose:
        yield Node("", {}, 0, loose)


class _Walker:
    """Collects devices with the place where they hang."""

    def __init__(self) -> None:
        self.gpus: list[tuple[XmlGpu, Place]] = []
        self.nets: list[tuple[XmlNet, Place]] = []
        self.switches = 0

    def walk(self, cpu: Node, number: int) -> None:
        numa = _integer(cpu.get("numaid"))
        self._children(cpu, Place(cpu=number, switches=()), None, numa)

    def _children(self, node: Node, place: Place, pci: Node | None, numa: int | None) -> None:
        for child in node.children:
            if len(self.gpus) + len(self.nets) >= MAX_DEVICES:
                return
            if child.name == "pci":
                self._pci(child, place, numa)
            elif child.name == "gpu":
                self.gpus.append((_gpu(child, pci, place, numa), place))
            elif child.name == "nic":
                self._children(child, place, pci, numa)
            elif child.name == "net":
                self.nets.append((_net(child, pci, numa), place))

    def _pci(self, node: Node, place: Place, numa: int | None) -> None:
        kind = node.get("class") or ""
        if kind.startswith("0x0604") or any(child.name == "pci" for child in node.children):
            self.switches += 1
            above = (*place.switches, _switch(node, self.switches))
            self._children(node, Place(cpu=place.cpu, switches=above), node, numa)
        elif any(child.name in ("gpu", "nic", "net") for child in node.children):
            self._children(node, place, node, numa)
        elif kind.startswith(_GPU_CLASSES):
            self.gpus.append((_gpu(Node("gpu", {}, node.line), node, place, numa), place))
        elif kind.startswith(_NIC_CLASSES):
            bus_id = node.get("busid") or "a NIC"
            self.nets.append((_net(Node("net", {"name": bus_id}, node.line), node, numa), place))

    def with_paths(self) -> Iterator[XmlNet]:
        for net, place in self.nets:
            paths = {
                at: pci_paths.path_class(gpu_place, place)
                for at, (_, gpu_place) in enumerate(self.gpus)
            }
            yield msgspec.structs.replace(net, paths=paths)


def _switch(node: Node, key: int) -> Switch:
    identity = 0
    for name in ("vendor", "device", "subsystem_vendor", "subsystem_device"):
        identity = identity << 16 | (_hexadecimal(node.get(name)) & 0xFFFF)
    return Switch(key, identity, _gts(node.get("link_speed")), _width(node.get("link_width")))


def _gpu(node: Node, pci: Node | None, place: Place, numa: int | None) -> XmlGpu:
    pci = pci or Node("pci", {}, 0)
    links: dict[str, XmlNvlink] = {}
    for child in node.children:
        if child.name in ("nvlink", "xgmi"):
            target, count = child.get("target") or "", _integer(child.get("count")) or 0
            before = links[target].count if target in links else 0
            links[target] = XmlNvlink(
                target=target, count=before + count, target_kind=_target(child.get("tclass"))
            )
    xgmi = any(child.name == "xgmi" for child in node.children)
    c2c = next((child for child in node.children if child.name == "c2c"), None)
    uplinks = [
        pci_paths.link_gbs(switch.link_gts, switch.link_width)
        for switch in place.switches
        if switch.link_gts is not None or switch.link_width is not None
    ]
    return XmlGpu(
        device=_integer(node.get("dev")),
        rank=_integer(node.get("rank")),
        sm=_integer(node.get("sm")),
        bus_id=pci.get("busid"),
        gdr=_flag(node.get("gdr")),
        nvlinks=tuple(links.values()),
        link_kind="XGMI" if xgmi else "NVLink",
        c2c_count=_integer(c2c.get("count")) if c2c else None,
        c2c_mb_per_s=_integer(c2c.get("bw")) if c2c else None,
        mlo_part=_integer(node.get("mlopart")),
        link_gts=_gts(pci.get("link_speed")),
        link_width=_width(pci.get("link_width")),
        numa=numa,
        pci_class=pci.get("class"),
        pci_device=_ids(pci),
        uplink_gbs=min(uplinks, default=None),
        line=node.line,
    )


def _target(tclass: str | None) -> _Target:
    if tclass is None:
        return "unknown"
    return _TARGETS.get(tclass, "gpu" if tclass.startswith(_GPU_CLASSES) else "unknown")


def _net(node: Node, pci: Node | None, numa: int | None) -> XmlNet:
    virtual = pci is None
    pci = pci or Node("pci", {}, 0)
    name = node.get("name") or "a network"
    speed, port = _integer(node.get("speed")), _integer(node.get("port"))
    kind = _kind(name, pci.get("class") or "", port, virtual)
    default = speed == DEFAULT_SPEED_MBIT and (virtual or kind == "wifi")
    return XmlNet(
        name=name,
        device=_integer(node.get("dev")),
        speed_mbit=speed,
        speed_told=speed is not None and speed > 0 and not default,
        port=port,
        guid=node.get("guid"),
        gdr=_flag(node.get("gdr")),
        kind=kind,
        pci_class=pci.get("class"),
        bus_id=pci.get("busid"),
        link_gts=_gts(pci.get("link_speed")),
        link_width=_width(pci.get("link_width")),
        numa=numa,
        virtual=virtual,
        pci_device=_ids(pci),
        line=node.line,
    )


def _kind(name: str, pci_class: str, port: int | None, virtual: bool) -> _Kind | None:
    """Only what the file tells; what a name without hardware means is not decided here.

    NCCL numbers ports of RDMA devices from 1 and those of sockets 0.
    """
    if pci_class.startswith(_WIFI_CLASS):
        return "wifi"
    if pci_class.startswith(_INFINIBAND_CLASS) or port or _RDMA_NAME.match(name):
        return "rdma"
    return None if virtual else "physical"


def _ids(pci: Node) -> str | None:
    vendor, device = pci.get("vendor"), pci.get("device")
    return f"{vendor}:{device}" if vendor and device else None


def _gts(text: str | None) -> float | None:
    match = _SPEED.match(text) if text else None
    return float(match[1]) if match and float(match[1]) > 0 else None


def _width(text: str | None) -> int | None:
    width = _integer(text)
    return width if width and 0 < width <= MAX_WIDTH else None


def _integer(text: str | None) -> int | None:
    try:
        value = int(text) if text and len(text) < 16 else None
    except ValueError:
        return None
    return value


def _hexadecimal(text: str | None) -> int:
    try:
        return int(text, 16) if text and len(text) < 16 else 0
    except ValueError:
        return 0


def _flag(text: str | None) -> bool | None:
    return None if text is None else text.strip() not in ("0", "")
