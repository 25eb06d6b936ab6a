"""Measured lines by what they are of: a collective, inside a host or between hosts.

In: CostLines of a report or of tables, with their hosts. Out: the one that stands for a collective
in a group, or the one that it can be inferred from, and by how much that may err. Nothing is
inferred silently: every Choice says in words what it rests on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from bench.records import Backend, CostLine, Record

# NCCL and gloo call these what they are: a ring all-reduce is a reduce-scatter and an all-gather
# of the same size, so either takes half its time. In-switch reduction breaks that: eight H100 with
# NVLS all-reduce at 480 GB/s of busbw and gather at 360 (public nccl-tests), hence the 1.35.
# gloo has no reduce-scatter of its own: torch calls its all-reduce (2.13, recorder), so its time
# is that of an all-reduce of the whole buffer.
Way = tuple[str, float, float, float, str]  # from which line, times, low, high, words
WAYS: dict[tuple[Backend, str], tuple[Way, ...]] = {
    ("nccl", "all_gather"): (
        ("reduce_scatter", 1.0, 0.9, 1.1, "taken for the mirror of reduce_scatter"),
        ("all_reduce", 0.5, 0.95, 1.35, "half of an all_reduce, as in a ring"),
    ),
    ("nccl", "reduce_scatter"): (
        ("all_gather", 1.0, 0.9, 1.1, "taken for the mirror of all_gather"),
        ("all_reduce", 0.5, 0.95, 1.35, "half of an all_reduce, as in a ring"),
    ),
    ("nccl", "all_reduce"): (
        ("all_gather", 2.0, 0.7, 1.05, "a reduce_scatter and an all_gather, as in a ring"),
        ("reduce_scatter", 2.0, 0.7, 1.05, "a reduce_scatter and an all_gather, as in a ring"),
    ),
    ("nccl", "broadcast"): (
        ("all_gather", 1.0, 0.9, 1.6, "as long as an all_gather of the same size"),
        ("all_reduce", 0.5, 0.9, 1.6, "as long as half an all_reduce of the same size"),
    ),
    ("gloo", "all_gather"): (
        ("all_reduce", 0.5, 0.9, 1.1, "half of an all_reduce, as in a ring"),
    ),
    ("gloo", "reduce_scatter"): (
        ("all_reduce", 1.0, 0.95, 1.05, "gloo makes it of an all_reduce of the whole buffer"),
        ("all_gather", 2.0, 0.9, 1.1, "gloo makes it of an all_reduce, twice an all_gather"),
    ),
    ("gloo", "all_reduce"): (
        ("reduce_scatter", 1.0, 0.95, 1.05, "gloo makes reduce_scatter of it"),
        ("all_gather", 2.0, 0.9, 1.1, "twice an all_gather, as in a ring"),
    ),
    ("gloo", "broadcast"): (
        ("all_gather", 1.0, 0.7, 2.0, "between an all_gather and twice that, as in a tree"),
        ("all_reduce", 0.5, 0.7, 2.0, "between half an all_reduce and all of it, as in a tree"),
    ),
}  # fmt: skip


class MeasuredLine(Record, frozen=True, kw_only=True):
    """A line and where it was measured. `source` names it to people."""

    line: CostLine
    hosts: int
    backend: Backend = "nccl"
    source: str = ""

    @property
    def ranks(self) -> int:
        return self.line.ranks


class Choice(Record, frozen=True, kw_only=True):
    """Which line stands for a collective: its seconds times `times`, between `low` and `high` of
    that. `words` is None where it is the collective's own line."""

    measured: MeasuredLine
    times: float = 1.0
    low: float = 1.0
    high: float = 1.0
    words: str | None = None


def choose(
    lines: Sequence[MeasuredLine],
    collective: str,
    *,
    inside: bool,
    ranks: int,
    hosts: int,
    infer: bool = True,
) -> Choice | None:
    """Lines inside a host for groups of one host, lines between hosts for all others. Of several
    the one measured on the most similar number of hosts and ranks."""
    own = _nearest(lines, collective, inside, ranks, hosts)
    if own is not None:
        return Choice(measured=own)
    backends = {each.backend for each in lines}
    if not infer or len(backends) != 1:
        return None
    backend = backends.pop()
    for source, times, low, high, words in WAYS.get((backend, collective), ()):
        near = _nearest(lines, source, inside, ranks, hosts)
        if near is not None:
            return Choice(measured=near, times=times, low=low, high=high, words=words)
    return None


def _nearest(
    lines: Sequence[MeasuredLine], collective: str, inside: bool, ranks: int, hosts: int
) -> MeasuredLine | None:
    able = [
        each
        for each in lines
        if each.line.collective == collective
        and (each.hosts == 1) == inside
        and each.ranks > 1
        and each.line.pieces
    ]

    def distance(each: MeasuredLine) -> tuple[float, float]:
        return abs(math.log(each.hosts / hosts)), abs(math.log(each.ranks / ranks))

    return min(able, key=distance, default=None)
