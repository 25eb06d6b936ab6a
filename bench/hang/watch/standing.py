"""Which collective each rank is in, who is behind, and since when nothing has moved.

In: what sentries tell (counts per process group, lists of calls), each with the moment it came, in
seconds of a clock that only goes up. Out: a place per rank, and which questions are due. Counts
cost a rank nothing; a list of calls costs tens of milliseconds, so it is asked rarely, except of a
rank that waits anyway. Nothing here knows a socket or a process.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

LOOK_S = 1.0
# A rank pays at most a four-hundredth of its time for being asked.
COST_SHARE = 400
QUIET_S = 1.0  # without a step in a group whose work is under way: ask what it is
LISTED = 64  # newest calls of a list that are kept


class Group(NamedTuple):
    """A process group as one rank numbers it."""

    recorder: str
    number: int


class Call(msgspec.Struct, frozen=True):
    """One entry of the recorder, as far as the view needs it."""

    collective_seq_id: int = 0
    pg_id: int = 0
    process_group: tuple[str, ...] = ()
    profiling_name: str = ""
    input_sizes: tuple[tuple[int, ...], ...] = ()
    input_dtypes: tuple[str, ...] = ()
    state: str = ""
    retired: bool = False
    timeout_ms: int = 0
    is_p2p: bool = False

    @property
    def under_way(self) -> bool:
        return not self.retired and self.state != "completed"

    @property
    def name(self) -> str:
        return self.profiling_name.partition(":")[2] or self.profiling_name

    @property
    def group(self) -> str:
        return next((text for text in reversed(self.process_group) if text), "")


class _List(msgspec.Struct):
    entries: list[Call] = []


@dataclass
class Place:
    """Where a rank stands. `counts`: called and finished per group; `still`: since when no more
    has been finished there; `calls` by group and number, the newest list's."""

    rank: int
    counts: dict[Group, tuple[int, int]] = field(default_factory=dict)
    still: dict[Group, float] = field(default_factory=dict)
    moved_s: float = 0.0
    answered_s: float = 0.0
    asked_s: float | None = None  # a look that is not answered yet
    calls: dict[tuple[Group, int], Call] = field(default_factory=dict)
    listed_s: float | None = None
    list_cost_s: float = 0.0
    listing: bool = False
    ended: bool = False

    def waits(self) -> tuple[Group, Call] | None:
        """The oldest call that is surely under way: its list says so, and nothing has moved
        since that list."""
        open_ = [
            (group, call)
            for (group, _), call in self.calls.items()
            if call.under_way and not call.is_p2p
        ]
        if self.listed_s is None or not open_ or self.listed_s < self.moved_s:
            return None
        return min(open_, key=lambda each: each[1].collective_seq_id)

    def newest(self) -> tuple[Group, int] | None:
        """The group that moved last, with its newest call's number."""
        if not self.counts:
            return None
        group = max(self.counts, key=lambda g: (self.still.get(g, 0.0), self.counts[g][0]))
        return group, self.counts[group][0]


class Standing:
    """All ranks of this host."""

    def __init__(self) -> None:
        self.places: dict[int, Place] = {}
        self._looked_s = -LOOK_S

    def joined(self, rank: int, now_s: float) -> None:
        """A rank said hello, for the first time or after a restart."""
        self.places[rank] = Place(rank, moved_s=now_s, answered_s=now_s)

    def ended(self, rank: int) -> None:
        if rank in self.places:
            self.places[rank].ended = True

    def left(self, rank: int) -> None:
        """It is no rank."""
        self.places.pop(rank, None)

    @property
    def living(self) -> list[Place]:
        return [place for _, place in sorted(self.places.items()) if not place.ended]

    def counted(self, rank: int, status: Mapping[str, Any], now_s: float) -> None:
        """A look: {recorder: {group's number: {"last_enqueued_collective": "12", …}}}."""
        place = self.places[rank]
        place.answered_s, place.asked_s = now_s, None
        for group, counts in _counts(status):
            before = place.counts.get(group)
            if before != counts:
                place.counts[group] = counts
                place.moved_s = now_s
            if before is None or before[1] != counts[1] or counts[0] <= counts[1]:
                place.still[group] = now_s

    def listed(self, rank: int, recorder: str, data: bytes, cost_s: float, now_s: float) -> None:
        """A list of calls, as the recorder writes it in JSON."""
        place = self.places[rank]
        try:
            entries = msgspec.json.decode(data, type=_List).entries if data else []
        except msgspec.DecodeError:
            return
        place.list_cost_s = cost_s
        if not entries and place.calls:
            return
        kept = {
            (Group(recorder, call.pg_id), call.collective_seq_id): call
            for call in (*(e for e in entries if e.under_way), *entries[-LISTED:])
        }
        others = {key: call for key, call in place.calls.items() if key[0].recorder != recorder}
        place.calls = others | kept
        place.listed_s = now_s

    def due(self, now_s: float) -> Iterable[tuple[int, str]]:
        """(rank, "look" or "calls") to ask now; marks them as asked. All are looked at in one
        moment, or ranks that move would seem to be behind each other."""
        look = now_s - self._looked_s >= LOOK_S
        if look:
            self._looked_s = now_s
        for place in self.living:
            if look and place.asked_s is None:
                place.asked_s = now_s
                yield place.rank, "look"
            if not place.listing and self._list_due(place, now_s):
                place.listing = True
                yield place.rank, "calls"

    def _list_due(self, place: Place, now_s: float) -> bool:
        if not place.counts:
            return False
        if place.listed_s is None:
            return now_s - place.moved_s >= QUIET_S or place.answered_s > 0
        age = now_s - place.listed_s
        if age < COST_SHARE * place.list_cost_s or age < LOOK_S:
            return False
        quiet = now_s - place.moved_s >= QUIET_S
        return place.listed_s < place.moved_s and (quiet or age >= 10 * LOOK_S)

    def waiting(self, now_s: float) -> dict[int, tuple[Group, Call, float]]:
        """Ranks that are surely in a collective: which, and since when."""
        found = {}
        for place in self.living:
            if (one := place.waits()) is not None:
                since = place.still.get(one[0], place.moved_s)
                if now_s - since >= QUIET_S:
                    found[place.rank] = (*one, since)
        return found

    def silent(self, now_s: float, limit_s: float) -> tuple[int, ...]:
        """Ranks that were asked and did not answer for `limit_s`."""
        return tuple(
            place.rank
            for place in self.living
            if place.asked_s is not None and now_s - place.asked_s >= limit_s
        )

    def behind(self) -> dict[int, int]:
        """By how many calls each rank is behind the furthest, in the group that most share."""
        shared: dict[Group, dict[int, int]] = {}
        for place in self.living:
            for group, (called, _) in place.counts.items():
                if group.number == 0:  # others are numbered by each rank for itself
                    shared.setdefault(group, {})[place.rank] = called
        if not shared:
            return {}
        group = max(shared, key=lambda g: (len(shared[g]), max(shared[g].values())))
        furthest = max(shared[group].values())
        return {rank: furthest - called for rank, called in shared[group].items()}

    def shortest_timeout_s(self, now_s: float) -> float | None:
        """Of the collectives that ranks wait in."""
        waiting = self.waiting(now_s).values()
        told = [call.timeout_ms for _, call, _ in waiting if call.timeout_ms > 0]
        return min(told) / 1000 if told else None


def _counts(status: Mapping[str, Any]) -> Iterable[tuple[Group, tuple[int, int]]]:
    for recorder, groups in status.items():
        if not isinstance(groups, dict):
            continue
        for number, told in groups.items():
            if not isinstance(told, dict) or not str(number).isdigit():
                continue
            called = _number(told.get("last_enqueued_collective"))
            finished = _number(told.get("last_completed_collective"))
            if called is not None and called >= 0:
                yield Group(recorder, int(number)), (called, max(finished or 0, 0))


def _number(value: object) -> int | None:
    if isinstance(value, str) and value.lstrip("-").isdigit() and len(value) < 20:
        return int(value)
    return value if type(value) is int else None
