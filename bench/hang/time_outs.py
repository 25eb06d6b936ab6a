"""Collectives that ranks gave up: who waited in which, whose call differs, who never made it.

In: a Crew. Out: TimeOuts. A rank's first time-out counts: the others follow from it. Numbers are
compared within one process group only; versions before 2.3 print none, so there a difference is
inferred, as where a process's own counter stands for the group. Which side of a difference is odd,
a majority of all that may be members decides, never the order of the lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property

from bench.hang import call_difference, given_up
from bench.hang.call_difference import Difference
from bench.hang.crew import Crew
from bench.hang.given_up import GivenUp
from bench.hang.host_clocks import Moment

FIRST_NUMBERS = 1  # of a group: the first is 0 or 1, by version


class TimeOuts:
    """All that ranks' watchdogs say."""

    def __init__(self, crew: Crew) -> None:
        self.crew = crew
        self.all: dict[int, list[GivenUp]] = {}
        for rank, member in crew.known.items():
            if given := given_up.of(rank, member):
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
            single = group is not None and not any(g.group_counted for g in given)
            difference = call_difference.of(group, given, self.crew.size, same_group=single)
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
        difference = call_difference.of(None, given, self.crew.world_size)
        return difference if difference is not None and difference.majority else None

    @cached_property
    def late(self) -> tuple[int, ...]:
        """Ranks that never called what the others of their group wait in, by their own count."""
        late: set[int] = set()
        for (group, sequence), given in self._places.items():
            if group is None or not any(g.timed_out for g in given):
                continue
            if any(g.group_counted for g in given):
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
