"""The pair rounds of a sweep, from "is it worth it" to where the slow part is.

In: a report whose lines are fitted, and who measures a round. Out: a Location, each round kept as
it ends. What the rounds cost is told before they start. Judge and measurement meet here: neither
knows the other.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol, TextIO

import msgspec

from bench.judge.pairs import scope
from bench.judge.pairs.locating import CONFIRMING_ROUNDS, CROSSING_ROUNDS, locating
from bench.judge.pairs.scope import Scope, concluded
from bench.plan import amounts, cases
from bench.plan.amounts import Amounts
from bench.plan.cases import Locate
from bench.plan.cost import gpu_hours
from bench.plan.sizes import format_bytes
from bench.records import Location, MeasuredRound, PairFigure, PairRound, Report
from bench.report import units
from bench.report.findings import labelled
from bench.report.text import show

WIDTH = 80  # of the sweep's screen
LEAF_ROUNDS = 2  # inside leaves and across them
# Pairs that scatter are repeated up to nine times; a fabric that is down everywhere waits for its
# deadlines. Neither may take the night.
MOST_TIMES_AHEAD = 6.0


class Measurer(Protocol):
    """Who carries out a round: figures, or None where the sweep has ended."""

    def pair_round(
        self, report: Report, order: PairRound, candidate: str, amounts: Amounts
    ) -> tuple[PairFigure, ...] | None: ...


class Rounds:
    """What will be measured, and what it costs."""

    def __init__(self, report: Report, look: Scope) -> None:
        assert report.plan is not None, "a report without a plan cannot be measured"
        self.report, self.look, self._plan = report, look, report.plan
        hosts, search = len(look.hosts), look.search
        self._round_s = amounts.round_s(
            look.amounts, backend=report.backend, repeats=search.repeats, pairs=hosts // 2
        )
        self._sure = amounts.rounds_ahead(hosts, everybody=search.map_links)
        self._sure += CONFIRMING_ROUNDS if search.confirm else 0
        self._sure += LEAF_ROUNDS if search.leaves else 0
        self._sure += CROSSING_ROUNDS if search.cross_rails else 0

    @property
    def ahead_s(self) -> float:
        """Seconds that are sure to be spent."""
        return self._sure * self._round_s

    @property
    def most_s(self) -> float:
        """Beyond this something else is wrong, and what is known must do."""
        return MOST_TIMES_AHEAD * (self.ahead_s + CONFIRMING_ROUNDS * self._round_s)

    def words(self) -> list[str]:
        """One line: what, where, how long."""
        look = self.look
        cost = f"about {units.duration(self.ahead_s)}"
        if self.report.backend == "nccl":
            hours = gpu_hours(self._plan.ranks, self.ahead_s)
            cost += f", {units.significant(hours, 2)} GPU-hours"
        pairs = units.count(len(look.hosts) // 2, "pair")
        more_s = 2 * CONFIRMING_ROUNDS * self._round_s
        return [
            f"{units.count(self._sure, 'round')} of {pairs} over {look.candidate.name}",
            f"{format_bytes(look.amounts.size_bytes)} each way",
            cost,
            f"up to {units.duration(more_s)} more if one stands out",
        ]


def located(
    report: Report,
    how: Locate,
    measurer: Measurer,
    *,
    began: float,
    keep: Callable[[MeasuredRound], None],
    stdout: TextIO | None,
    clock: Callable[[], float] = time.monotonic,
) -> tuple[Report, list[str]]:
    """The report with what its rounds of pairs say, and sentences on what they lack. `began` is
    when the budget began to run, on `clock`; `stdout` hears what the rounds will cost."""
    rounds, told = _worth_it(report, how, elapsed_s=clock() - began)
    sentences = [told] if told else []
    if rounds is None:
        return report, sentences
    if stdout is not None:
        show("\n".join(labelled("locate", rounds.words(), WIDTH)), stdout)
    location, told = _measured(rounds, measurer, keep=keep, clock=clock)
    sentences += [told] if told else []
    return msgspec.structs.replace(report, location=location), sentences


def _worth_it(
    report: Report, how: Locate, *, elapsed_s: float
) -> tuple[Rounds | None, str | None]:
    """What to measure, or a sentence why not where that deserves one."""
    if how == "never" or report.plan is None:
        return None, None
    if len(report.hosts) < amounts.LEAST_COMPARED:
        told = f"pairs of hosts tell something from {amounts.LEAST_COMPARED} hosts on"
        return None, told if how == "always" else None
    limit_s = cases.time_limit_s(report.plan)
    look = scope.of_report(report, limit_s=limit_s)
    if look is None:
        told = "no network that jobs use works between all hosts: no pairs were measured"
        return None, told if how == "always" else None
    if how == "always":
        with_map = scope.of_report(report, limit_s=limit_s, map_links=True)
        assert with_map is not None, "the same network as without a map"
        rounds = Rounds(report, with_map)
        if len(look.hosts) <= amounts.MAPPED_HOSTS or elapsed_s + rounds.ahead_s <= limit_s:
            return rounds, None
        told = f"the budget had no room for a map of all pairs: {units.duration(rounds.ahead_s)}"
        return Rounds(report, look), told
    rounds = Rounds(report, look)
    if not look.search.confirm and elapsed_s + rounds.ahead_s > limit_s:
        return None, "the budget had no room for pairs of hosts"
    return rounds, None


def _measured(
    rounds: Rounds,
    measurer: Measurer,
    *,
    keep: Callable[[MeasuredRound], None],
    clock: Callable[[], float],
) -> tuple[Location | None, str | None]:
    """Carry the rounds out; where they end early, what is known so far and a sentence."""
    look, search = rounds.look, rounds.look.search
    process = locating(look.hosts, search)
    began = clock()
    done: list[MeasuredRound] = []
    order = next(process)
    while True:
        if clock() - began > rounds.most_s:
            told = f"the rounds of pairs took too long and ended after {len(done)}"
            return concluded(look.hosts, done), told
        started = clock()
        figures = measurer.pair_round(rounds.report, order, look.candidate.name, look.amounts)
        if figures is None:
            return concluded(look.hosts, done), None  # the measurer says why
        done.append(
            MeasuredRound(
                candidate=look.candidate.name, size_bytes=search.size_bytes,
                expected_s=search.expected_s, interest=search.interest,
                duration_s=round(clock() - started, 3), pair_round=order, figures=figures,
            )
        )  # fmt: skip
        keep(done[-1])
        try:
            order = process.send(figures)
        except StopIteration as end:
            location: Location = end.value
            return location, None
