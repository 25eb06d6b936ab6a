"""A history of nights: what is kept of each, the baseline, and what a nightly job says."""

from __future__ import annotations

from typing import Literal

from bench.records.comparison import Difference
from bench.records.finding import Finding
from bench.records.line import CostLine
from bench.records.words import Backend, Record, Verdict

Part = Literal["small", "large"]  # below 64 KiB, where latency rules, and from there on
SeriesState = Literal["steady", "regressed", "improved", "tonight", "unjudged", "hole"]


class NightLine(Record, frozen=True, kw_only=True, omit_defaults=True):
    """The points of one candidate and collective: ascending sizes, seconds, and the half-widths
    of their 95 % intervals on logs."""

    candidate: str
    collective: str
    ranks: int
    sizes_bytes: tuple[int, ...] = ()
    times_s: tuple[float, ...] = ()
    half_widths: tuple[float, ...] = ()


class Night(Record, frozen=True, kw_only=True, omit_defaults=True):
    """What the judgement of a history needs of one run.

    `shape` says what it measured on (backend, hosts, ranks, GPUs): only nights of one shape are
    held against each other. `fleet` is how much longer than a good one the pairs of a host (or
    "host, rail 3") took, on logs; `fleet_spread` the noise of good pairs. `troubles` are its
    findings that were degraded or broken, as "code (candidate or host)". `crowded` says why small
    sizes tell nothing ("8 ranks share 2 cores").
    """

    run: str
    started_at: float = 0.0  # seconds since the epoch
    shape: str = ""
    backend: Backend = "gloo"
    plan: str = ""
    verdict: Verdict = "inconclusive"
    complete: bool = True
    hosts: tuple[str, ...] = ()
    lines: tuple[NightLine, ...] = ()
    fleet: dict[str, float] = {}
    fleet_spread: float | None = None
    troubles: tuple[str, ...] = ()
    crowded: str | None = None


class Baseline(Record, frozen=True, kw_only=True):
    """What nights of one shape are held against: a run that somebody chose, and why. Its lines
    are kept with it: the run's folder may be cleared away."""

    run: str
    reason: str
    set_at: float  # seconds since the epoch
    shape: str
    measured_at: float = 0.0
    hosts: tuple[str, ...] = ()
    lines: tuple[CostLine, ...] = ()


class Baselines(Record, frozen=True, kw_only=True):
    """baseline.json of a history. `former` are the ones that were replaced, without lines."""

    schema: int = 1
    current: tuple[Baseline, ...] = ()
    former: tuple[Baseline, ...] = ()


class SeriesChange(Record, frozen=True, kw_only=True):
    """The level of a series changed with the night `run`; sure with `told`. `change` is of the
    time (0.05: 5 % slower), with its 95 % interval."""

    run: str
    told: str
    change: float
    low: float
    high: float


class NightlySeries(Record, frozen=True, kw_only=True):
    """Small or large sizes of one candidate and collective, over the nights of `runs`.

    `values` are times against the baseline (0.05: 5 % slower), None where a night has none.
    `last` is tonight's, with `low` and `high`; `again` that of a second look the same night;
    `sigmas` how far out tonight lies. `level` is the level that holds now, `scatter` that of
    nights about it, `gate` from where on a single night is an alarm.
    """

    candidate: str
    collective: str
    part: Part
    state: SeriesState
    runs: tuple[str, ...] = ()
    values: tuple[float | None, ...] = ()
    last: float | None = None
    low: float | None = None
    high: float | None = None
    again: float | None = None
    sigmas: float | None = None
    level: float | None = None
    scatter: float | None = None
    gate: float | None = None
    since: str | None = None  # the run from which on it is regressed or improved
    changes: tuple[SeriesChange, ...] = ()
    note: str | None = None


class SlowHost(Record, frozen=True, kw_only=True):
    """A host, or one of its rails, that was slower than its fleet on each of its last nights.
    `slowdown` is the median of these nights (0.08: 8 % slower), `nights` the runs."""

    host: str
    rail: int | None = None
    slowdown: float
    nights: tuple[str, ...]


class Nightly(Record, frozen=True, kw_only=True):
    """nightly.json: what a nightly job says of one night. `findings` are its own; those of the
    sweep are in report.json, `troubles` names them with the run since which each is there.
    `recovered` are sentences on what was wrong the night before and is not any more.
    """

    schema: int = 1
    run: str
    history: str = ""  # its folder, as the user would type it
    verdict: Verdict
    shape: str = ""
    nights: int = 0  # of this shape, this one included
    nights_before: int = 0  # of any shape
    other_shapes: int = 0
    skipped: tuple[str, ...] = ()
    baseline: str | None = None  # its run
    baseline_reason: str | None = None  # None: nobody set it
    baseline_age_s: float | None = None
    baseline_good: bool = True  # False: no night of this shape was good yet, this one neither
    previous: str | None = None  # the night before of this shape
    differences: tuple[Difference, ...] = ()  # since the night before
    changed: dict[str, tuple[Difference, ...]] = {}  # that came with an earlier night, by its run
    missing_hosts: dict[str, int] = {}  # host -> nights in a row that it was there before
    series: tuple[NightlySeries, ...] = ()
    slow_hosts: tuple[SlowHost, ...] = ()
    troubles: dict[str, str] = {}
    recovered: tuple[str, ...] = ()
    again: str | None = None  # the folder of the second look
    notes: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
