"""Lines of one thread that name no communicator, gathered until it is known whose they are.

In: trees, rings, edges, counts and times as printed. Out: a Bundle, which a Group takes.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from bench.formats.nccl_log import edges
from bench.formats.nccl_log.processes import Process
from bench.records import LogEdge

if TYPE_CHECKING:
    from bench.formats.nccl_log.members import Group, Member

_TREE = re.compile(r"\[(\d{1,3})\] (\S{1,60})")
_COUNTS = re.compile(r"(\d{1,4}) ((?:coll|collnet|nvls|p2p) channels(?: per peer)?)")
_INIT_TIME = re.compile(r"rank \d{1,7} nranks \d{1,7} total (\d{1,8}\.\d{1,6})")
_BOOTSTRAP_TIME = re.compile(
    r"Bootstrap timings total (\d{1,8}\.\d{1,9})(?:.{0,80}? recv (\d{1,8}\.\d{1,9}))?"
)


class Bundle:
    """Lines of one thread that belong together, and to `group` once that is known."""

    __slots__ = (
        "channels", "device", "edges", "first", "gdr", "group", "member", "nvls", "overflow",
        "process", "pxn", "ring_channels", "rings", "trees",
    )  # fmt: skip

    def __init__(self, process: Process, device: int | None, first: int) -> None:
        self.process, self.device, self.first = process, device, first
        self.group: Group | None = None
        self.member: Member | None = None
        self.edges: dict[bytes, int] = {}
        self.overflow: dict[bytes, int] = {}
        self.rings: dict[int, edges.Order] = {}
        self.ring_channels: int | None = None
        self.trees: dict[int, str] = {}
        self.channels: dict[str, int] = {}
        self.pxn: bool | None = None
        self.gdr: bool | None = None
        self.nvls = False

    # --- topics --------------------------------------------------------------------------------

    def ring(self, order: edges.Order) -> None:
        """ "Channel 00/02 : 0 1 2 3": a ring of rank 0."""
        self.rings.setdefault(order.channel, order)
        self.ring_channels = order.channels or self.ring_channels

    def tree(self, text: str) -> None:
        """ "Trees [0] 1/-1/-1->0->-1 [1] …": parent and children of this rank, by channel."""
        for channel, way in _TREE.findall(text):
            self.trees.setdefault(int(channel), way)

    def counts(self, text: str) -> None:
        """ "2 coll channels, 0 collnet channels, …"."""
        for number, kind in _COUNTS.findall(text):
            self.channels.setdefault(kind.replace(" channels", ""), int(number))

    def connected(self, text: str) -> None:
        """ "Connected all rings, use ring PXN 0 GDR 1" (2.24)."""
        words = text.split()
        for name in ("PXN", "GDR"):
            if name in words[:-1]:
                on = words[words.index(name) + 1].startswith("1")
                self.pxn, self.gdr = (on, self.gdr) if name == "PXN" else (self.pxn, on)

    def timed(self, text: str, line: int) -> None:
        """How long this rank's initialisation took, and its wait for the others."""
        if self.member is None:
            return
        if match := _BOOTSTRAP_TIME.match(text):
            self.member.bootstrap_s = float(match[1])
            self.member.bootstrap_receive_s = float(match[2]) if match[2] else None
        elif match := _INIT_TIME.search(text):
            self.member.init_s = float(match[1])
            if self.member.completed:
                self.member.completed_line = line

    # --- what the edges show -------------------------------------------------------------------

    def is_empty(self) -> bool:
        return not (
            self.edges or self.overflow or self.rings or self.trees or self.channels or self.nvls
            or self.gdr is not None
        )  # fmt: skip

    def parsed(self) -> list[LogEdge]:
        host = self.process.host
        found = [edges.edge(text, line, host) for text, line in self.edges.items()]
        return [edge for edge in found if edge is not None]
