"""The lines that both sides measured alike, as curves to be compared; and why others are not.

In: two Sides and what a repetition is. Out: a Pair for each candidate and collective that both
have under the same conditions (ranks, hosts, element type, operation, backend), and sentences on
the rest. A condition that one side's files do not tell is taken as alike.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bench.judge.sides import rows as rows_of
from bench.judge.sides import words
from bench.judge.sides.sampling import Sampling
from bench.judge.words import listed
from bench.model import one_offs
from bench.model.contrast import Bools, Floats
from bench.model.repeated_curves import Curves
from bench.records import SessionCurve, Side, SideSession

DEFAULT = "(default)"  # a report's name for the case with nothing set: what nccl-tests measures
# nccl-tests' words for element types, and ours.
DTYPES = {"float": "float32", "half": "float16", "double": "float64"}
MOST_ONE_OFFS = 4  # sizes of them that are named
CONDITIONS = ("ranks", "hosts", "element type", "operation", "backend")
Conditions = tuple[object, ...]
Key = tuple[str, str, Conditions]


@dataclass(frozen=True)
class Pair:
    """`own` (P,): standard error of each size's change by what scatters within sessions; `sure`
    (P,): both halves of a row show it. `summarised`: rows stand for sessions that are not at hand.
    `counts` are the repetitions a side; `share` is busbw over size / time."""

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
        common = _common(first[name], second[name])
        made = [
            one
            for conditions, (held, other) in common.items()
            if (one := _pair(name, conditions, held, other, sampling)) is not None
        ]
        pairs += made
        if not made:
            unlike.append(Unlike(*name, why=_why(first[name], second[name], bool(common))))
    return Pairing(
        tuple(pairs),
        tuple(unlike),
        tuple(name for name in first if name not in second),
        tuple(name for name in second if name not in first),
    )


Lines = dict[tuple[str, str], dict[Conditions, Held]]


def _lines(side: Side) -> Lines:
    found: Lines = {}
    for at, session in enumerate(side.sessions):
        halves: dict[Key, list[SessionCurve]] = {}
        for curve in session.curves:
            dtype = DTYPES.get(curve.dtype or "", curve.dtype)
            conditions: Conditions = (
                curve.ranks,
                session.host_count,
                dtype,
                curve.redop,
                session.backend,
            )
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


def _common(
    first: dict[Conditions, Held], second: dict[Conditions, Held]
) -> dict[Conditions, tuple[Held, Held]]:
    """Sessions under conditions that agree, one that is not known agreeing with any."""
    found: dict[Conditions, tuple[Held, Held]] = {}
    for one, held in first.items():
        for other, also in second.items():
            if not _agree(one, other):
                continue
            merged = tuple(a if a is not None else b for a, b in zip(one, other, strict=True))
            had = found.setdefault(merged, ([], []))
            had[0].extend(each for each in held if each not in had[0])
            had[1].extend(each for each in also if each not in had[1])
    return found


def _agree(one: Conditions, other: Conditions) -> bool:
    return all(a is None or b is None or a == b for a, b in zip(one, other, strict=True))


def _why(first: dict[Conditions, Held], second: dict[Conditions, Held], alike: bool) -> str:
    if alike:
        return "no size is common to both sides"
    told = []
    for at, name in enumerate(CONDITIONS):
        one, other = ({c[at] for c in side if c[at] is not None} for side in (first, second))
        if one and other and not one & other:
            told.append(f"{name} {_values(one)} before, {_values(other)} after")
    return "; ".join(told) or "the conditions of no session before are those of one after"


def _values(values: Iterable[object]) -> str:
    return listed(str(value) for value in sorted(values, key=str))


def _pair(
    name: tuple[str, str], conditions: Conditions, first: Held, second: Held, sampling: Sampling
) -> Pair | None:
    held = [curve for side in (first, second) for _, _, own in side for curve in own]
    parts = rows_of.common_parts([own for side in (first, second) for _, _, own in side])
    calls = rows_of.usual_calls(held)
    tables = [
        [rows_of.logs_of(own, parts, calls) for _, _, own in side] for side in (first, second)
    ]
    sizes = sorted(set().union(*tables[0]) & set().union(*tables[1]))
    if not sizes:
        return None
    notes = []
    dropped = sorted({s for c in held for s in c.sizes_bytes} - set(sizes))
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
    elif not summarised:
        for at, which in enumerate(("before", "after")):
            calm, flags = one_offs.calmed(rows[at], np.array(sizes, dtype=float))
            notes += _one_offs(which, rows[at], calm, flags, sizes)
            rows[at] = calm
    if any(len(own) == 0 for own in rows):
        return None
    held_by = [[own for _, _, own in side] for side in (first, second)]
    own, sure = rows_of.within((held_by[0], held_by[1]), parts, sizes)
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
        ),
        own=own,
        sure=sure,
        counts=(len(rows[0]), len(rows[1])),
        share=next((curve.share for curve in held if curve.share is not None), None),
        summarised=summarised,
        notes=tuple(notes),
    )


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
