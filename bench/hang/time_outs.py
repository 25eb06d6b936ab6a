"""Collectives that ranks gave up: who waited in which, whose call differs, who never made it.

In: a Crew. Out: TimeOuts. A rank's first time-out counts: the others follow from it. Numbers are
compared within one process group only; versions before 2.3 print none, so there a difference is
inferred. Which side of a difference is odd, a majority decides, never the order of the lines.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from bench.hang.crew import Crew, Member
from bench.hang.host_clocks import Moment
from bench.records import RankWait
from bench.records.ranklog import Clock

# Operations whose sizes are equal on all ranks; a list of an all_gather, the parts of an
# all_to_all and a root's side differ by right.
SAME_SIZES = ("ALLREDUCE", "BROADCAST", "_ALLGATHER_BASE", "_REDUCE_SCATTER_BASE", "REDUCE")
COALESCED = "COALESCED"  # of gathers or scatters if the ratio of its sizes is the same everywhere
PEER_TO_PEER = ("SEND", "RECV", "RECVANYSOURCE")  # counted apart from collectives
FIRST_NUMBERS = 1  # of a group: the first is 0 or 1, by version


@dataclass(frozen=True)
class GivenUp:
    """One rank's first time-out in a group, from all lines on it. `began_s`: when its wait did."""

    rank: int
    file: str
    line: int
    text: str
    group: str | None
    group_name: str | None
    sequence: int | None
    operation: str | None
    elements_in: int | None
    elements_out: int | None
    timeout_s: float | None
    ran_s: float | None
    enqueued: int | None
    completed: int | None
    time_s: float | None
    after_s: float | None
    clock: Clock | None
    timed_out: bool  # by its own watchdog, or told by another rank's

    @property
    def place(self) -> tuple[str | None, int | None, str | None]:
        """What tells one collective from another; gloo's have no number."""
        known = self.sequence is not None
        return self.group, self.sequence, None if known else self.operation

    @property
    def began_s(self) -> float | None:
        if self.time_s is None:  # not before the rank's last line
            return self.after_s
        return None if self.ran_s is None else self.time_s - self.ran_s

    @property
    def told_s(self) -> float | None:
        """When it gave up, at the earliest."""
        if self.time_s is not None:
            return self.time_s
        return self.after_s + self.ran_s if self.after_s is not None and self.ran_s else None


@dataclass(frozen=True)
class Difference:
    """Ranks that called different things at one place. `sides`: the majority first, if there is
    one (`majority`); `kind` as Flight Recorder findings have it: type or size."""

    kind: str
    sequence: int | None
    group: str | None
    sides: tuple[tuple[GivenUp, ...], ...]
    majority: bool

    @property
    def odd(self) -> tuple[int, ...]:
        return tuple(g.rank for side in self.sides[1:] for g in side) if self.majority else ()


class TimeOuts:
    """All that ranks' watchdogs say."""

    def __init__(self, crew: Crew) -> None:
        self.crew = crew
        self.all: dict[int, list[GivenUp]] = {}
        for rank, member in crew.known.items():
            if given := _given_up(rank, member):
                self.all[rank] = given

    @cached_property
    def first(self) -> dict[int, GivenUp]:
        """Rank -> what it waited in first."""
        timed = {
            rank: [g for g in given if g.timed_out or g.enqueued is not None]
            for rank, given in self.all.items()
        }
        return {
            rank: min(given, key=lambda g: (not g.timed_out, g.sequence or 0, g.line))
            for rank, given in timed.items()
            if given
        }

    @cached_property
    def waiting(self) -> tuple[int, ...]:
        """Ranks that waited in vain: gave up themselves, or have called what others gave up."""
        late = set(self.late)
        return tuple(rank for rank in self.first if rank not in late)

    def shown(self, ranks: Sequence[int]) -> tuple[int, GivenUp]:
        """In how many places these ranks wait, and the one that tells the most of the first."""
        given = [self.first[rank] for rank in ranks]
        groups = {one.group for one in given} - {None}
        single = groups.pop() if len(groups) == 1 else None  # who prints none is in the same
        places = [(one.group or single, *one.place[1:]) for one in given]
        here = [one for one, at in zip(given, places, strict=True) if at == places[0]]
        best = max(
            here,
            key=lambda one: (one.operation is not None, one.group is not None, -one.rank),
        )
        if best.group is None and single is not None:
            name = next((one.group_name for one in given if one.group == single), None)
            best = replace(best, group=single, group_name=name)
        return len(set(places)), best

    @cached_property
    def began(self) -> Moment | None:
        """When the earliest wait began."""
        return self._moment((g for g in self.first.values() if g.timed_out), began=True)

    @cached_property
    def told(self) -> Moment | None:
        """When the first rank gave up."""
        return self._moment((g for g in self.first.values() if g.timed_out), began=False)

    @cached_property
    def reporters(self) -> tuple[int, ...]:
        """Ranks whose watchdog fired first, by the others' word: no evidence against them."""
        waits = (w for m in self.crew.members.values() for w in m.waits)
        return tuple(sorted({w.reporter for w in waits if w.reporter is not None}))

    @cached_property
    def differences(self) -> tuple[Difference, ...]:
        """Places at which calls differ, each group's first."""
        found: dict[str | None, Difference] = {}
        for (group, _), given in sorted(
            self._places.items(), key=lambda place: (place[0][0] or "", place[0][1])
        ):
            difference = _difference(group, given)
            if difference is not None:
                found.setdefault(group, difference)
        if not found and (difference := self._unnumbered()):
            return (difference,)
        return tuple(found.values())

    def _unnumbered(self) -> Difference | None:
        """gloo numbers nothing. If all ranks of the job wait, and most of them in one operation,
        those in another one have taken another path: nobody is left who could be waited for."""
        given = [one for one in self.first.values() if one.timed_out]
        if len(given) != self.crew.world_size or any(one.sequence is not None for one in given):
            return None
        difference = _difference(None, given)
        return difference if difference is not None and difference.majority else None

    @cached_property
    def late(self) -> tuple[int, ...]:
        """Ranks that never called what the others of their group wait in, by their own count."""
        late: set[int] = set()
        for (group, sequence), given in self._places.items():
            if group is None or not any(g.timed_out for g in given):
                continue
            for rank, others in self.all.items():
                counts = [
                    o.enqueued for o in others if o.group == group and o.enqueued is not None
                ]
                if counts and 0 <= max(counts) < sequence:
                    late.add(rank)
        return tuple(sorted(late))

    @cached_property
    def _places(self) -> dict[tuple[str | None, int], list[GivenUp]]:
        """(group, number) -> who gave it up. A rank of unknown group joins the only known one."""
        places: dict[tuple[str | None, int], list[GivenUp]] = {}
        for given in self.all.values():
            for one in given:
                if one.timed_out and one.sequence is not None:
                    places.setdefault((one.group, one.sequence), []).append(one)
        for (group, sequence), loose in list(places.items()):
            known = [g for g, s in places if s == sequence and g is not None]
            if group is None and len(known) == 1:
                places[known[0], sequence] += loose
                del places[group, sequence]
        return places

    def _moment(self, given: Iterable[GivenUp], *, began: bool) -> Moment | None:
        known = [
            (seconds, one)
            for one in given
            if (seconds := one.began_s if began else one.told_s) is not None
        ]
        if not known:
            return None
        seconds, one = min(known, key=lambda each: each[0])
        host = self.crew.known[one.rank].host
        latest = seconds if began or one.time_s is not None else None
        return Moment(seconds, latest, one.clock, one.rank, host, one.file)


def _given_up(rank: int, member: Member) -> list[GivenUp]:
    """The waits of a rank, lines on one collective put together."""
    merged: dict[tuple[str | None, int | None], list[RankWait]] = {}
    for wait in member.waits:
        merged.setdefault((wait.group, wait.sequence), []).append(wait)
    for (group, sequence), waits in list(merged.items()):
        known = [g for g, s in merged if s == sequence and g is not None and s is not None]
        if group is None and len(known) == 1:  # the next line has the group
            merged[known[0], sequence] = [*waits, *merged[known[0], sequence]]
            del merged[group, sequence]
    return [_one(rank, group, sequence, waits) for (group, sequence), waits in merged.items()]


def _one(rank: int, group: str | None, sequence: int | None, waits: list[RankWait]) -> GivenUp:
    def first(name: str) -> object:
        return next((v for w in waits if (v := getattr(w, name)) is not None), None)

    timed = [w for w in waits if w.operation is not None or w.ran_s is not None]
    best = (timed or waits)[0]
    enqueued, completed = first("enqueued"), first("completed")
    if sequence is None and isinstance(enqueued, int) and isinstance(completed, int):
        sequence = completed + 1 if enqueued > completed else None  # what it is in
    return GivenUp(
        rank=rank,
        file=best.file,
        line=best.line,
        text=best.text,
        group=group,
        group_name=first("group_name"),  # type: ignore[arg-type]
        sequence=sequence,
        operation=first("operation"),  # type: ignore[arg-type]
        elements_in=first("elements_in"),  # type: ignore[arg-type]
        elements_out=first("elements_out"),  # type: ignore[arg-type]
        timeout_s=first("timeout_s"),  # type: ignore[arg-type]
        ran_s=first("ran_s"),  # type: ignore[arg-type]
        enqueued=enqueued,  # type: ignore[arg-type]
        completed=completed,  # type: ignore[arg-type]
        time_s=best.time_s,
        after_s=best.after_s,
        clock=best.clock,
        timed_out=bool(timed) or any(w.sequence is not None for w in waits),
    )


def _difference(group: str | None, given: list[GivenUp]) -> Difference | None:
    """Whether ranks at one place of one group called different things."""
    one = {g.rank: g for g in given if g.operation and g.operation not in PEER_TO_PEER}
    ranks = list(one.values())
    operations = Counter(g.operation for g in ranks)
    if len(operations) > 1 and {*operations} != {"barrier", "monitored_barrier"}:
        return _sides("type", group, ranks, {g.rank: g.operation for g in ranks})
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
    return _sides("size", group, [g for g in ranks if g.rank in sizes], sizes)


def _ratio(inner: int | None, outer: int | None) -> float | None:
    return outer / inner if inner and outer else None


def _sides(
    kind: str, group: str | None, ranks: list[GivenUp], key: Mapping[int, object]
) -> Difference:
    by_key: dict[object, list[GivenUp]] = {}
    for one in ranks:
        by_key.setdefault(key[one.rank], []).append(one)
    sides = sorted(by_key.values(), key=lambda side: (-len(side), min(g.rank for g in side)))
    return Difference(
        kind=kind,
        sequence=ranks[0].sequence,
        group=group,
        sides=tuple(tuple(sorted(side, key=lambda g: g.rank)) for side in sides),
        majority=2 * len(sides[0]) > len(ranks),
    )
