"""A communicator and its ranks while a log is read.

In: what lines tell of them. Out: LogCommunicator and LogMember records.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from bench.formats.nccl_log import edges
from bench.formats.nccl_log.processes import Process
from bench.records import LogCommunicator, LogEdge, LogMember

if TYPE_CHECKING:
    from bench.formats.nccl_log.bundles import Bundle

MOST_RINGS = 64
FEWEST_SHOWN = 20  # ranks of a ring; older NCCL and RCCL print no more, without a mark
LONGEST_LAST_LINE = 300


class Member:
    """One rank: a GPU of a process."""

    def __init__(self, rank: int, process: Process, device: int | None, line: int) -> None:
        self.rank, self.process, self.device, self.line = rank, process, device, line
        self.nvml_device: int | None = None
        self.bus_id: str | None = None
        self.started = self.completed = self.aborted = False
        self.completed_line: int | None = None
        self.local_rank: int | None = None
        self.init_s: float | None = None
        self.bootstrap_s: float | None = None
        self.bootstrap_receive_s: float | None = None
        self.last: tuple[int, str] | None = None

    def tell(self, fields: dict[str, str], started: bool, completed: bool, aborted: bool) -> None:
        self.started |= started
        self.completed |= completed
        self.aborted |= aborted
        if "cudaDev" in fields and fields["cudaDev"].isdigit():
            self.device = int(fields["cudaDev"])
        if "nvmlDev" in fields and fields["nvmlDev"].isdigit():
            self.nvml_device = int(fields["nvmlDev"])
        if "localRank" in fields and fields["localRank"].isdigit():
            self.local_rank = int(fields["localRank"])
        self.bus_id = fields.get("busId", self.bus_id)

    def is_open_in(self, process: Process) -> bool:
        return self.process is process and self.started and not self.completed

    def record(self) -> LogMember:
        last = self.last if not self.completed else None
        return LogMember(
            rank=self.rank,
            host=self.process.host,
            pid=self.process.pid,
            device=self.device,
            nvml_device=self.nvml_device,
            bus_id=self.bus_id,
            started=self.started,
            completed=self.completed,
            aborted=self.aborted,
            completed_line=self.completed_line,
            line=self.line,
            local_rank=self.local_rank,
            last_line=last[1][:LONGEST_LAST_LINE] if last else None,
            last_line_number=last[0] if last else None,
            init_s=self.init_s,
            bootstrap_s=self.bootstrap_s,
            bootstrap_receive_s=self.bootstrap_receive_s,
        )


class Group:
    """One communicator."""

    def __init__(self, name: str, named: bool, ranks: int | None, line: int) -> None:
        self.id, self.named, self.ranks, self.line = name, named, ranks, line
        self.members: dict[int, Member] = {}
        self.bundles: dict[tuple[Process, int | None], Bundle] = {}
        self.owners: set[tuple[Process | None, int | None]] = set()
        self.nodes: int | None = None
        self.local_ranks: int | None = None
        self.mnnvl = self.nvls = False
        self.pxn: bool | None = None
        self.gdr: bool | None = None
        self.edges: list[LogEdge] = []
        self.edges_left_out = 0
        self.carriers: Counter[str] = Counter()
        self.rings: dict[int, tuple[int, ...]] = {}
        self.ring_channels: int | None = None
        self.trees: dict[int, list[str]] = {}
        self.channels: dict[str, int] = {}

    def member(self, rank: int, process: Process, device: int | None, line: int) -> Member:
        """The member of this rank; a rank that two processes claim stays the first one's."""
        found = self.members.get(rank)
        if found is None:
            found = self.members[rank] = Member(rank, process, device, line)
            process.places.append((self, found))
        return found

    def admits(self, rank: int, ranks: int, process: Process, starts: bool) -> bool:
        """Whether a process that says this rank and size can be of this communicator."""
        taken = self.members.get(rank)
        free = taken is None or (taken.process is process and not starts)
        return self.ranks == ranks and free

    def is_of(self, process: Process) -> bool:
        """Whether no other process is in it."""
        return all(member.process is process for member in self.members.values())

    def hand_over(self, process: Process, other: Group) -> None:
        """What a process's lines were taken for turns out to be another, named communicator."""
        for key in [key for key in self.bundles if key[0] is process]:
            bundle = self.bundles.pop(key)
            bundle.group = other
            other.bundles.setdefault(key, bundle)
        for rank in [rank for rank, member in self.members.items() if member.process is process]:
            process.places.remove((self, self.members.pop(rank)))

    def tell(self, fields: dict[str, str]) -> None:
        if fields.get("nNodes", "").isdigit():
            self.nodes = int(fields["nNodes"])
        if fields.get("localRanks", "").isdigit():
            self.local_ranks = max(int(fields["localRanks"]), self.local_ranks or 0)
        self.mnnvl |= fields.get("MNNVL", "0") not in ("0", "")

    def agrees(self, some: list[LogEdge]) -> int:
        """How many brackets name the GPU that this communicator has under that rank, less those
        that name another."""
        score = 0
        for edge in some:
            ends = (edge.source, edge.source_device), (edge.destination, edge.destination_device)
            for rank, shown in ends:
                known = self.members.get(rank)
                if known is None or shown is None:
                    continue
                names = {known.bus_id, str(known.nvml_device)} - {None, "None"}
                if names:
                    score += 1 if shown in names else -1
        return score

    def take(self, bundle: Bundle, parsed: list[LogEdge]) -> None:
        """The lines of one thread become this communicator's."""
        self.edges += parsed
        for edge in parsed:
            self.carriers[_carried(edge)] += 1
        for via, number in bundle.overflow.items():
            self.carriers[_carried(edges.carrier(via.decode("utf-8", "replace")))] += number
            self.edges_left_out += number
        for channel, ring in bundle.rings.items():
            if len(self.rings) < MOST_RINGS and self._is_whole(ring):
                self.rings.setdefault(channel, ring.ranks)
        self.ring_channels = self.ring_channels or bundle.ring_channels
        for channel, way in bundle.trees.items():
            ways = self.trees.setdefault(channel, [])
            if way not in ways and len(ways) < MOST_RINGS:
                ways.append(way)
        for kind, number in bundle.channels.items():
            self.channels.setdefault(kind, number)
        self.pxn = bundle.pxn if self.pxn is None else self.pxn
        self.gdr = bundle.gdr if self.gdr is None else self.gdr
        self.nvls |= bundle.nvls
        if self.ranks is None or not self.members or not self.named:
            told = {edge.told_by for edge in parsed}
            rank = told.pop() if len(told) == 1 else None
            if rank is not None and bundle.process.pid:
                self.member(rank, bundle.process, bundle.device, bundle.first)

    def _is_whole(self, ring: edges.Order) -> bool:
        """Whether all ranks of a ring are printed: of a larger one only the first are."""
        shown = len(ring.ranks)
        if ring.cut or sorted(ring.ranks) != list(range(shown)):
            return False
        return shown < FEWEST_SHOWN if self.ranks is None else shown == self.ranks

    def is_empty(self) -> bool:
        return not (
            self.members
            or self.edges
            or self.carriers
            or self.rings
            or self.channels
            or self.ring_channels
        )

    def record(self) -> LogCommunicator:
        return LogCommunicator(
            id=self.id,
            named=self.named,
            line=self.line,
            ranks=self.ranks,
            nodes=self.nodes,
            local_ranks=self.local_ranks,
            members=tuple(self.members[rank].record() for rank in sorted(self.members)),
            edges=tuple(self.edges),
            edges_left_out=self.edges_left_out,
            carriers=dict(self.carriers),
            rings=self.rings,
            ring_channels=self.ring_channels,
            trees={channel: tuple(ways) for channel, ways in self.trees.items()},
            channels=self.channels,
            nvls=self.nvls,
            mnnvl=self.mnnvl,
            pxn=self.pxn,
            gdr=self.gdr,
        )


def _carried(edge: LogEdge | edges.Carrier) -> str:
    """ "NET/IB/0/GDRDMA", "P2P/CUMEM/read": an edge's carrier in one word."""
    if edge.network is None:
        return f"{edge.transport}/{edge.kind}" if edge.kind else edge.transport
    return f"{edge.transport}/{edge.network}/{edge.device}{'/GDRDMA' if edge.gdr else ''}"
