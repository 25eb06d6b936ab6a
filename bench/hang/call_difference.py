"""Whether ranks at one place of a group's sequence gave up different calls, and who is odd.

In: GivenUps of one place. Out: a Difference, or None. A majority is one of all ranks that may be
in the group, heard or not. One of those that were heard, if these are half of all at least, names
the odd ones too, and is told as no more than that: the silent ones could turn it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from bench.hang.given_up import GivenUp

# Operations whose sizes are equal on all ranks; a list of an all_gather, the parts of an
# all_to_all and a root's side differ by right.
SAME_SIZES = ("ALLREDUCE", "BROADCAST", "_ALLGATHER_BASE", "_REDUCE_SCATTER_BASE", "REDUCE")
COALESCED = "COALESCED"  # of gathers or scatters if the ratio of its sizes is the same everywhere
PEER_TO_PEER = ("SEND", "RECV", "RECVANYSOURCE")  # counted apart from collectives


@dataclass(frozen=True)
class Difference:
    """Ranks that called different things at one place. `sides`: the largest first; `majority`: it
    is one of all that may be members; `leans`: of those that were heard; `same_group`: all are of
    one group for certain; `kind` as Flight Recorder findings have it: type or size."""

    kind: str
    sequence: int | None
    group: str | None
    sides: tuple[tuple[GivenUp, ...], ...]
    majority: bool
    leans: bool
    same_group: bool

    @property
    def odd(self) -> tuple[int, ...]:
        return self._fewer if self.majority or self.leans else ()

    @property
    def fewer(self) -> tuple[int, ...]:
        """Who is odd among those that were heard, whom the silent could still prove right."""
        heard = sum(len(side) for side in self.sides)
        return self._fewer if self.same_group and 2 * len(self.sides[0]) > heard else ()

    @property
    def _fewer(self) -> tuple[int, ...]:
        return tuple(g.rank for side in self.sides[1:] for g in side)


def of(
    group: str | None, given: list[GivenUp], members: int, *, same_group: bool = True
) -> Difference | None:
    """Whether ranks at one place of one group called different things. `members`: of the group at
    most. Without `same_group` they may be of different groups."""
    one = {g.rank: g for g in given if g.operation and g.operation not in PEER_TO_PEER}
    ranks = list(one.values())
    operations = Counter(g.operation for g in ranks)
    if len(operations) > 1 and {*operations} != {"barrier", "monitored_barrier"}:
        operation_of = {g.rank: g.operation for g in ranks}
        return _sides("type", group, ranks, operation_of, members, same_group)
    if not operations:
        return None
    operation = next(iter(operations))
    sizes = {g.rank: (g.elements_in, g.elements_out) for g in ranks if g.elements_in is not None}
    if len(set(sizes.values())) < 2:
        return None
    if operation == COALESCED:
        ratios = {_ratio(*pair) for pair in sizes.values()}
        if len(ratios) != 1 or ratios & {None, 1.0}:
            return None
    elif operation not in SAME_SIZES:
        return None
    heard = [g for g in ranks if g.rank in sizes]
    return _sides("size", group, heard, sizes, members, same_group)


def _ratio(inner: int | None, outer: int | None) -> float | None:
    return outer / inner if inner and outer else None


def _sides(
    kind: str,
    group: str | None,
    ranks: list[GivenUp],
    key: Mapping[int, object],
    members: int,
    same_group: bool,
) -> Difference:
    by_key: dict[object, list[GivenUp]] = {}
    for one in ranks:
        by_key.setdefault(key[one.rank], []).append(one)
    sides = sorted(by_key.values(), key=lambda side: (-len(side), min(g.rank for g in side)))
    most, heard = len(sides[0]), len(ranks)
    counted = any(g.group_counted for g in ranks)
    return Difference(
        kind=kind,
        sequence=ranks[0].sequence,
        group=group,
        sides=tuple(tuple(sorted(side, key=lambda g: g.rank)) for side in sides),
        majority=same_group and 2 * most > max(heard, members),
        leans=not counted and 2 * most > heard and 2 * heard >= members,
        same_group=same_group,
    )
