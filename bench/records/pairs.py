"""Pairs of hosts, measured to find out which part is slow: rounds, figures, suspects."""

from __future__ import annotations

from typing import Literal

from bench.records.finding import Finding
from bench.records.line import Interval
from bench.records.words import Phase, Record, Verdict

PairStage = Literal["screen", "confirm", "map", "rails", "leaves"]
Direction = Literal["both", "transmit", "receive"]


class PairRound(Record, frozen=True, kw_only=True):
    """Disjoint pairs that are measured at the same time, each over `repeats` fresh connections.

    `rails` are GPU indices (and so NICs) that are measured at the same time, each with its equal
    on the other host; empty: the host's default one. With a `shift`, rail g of the first host
    meets rail g + shift (modulo their number) of the second, which leads through the spine
    (NCCL_PXN_DISABLE=1, or NCCL changes rails inside the host). `idle` hosts sit this round out.
    """

    number: int
    stage: PairStage
    pairs: tuple[tuple[str, str], ...]
    idle: tuple[str, ...] = ()
    repeats: int = 1
    rails: tuple[int, ...] = ()
    shift: int = 0


class PairTime(Record, frozen=True, kw_only=True):
    """One repetition over fresh connections: seconds of one transfer of the round's size.

    `forward_s` first host to second, `backward_s` the other way, `both_s` at the same time;
    `latency_s` of the smallest message, one way (half a round trip).
    """

    forward_s: float
    backward_s: float
    both_s: float | None = None
    latency_s: float | None = None


class PairFigure(Record, frozen=True, kw_only=True):
    """What one pair did in one round. A pair that hung or failed has no times, but a reason.

    `silent` are those of its hosts whose agents no longer answer. `rail` is the first host's;
    `other_rail` the second's where it was another one. `basis` "foreign": a bandwidth that
    somebody else measured, turned into a time per byte.
    """

    round: int
    stage: PairStage
    hosts: tuple[str, str]
    rail: int | None = None
    other_rail: int | None = None
    size_bytes: int = 0
    outcome: Literal["ok", "hung", "failed", "absent"] = "ok"
    reason: str | None = None
    phase: Phase | None = None  # where it hung or failed
    silent: tuple[str, ...] = ()
    times: tuple[PairTime, ...] = ()
    basis: Literal["measured", "foreign"] = "measured"


class MeasuredRound(Record, frozen=True, kw_only=True):
    """One round as it went, with what a search needs to go on from it: a line of samples.jsonl."""

    candidate: str
    size_bytes: int
    interest: float
    expected_s: float | None = None
    duration_s: float = 0.0
    pair_round: PairRound
    figures: tuple[PairFigure, ...] = ()


class Suspect(Record, frozen=True, kw_only=True):
    """A part that is slow, with what decided it.

    `host` (with `rail` where only that one is), or `link` (two hosts), or `group` (the hosts of a
    leaf), or `rail` alone (a whole plane). `across`: fast inside, slow only to others: the uplinks
    of the leaf or rail.
    `slowdown` is the ratio of times to the good pairs' (1.10 = 10 % slower), with the smallest and
    largest of the deciding pairs as its interval. `quantity` tells bandwidth from latency.
    """

    host: str | None = None
    link: tuple[str, str] | None = None
    rail: int | None = None
    group: tuple[str, ...] = ()
    across: bool = False
    direction: Direction = "both"
    quantity: Literal["bandwidth", "latency"] = "bandwidth"
    slowdown: Interval
    deciding: tuple[tuple[str, str], ...] = ()


class Location(Record, frozen=True, kw_only=True):
    """The answer of all rounds together.

    `reference_s` is what a good pair takes. `undecided` are sets of hosts of which at least one
    is slow and none can be told from the others. `spread` are pairs whose connections differ among
    themselves (multi-path: one hash can halve one connection), with slowest / fastest.
    `every_pair_slow`: the reference itself is below what was expected of the network.
    `grid`: of many hosts a map of square blocks, in the order of `hosts`: how many times longer
    than a good one the slowest pair of a block took; None where none was measured.
    """

    hosts: tuple[str, ...]
    candidate: str | None = None
    size_bytes: int = 0
    rounds: tuple[PairRound, ...] = ()
    figures: tuple[PairFigure, ...] = ()
    reference_s: float | None = None
    expected_s: float | None = None
    noise: float | None = None  # standard deviation of good pairs' log times
    threshold: float | None = None  # slowdown (0.05 = 5 %) above which a part is accused
    suspects: tuple[Suspect, ...] = ()
    undecided: tuple[tuple[str, ...], ...] = ()
    unmeasured: tuple[tuple[str, str], ...] = ()  # pairs that hung or failed
    unexplained: tuple[tuple[str, str], ...] = ()  # slow pairs that no suspect accounts for
    spread: dict[str, float] = {}
    every_pair_slow: bool = False
    grid: tuple[tuple[float | None, ...], ...] = ()
    notes: tuple[str, ...] = ()


class PairReading(Record, frozen=True, kw_only=True):
    """`python -m bench locate`: what pairs say that are there already, one Location a list or run.

    `files` are what it was read from, one a Location; `facts` what else lists show, a sentence
    each.
    """

    schema: int = 1
    verdict: Verdict = "inconclusive"
    files: tuple[str, ...] = ()
    locations: tuple[Location, ...] = ()
    facts: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
