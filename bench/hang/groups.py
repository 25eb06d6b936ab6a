"""The process groups of a job, put together from what each process's dump says of its own.

In: lanes. Out: each group once, with its ranks, the lanes that belong to it, and for every dump
the group that its numbers mean. Dumps of gloo name no members once a subgroup exists; then the
default group is everybody and another group whoever has called something in it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from bench.hang.lanes import Lane, rows_of, world
from bench.records import FlightGroup

# Backends that leave `state` at "scheduled": `retired` is all they tell, and it becomes true for
# work that failed as well. torchcomms over gloo has only its group's description to tell.
STATELESS = ("gloo",)


@dataclass
class Group:
    """`ranks`: all members, `known`: because a dump lists them; `lanes`: those with a dump.
    `stateless`: its entries' state says nothing. `nameless`: TORCH_DISTRIBUTED_DEBUG=DETAIL."""

    number: int
    name: str
    desc: str
    ranks: tuple[int, ...] = ()
    known: bool = False
    lanes: tuple[int, ...] = ()
    stateless: bool = False
    nameless: bool = False
    default: bool = False
    supposed: tuple[int, ...] = ()  # lanes that are probably members, where nobody lists them

    @property
    def label(self) -> str:
        """ "default_pg", "mesh_tp (group 7)"."""
        if self.default and self.desc in ("", "default_pg"):
            return "default_pg"
        if not self.desc:
            return f"group {self.name}" if self.name else "a group without a name"
        return f"{self.desc} (group {self.name})" if self.name.isdigit() else self.name


@dataclass
class Groups:
    """`numbers[lane][n]`: the group that the dump's own group n is."""

    groups: list[Group] = field(default_factory=list)
    numbers: list[list[int]] = field(default_factory=list)
    world: tuple[int, ...] = ()

    def missing(self, group: Group, lanes: Sequence[Lane]) -> tuple[int, ...]:
        """Members without a dump (where nobody lists the members: ranks without); none as long as
        a dump without a rank may be theirs."""
        present = {lane.rank for lane in lanes}
        if None in present:
            return ()
        return tuple(
            rank for rank in (group.ranks if group.known else self.world) if rank not in present
        )


def of(lanes: Sequence[Lane]) -> Groups:
    """All groups, in the order in which the lanes' dumps name them."""
    found = Groups(world=_world(lanes))
    by_key: dict[tuple[object, ...], Group] = {}
    listed = _listed(lanes)
    seen: dict[int, set[int]] = defaultdict(set)
    for lane in lanes:
        used = _used(lane)
        numbers = []
        for at, told in enumerate(lane.dump.groups):
            if not told.name and at not in used:
                numbers.append(-1)  # gloo's one nameless entry of pg_config: the world, no group
                continue
            ranks = told.ranks or (_only(listed[told.name]) if told.name else ())
            if not ranks and _is_default(told):
                ranks = found.world
            key = (told.name, ranks or told.desc, None if told.name else told.pg_id)
            group = by_key.get(key)
            if group is None:
                group = by_key[key] = _new(len(by_key), told, ranks)
            group.desc = group.desc or told.desc
            group.stateless |= bool(used.get(at, set()) & set(STATELESS))
            numbers.append(group.number)
            if at in used or lane.rank is None:
                seen[group.number].add(lane.number)
        found.numbers.append(numbers)
    found.groups = list(by_key.values())
    for group in found.groups:
        _fill(group, lanes, seen[group.number])
    _suppose(found.groups, lanes)
    return found


def _new(number: int, told: FlightGroup, ranks: tuple[int, ...]) -> Group:
    return Group(
        number=number,
        name=told.name,
        desc=told.desc,
        ranks=tuple(sorted(ranks)),
        known=bool(ranks),
        nameless=not told.name,
        default=_is_default(told),
        stateless=told.desc in STATELESS,
    )


def _fill(group: Group, lanes: Sequence[Lane], seen: set[int]) -> None:
    """The lanes: those whose rank is listed, and those that were seen using it."""
    own = set(group.ranks)
    if (group.default or group.nameless) and not own:
        group.lanes = tuple(lane.number for lane in lanes)
    else:
        group.lanes = tuple(
            lane.number for lane in lanes if lane.rank in own or lane.number in seen
        )
    if not group.known:
        ranks = (lanes[at].rank for at in group.lanes)
        group.ranks = tuple(sorted(rank for rank in ranks if rank is not None))


def _suppose(groups: Sequence[Group], lanes: Sequence[Lane]) -> None:
    """gloo blanks the world's list on a process as soon as that is in a second group. If there is
    but one such group, those are its members."""
    unlisted = [group for group in groups if group.name and not group.known and not group.default]
    whole = all(
        not len(rows := rows_of(lane.dump)) or int(rows["record_id"][0]) == 0 for lane in lanes
    )
    if len(unlisted) == 1 and whole:
        unlisted[0].supposed = tuple(
            lane.number
            for lane in lanes
            if any(not each.name and not each.ranks for each in lane.dump.groups)
        )


def _used(lane: Lane) -> dict[int, set[str]]:
    """The libraries that the dump's own groups have called."""
    rows, calls = rows_of(lane.dump), lane.dump.calls
    number = max(len(calls), 1)
    used: dict[int, set[str]] = defaultdict(set)
    for pair in np.unique(rows["group"].astype(np.int64) * number + rows["call"]).tolist():
        used[pair // number].add(calls[pair % number].library)
    return used


def _world(lanes: Sequence[Lane]) -> tuple[int, ...]:
    """All ranks of the job where any dump lists them; else as many as there must be."""
    listed = next((ranks for lane in lanes if (ranks := world(lane.dump))), ())
    if listed or any(lane.rank is None for lane in lanes):
        return listed
    return tuple(range(max((lane.rank or 0 for lane in lanes), default=-1) + 1))


def _is_default(group: FlightGroup) -> bool:
    return group.name == "0" or group.desc == "default_pg"


def _listed(lanes: Sequence[Lane]) -> dict[str, set[tuple[int, ...]]]:
    """The lists of ranks that dumps give for a name."""
    listed: dict[str, set[tuple[int, ...]]] = defaultdict(set)
    for lane in lanes:
        for group in lane.dump.groups:
            if group.ranks:
                listed[group.name].add(group.ranks)
    return listed


def _only(lists: set[tuple[int, ...]]) -> tuple[int, ...]:
    """The list, if there is but one: several groups may share a name (split_group)."""
    return next(iter(lists)) if len(lists) == 1 else ()
