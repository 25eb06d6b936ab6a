"""Two sides of repeated curves: what changed, what is equal, what cannot be told.

In: Curves, one a candidate and collective: logs of seconds, a row for each independent repetition,
a column for each size. Out: Judged lines: a gate for the small sizes and one for the large ones,
cells, local changes. Welch on one value a repetition (Kalibera & Jones: repeat where the variance
arises), variances moderated between gates, Holm over all gates, Benjamini-Hochberg within those
that passed, two one-sided tests for equivalence.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from scipy.special import stdtr, stdtrit
from scipy.stats import false_discovery_control

from bench.model.contrast import Contrast, Floats, contrast
from bench.model.local_change import Local, locals_of
from bench.model.moderation import independent, moderate
from bench.model.prediction import SMALL_BYTES
from bench.model.repeated_curves import FEWEST_PAIRS, Curves, scores, smooth, usable
from bench.model.unseen_luck import by_size, run_luck

Verdict = Literal["regressed", "improved", "equivalent", "inconclusive"]

# Of comparing a thing with itself, any alarm in one of 20: four of five for the gates, the rest
# for changes that are confined to a few sizes, which are looked for apart.
GATE_ALPHA, LOCAL_ALPHA = 0.04, 0.01
CELL_RATE = 0.05  # false ones among the cells that are named in a gate that passed
LEAST = math.log(1.02)  # a smaller change is not told as one, however sure: nobody acts on it
MARGIN = math.log(1.03)  # equal is what lies within, with 90 % on either side (TOST)
POWER = 0.9  # with which a change that is called detectable would have shown
MOST_FURTHER = 200  # sessions a side: beyond, more of them is no advice


@dataclass(frozen=True)
class Shift:
    """A change as ln(after / before) of times: above 0 is slower. Intervals of 95 % and 90 %."""

    value: float
    low: float
    high: float
    low_90: float
    high_90: float
    p: float


@dataclass(frozen=True)
class Gate:
    """Sizes tested by one value a repetition. `columns` are indices of sizes; `holm` is the
    adjusted p; `rest` is the shift of those sizes that did not move, where some did.
    `detectable` is the change that would have shown; `further` how many more repetitions a side
    would decide (None: already decided, or more than anybody runs). `weights` are those of the
    sizes in its mean."""

    large: bool
    columns: tuple[int, ...]
    weights: tuple[float, ...]
    shift: Shift
    holm: float
    verdict: Verdict
    detectable: float
    further: int | None = None
    rest: Shift | None = None


@dataclass(frozen=True)
class Judged:
    """One line: gates, the shift of every size, which sizes moved, local changes."""

    gates: tuple[Gate, ...]
    cells: tuple[Shift | None, ...]
    moved: tuple[bool, ...]
    local: tuple[Local, ...] = ()


@dataclass
class _Draft:
    """A gate before all of them have lent each other strength. `scores`: one value a row."""

    line: int
    large: bool
    columns: list[int]
    weights: Floats
    before: Floats
    after: Floats
    contrast: Contrast
    luck: float = 0.0
    shift: Shift | None = None
    holm: float = 1.0
    moved: set[int] = field(default_factory=set)


def compare(curves: Sequence[Curves]) -> tuple[Judged, ...]:
    """All lines of a comparison, in order: the tests are corrected for one another, so lines that
    belong to one answer are given together. Every one is `tested`."""
    drafts = [draft for at, one in enumerate(curves) for draft in _drafts(at, one)]
    _settle(drafts, curves)
    alpha = LOCAL_ALPHA / max(sum(one.tested for one in curves), 1)
    found = []
    for at, one in enumerate(curves):
        own = [draft for draft in drafts if draft.line == at]
        luck = by_size(one, {draft.large: draft.contrast for draft in own})
        local = locals_of(one.before, one.after, paired=one.paired, luck=luck, alpha=alpha)
        found.append(_judged(one, own, local, luck, len(drafts)))
    return tuple(found)


def _drafts(line: int, one: Curves) -> list[_Draft]:
    found = []
    for large in (False, True):
        columns = [
            at
            for at, size in enumerate(one.sizes)
            if (size >= SMALL_BYTES) == large and usable(one, at)
        ]
        if columns:
            weights, before, after = scores(one, columns)
            if _testable(one, before, after):
                kept = contrast(before, after, paired=one.paired)
                found.append(_Draft(line, large, columns, weights, before, after, kept))
    return found


def _testable(one: Curves, before: Floats, after: Floats) -> bool:
    """Whether scores are there to be held against each other: one a row, NaN where it has none."""
    present = np.isfinite(before), np.isfinite(after)
    if one.paired:
        return int((present[0] & present[1]).sum()) >= FEWEST_PAIRS
    return bool(present[0].any() and present[1].any())


def _settle(drafts: Sequence[_Draft], curves: Sequence[Curves]) -> None:
    """Shifts and adjusted p of all gates. Small and large sizes lend among themselves only:
    their noise differs by an order of magnitude."""
    for large in (False, True):
        own = [draft for draft in drafts if draft.large == large]
        if not own:
            continue
        sides = []
        for side in ("before", "after"):
            variances = np.array([draft.contrast.variance(side) for draft in own])
            freedom = np.array([draft.contrast.freedom(side) for draft in own])
            number = independent(_table([getattr(draft, side) for draft in own]))
            sides.append(moderate(variances, freedom, independent=number))
        for at, draft in enumerate(own):
            (first, first_freedom), (second, second_freedom) = sides
            draft.contrast = draft.contrast.with_variances(
                (float(first[at]), float(first_freedom[at])),
                (float(second[at]), float(second_freedom[at])),
            )
    for draft in drafts:
        draft.luck = run_luck(
            curves[draft.line],
            draft.contrast,
            large=draft.large,
            columns=draft.columns,
            weights=draft.weights,
        )
        draft.shift = shift_of(draft.contrast, draft.luck)
    _adjust(drafts)


def _adjust(drafts: Sequence[_Draft]) -> None:
    """Adjusted p: Simes over the two gates of a line (its sizes share their repetitions), Holm
    over lines. A line whose gates both moved is not punished for having two of them."""
    lines: dict[int, list[tuple[float, _Draft]]] = {}
    for draft in drafts:
        assert draft.shift is not None, "set before"
        lines.setdefault(draft.line, []).append((draft.shift.p, draft))
    ordered = [sorted(own, key=lambda one: one[0]) for own in lines.values()]
    ordered.sort(key=_simes)
    worst = 0.0
    for rank, own in enumerate(ordered):
        for p, draft in own:
            least = _simes(own) if draft is own[0][1] else p
            draft.holm = max(worst, min(1.0, least * (len(ordered) - rank)))
        worst = own[0][1].holm


def _simes(own: Sequence[tuple[float, _Draft]]) -> float:
    """p of the hypothesis that none of a line's gates moved."""
    return min(len(own) / (at + 1) * p for at, (p, _) in enumerate(own))


def _table(columns: Sequence[Floats]) -> Floats:
    """(rows, G) where all gates have the same repetitions; empty where they do not."""
    if len({column.size for column in columns}) != 1:
        return np.empty((0, 0))
    return np.stack(columns, 1)


def shift_of(one: Contrast, luck: float = 0.0) -> Shift:
    """The shift, its p and intervals; `luck` is variance that the rows cannot show."""
    error, freedom = one.error(luck)
    p = 2 * float(stdtr(freedom, -abs(one.value) / error))
    wide, narrow = (float(stdtrit(freedom, q)) * error for q in (0.975, 0.95))
    value = one.value
    return Shift(value, value - wide, value + wide, value - narrow, value + narrow, p)


def shift_over(one: Curves, columns: Sequence[int]) -> Shift:
    """The shift of some sizes together, as a gate of their own would show it."""
    weights, before, after = scores(one, columns)
    large = bool(one.sizes[columns[0]] >= SMALL_BYTES)
    kept = contrast(before, after, paired=one.paired)
    luck = run_luck(one, kept, large=large, columns=columns, weights=weights)
    return shift_of(kept, luck)


def _judged(
    one: Curves, drafts: Sequence[_Draft], local: tuple[Local, ...], luck: Floats, gates: int
) -> Judged:
    """`luck` (P,): variance of a size's change that the rows cannot show."""
    cells, moved = _cells(one, drafts, luck)
    for found in local:
        moved |= set(range(found.first, found.last + 1))
    kept = []
    for draft in drafts:
        draft.moved = moved & set(draft.columns)
        inside = [w for w in local if any(w.first <= c <= w.last for c in draft.columns)]
        kept.append(_gate(one, draft, inside, gates))
    flags = tuple(at in moved for at in range(one.sizes.size))
    return Judged(tuple(kept), cells, flags, local)


def _cells(
    one: Curves, drafts: Sequence[_Draft], luck: Floats
) -> tuple[tuple[Shift | None, ...], set[int]]:
    """The shift of every size, and the sizes that moved in gates that passed."""
    cells: list[Shift | None] = [None] * one.sizes.size
    moved: set[int] = set()
    for draft in drafts:
        kept = [
            contrast(one.before[:, at], one.after[:, at], paired=one.paired)
            for at in draft.columns
        ]
        lent = []
        for side in ("before", "after"):
            variances = np.array([each.variance(side) for each in kept])
            near = smooth(variances) if np.isfinite(variances).all() else variances
            lent.append((variances + near) / 2)
        for at, each, first, second in zip(draft.columns, kept, *lent, strict=True):
            drawn = each.with_variances(
                (float(first), each.freedom("before")), (float(second), each.freedom("after"))
            )
            cells[at] = shift_of(drawn, float(luck[at]))
        shift = draft.shift
        assert shift is not None, "gates are settled before cells are named"
        if draft.holm > GATE_ALPHA:
            continue
        known = [(at, cell) for at in draft.columns if (cell := cells[at]) is not None]
        adjusted = false_discovery_control([cell.p for _, cell in known])
        moved |= {
            at
            for (at, cell), rate in zip(known, adjusted, strict=True)
            if rate < CELL_RATE and abs(cell.value) >= LEAST
        }
    return tuple(cells), moved


def _gate(one: Curves, draft: _Draft, local: Sequence[Local], gates: int) -> Gate:
    shift = draft.shift
    assert shift is not None, "settled"
    error, freedom = draft.contrast.error(draft.luck)
    alpha = GATE_ALPHA / gates
    reach = float(stdtrit(freedom, 1 - alpha / 2) + stdtrit(freedom, POWER)) * error
    verdict: Verdict = "inconclusive"
    if draft.holm <= GATE_ALPHA and (abs(shift.value) >= LEAST or draft.moved):
        verdict = "regressed" if shift.value > 0 else "improved"
    elif local:
        verdict = "regressed" if any(found.value > 0 for found in local) else "improved"
    elif shift.low_90 > -MARGIN and shift.high_90 < MARGIN:
        verdict = "equivalent"
    further = None
    if verdict == "inconclusive":
        further = further_rows(draft.contrast, shift.value, draft.luck, alpha)
    rest = None
    still = [at for at in draft.columns if at not in draft.moved]
    if draft.moved and still:
        rest = shift_over(one, still)
    return Gate(
        large=draft.large,
        columns=tuple(draft.columns),
        weights=tuple(draft.weights.tolist()),
        shift=shift,
        holm=draft.holm,
        verdict=verdict,
        detectable=max(reach, LEAST),
        further=further,
        rest=rest,
    )


def further_rows(one: Contrast, value: float, luck: float, alpha: float) -> int | None:
    """How many more repetitions a side would decide, if the change stays where it is: significant
    where it is large enough to be told, else equivalent. None where none would."""
    spread = math.sqrt(one.spread_variance())
    have = one.least_rows
    for rows in range(max(have + 1, 3), have + MOST_FURTHER + 1):
        freedom = (rows - 1) * (1 if one.paired else 2)
        error = math.sqrt(spread**2 * (1 if one.paired else 2) / rows + luck)
        significant, equal = (float(stdtrit(freedom, q)) * error for q in (1 - alpha / 2, 0.95))
        if abs(value) >= LEAST and significant <= abs(value):
            return rows - have
        if equal <= MARGIN - abs(value):
            return rows - have
    return None
