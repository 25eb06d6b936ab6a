"""What the tests found of one line, in the units that people read.

In: a Pair and its Judged result, or a Pair of which one side was measured too seldom to be tested.
Out: a ComparedLine. Sizes that moved stand in ranges; one that did not, between two that did the
same way, is part of their range where it leans to the same side.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import msgspec
import numpy as np

from bench.judge.sides import switches
from bench.judge.sides.pairing import Pair
from bench.judge.sides.words import change_of
from bench.model import single_runs
from bench.model.comparison import Gate, Judged, Shift, Verdict, shift_over
from bench.model.contrast import Floats
from bench.model.local_change import Local
from bench.model.prediction import SMALL_BYTES
from bench.model.two_lines import Fitted, TwoLines, fit_both
from bench.records import (
    Change,
    ComparedCell,
    ComparedFigure,
    ComparedGate,
    ComparedLine,
    ComparedRange,
)

BRIDGED = 0.5  # of its neighbours' change: what a size between them shows to be one of them
ORDER: tuple[Verdict, ...] = ("regressed", "improved", "inconclusive", "equivalent")


def tested(pair: Pair, judged: Judged) -> ComparedLine:
    """A line whose repetitions tell how repetitions differ."""
    pieces = _fit(pair)
    apart = _apart(pair)
    shown = [0.0 if cell is None else cell.value for cell in judged.cells]
    gates = []
    moved = set(np.flatnonzero(judged.moved).tolist())
    spans = single_runs.spans(apart, pair.own, sure=pair.sure) if min(pair.counts) <= 3 else ()
    for span in spans:  # few repetitions: what is large and local is no luck of theirs
        moved |= set(range(span.first, span.last + 1))
    for gate in judged.gates:
        gates.append(_gate(pair, gate, moved & set(gate.columns), shown, judged.local))
    cells = tuple(_cell(pair, at, cell, at in moved) for at, cell in enumerate(judged.cells))
    return _line(pair, tuple(gates), cells, pieces)


def untested(pair: Pair) -> ComparedLine:
    """A line that a side has once, the other not often enough: only its own scatter is known."""
    apart = _apart(pair)
    moved: set[int] = set()
    for span in single_runs.spans(apart, pair.own, sure=pair.sure):
        moved |= set(range(span.first, span.last + 1))
    gates = []
    for large in (False, True):
        columns = [at for at, n in enumerate(pair.curves.sizes) if (n >= SMALL_BYTES) == large]
        if columns:
            gates.append(_alone(pair, large, columns, moved & set(columns), apart))
    cells = tuple(_cell(pair, at, None, at in moved) for at in range(len(apart)))
    return _line(pair, tuple(gates), cells, _fit(pair))


def _fit(pair: Pair) -> TwoLines:
    return fit_both(pair.curves)


def _apart(pair: Pair) -> Floats:
    first, second = pair.means
    return np.asarray(second - first)


def _line(
    pair: Pair,
    gates: tuple[ComparedGate, ...],
    cells: tuple[ComparedCell, ...],
    pieces: TwoLines,
) -> ComparedLine:
    bandwidth = _figure(pieces.bandwidth_bytes_per_s)
    busbw = None
    if bandwidth is not None and pair.share:
        busbw = ComparedFigure(
            before=bandwidth.before * pair.share / 1e9,
            after=bandwidth.after * pair.share / 1e9,
            change=bandwidth.change,
        )
    verdicts = {gate.verdict for gate in gates}
    if pair.untold is not None:
        verdicts.add("inconclusive")
    return ComparedLine(
        candidate=pair.candidate,
        collective=pair.collective,
        ranks=pair.ranks,
        dtype=pair.dtype,
        verdict=next((each for each in ORDER if each in verdicts), "inconclusive"),
        before_sessions=pair.counts[0],
        after_sessions=pair.counts[1],
        gates=gates,
        cells=cells,
        latency_s=_figure(pieces.latency_s),
        bandwidth_bytes_per_s=bandwidth,
        busbw_gbs=busbw,
        switches_before=pieces.switches_before,
        switches_after=pieces.switches_after,
        notes=pair.notes,
        untold=pair.untold,
    )


def _figure(fitted: Fitted | None) -> ComparedFigure | None:
    if fitted is None:
        return None
    shift = fitted.shift
    change = (
        Change(value=fitted.after / fitted.before - 1)
        if shift is None
        else change_of(shift.value, shift.low, shift.high)
    )
    return ComparedFigure(before=fitted.before, after=fitted.after, change=change)


def _cell(pair: Pair, at: int, shift: Shift | None, moved: bool) -> ComparedCell:
    first, second = pair.means
    before_s, after_s = math.exp(first[at]), math.exp(second[at])
    size = int(pair.curves.sizes[at])
    share = pair.share or None
    return ComparedCell(
        size_bytes=size,
        before_s=before_s,
        after_s=after_s,
        before_busbw_gbs=share and share * size / before_s / 1e9,
        after_busbw_gbs=share and share * size / after_s / 1e9,
        change=Change(value=after_s / before_s - 1)
        if shift is None
        else change_of(shift.value, shift.low, shift.high),
        moved=moved,
    )


def _gate(
    pair: Pair, gate: Gate, moved: set[int], shown: Sequence[float], local: Sequence[Local]
) -> ComparedGate:
    verdict = gate.verdict
    if moved and verdict in ("equivalent", "inconclusive"):
        slower = any(shown[at] > 0 for at in moved)
        verdict = "regressed" if slower else "improved"
    whole = _range(pair, gate.columns, gate.shift, verdict, gate.weights)
    runs = _runs(gate.columns, moved, shown)
    rest = [at for at in gate.columns if not any(at in run for run in runs)]
    ranges = []
    still = None
    if runs and rest:
        shift = shift_over(pair.curves, rest)
        still = _range(pair, rest, shift, _equal(shift), None)
        leans = shift.value * gate.shift.value > 0
        if leans and abs(shift.value) >= BRIDGED * abs(gate.shift.value):
            runs, still = [], None  # all of them moved, some less surely than others
    for columns in runs:
        shift = shift_over(pair.curves, columns)
        kind: Verdict = "regressed" if shift.value > 0 else "improved"
        sure = [w.p for w in local if w.first <= columns[-1] and columns[0] <= w.last]
        made = _range(pair, columns, shift, kind, None, switch=True)
        ranges.append(msgspec.structs.replace(made, local_p=min(sure, default=None)))
    return ComparedGate(
        sizes="large" if gate.large else "small",
        whole=whole,
        verdict=verdict,
        p=gate.holm,
        detectable=math.expm1(min(gate.detectable, 50.0)),
        further_sessions=gate.further if verdict == "inconclusive" else None,
        moved=tuple(ranges),
        rest=still,
    )


def _equal(shift: Shift) -> Verdict:
    margin = math.log(1.03)
    return "equivalent" if shift.low_90 > -margin and shift.high_90 < margin else "inconclusive"


def _alone(
    pair: Pair, large: bool, columns: list[int], moved: set[int], apart: Floats
) -> ComparedGate:
    """A gate of single runs: what it shows of its own scatter, and no interval."""
    drift = single_runs.drift(apart, pair.own, columns)
    verdict: Verdict = "inconclusive"
    if moved or drift.beyond_luck:
        value = apart[sorted(moved)].mean() if moved else drift.value
        verdict = "regressed" if value > 0 else "improved"
    ranges = []
    shown = [float(value) for value in apart]
    runs = _runs(columns, moved, shown)
    for run in runs:
        value = float(apart[run].mean())
        kind: Verdict = "regressed" if value > 0 else "improved"
        ranges.append(_range(pair, run, value, kind, None, switch=True))
    rest = [at for at in columns if not any(at in run for run in runs)]
    still = None
    if runs and rest:
        still = _range(pair, rest, float(np.median(apart[rest])), "inconclusive", None)
    return ComparedGate(
        sizes="large" if large else "small",
        whole=_range(pair, columns, drift.value, verdict, None),
        verdict=verdict,
        detectable=math.expm1(max(single_runs.STANDS_OUT * drift.error, single_runs.RUN_LUCK)),
        moved=tuple(ranges),
        rest=still,
    )


def _runs(columns: Sequence[int], moved: set[int], shown: Sequence[float]) -> list[list[int]]:
    """Sizes that moved, neighbours of one direction together."""
    runs: list[list[int]] = []
    for at in columns:
        if at not in moved:
            continue
        last = runs[-1] if runs else None
        if last is not None and shown[last[-1]] * shown[at] > 0 and at - last[-1] <= 2:
            between = list(range(last[-1] + 1, at))
            usual = BRIDGED * min(abs(shown[last[-1]]), abs(shown[at]))
            if all(shown[b] * math.copysign(1, shown[at]) >= usual for b in between):
                last += [*between, at]
                continue
        runs.append([at])
    return runs


def _range(
    pair: Pair,
    columns: Sequence[int],
    shift: Shift | float,
    verdict: Verdict,
    weights: Sequence[float] | None,
    *,
    switch: bool = False,
) -> ComparedRange:
    """Geometric means over sizes, weighted as the test weighed them."""
    chosen = list(columns)
    share = np.array(weights if weights is not None else [1.0] * len(chosen))
    share = share / share.sum()
    first, _ = pair.means
    sizes = pair.curves.sizes[chosen]
    before_s = math.exp(float(share @ first[chosen]))
    value = shift.value if isinstance(shift, Shift) else shift
    change = (
        change_of(shift.value, shift.low, shift.high)
        if isinstance(shift, Shift)
        else change_of(shift)
    )
    busbw = None
    if pair.share and sizes[0] > 0:
        level = pair.share * math.exp(float(share @ np.log(sizes))) / before_s / 1e9
        busbw = ComparedFigure(
            before=level, after=level * math.exp(-value), change=_inverse(change)
        )
    told: str | None = None
    if switch:
        told = switches.told(*pair.means, pair.curves.sizes, chosen[0], chosen[-1])
    kind: Literal["regressed", "improved", "equivalent", "inconclusive"] = verdict
    return ComparedRange(
        from_bytes=int(sizes[0]),
        to_bytes=int(sizes[-1]),
        sizes=len(chosen),
        verdict=kind,
        time_s=ComparedFigure(
            before=before_s, after=before_s * math.exp(min(value, 50.0)), change=change
        ),
        busbw_gbs=busbw,
        switch=told,
    )


def _inverse(change: Change) -> Change:
    """Of bandwidth, from that of time."""
    return Change(
        value=1 / (1 + change.value) - 1,
        low=None if change.high is None else 1 / (1 + change.high) - 1,
        high=None if change.low is None else 1 / max(1 + change.low, 1e-9) - 1,
    )
