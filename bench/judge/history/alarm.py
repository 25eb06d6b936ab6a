"""One series of a history judged: steady, regressed since when, or a night that stands out.

In: a Series over the nights of one shape, tonight last, and what is known around it. Out: a
NightlySeries. A single night is an alarm only beyond a wide gate and only if a second look the
same night agrees; what is smaller needs three nights (model/drift). Pure, as all judges are.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from bench.judge.history.series import Series, Value
from bench.judge.history.words import signed
from bench.model.drift import CONFIRMED, FEWEST, LEAST_STEP, course, far_out, location
from bench.model.gate import FEWEST_RUNS, gate
from bench.records import NightlySeries, SeriesChange, Tolerance
from bench.records.history import SeriesState

SIGMAS = 4.0  # beyond, a night deserves a second look at once
BACK_SHARE = 0.5  # of a step: tonight is nearer to the old level than to the new one
REFERENCE_NIGHTS = 60  # the last good ones of the baseline's level: two months


@dataclass(frozen=True)
class Around:
    """What one series is judged in: the runs of its nights, which of them were good (whole, and
    nothing wrong), where the baseline is among them (None: not), tonight's second look, what was
    said last night, the fabric's tolerance, and why small sizes tell nothing."""

    runs: Sequence[str]
    good: Sequence[bool]
    baseline: int | None
    tolerance: Tolerance
    again: Value | None = None
    before: NightlySeries | None = None
    crowded: str | None = None


def judged(series: Series, around: Around) -> NightlySeries:
    """What the nights of one series say."""
    watch = _Watch(series, around)
    tonight = series.values[-1]
    shown = NightlySeries(
        candidate=series.candidate,
        collective=series.collective,
        part=series.part,
        state="hole",
        runs=tuple(around.runs),
        values=tuple(None if v is None else _share(v.value) for v in series.values),
        changes=watch.changes(),
    )
    if tonight is None:
        return msgspec.structs.replace(shown, note="not measured tonight")
    state, since, note = watch.state(tonight)
    return msgspec.structs.replace(
        shown,
        state=state,
        since=since,
        note=note,
        last=_share(tonight.value - watch.reference),
        low=_share(tonight.low - watch.reference),
        high=_share(tonight.high - watch.reference),
        again=None if around.again is None else _share(around.again.value - watch.reference),
        sigmas=None if watch.sigmas is None else round(watch.sigmas, 2),
        level=_share(watch.course.level - watch.reference),
        scatter=_share(watch.course.spread),
        gate=_share(watch.gate),
    )


def looks_wrong(series: NightlySeries) -> bool:
    """Whether tonight deserves a second look: beyond the gate, or far out of what nights do."""
    if series.last is None or series.state in ("hole", "unjudged"):
        return False
    beyond = series.gate is not None and series.last > series.gate
    return beyond or _far(series.sigmas, math.log1p(series.last))


def _far(sigmas: float | None, above: float) -> bool:
    return sigmas is not None and sigmas > SIGMAS and above > LEAST_STEP


def _share(log: float) -> float:
    """0.05 for a log of 0.0488: 5 % slower."""
    return float(f"{math.expm1(log):.5g}")


class _Watch:
    """The course of one series, and what tonight is held against."""

    def __init__(self, series: Series, around: Around) -> None:
        self.around, self.part = around, series.part
        self.places = [at for at, value in enumerate(series.values) if value is not None]
        self.logs = [value.value for value in series.values if value is not None]
        self.course = course(self.logs)
        starts = [0, *(change.at for change in self.course.changes), len(self.logs)]
        self.segments = list(itertools.pairwise(starts))
        self.own = self._baselines_segment()
        good = self._good_nights()
        self.reference = _level(good)
        self.gate = max(self._default(), self._learned(good) or 0.0)
        self.sigmas = far_out(self.logs, self.course)

    def changes(self) -> tuple[SeriesChange, ...]:
        return tuple(
            SeriesChange(
                run=self._run(change.at),
                told=self._run(change.told),
                change=_share(change.step),
                low=_share(change.step - change.half_width),
                high=_share(change.step + change.half_width),
            )
            for change in self.course.changes
        )

    def state(self, tonight: Value) -> tuple[SeriesState, str | None, str | None]:
        """The state, since which run, and what a reader must know."""
        if self.around.crowded and self.part == "small":
            return "unjudged", None, self.around.crowded
        if self.around.baseline == len(self.around.runs) - 1:
            return "steady", None, None  # this night is the baseline
        above = tonight.value - self.reference
        since, delta = self._moved()
        if since is not None and delta > 0:
            back = above < BACK_SHARE * delta
            note = "tonight as before it; three such nights confirm that" if back else None
            return "regressed", since, note
        if above > self.gate:
            if self._confirmed(tonight, self.gate):
                return "regressed", self._since(), None
            return "steady", None, self._not_confirmed(above)
        if self._young_and_beyond():
            return "regressed", self._run(len(self.logs) - CONFIRMED), None
        if _far(self.sigmas, above):
            if self.around.again is not None and self._confirmed(tonight, LEAST_STEP):
                return "tonight", None, "two more such nights confirm a change"
            return "steady", None, self._not_confirmed(above)
        if since is not None:
            return "improved", since, None
        return "steady", None, None

    def _run(self, at: int) -> str:
        return self.around.runs[self.places[at]]

    def _baselines_segment(self) -> int:
        """The segment that the baseline's night is in; the first where it is not among them."""
        if self.around.baseline is None:
            return 0
        at = sum(place < self.around.baseline for place in self.places)
        return next((i for i, (_, end) in enumerate(self.segments) if at < end), 0)

    def _good_nights(self) -> list[float]:
        """Values of the good nights on the baseline's level, but for tonight; the baseline's own
        where there are none."""
        start, end = self.segments[self.own] if self.segments else (0, 0)
        nights = range(start, min(end, len(self.logs) - 1))
        good = [self.logs[n] for n in nights if self.around.good[self.places[n]]]
        own = [self.logs[n] for n in nights if self.places[n] == self.around.baseline]
        return good[-REFERENCE_NIGHTS:] or own

    def _learned(self, good: Sequence[float]) -> float | None:
        """The log beyond which a night is none of the good ones; None where they are too few."""
        if len(good) < FEWEST_RUNS:
            return None
        if self.part == "large":  # as of a bandwidth: what is quoted of them
            found = gate([math.exp(-log) for log in good], side="below").tolerance
            return None if found is None else -math.log1p(-found)
        found = gate([math.exp(log) for log in good], side="above").tolerance
        return None if found is None else math.log1p(found)

    def _default(self) -> float:
        wanted = self.around.tolerance
        if self.part == "large":
            return -math.log1p(-min(wanted.bandwidth, 0.9))
        return math.log1p(wanted.latency)

    def _moved(self) -> tuple[str | None, float]:
        """Since which run the level is another than the baseline's, and by how much (logs)."""
        levels = [_level(self.logs[start:end]) for start, end in self.segments]
        delta = levels[-1] - levels[self.own]
        if abs(delta) < LEAST_STEP or self.own == len(levels) - 1:
            return None, 0.0
        first = len(levels) - 1
        while first - 1 > self.own and _alike(levels[first - 1] - levels[self.own], delta):
            first -= 1
        return self._run(self.segments[first][0]), delta

    def _confirmed(self, tonight: Value, limit: float) -> bool:
        """By the second look; without one only if all of tonight's interval is beyond."""
        again = self.around.again
        if again is not None:
            return again.value - self.reference > limit
        return tonight.low - self.reference > limit

    def _not_confirmed(self, above: float) -> str:
        again = self.around.again
        if again is None:
            return f"{_told(above)} tonight, with an interval that does not exclude chance"
        return (
            f"{_told(above)} tonight, {_told(again.value - self.reference)} at a second "
            "look the same night"
        )

    def _young_and_beyond(self) -> bool:
        """Three nights beyond what the nights before would do, while all together are too few for
        change points: a fault of the first weeks must not become the level."""
        if len(self.logs) >= FEWEST + CONFIRMED:
            return False
        earlier, last = self.logs[:-CONFIRMED], self.logs[-CONFIRMED:]
        learned = self._learned(earlier)
        return learned is not None and min(last) - _level(earlier) > max(learned, LEAST_STEP)

    def _since(self) -> str:
        """The first night of those in a row that were said to be regressed."""
        before = self.around.before
        if before is not None and before.state == "regressed" and before.since:
            return before.since
        return self.around.runs[-1]


def _alike(delta: float, other: float) -> bool:
    return abs(delta) >= LEAST_STEP and (delta > 0) == (other > 0)


def _level(logs: Sequence[float]) -> float:
    return location(np.asarray(logs, dtype=float), LEAST_STEP) if len(logs) else 0.0


def _told(log: float) -> str:
    return signed(math.expm1(log))
