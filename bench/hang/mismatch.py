"""Ranks that called different things at the same place of a group's sequence.

In: the Table. Out: a Mismatch per group, the first one: after it the numbers mean different calls.
The majority of all members is right, whichever file was read first; where there is none, or those
without evidence could turn it, the evidence is level. A
difference in kind that nevertheless completed proves that the numbers do not belong together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from bench.hang import calls as fitting
from bench.hang.groups import Group
from bench.hang.matching import Table

Kind = Literal["type", "size", "dtype", "order"]
# Calls after the mismatch that must fit, shifted by one, to say that a call was left out.
SHIFTED = 2


@dataclass(frozen=True)
class Side:
    """Lanes that agree with each other; `unit` is one's share."""

    lanes: tuple[int, ...]
    unit: int


@dataclass(frozen=True)
class Mismatch:
    """`sides`, the largest first. `majority`: the first is more than half of the group's
    `members`, whether these left a dump or not; else it is level.
    `over`: all calls are marked as over all the same. `shift`: what the odd lanes seem to have
    done: "left one out", "called one more", "" for no such thing."""

    group: Group
    seq: int
    kind: Kind
    sides: tuple[Side, ...]
    majority: bool
    members: int
    over: bool
    shift: str = ""

    @property
    def odd(self) -> tuple[int, ...]:
        """The lanes that are not of the majority; none where it is level."""
        if not self.majority:
            return ()
        return tuple(sorted(lane for side in self.sides[1:] for lane in side.lanes))


def mismatches(table: Table) -> tuple[list[Mismatch], set[int]]:
    """The first of each group; and the groups whose numbers cannot be compared after all."""
    found: list[Mismatch] = []
    misnumbered: set[int] = set()
    for begin, end in _unequal(table):
        number = int(table.group[begin])
        if number in table.incomparable or number in misnumbered:
            continue
        if any(each.group.number == number for each in found):
            continue
        one = _mismatch(table, begin, end)
        if one.kind == "type" and one.over and not one.group.stateless:
            misnumbered.add(number)
        else:
            found.append(one)
    return found, misnumbered


def _unequal(table: Table) -> Iterator[tuple[int, int]]:
    """The spans of units of one collective whose keys differ."""
    if not len(table.seq):
        return
    new = (table.group[1:] != table.group[:-1]) | (table.seq[1:] != table.seq[:-1])
    begin = np.flatnonzero(np.append(True, new))
    end = np.append(begin[1:], len(table.seq))
    unequal = np.minimum.reduceat(table.key, begin) != np.maximum.reduceat(table.key, begin)
    for at in np.flatnonzero(unequal).tolist():
        yield int(begin[at]), int(end[at])


def _mismatch(table: Table, begin: int, end: int) -> Mismatch:
    by_key: dict[int, list[int]] = {}
    for unit in range(begin, end):
        by_key.setdefault(int(table.key[unit]), []).append(unit)
    ordered = sorted(by_key.values(), key=lambda units: (-len(units), units[0]))
    sides = tuple(
        Side(tuple(int(table.lane[unit]) for unit in units), units[0]) for units in ordered
    )
    group = table.groups.groups[int(table.group[begin])]
    members = max(end - begin, len(group.ranks if group.known else table.groups.world))
    majority = 2 * len(ordered[0]) > members
    kind: Kind = _difference(table.keys_of(sides[0].unit), table.keys_of(sides[1].unit))
    shift = _shift(table, sides) if majority else ""
    if shift == ORDER:
        kind, shift = "order", ""
    return Mismatch(
        group=group,
        seq=int(table.seq[begin]),
        kind=kind,
        sides=sides,
        majority=majority,
        members=members,
        over=bool(table.done[begin:end].all()),
        shift=shift,
    )


def _difference(one: Sequence[fitting.Key], other: Sequence[fitting.Key]) -> Kind:
    if len(one) != len(other):
        return "type"
    return next(fitting.difference(a, b) for a, b in zip(one, other, strict=True) if a != b)


ORDER = "order"


def _shift(table: Table, sides: Sequence[Side]) -> str:
    """How the odd lane's calls from here on lie against the majority's."""
    usual, odd = (_following(table, side.unit) for side in sides[:2])
    if len(usual) > 1 and len(odd) > 1 and usual[:2] == odd[1::-1] and usual[0] != usual[1]:
        return ORDER
    left_out, one_more = (usual[1:], odd, "left one out"), (usual, odd[1:], "called one more")
    for one, other, words in (left_out, one_more):
        fit = min(len(one), len(other))
        if fit >= SHIFTED and one[:fit] == other[:fit] and len(set(one[:fit])) > 1:
            return words
    return ""


def _following(table: Table, unit: int) -> list[int]:
    """The keys of the unit's lane in its group, from the unit on."""
    span = table.span(int(table.group[unit]))
    lane, seq = table.lane[span], table.seq[span]
    mine = (lane == table.lane[unit]) & (seq >= table.seq[unit])
    keys: list[int] = table.key[span][mine].tolist()
    return keys
