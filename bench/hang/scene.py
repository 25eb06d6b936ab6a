"""Words for lanes, collectives and stacks, the same in every finding.

In: the Table and what else is known of the ranks (their stacks when somebody asked). Out: "ranks
0-4, 6", "all_reduce #8,433 of default_pg", "train.py:141 step → model.py:77 forward".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath

from bench.hang import calls as fitting
from bench.hang.lanes import Lane, rows_of
from bench.hang.matching import Table
from bench.records import FlightCall, FlightFrame, Where

SPANS_SHOWN = 6  # of "0-4, 6, 9-15"; the rest is counted
FILES_SHOWN = 3
FRAMES_SHOWN = 3
# Frames of libraries say how a collective is called, not who called it.
LIBRARY = (
    "site-packages/",
    "dist-packages/",
    "/torch/",
    "torch/distributed/",
    "<frozen",
    "/lib/python3",
)
KIB = 1024


class Scene:
    """What findings are worded from."""

    def __init__(
        self, table: Table, stacks: Mapping[int, tuple[FlightFrame, ...]] | None = None
    ) -> None:
        self.table = table
        self.stacks = dict(stacks or {})  # of ranks, as they stood when somebody asked

    def ranks(self, lanes: Iterable[int]) -> tuple[int, ...]:
        """Global ranks of the lanes, without those whose rank is not certain."""
        own = (self.table.lanes[lane].rank for lane in lanes)
        return tuple(sorted(rank for rank in own if rank is not None))

    def files(self, lanes: Iterable[int]) -> tuple[str, ...]:
        """The files of those."""
        own = (self.table.lanes[lane] for lane in lanes)
        return tuple(lane.dump.file for lane in own if lane.rank is None)

    def names(self, lanes: Sequence[int]) -> str:
        """ "rank 5", "ranks 0-4, 6", "dump.pkl (one of ranks 0-7)"."""
        parts = []
        if ranks := self.ranks(lanes):
            parts.append(rank_words(ranks))
        unnamed = [self.table.lanes[at] for at in lanes if self.table.lanes[at].rank is None]
        parts += [self._unnamed(lane) for lane in unnamed[:FILES_SHOWN]]
        if len(unnamed) > FILES_SHOWN:
            parts.append(f"{len(unnamed) - FILES_SHOWN} more dumps")
        return " and ".join(parts)

    def _unnamed(self, lane: Lane) -> str:
        possible = lane.dump.possible_ranks
        name = PurePath(lane.dump.file).name
        return f"{name} (one of {rank_words(possible)})" if possible else f"{name} (rank unknown)"

    def where(self, lanes: Sequence[int], call: FlightCall | None = None) -> Where:
        """One rank as `rank`, several as `ranks`; the file of a single dump."""
        ranks = self.ranks(lanes)
        return Where(
            rank=ranks[0] if len(ranks) == 1 and len(lanes) == 1 else None,
            ranks=ranks if len(lanes) > 1 else (),
            file=self.table.lanes[lanes[0]].dump.file if len(lanes) == 1 else None,
            collective=call.name if call else None,
            size_bytes=fitting.size_bytes(call) if call else None,
        )

    def collective(self, unit: int) -> str:
        """ "all_reduce #8,433 of default_pg"."""
        table = self.table
        group = table.groups.groups[int(table.group[unit])]
        return f"{table.call_of(unit).name} #{int(table.seq[unit]):,} of {group.label}"

    def message(self, unit: int) -> str:
        """ "[6553600] float32, 25 MiB"."""
        call = self.table.call_of(unit)
        count = int(self.table.count[unit])
        if count > 1:
            return f"{count} calls coalesced"
        size = fitting.size_bytes(call)
        shape = fitting.shape(call)
        return f"{shape}, {size_words(size)}" if size else shape

    def frames(self, unit: int) -> tuple[FlightFrame, ...]:
        """The stack of the unit's call, innermost first."""
        dump = self.table.lanes[int(self.table.lane[unit])].dump
        at = int(self.table.entry(unit)["stack"])
        return tuple(dump.frames[frame] for frame in dump.stacks[at]) if at >= 0 else ()

    def called_from(self, unit: int) -> str:
        return stack_words(self.frames(unit))

    def newest(self, lane: int) -> tuple[str, tuple[FlightFrame, ...]] | None:
        """The lane's newest recorded call of any kind in words, and its stack."""
        own = self.table.lanes[lane]
        rows = rows_of(own.dump)
        if not len(rows):
            return None
        row = rows[-1]
        number = self.table.groups.numbers[lane][int(row["group"])]
        call = own.dump.calls[int(row["call"])]
        label = self.table.groups.groups[number].label if number >= 0 else "a group"
        peer = (
            "" if call.peer is None else f" {'to' if call.name == 'send' else 'from'} {call.peer}"
        )
        seq = int(row["p2p_seq"] if row["p2p"] else row["seq"])
        at = int(row["stack"])
        frames = tuple(own.dump.frames[n] for n in own.dump.stacks[at]) if at >= 0 else ()
        return f"{call.name}{peer} #{seq:,} of {label}", frames


def rank_words(ranks: Sequence[int]) -> str:
    """ "rank 5", "ranks 0-4, 6, 9-15"."""
    runs: list[list[int]] = []
    for rank in sorted(set(ranks)):
        if runs and rank == runs[-1][1] + 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    told = [f"{a}" if a == b else f"{a}-{b}" if b > a + 1 else f"{a}, {b}" for a, b in runs]
    rest = sum(b - a + 1 for a, b in runs[SPANS_SHOWN:])
    more = f" and {rest} more" if rest else ""
    noun = "rank" if len(set(ranks)) == 1 else "ranks"
    return f"{noun} {', '.join(told[:SPANS_SHOWN])}{more}"


def stack_words(frames: Sequence[FlightFrame]) -> str:
    """The user's frames, outermost first: "train.py:141 step → model.py:77 forward"."""
    own = [each for each in frames if not any(mark in each.file for mark in LIBRARY)]
    shown = (own or list(frames))[:FRAMES_SHOWN]
    return " → ".join(f"{PurePath(f.file).name}:{f.line} {f.name}" for f in reversed(shown))


def size_words(size_bytes: int) -> str:
    """ "25 MiB", "4 KiB", "96 B"."""
    value, unit = float(size_bytes), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if value < KIB or unit == "TiB":
            break
        value /= KIB
    return f"{value:.3g} {unit}"


def sentence(text: str) -> str:
    """With a capital letter."""
    return text[:1].upper() + text[1:]
