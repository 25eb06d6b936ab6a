"""Which communicator a line belongs to, and what is known of each communicator.

In: "comm 0x… rank 0 nranks 8 … - Init START" lines, and lines that name none (channels, trees,
counts), by thread. Out: LogCommunicator records. A thread sets up one communicator at a time, so
what it prints between START and COMPLETE belongs to that; later lines (NCCL connects at the first
collective since 2.22) are placed by the rank and the GPUs that they show.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from bench.formats.nccl_log import edges
from bench.formats.nccl_log.members import Group, Member
from bench.formats.nccl_log.processes import Process
from bench.records import LogCommunicator, LogEdge

# Edges kept of a file: a 64-rank job with 32 channels and several communicators prints half.
MOST_EDGES = 1 << 16
MOST_GROUPS = 4096
MOST_UNNAMED = 256  # communicators without commId told apart; each costs a look at every other
TESTED_EDGES = 64  # of a bundle, to see which communicator it fits

_COMM = re.compile(rb"comm (0x[0-9a-fA-F]{1,16}|\(nil\)) rank (\d{1,7}) n[rR]anks (\d{1,7})")
_FIELDS = re.compile(
    rb" (cudaDev|nvmlDev|busId|commId|nNodes|localRanks|localRank|MNNVL) (\w{1,20})"
)
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
        self.rings: dict[int, tuple[int, ...]] = {}
        self.ring_channels: int | None = None
        self.trees: dict[int, str] = {}
        self.channels: dict[str, int] = {}
        self.pxn: bool | None = None
        self.gdr: bool | None = None
        self.nvls = False

    # --- topics --------------------------------------------------------------------------------

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

    def timed(self, text: str) -> None:
        """How long this rank's initialisation took, and its wait for the others."""
        if self.member is None:
            return
        if match := _BOOTSTRAP_TIME.match(text):
            self.member.bootstrap_s = float(match[1])
            self.member.bootstrap_receive_s = float(match[2]) if match[2] else None
        elif match := _INIT_TIME.search(text):
            self.member.init_s = float(match[1])

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


class Groups:
    """All communicators of a file."""

    def __init__(self) -> None:
        self._groups: list[Group] = []
        self._by_id: dict[str, Group] = {}
        self._by_pointer: dict[tuple[Process, str], Group] = {}
        self.bundles: list[Bundle] = []
        self.told: tuple[Group, ...] = ()  # those that records() has made
        self.edges_kept = 0

    def bundle(self, process: Process, device: int | None, line: int) -> Bundle:
        made = Bundle(process, device, line)
        self.bundles.append(made)
        return made

    def announce(self, bundle: Bundle | None, process: Process, device: int | None,
                 text: bytes, line: int) -> Bundle | None:  # fmt: skip
        """A "comm 0x…" line: the bundle that its thread fills from here on."""
        match = _COMM.search(text)
        if match is None:
            return bundle
        fields = {k.decode(): v.decode() for k, v in _FIELDS.findall(text)}
        rank, ranks = int(match[2]), int(match[3])
        pointer = match[1].decode()
        starts = b"Init START" in text
        group = self._group(
            fields.get("commId"), process, device, pointer, rank, ranks, line, starts
        )
        if group is None:
            return bundle
        member = group.member(rank, process, device, line)
        member.tell(fields, starts, b"Init COMPLETE" in text, b"Abort" in text)
        group.tell(fields)
        if starts or bundle is None or (bundle.group is not None and bundle.group is not group):
            bundle = self.bundle(process, device, line)
        bundle.group, bundle.member = group, member
        if b"Init COMPLETE" in text:  # what this thread says next may belong to another
            bundle = self.bundle(process, device, line)
            bundle.member = member
        return bundle

    def of_pointer(
        self, process: Process, device: int | None, tail: edges.Tail, line: int
    ) -> Bundle:
        """The bundle of a line in which RCCL itself names the communicator."""
        group = self._by_pointer.get((process, tail.pointer))
        if group is None:
            group = self._unnamed((process, device), tail.ranks, None, line)
            self._by_pointer[process, tail.pointer] = group
        if (process, device) not in group.bundles:
            bundle = group.bundles[process, device] = self.bundle(process, device, line)
            bundle.group = group
        found: Bundle = group.bundles[process, device]
        return found

    def keep(self, bundle: Bundle, text: bytes, line: int) -> None:
        """An edge: kept while there is room, else only counted by what carries it."""
        if text in bundle.edges:
            return
        if self.edges_kept < MOST_EDGES:
            self.edges_kept += 1
            bundle.edges[text] = line
        else:
            via = text[text.find(b" via ") + 5 :][:100]
            bundle.overflow[via] = bundle.overflow.get(via, 0) + 1

    # --- finding groups ------------------------------------------------------------------------

    def _group(
        self, comm_id: str | None, process: Process, device: int | None, pointer: str, rank: int,
        ranks: int, line: int, starts: bool,
    ) -> Group | None:  # fmt: skip
        known = self._by_pointer.get((process, pointer))
        if comm_id is None:
            if known is None or (starts and rank in known.members):
                known = self._unnamed((process, device), ranks, rank, line)
        else:
            named = self._by_id.get(comm_id)
            if named is None and known is not None and not known.named:
                known.id, known.named = comm_id, True  # its lines came before its commId
                self._by_id[comm_id] = known
            elif named is None and len(self._groups) < MOST_GROUPS:
                known = self._by_id[comm_id] = self._new(comm_id, True, ranks, line)
            else:
                if known is not None and named is not None and not known.named:
                    known.hand_over(process, named)
                known = named
        if known is not None:
            self._by_pointer[process, pointer] = known
        return known

    def _unnamed(
        self,
        owner: tuple[Process | None, int | None],
        ranks: int | None,
        rank: int | None,
        line: int,
    ) -> Group:
        """Without commId (before 2.16): the first of this size that lacks this rank and GPU."""
        number = 0
        for group in self._groups:
            if group.named:
                continue
            number += 1
            alike = group.ranks == ranks and rank not in group.members
            if (alike and owner not in group.owners) or number >= MOST_UNNAMED:
                group.owners.add(owner)
                return group
        group = self._new(f"unnamed-{number + 1}" if number else "unnamed", False, ranks, line)
        group.owners.add(owner)
        return group

    def _new(self, name: str, named: bool, ranks: int | None, line: int) -> Group:
        group = Group(name, named, ranks, line)
        self._groups.append(group)
        return group

    # --- the records ---------------------------------------------------------------------------

    def records(self) -> tuple[LogCommunicator, ...]:
        """All communicators, in the order in which they appear."""
        for bundle in self.bundles:
            if bundle.is_empty():
                continue
            parsed = bundle.parsed()
            group = bundle.group or self._fitting(bundle, parsed) or self._excerpt(bundle.first)
            group.take(bundle, parsed)
        self.told = tuple(group for group in self._groups if not group.is_empty())
        return tuple(group.record() for group in self.told)

    def _excerpt(self, line: int) -> Group:
        """Where no line names a communicator at all, all lines are taken for one's."""
        for group in self._groups:
            if group.ranks is None:
                return group
        return self._unnamed((None, None), None, None, line)

    def members_of(self, process: Process, device: int | None) -> Iterable[tuple[Group, Member]]:
        """This process's (and GPU's) places in the communicators; all its GPUs' for None."""
        for group, member in process.places:
            if device is None or member.device in (None, device):
                yield group, member

    def everything(self) -> tuple[Group, ...]:
        return tuple(self._groups)

    def _fitting(self, bundle: Bundle, parsed: list[LogEdge]) -> Group | None:
        """The communicator whose rank and GPUs these lines show; the latest where several do."""
        some = parsed[:TESTED_EDGES]
        best: tuple[tuple[int, int, int], Group] | None = None
        for group, member in self.members_of(bundle.process, bundle.device):
            ranks = group.ranks or 0
            if any(e.told_by != member.rank for e in some) or _largest(some) >= ranks:
                continue
            if any(max(ring, default=0) >= ranks for ring in bundle.rings.values()):
                continue
            before = member.line <= bundle.first
            quality = (group.agrees(some), before, member.line if before else -member.line)
            if best is None or quality > best[0]:
                best = quality, group
        return best[1] if best is not None else self._only(bundle, some)

    def _only(self, bundle: Bundle, some: list[LogEdge]) -> Group | None:
        """The file's only communicator, where nothing in these lines speaks against it."""
        if len(self._groups) != 1:
            return None
        group = self._groups[0]
        largest = max(
            _largest(some), *(max(ring, default=-1) for ring in bundle.rings.values()), -1
        )
        if group.ranks is not None and group.ranks <= largest:
            return None
        own = {edge.told_by for edge in some}
        taken = {
            rank for rank, member in group.members.items() if member.process is not bundle.process
        }
        return None if own & taken or len(own) > 1 else group


def _largest(some: list[LogEdge]) -> int:
    """The highest rank that the edges show."""
    return max((max(edge.source, edge.destination) for edge in some), default=-1)
