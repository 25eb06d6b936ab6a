"""One series of a history judged: steady, regressed since when, or a night that stands out.

In: a Series over the nights of one shape, tonight last, and what is known around it. Out: a
NightlySeries. A single night is an alarm only beyond a wide gate and only if a second look the
same night agrees; what is smaller needs three nights (model/drift). Pure, as all judges are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from bench.judge.history import yardstick
from bench.judge.history.series import Series, Value
from bench.judge.history.words import signed
from bench.judge.history.yardstick import SIGMAS, Yardstick, learned, level
from bench.model.drift import CONFIRMED, FEWEST, LEAST_STEP, course, far_out
from bench.records import NightlySeries, SeriesChange, Tolerance
from bench.records.history import SeriesState

BACK_SHARE = 0.5  # of a step: tonight is nearer to the old level than to the new one


@dataclass(frozen=True)
class Around:
    """What one series is judged in: the runs of its nights, which of them were good (whole, and
    nothing wrong), where the baseline is among them (None: not), the fabric's tolerance, whether
    somebody set the baseline, tonight's second look, what was said last night, and why small sizes
    tell nothing."""

    runs: Sequence[str]
    good: Sequence[bool]
    baseline: int | None
    tolerance: Tolerance
    baseline_set: bool = False
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
        last=_share(tonight.value - watch.held.reference),
        low=_share(tonight.low - watch.held.reference),
        high=_share(tonight.high - watch.held.reference),
        again=None if around.again is None else _share(around.again.value - watch.held.reference),
        sigmas=None if watch.sigmas is None else round(watch.sigmas, 2),
        level=_share(watch.level(since) - watch.held.reference),
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
        self.held = self._yardstick()
        self.gate = self._gate()
        self.sigmas = self._sigmas()

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
        above = tonight.value - self.held.reference
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

    def level(self, since: str | None) -> float:
        """Of the nights of the last segment, from `since` on where that is later."""
        begin = self.held.segments[-1][0] if self.held.segments else self.course.start
        if since in self.around.runs[:-1]:
            told = self.around.runs.index(since)
            begin = max(begin, sum(place < told for place in self.places))
        if begin == self.course.start:
            return self.course.level
        return level(self.logs[begin:])

    def _yardstick(self) -> Yardstick:
        fit = [self.around.good[place] for place in self.places]
        at = None
        if self.around.baseline is not None:
            at = sum(place < self.around.baseline for place in self.places)
        if self.around.baseline_set:
            return yardstick.chosen(self.logs, fit, self.course, at, self._default())
        return yardstick.unset(self.logs, fit, self.course, at)

    def _gate(self) -> float:
        """At least what a night may differ from a baseline that is itself of few nights."""
        few = self.around.baseline_set and len(self.held.good) < FEWEST
        own = None if few else learned(self.held.good, self.part)
        return max(self._default(), own or 0.0, SIGMAS * self.held.scatter)

    def _sigmas(self) -> float | None:
        """How far out tonight lies, of what nights do and of a baseline that was set."""
        found = far_out(self.logs, self.course)
        if found is None or not self.held.scatter:
            return found
        return min(found, (self.logs[-1] - self.held.reference) / self.held.scatter)

    def _default(self) -> float:
        wanted = self.around.tolerance
        if self.part == "large":
            return -math.log1p(-min(wanted.bandwidth, 0.9))
        return math.log1p(wanted.latency)

    def _moved(self) -> tuple[str | None, float]:
        """Since which run the level is another than the baseline's, and by how much (logs)."""
        held, later = self.held, int(self.held.sure)  # the first segment that may be another
        apart = [level(self.logs[start:end]) - held.base for start, end in held.segments]
        least = max(LEAST_STEP, held.doubt)
        if len(apart) == later or abs(apart[-1]) < least:
            return None, 0.0
        start, end = held.segments[-1]
        if end - start < CONFIRMED or len(self.logs) < FEWEST:
            return None, 0.0
        delta, first = apart[-1], len(apart) - 1
        while first > later and _alike(apart[first - 1], delta, least):
            first -= 1
        return self._run(self._begin(held.segments[first], delta)), delta

    def _begin(self, segment: tuple[int, int], delta: float) -> int:
        """Its first night; beside a baseline that no nights stand for, the first that shows most
        of `delta`: changes are those from night to night."""
        start, end = segment
        if self.held.sure:
            return start
        shown = ((self.logs[n] - self.held.base) / delta for n in range(start, end))
        return next((start + n for n, share in enumerate(shown) if share > BACK_SHARE), start)

    def _confirmed(self, tonight: Value, limit: float) -> bool:
        """By the second look; without one only if all of tonight's interval is beyond."""
        again = self.around.again
        if again is not None:
            return again.value - self.held.reference > limit
        return tonight.low - self.held.reference > limit

    def _not_confirmed(self, above: float) -> str:
        again = self.around.again
        if again is None:
            return f"{_told(above)} tonight, with an interval that does not exclude chance"
        return (
            f"{_told(above)} tonight, {_told(again.value - self.held.reference)} at a second "
            "look the same night"
        )

    def _young_and_beyond(self) -> bool:
        """Three nights beyond what the nights before would do, while all together are too few for
        change points: a fault of the first weeks must not become the level."""
        told = self.logs[self.held.start :]
        if len(told) >= FEWEST + CONFIRMED:
            return False
        earlier, last = told[:-CONFIRMED], told[-CONFIRMED:]
        usual, own = level(earlier), learned(earlier, self.part)
        if self.around.baseline_set:
            usual = max(usual, self.held.reference)
        return own is not None and min(last) - usual > max(own, LEAST_STEP, self.held.doubt)

    def _since(self) -> str:
        """The first night of those in a row that were said to be regressed."""
        before = self.around.before
        if before is not None and before.state == "regressed" and before.since:
            return before.since
        return self.around.runs[-1]


def _alike(delta: float, other: float, least: float) -> bool:
    return abs(delta) >= least and (delta > 0) == (other > 0)


def _told(log: float) -> str:
    return signed(math.expm1(log))
