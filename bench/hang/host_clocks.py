"""Whether one thing came before another, when hosts' clocks differ.

In: a Crew. Out: Clocks, which answer "surely before" or not. Steps that several ranks log are
shared moments: they show how far a rank's clock is off. Where none are shared, two hosts may be a
minute apart; on one host, order is order. A line without a time lies between its neighbours.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from bench.formats.rank_log.stamps import YEAR_S
from bench.hang.crew import Crew
from bench.records import RankSign, RankStep
from bench.records.ranklog import Clock

# Hosts without a running NTP drift by seconds a day; more than a minute is noticed by other things
# (certificates, Kerberos, file times).
APART_S = 60.0
LEAST_SHARED = 3  # steps, or one rank's pause would look like a clock
# Ranks leave a step together, but print it when they come to it.
MOST_SPREAD_S = 5.0


@dataclass(frozen=True)
class Moment:
    """When something was: between `low_s` and `high_s` of a rank's or host's clock."""

    low_s: float | None
    high_s: float | None
    clock: Clock | None
    owner: int | None
    host: str | None
    file: str


def moment(sign: RankSign) -> Moment:
    low, high = sign.time_s, sign.time_s if sign.is_exact else sign.until_s
    if high is not None and low is not None and high < low:
        low, high = high, low  # lines of buffered streams need not be in order: in between
    return Moment(low, high, sign.clock, sign.rank, sign.host, sign.file)


class Clocks:
    """Offsets of ranks' clocks against one of them."""

    def __init__(self, crew: Crew) -> None:
        self.hosts = {rank: member.host for rank, member in crew.known.items()}
        self.offsets: dict[int, float] = {}
        self.spread_s = 0.0
        self._measure(crew)

    def before(self, one: Moment, other: Moment) -> bool:
        """Whether `one` surely was before `other`."""
        if one.high_s is None or other.low_s is None or one.clock != other.clock:
            return False
        return self._gap(one, other, one.high_s, other.low_s) > self.tolerance_s(one, other)

    def seconds_between(self, one: Moment, other: Moment) -> float | None:
        """From `one` to `other`, by the earliest that each can have been."""
        if one.low_s is None or other.low_s is None or one.clock != other.clock:
            return None
        return self._gap(one, other, one.low_s, other.low_s)

    def tolerance_s(self, one: Moment, other: Moment) -> float:
        """How far apart two times must be to be in order."""
        if self.same_host(one, other):
            return 0.0
        if one.owner in self.offsets and other.owner in self.offsets:
            return 1.0 + 2 * self.spread_s
        return APART_S

    def same_host(self, one: Moment, other: Moment) -> bool:
        if one.owner is not None and one.owner == other.owner:
            return True
        hosts = [
            m.host or self.hosts.get(m.owner if m.owner is not None else -1) for m in (one, other)
        ]
        if None not in hosts:
            return hosts[0] == hosts[1]
        return one.file == other.file and one.owner is None and other.owner is None

    def _gap(self, one: Moment, other: Moment, first: float, second: float) -> float:
        gap = second - self._offset(other) - (first - self._offset(one))
        if gap < -YEAR_S / 2:  # over New Year
            gap += YEAR_S
        return gap - YEAR_S if gap > YEAR_S / 2 else gap

    def _offset(self, moment: Moment) -> float:
        return self.offsets.get(moment.owner, 0.0) if moment.owner is not None else 0.0

    def _measure(self, crew: Crew) -> None:
        """Each rank against the one that logs the most steps, by the steps that both log."""
        marks = {rank: _steps(crew, rank) for rank in crew.known}
        marks = {rank: steps for rank, steps in marks.items() if len(steps) >= LEAST_SHARED}
        if len(marks) < 2:
            return
        reference = max(marks, key=lambda rank: (len(marks[rank]), -rank))
        spreads = []
        for rank, steps in marks.items():
            shared = steps.keys() & marks[reference].keys()
            if len(shared) < LEAST_SHARED:
                continue
            gaps = [steps[step] - marks[reference][step] for step in shared]
            middle = statistics.median(gaps)
            spread = statistics.median(abs(gap - middle) for gap in gaps)
            if spread <= MOST_SPREAD_S:
                self.offsets[rank] = middle
                spreads.append(spread)
        self.spread_s = max(spreads, default=0.0)


def _steps(crew: Crew, rank: int) -> dict[tuple[str, float], float]:
    found: dict[tuple[str, float], float] = {}
    for stream in crew.known[rank].streams:
        for step in stream.steps:
            if _is_step(step) and step.time_s is not None:
                found.setdefault((step.word, step.number), step.time_s)
    return found


def _is_step(step: RankStep) -> bool:
    return step.word not in ("epoch", "bar") and step.number > 0
