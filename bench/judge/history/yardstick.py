"""What the nights of one series are held against, and how surely that is known.

In: the nights' values (logs against the baseline's lines) and their course. Out: a Yardstick.
Where nobody has set a baseline, the level that the first good night is on counts, not the luck of
that night. A baseline that somebody set lies at 0 and begins a level, wherever its run is: nights
from it on tell its level better than its one night, as far as they agree with it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bench.model.drift import LEAST_STEP, Course, location
from bench.model.gate import FEWEST_RUNS, gate
from bench.records.history import Part

SIGMAS = 4.0  # beyond, a night deserves a second look at once
REFERENCE_NIGHTS = 60  # the last good ones of the baseline's level: two months


@dataclass(frozen=True)
class Yardstick:
    """Places count the measured nights. `segments` are of one level each, from the baseline's on;
    `sure`: the first of them is on its level, by the nights `good`. Single nights are held against
    `reference`, levels against `base`.

    `start` is the first night that tells anything, `spread` how far the reference may be off (0
    where nights made it, whatever the baseline said), `scatter` how far a night from it.
    """

    segments: tuple[tuple[int, int], ...]
    good: tuple[float, ...]
    reference: float
    base: float
    sure: bool = True
    start: int = 0
    doubt: float = 0.0
    scatter: float = 0.0


def unset(logs: Sequence[float], fit: Sequence[bool], course: Course, at: int | None) -> Yardstick:
    """The level of the segment that night `at` is in (None: the first), by its `fit` nights but
    for tonight; by night `at` itself where there are none."""
    segments = _segments(course, len(logs))
    own = 0
    if at is not None:
        own = next((number for number, (_, end) in enumerate(segments) if at < end), 0)
    start, end = segments[own]
    nights = range(start, min(end, len(logs) - 1))
    good = [logs[n] for n in nights if fit[n]][-REFERENCE_NIGHTS:]
    good = good or [logs[n] for n in nights if n == at]
    return Yardstick(segments[own:], tuple(good), level(good), level(logs[start:end]))


def chosen(
    logs: Sequence[float],
    fit: Sequence[bool],
    course: Course,
    at: int | None,
    limit: float,
) -> Yardstick:
    """A baseline that somebody set, on night `at` or on none of these. A night beyond `limit` of
    it is no good one of its level."""
    segments = _segments(course, len(logs))
    if at is not None:
        segments = tuple((max(at, start), end) for start, end in segments if end > at)
    one_night = SIGMAS * course.spread  # what its own luck explains
    limit = max(limit, one_night)
    for number, (start, end) in enumerate(segments):
        nights = range(start, min(end, len(logs) - 1))
        good = [logs[n] for n in nights if (fit[n] or n == at) and abs(logs[n]) <= limit]
        good = good[-REFERENCE_NIGHTS:]
        found = level(good)
        if len(good) >= FEWEST_RUNS and abs(found) <= one_night:
            return Yardstick(
                segments[number:],
                tuple(good),
                found,
                found,
                start=at or 0,
                doubt=one_night / math.sqrt(len(good)),
                scatter=course.spread * math.sqrt(1 + 1 / len(good)),
            )
        if at is not None:
            break  # later segments are other levels than the one that began with it
    if at is not None and segments:
        segments = ((at + 1, segments[0][1]), *segments[1:])
    return Yardstick(
        segments,
        (),
        0.0,
        0.0,
        sure=False,
        start=at or 0,
        doubt=one_night,
        scatter=course.spread * math.sqrt(2),
    )


def level(logs: Sequence[float]) -> float:
    """Huber's, as one wild night must not move it; 0 of no nights."""
    return location(np.asarray(logs, dtype=float), LEAST_STEP) if len(logs) else 0.0


def learned(good: Sequence[float], part: Part) -> float | None:
    """The log beyond which a night is none of the good ones; None where they are too few."""
    if len(good) < FEWEST_RUNS:
        return None
    if part == "large":  # as of a bandwidth: what is quoted of them
        found = gate([math.exp(-log) for log in good], side="below").tolerance
        return None if found is None else -math.log1p(-found)
    found = gate([math.exp(log) for log in good], side="above").tolerance
    return None if found is None else math.log1p(found)


def _segments(course: Course, nights: int) -> tuple[tuple[int, int], ...]:
    starts = [0, *(change.at for change in course.changes), nights]
    return tuple(itertools.pairwise(starts))
