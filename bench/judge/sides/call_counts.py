"""How many calls a time stands for, and which times of two sides are of one quantity.

In: SessionCurves of both sides. Out: by size which of their times are compared, how far their
means may lie apart by the number of calls alone, and sentences on sizes that cannot be compared.

Calls in a pipeline overlap: their mean is not the time of a single one. On a GPU short calls
share a time until it lasts FULL_S, so the number follows from how fast they are, and a change
changes it. Calls of such a time follow those of the one before without a pause, whatever their
number, so these times are of one quantity and are compared. To leave out those of another number
would leave out what changed. Over gloo the number is that of the devices that take turns.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from bench.judge.sides import words
from bench.judge.words import listed
from bench.model.contrast import Floats
from bench.records import SessionCurve

FULL_S = 200e-6  # calls on a GPU share a time until it lasts so long (measure/clock)
MOST_CALLS = 64
SLACK = 2.0  # the number is chosen by warm-up calls, which take up to twice as long
# By the number alone, for each doubling: a stamp costs about 1 µs of a time of 200, and the more
# calls a time stands for, the less of the slowest rank's bad luck is in it (z * sigma * 0.4 where
# a time of 200 µs scatters by sigma: 2 % for 3 %). Not less than the margin of equality: a change
# of such sizes can be shown, that they are equal cannot.
APART = math.log(1.03)
MOST_SPANS = 3  # that are named
UNLIKE = 0  # in place of a number of calls: no times of this size are of one quantity
FEWEST = 2  # times a side that are held against each other, unless it has but one

Side = Sequence[Sequence[SessionCurve]]  # by session, the halves of its rows
Compared = Mapping[int, int | None]  # by size; None: all times that calls fill
Held = tuple[list[tuple[int, float]], list[tuple[int, float]]]  # by side: calls, seconds


def fills(calls: int, time_s: float) -> bool:
    """Whether a clock of a GPU lets so many calls of this length share a time."""
    return calls >= MOST_CALLS or calls * time_s >= FULL_S / SLACK


def compared(sides: tuple[Side, Side], backend: object) -> dict[int, int | None]:
    """By size: the number of calls whose times are compared; None where all are that calls fill;
    UNLIKE where there is none. `backend` tells whose clock it is."""
    found: dict[int, Held] = {}
    for at, side in enumerate(sides):
        for curve in (curve for own in side for curve in own):
            for size, time_s, calls in zip(
                curve.sizes_bytes, curve.times_s, curve.calls, strict=True
            ):
                found.setdefault(size, ([], []))[at].append((calls, time_s))
    return {
        size: None
        if backend == "nccl" and all(map(_mostly_filled, held))
        else _commonest(*(Counter(calls for calls, _ in own) for own in held))
        for size, held in found.items()
    }


def _mostly_filled(held: Sequence[tuple[int, float]]) -> bool:
    return 2 * sum(fills(calls, time_s) for calls, time_s in held) >= len(held)


def _commonest(before: Counter[int], after: Counter[int]) -> int:
    """The number that both sides have most often; of equally common ones the fewest calls, the
    nearest to a call by itself."""
    sides = [own for own in (before, after) if own]  # a size may be on one side alone
    known = {calls: min(own[calls] for own in sides) for calls in sorted(sides[0])}
    best = max(known, key=lambda calls: known[calls])
    enough = all(own[best] >= min(FEWEST, own.total()) for own in sides)
    return best if enough else UNLIKE


def admitted(calls: int, time_s: float, wanted: int | None) -> bool:
    return fills(calls, time_s) if wanted is None else calls == wanted


def unseen(
    sides: tuple[Side, Side], parts: frozenset[str], wanted: Compared, sizes: Sequence[int]
) -> Floats | None:
    """Standard error of each size's change by unlike numbers of calls; None where all are alike.
    Where a side has several numbers, the mean of their logs counts."""
    means = [_doublings(side, parts, wanted, sizes) for side in sides]
    apart = np.abs(means[1] - means[0])
    return np.asarray(APART * apart) if apart.any() else None


def _doublings(
    side: Side, parts: frozenset[str], wanted: Compared, sizes: Sequence[int]
) -> Floats:
    held: dict[int, list[float]] = {size: [] for size in sizes}
    for curve in (curve for own in side for curve in own if curve.part in parts):
        for size, time_s, calls in zip(curve.sizes_bytes, curve.times_s, curve.calls, strict=True):
            if size in held and admitted(calls, time_s, wanted[size]):
                held[size].append(math.log2(calls))
    return np.array([sum(own) / max(len(own), 1) for own in held.values()])


def untold(sides: tuple[Side, Side], wanted: Compared) -> str | None:
    """One sentence on the sizes that both sides have for UNLIKE numbers of calls; None where there
    is none."""
    unlike = [size for size, calls in sorted(wanted.items()) if calls == UNLIKE]
    if not unlike:
        return None
    by_side = [_counts(side) for side in sides]
    spans = _spans(unlike, sorted(by_side[0].keys() & by_side[1].keys()))
    shown = spans[:MOST_SPANS]
    if len(spans) > MOST_SPANS:
        shown.append(f"{len(spans) - MOST_SPANS} more ranges of sizes")
    before, after = (sorted({n for size in unlike for n in own[size]}) for own in by_side)
    return (
        f"{listed(shown)} cannot be compared: a time stands for {_number(before)} before and for "
        f"{_number(after)} after, and calls that follow each other overlap"
    )


def _counts(side: Side) -> dict[int, set[int]]:
    found: dict[int, set[int]] = {}
    for curve in (curve for own in side for curve in own):
        for size, calls in zip(curve.sizes_bytes, curve.calls, strict=True):
            found.setdefault(size, set()).add(calls)
    return found


def _spans(chosen: Sequence[int], ladder: Sequence[int]) -> list[str]:
    """Neighbours on the ladder together."""
    runs: list[list[int]] = []
    for at, size in enumerate(ladder):
        if size in chosen:
            if runs and at and runs[-1][-1] == ladder[at - 1]:
                runs[-1].append(size)
            else:
                runs.append([size])
    return [words.sizes(run[0], run[-1]) for run in runs]


def _number(counts: Sequence[int]) -> str:
    if len(counts) == 1:
        return "1 call" if counts[0] == 1 else f"{counts[0]} calls"
    return f"{counts[0]} to {counts[-1]} calls"
