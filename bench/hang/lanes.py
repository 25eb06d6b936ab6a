"""Whose dump is whose: a lane per process, with its rank where that is certain.

In: dumps of any names and folders, in any order. Out: one lane per process, in the order of ranks;
what is not of the job, of its last attempt, of the moment, or there twice is left out with the
reason. A rank comes
from what all names have in common, checked against the groups that each dump has: a name that
contradicts them is believed nowhere, and a dump without a rank keeps its file's name.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePath

import msgspec
import numpy as np

from bench.formats.flight_name import layer
from bench.formats.flight_rows import DTYPE
from bench.records import FlightDump

# Kinds of numbers in a name (flight_name.numbers), the most telling first.
KINDS = ("rank", "r", "last", "folder's rank", "folder", "first")
# With more dumps than this without a rank, names tell nothing and elimination is hopeless.
MAX_UNRANKED = 64


@dataclass(frozen=True)
class Lane:
    """One process. `rank` None: its file's name and groups leave several."""

    number: int
    rank: int | None
    dump: FlightDump

    @property
    def label(self) -> str:
        return f"rank {self.rank}" if self.rank is not None else self.dump.file


@dataclass(frozen=True)
class Lanes:
    """All lanes; `left_out`: (file, why), in sentences without an end."""

    lanes: tuple[Lane, ...]
    left_out: tuple[tuple[str, str], ...] = ()

    def of_rank(self, rank: int) -> Lane | None:
        return next((lane for lane in self.lanes if lane.rank == rank), None)


def of(dumps: Iterable[FlightDump]) -> Lanes:
    """The lanes of one job."""
    own, left_out = _of_one_job(sorted(dumps, key=lambda dump: dump.file))
    layers, earlier = _of_last_attempt([_ranked(members) for members in _layers(own)])
    chosen, others = _of_one_moment(layers)
    left_out += earlier + others
    ranked = _by_elimination(chosen)
    ranked.sort(key=lambda each: (each[1] is None, each[1] or 0, each[0].file))
    lanes = tuple(Lane(at, rank, dump) for at, (dump, rank) in enumerate(ranked))
    return Lanes(lanes, tuple(left_out))


Ranked = list[tuple[FlightDump, int | None]]
LeftOut = list[tuple[str, str]]


def world(dump: FlightDump) -> tuple[int, ...]:
    """All ranks of the job, as far as the dump tells: its default group's."""
    for group in dump.groups:
        if group.ranks and (group.desc == "default_pg" or group.name in ("0", "")):
            return group.ranks
    return ()


def _of_one_job(dumps: Sequence[FlightDump]) -> tuple[list[FlightDump], LeftOut]:
    """Without the dumps of another job that the folder still holds: the most alike are ours."""
    worlds = Counter(world(dump) for dump in dumps)
    worlds.pop((), None)
    if len(worlds) < 2:
        return list(dumps), []
    (ours, most), (_, next_most) = worlds.most_common(2)
    if most == next_most:
        return list(dumps), []
    own = [dump for dump in dumps if world(dump) in ((), ours)]
    why = f"of another job: its default group is not the {len(ours)} ranks of most dumps"
    return own, [(dump.file, why) for dump in dumps if world(dump) not in ((), ours)]


def _layers(dumps: Sequence[FlightDump]) -> list[list[FlightDump]]:
    """Dumps that one writer made: alike in name, and in folder where names repeat."""
    by_name: dict[str, list[FlightDump]] = defaultdict(list)
    for dump in dumps:
        by_name[layer(dump.file)].append(dump)
    layers = []
    for members in by_name.values():
        names = Counter(PurePath(dump.file).name for dump in members)
        if max(names.values()) == 1 or _names_ranks(members):
            layers.append(members)
            continue
        folders: dict[PurePath, list[FlightDump]] = defaultdict(list)
        for dump in members:
            folders[PurePath(dump.file).parent].append(dump)
        layers += folders.values()
    return layers


def _names_ranks(members: Sequence[FlightDump]) -> bool:
    return any(rank is not None for _, rank in _by_kind(members))


def _ranked(members: Sequence[FlightDump]) -> Ranked:
    """Ranks by the first kind of number that all names have, that differs, and that every dump's
    own groups allow; else only what the groups of a dump decide alone."""
    found = _by_kind(members)
    if any(rank is not None for _, rank in found):
        return found
    return [
        (dump, dump.possible_ranks[0] if len(dump.possible_ranks) == 1 else None)
        for dump in members
    ]


def _by_kind(members: Sequence[FlightDump]) -> Ranked:
    told = [dict(dump.name_numbers) for dump in members]
    kinds = [*KINDS, *dict.fromkeys(kind for each in told for kind in each)]
    for kind in kinds:
        ranks = [each.get(kind) for each in told]
        if None in ranks or len(set(ranks)) < len(ranks):
            continue
        if all(
            not dump.possible_ranks or rank in dump.possible_ranks
            for dump, rank in zip(members, ranks, strict=True)
        ):
            return list(zip(members, ranks, strict=True))
    return [(dump, None) for dump in members]


def _of_last_attempt(layers: list[Ranked]) -> tuple[list[Ranked], LeftOut]:
    """Without the layers of processes that a launcher replaced, however many dumps they left."""
    kept: list[Ranked] = []
    left_out: LeftOut = []
    for members in layers:
        if any(_replaced(members, other) for other in layers):
            left_out += [(dump.file, "of an earlier attempt") for dump, _ in members]
        else:
            kept.append(members)
    return kept, left_out


def _replaced(members: Ranked, by: Ranked) -> bool:
    """Whether all of `by` began after all of these had ended, and counts its records anew."""
    spans = [[rows for dump, _ in each if len(rows := rows_of(dump))] for each in (members, by)]
    if not all(spans):
        return False
    ended = max(int(rows["created_ns"].max()) for rows in spans[0])
    if min(int(rows["created_ns"].min()) for rows in spans[1]) <= ended:
        return False
    own = {rank: rows_of(dump) for dump, rank in members if rank is not None}
    shared = [(own[rank], rows_of(dump)) for dump, rank in by if rank is not None and rank in own]
    pairs = [(old, new) for old, new in shared if len(old) and len(new)]
    return bool(pairs) and all(new["record_id"][0] <= old["record_id"][-1] for old, new in pairs)


def _of_one_moment(layers: list[Ranked]) -> tuple[Ranked, LeftOut]:
    """Where ranks have several dumps: the fullest layer that still shows work under way, with
    stacks if possible. Another layer adds a rank only where it is of the same moment."""
    layers.sort(key=_worth, reverse=True)
    chosen: Ranked = []
    left_out: LeftOut = []
    taken: dict[int, FlightDump] = {}
    for members in layers:
        common = [(dump, rank) for dump, rank in members if rank is not None and rank in taken]
        same_moment = all(newest(dump) == newest(taken[rank or 0]) for dump, rank in common)
        for dump, rank in members:
            if rank is not None and rank in taken:
                why = f"a second dump of rank {rank}; {PurePath(taken[rank].file).name} is used"
            elif common and not same_moment:
                why = "of another moment than the dumps that are used"
            else:
                chosen.append((dump, rank))
                continue
            left_out.append((dump.file, why))
        taken.update({rank: dump for dump, rank in chosen if rank is not None})
    return chosen, left_out


def _worth(members: Ranked) -> tuple[int, bool, bool, int]:
    dumps = [dump for dump, _ in members]
    ranks = len({rank for _, rank in members if rank is not None})
    under_way = any((rows["retired"] == 0).any() for rows in map(rows_of, dumps))
    return ranks, under_way, any(dump.stacks for dump in dumps), max(map(newest, dumps))


def rows_of(dump: FlightDump) -> np.ndarray[tuple[int], np.dtype[np.void]]:
    """The dump's rows as a structured array, without a copy."""
    return np.frombuffer(dump.rows, dtype=DTYPE)


def newest(dump: FlightDump) -> int:
    """When its newest entry was made, in ns; 0 without entries."""
    rows = rows_of(dump)
    return int(rows["created_ns"][-1]) if len(rows) else 0


def _by_elimination(chosen: Ranked) -> Ranked:
    """Ranks of dumps without one, as long as what the others leave is a single rank."""
    ranks = {dump.file: rank for dump, rank in chosen}
    while sum(rank is None for rank in ranks.values()) <= MAX_UNRANKED:
        taken = {rank for rank in ranks.values() if rank is not None}
        open_ = [dump for dump, _ in chosen if ranks[dump.file] is None and dump.possible_ranks]
        single = next(
            (
                (dump, left.pop())
                for dump in open_
                if len(left := set(dump.possible_ranks) - taken) == 1
            ),
            None,
        )
        if single is None:
            break
        ranks[single[0].file] = single[1]
    return [
        (msgspec.structs.replace(dump, rank=ranks[dump.file]), ranks[dump.file])
        for dump, _ in chosen
    ]
