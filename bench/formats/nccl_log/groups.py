"""Which communicator a line belongs to, and what is known of each communicator.

In: "comm 0x… rank 0 nranks 8 … - Init START" lines, and lines that name none (channels, trees,
counts), by thread. Out: LogCommunicator records. A thread sets up one communicator at a time, so
what it prints between START and COMPLETE belongs to that; later lines (NCCL connects at the first
collective since 2.22) are placed by the rank and the GPUs that they show. Splits of most
versions print no commId: they are called after their parent, their number among its children and
their color, from which NCCL makes their hash too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from bench.formats.nccl_log import edges
from bench.formats.nccl_log.bundles import Bundle
from bench.formats.nccl_log.members import Group, Member
from bench.formats.nccl_log.processes import Process
from bench.records import LogCommunicator, LogEdge

# Edges kept of a file: a 64-rank job with 32 channels and several communicators prints half.
MOST_EDGES = 1 << 16
MOST_GROUPS = 4096
MOST_UNNAMED = 256  # of one size told apart; each costs a look at every other
TESTED_EDGES = 64  # of a bundle, to see which communicator it fits

_COMM = re.compile(rb"comm (0x[0-9a-fA-F]{1,16}|\(nil\)) rank (\d{1,7}) n[rR]anks (\d{1,7})")
_FIELDS = re.compile(
    rb" (cudaDev|nvmlDev|busId|commId|nNodes|localRanks|localRank|MNNVL|parent|splitCount"
    rb"|childCount|color) (\w{1,20})"
)


class Groups:
    """All communicators of a file."""

    def __init__(self) -> None:
        self._groups: list[Group] = []
        self._by_id: dict[str, Group] = {}
        self._by_pointer: dict[tuple[Process, str], Group] = {}
        self._unnamed: dict[int | None, list[Group]] = {}  # by size
        self._numbered = 0  # of them
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
        group = self._group(fields, process, device, pointer, rank, ranks, line, starts)
        if group is None:
            return bundle
        member = group.member(rank, process, device, line)
        ready = b"Init COMPLETE" in text
        member.tell(fields, starts, ready or b"Destroy COMPLETE" in text, b"Abort" in text)
        group.tell(fields)
        if starts or bundle is None or (bundle.group is not None and bundle.group is not group):
            bundle = self.bundle(process, device, line)
        bundle.group, bundle.member = group, member
        if ready:  # what this thread says next may belong to another
            member.completed_line = line
            bundle = self.bundle(process, device, line)
            bundle.member = member
        return bundle

    def of_pointer(
        self, process: Process, device: int | None, tail: edges.Tail, line: int
    ) -> Bundle | None:
        """The bundle of a line in which RCCL itself names the communicator; None without room."""
        group = self._by_pointer.get((process, tail.pointer))
        if group is None:
            group = self._without_name((process, device), tail.ranks, None, line)
            if group is None:
                return None
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
        self, fields: dict[str, str], process: Process, device: int | None, pointer: str,
        rank: int, ranks: int, line: int, starts: bool,
    ) -> Group | None:  # fmt: skip
        known = self._by_pointer.get((process, pointer))
        name, certain = self._name(fields, process, known, rank, starts)
        named = self._by_id.get(name) if name is not None else None
        clashes = (
            named is not None and not certain and not named.admits(rank, ranks, process, starts)
        )
        if name is None or clashes:
            if known is None or (starts and (clashes or rank in known.members)):
                known = self._without_name((process, device), ranks, rank, line)
        elif named is not None:
            if known is not None and not self._is_told_apart(known):
                known.hand_over(process, named)
            known = named
        elif (
            known is not None
            and not self._is_told_apart(known)
            and ("commId" in fields or known.is_of(process))
        ):
            known.id, known.named = name, certain  # its lines came before its name
            self._by_id[name] = known
        elif len(self._groups) < MOST_GROUPS:
            named = self._by_id[name] = self._new(name, certain, ranks, line)
            if known is not None and not self._is_told_apart(known):
                known.hand_over(process, named)
            known = named
        else:
            known = None
        if known is not None:
            self._by_pointer[process, pointer] = known
        return known

    def _name(
        self, fields: dict[str, str], process: Process, known: Group | None, rank: int,
        starts: bool,
    ) -> tuple[str | None, bool]:  # fmt: skip
        """What a communicator is called, and whether no other one is called so."""
        if "commId" in fields:
            return fields["commId"], True
        opened = known.members.get(rank) if known is not None else None
        ends = not starts and opened is not None and opened.is_open_in(process)
        if "color" not in fields or ends:  # a grown one starts with a commId and ends with a color
            return None, False
        parent = self._by_pointer.get((process, fields.get("parent", "")))
        root = parent.id if parent is not None and self._is_told_apart(parent) else "split"
        number = fields.get("childCount", fields.get("splitCount", "0"))
        certain = parent is not None and parent.named
        return f"{root}/{number}.{fields['color']}", certain

    def _is_told_apart(self, group: Group) -> bool:
        return group.id in self._by_id

    def _without_name(
        self,
        owner: tuple[Process | None, int | None],
        ranks: int | None,
        rank: int | None,
        line: int,
    ) -> Group | None:
        """Without commId (before 2.16): the first of this size that lacks this rank and GPU; None
        without room."""
        alike = [g for g in self._unnamed.get(ranks, ()) if not self._is_told_apart(g)]
        self._unnamed[ranks] = alike
        free = (g for g in alike if rank not in g.members and owner not in g.owners)
        group = next(free, None)
        if group is None and len(alike) >= MOST_UNNAMED:
            group = alike[-1]
        elif group is None:
            if len(self._groups) >= MOST_GROUPS:
                return None
            self._numbered += 1
            name = f"unnamed-{self._numbered}" if self._numbered > 1 else "unnamed"
            group = self._new(name, False, ranks, line)
            alike.append(group)
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
            if group is not None:
                group.take(bundle, parsed)
        self.told = tuple(group for group in self._groups if not group.is_empty())
        return tuple(group.record() for group in self.told)

    def _excerpt(self, line: int) -> Group | None:
        """Where no line names a communicator at all, all lines are taken for one's."""
        for group in self._groups:
            if group.ranks is None:
                return group
        return self._without_name((None, None), None, None, line)

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
            if any(max(ring.ranks) >= ranks for ring in bundle.rings.values()):
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
        rings = (max(ring.ranks) for ring in bundle.rings.values())
        largest = max(_largest(some), *rings, -1)
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
