"""The lines that both sides measured alike, as curves to be compared; and why others are not.

In: two Sides and what a repetition is. Out: a Pair for each candidate and collective that both
have under the same conditions (ranks, hosts, element type, operation, backend), and sentences on
the rest. A condition that one side's files do not tell is taken as alike.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bench.judge.sides import call_counts, words
from bench.judge.sides import conditions as conditions_of
from bench.judge.sides import rows as rows_of
from bench.judge.sides.conditions import BACKEND, Conditions
from bench.judge.sides.sampling import Sampling
from bench.judge.words import listed
from bench.model import one_offs
from bench.model.contrast import Bools, Floats
from bench.model.repeated_curves import Curves
from bench.records import SessionCurve, Side, SideSession

DEFAULT = "(default)"  # a report's name for the case with nothing set: what nccl-tests measures
MOST_ONE_OFFS = 4  # sizes of them that are named
Key = tuple[str, str, Conditions]


@dataclass(frozen=True)
class Pair:
    """`own` (P,): standard error of each size's change by what scatters within sessions; `sure`
    (P,): both halves of a row show it. `summarised`: rows stand for sessions that are not at hand.
    `counts` are the repetitions a side; `share` is busbw over size / time. `untold` is a sentence
    on sizes that both sides have and that cannot be compared."""

    candidate: str
    collective: str
    conditions: Conditions
    curves: Curves
    own: Floats
    sure: Bools
    counts: tuple[int, int]
    share: float | None
    summarised: bool = False
    notes: tuple[str, ...] = ()
    untold: str | None = None

    @cached_property
    def means(self) -> tuple[Floats, Floats]:
        """ln of seconds by size, over each side's repetitions."""
        return rows_of.mean(self.curves.before), rows_of.mean(self.curves.after)

    @property
    def ranks(self) -> int | None:
        return self.conditions[0] if isinstance(self.conditions[0], int) else None

    @property
    def dtype(self) -> str | None:
        return self.conditions[2] if isinstance(self.conditions[2], str) else None


@dataclass(frozen=True)
class Unlike:
    """A line that both sides have, but not under the same conditions."""

    candidate: str
    collective: str
    why: str


@dataclass(frozen=True)
class Pairing:
    """`only` are (candidate, collective) of one side alone."""

    pairs: tuple[Pair, ...]
    unlike: tuple[Unlike, ...]
    only_before: tuple[tuple[str, str], ...] = ()
    only_after: tuple[tuple[str, str], ...] = ()


Held = list[tuple[int, SideSession, list[SessionCurve]]]  # place in the side, session, its halves
ByConditions = dict[Conditions, Held]
Common = dict[Conditions, tuple[Held, Held]]


def pair(before: Side, after: Side, sampling: Sampling) -> Pairing:
    """By candidate and collective, in the order of the first side."""
    first, second = _lines(before), _lines(after)
    _call_default(first, second)
    _call_default(second, first)
    pairs: list[Pair] = []
    unlike: list[Unlike] = []
    for name in first:
        if name not in second:
            continue
        common = conditions_of.common(first[name], second[name])
        made = [
            one
            for conditions, (held, other) in common.items()
            if (one := _pair(name, conditions, held, other, sampling)) is not None
        ]
        pairs += made
        if not made:
            unlike.append(Unlike(*name, why=_why(first[name], second[name], common)))
    return Pairing(
        tuple(pairs),
        tuple(unlike),
        tuple(name for name in first if name not in second),
        tuple(name for name in second if name not in first),
    )


Lines = dict[tuple[str, str], ByConditions]


def _lines(side: Side) -> Lines:
    found: Lines = {}
    for at, session in enumerate(side.sessions):
        halves: dict[Key, list[SessionCurve]] = {}
        for curve in session.curves:
            conditions = conditions_of.of(session, curve)
            halves.setdefault((curve.candidate, curve.collective, conditions), []).append(curve)
        for (candidate, collective, conditions), own in halves.items():
            line = found.setdefault((candidate, collective), {})
            line.setdefault(conditions, []).append((at, session, own))
    return found


def _call_default(lines: Lines, other: Lines) -> None:
    """A table has no candidate: beside a report it stands for the case with nothing set, or for
    the only one that there is."""
    names = {candidate for candidate, _ in other}
    if "" in names or not any(candidate == "" for candidate, _ in lines):
        return
    called = DEFAULT if DEFAULT in names else names.copy().pop() if len(names) == 1 else None
    if called is not None:
        for candidate, collective in list(lines):
            if candidate == "" and (called, collective) not in lines:
                lines[called, collective] = lines.pop((candidate, collective))


def _why(first: ByConditions, second: ByConditions, common: Common) -> str:
    if not common:
        return conditions_of.unlike(first, second)
    for conditions, sides in common.items():
        held = _curves(*sides)
        told = call_counts.untold(held, call_counts.compared(held, conditions[BACKEND]))
        if told is not None:
            return told
    return "no size is common to both sides"


def _pair(
    name: tuple[str, str], conditions: Conditions, first: Held, second: Held, sampling: Sampling
) -> Pair | None:
    held = [curve for side in (first, second) for _, _, own in side for curve in own]
    held_by = _curves(first, second)
    parts = rows_of.common_parts([*held_by[0], *held_by[1]])
    calls = call_counts.compared(held_by, conditions[BACKEND])
    tables = [[rows_of.logs_of(own, parts, calls) for own in side] for side in held_by]
    sizes = sorted(set().union(*tables[0]) & set().union(*tables[1]))
    if not sizes:
        return None
    notes = []
    dropped = {n for n, number in calls.items() if number != call_counts.UNLIKE} - set(sizes)
    if dropped:
        notes.append(f"{len(dropped)} sizes are not on both sides and are left out")
    rows = [rows_of.table(side, sizes) for side in tables]
    names = [
        [units[at] for at, _, _ in side]
        for side, units in ((first, sampling.before), (second, sampling.after))
    ]
    summarised = False
    shared = []
    for at, side in enumerate((first, second)):
        alone = [own for _, _, own in side]
        runs = {session.run for _, session, _ in side}
        if len(side) == 1 and alone[0][0].spreads:
            rows[at] = rows_of.expanded(rows[at], alone[0][0], sizes)
            summarised = True
            shared.append(True)
            continue
        rows[at], names[at] = rows_of.repetitions(rows[at], names[at])
        shared.append(len(rows[at]) > 1 and len(runs) == 1)
    if sampling.paired:
        rows = rows_of.aligned((rows[0], names[0]), (rows[1], names[1]))
        whole: Bools = np.asarray(np.isfinite(rows[0]).any(0))
        if not whole.all():
            lacking = listed(words.size(sizes[int(at)]) for at in np.flatnonzero(~whole))
            notes.append(f"left out, as no host has them on both sides: {lacking}")
            sizes = [sizes[int(at)] for at in np.flatnonzero(whole)]
            rows = [own[:, whole] for own in rows]
    elif not summarised:
        for at, which in enumerate(("before", "after")):
            calm, flags = one_offs.calmed(rows[at], np.array(sizes, dtype=float))
            notes += _one_offs(which, rows[at], calm, flags, sizes)
            rows[at] = calm
    if any(own.size == 0 for own in rows):
        return None
    own, sure = rows_of.within(held_by, parts, sizes)
    return Pair(
        candidate=name[0],
        collective=name[1],
        conditions=conditions,
        curves=Curves(
            np.array(sizes, dtype=float),
            rows[0],
            rows[1],
            paired=sampling.paired,
            shared_run=(shared[0], shared[1]),
            unseen=call_counts.unseen(held_by, parts, calls, sizes),
        ),
        own=own,
        sure=sure,
        counts=(len(rows[0]), len(rows[1])),
        share=next((curve.share for curve in held if curve.share is not None), None),
        summarised=summarised,
        notes=tuple(notes),
        untold=call_counts.untold(held_by, calls),
    )


def _curves(
    first: Held, second: Held
) -> tuple[list[list[SessionCurve]], list[list[SessionCurve]]]:
    return [own for _, _, own in first], [own for _, _, own in second]


def _one_offs(
    which: str, rows: Floats, calm: Floats, flags: Bools, sizes: Sequence[int]
) -> list[str]:
    """ "one-offs kept out of the tests, after: 256 KiB in 2 of 5 (up to 10 times as long)"."""
    told = [
        f"{words.size(sizes[int(at)])} in {flags[:, at].sum()} of {len(rows)} "
        f"({math.exp(float((rows - calm)[:, at].max())):.2g} times as long)"
        for at in np.flatnonzero(flags.any(0))
    ]
    more = f" and {len(told) - MOST_ONE_OFFS} more sizes" if len(told) > MOST_ONE_OFFS else ""
    listed_ = ", ".join(told[:MOST_ONE_OFFS])
    return [f"one-offs kept out of the tests, {which}: {listed_}{more}"] if told else []
