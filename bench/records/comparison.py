"""A comparison: the two sides that go in, and what is said of every line that both measured."""

from __future__ import annotations

from typing import Literal

from bench.records.finding import Finding
from bench.records.words import Record

ComparisonVerdict = Literal["regressed", "improved", "equivalent", "inconclusive"]


class SessionCurve(Record, frozen=True, kw_only=True):
    """What one session measured of one candidate and collective: a time a size, ascending.

    `part` tells the halves of a table's rows apart ("out-of-place", "in-place"). `scatters` say on
    logs how far a time lies from another of the same session (standard deviation), `calls` how
    many calls a time stands for. Where the sessions behind a report are not at hand its points
    stand for `sessions` of them, and `spreads` is how far those lay apart. `share` is busbw over
    size / time.
    """

    candidate: str
    collective: str
    ranks: int | None = None
    dtype: str | None = None
    redop: str | None = None
    part: str = ""
    sizes_bytes: tuple[int, ...] = ()
    times_s: tuple[float, ...] = ()
    scatters: tuple[float, ...] = ()
    calls: tuple[int, ...] = ()
    sessions: int = 1
    spreads: tuple[float, ...] = ()
    share: float | None = None


class SideSession(Record, frozen=True, kw_only=True):
    """One session of a side. `boot` stands for all hosts' boot ids (None: unknown), `run` for
    the run it is part of, `place` the position in which it was taken (seconds since the epoch).

    `timing` says what its times are: the median over calls of the slowest rank's time, or (tables)
    a mean over calls and ranks. `outcomes` has candidates that were tried, `wrong` the number of
    wrong values. `average_busbw_gbs` is an average of which the rows are not there.
    """

    name: str
    run: str
    curves: tuple[SessionCurve, ...] = ()
    boot: str | None = None
    hosts: tuple[str, ...] = ()
    host_count: int | None = None
    ranks: int | None = None
    backend: str | None = None
    place: float | None = None
    timing: Literal["slowest-rank", "mean"] = "slowest-rank"
    outcomes: dict[str, str] = {}
    wrong: int = 0
    failure: str | None = None
    average_busbw_gbs: float | None = None


class Topic(Record, frozen=True, kw_only=True):
    """One thing that is known of a side's surroundings, by host ("" where it is of no host).

    `factor` is what a person changes (driver, NCCL, a variable), `setting` how it was measured,
    `circumstance` what changes by itself (boots, hosts).
    """

    name: str
    kind: Literal["factor", "setting", "circumstance"] = "factor"
    values: dict[str, tuple[str, ...]] = {}  # host -> distinct values over the side's sessions
    basis: Literal["measured", "claimed", "inferred"] = "measured"


class Side(Record, frozen=True, kw_only=True):
    """One side as it was read. `skipped` are sentences on what could not be read, `told` what
    kinds of surroundings its files can tell ("report", "table", "log")."""

    path: str
    sessions: tuple[SideSession, ...] = ()
    topics: tuple[Topic, ...] = ()
    told: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()  # of its files themselves


class Change(Record, frozen=True, kw_only=True):
    """after / before - 1, with a 95 % interval (None where too few sessions show one)."""

    value: float
    low: float | None = None
    high: float | None = None


class ComparedFigure(Record, frozen=True, kw_only=True):
    """One figure of both sides, in the unit that its name tells."""

    before: float
    after: float
    change: Change


class ComparedCell(Record, frozen=True, kw_only=True):
    """One size. `change` is of the time: above 0 is slower. `moved`: named as changed."""

    size_bytes: int
    before_s: float
    after_s: float
    before_busbw_gbs: float | None = None
    after_busbw_gbs: float | None = None
    change: Change
    moved: bool = False


class ComparedRange(Record, frozen=True, kw_only=True):
    """Neighbouring sizes that moved together, or did not; figures are geometric means. `local_p`:
    found by being held against the other sizes of the same sessions (adjusted for all ranges that
    were looked at)."""

    from_bytes: int
    to_bytes: int
    sizes: int
    verdict: ComparisonVerdict
    time_s: ComparedFigure
    busbw_gbs: ComparedFigure | None = None
    local_p: float | None = None
    switch: str | None = None  # what it looks like, where it is a switch point that moved


class ComparedGate(Record, frozen=True, kw_only=True):
    """The small sizes (below 64 KiB), or the large ones, of one line: what is decided together.

    `p` is adjusted for all gates of the comparison. `detectable` is the change of time that would
    have shown, `further_sessions` how many more a side would decide (None: decided, or out of
    reach). `rest` are the sizes that did not move, where some did.
    """

    sizes: Literal["small", "large"]
    whole: ComparedRange
    verdict: ComparisonVerdict
    p: float | None = None
    detectable: float | None = None
    further_sessions: int | None = None
    moved: tuple[ComparedRange, ...] = ()
    rest: ComparedRange | None = None


class ComparedLine(Record, frozen=True, kw_only=True):
    """One candidate and collective. `before_sessions`, `after_sessions` count what the tests
    count: sessions, or boots or hosts where those are the sample. `notes` say what is weak,
    `untold` which sizes both sides have that cannot be compared."""

    candidate: str
    collective: str
    ranks: int | None = None
    dtype: str | None = None
    verdict: ComparisonVerdict
    before_sessions: int
    after_sessions: int
    gates: tuple[ComparedGate, ...] = ()
    cells: tuple[ComparedCell, ...] = ()
    latency_s: ComparedFigure | None = None
    bandwidth_bytes_per_s: ComparedFigure | None = None
    busbw_gbs: ComparedFigure | None = None
    switches_before: tuple[tuple[int, int], ...] = ()
    switches_after: tuple[tuple[int, int], ...] = ()
    notes: tuple[str, ...] = ()
    untold: str | None = None


class Difference(Record, frozen=True, kw_only=True):
    """One thing that is not alike on both sides, as words. `hosts` are those on which it is not,
    where it is not all of them."""

    name: str
    kind: Literal["factor", "setting", "circumstance"]
    before: str
    after: str
    hosts: tuple[str, ...] = ()
    basis: Literal["measured", "claimed", "inferred"] = "measured"


class SideSummary(Record, frozen=True, kw_only=True):
    """What a side was made of."""

    path: str
    sessions: int
    runs: int
    boots: int | None = None
    hosts: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()


class Comparison(Record, frozen=True, kw_only=True):
    """`python -m bench compare`: what differs between the sides, and what it did to the figures.

    `sample` says what the tests count, `weaker` why the answer is a weak one. `confounders` are
    sentences on why a change of figures may have another cause than the one that was meant.
    """

    schema: int = 1
    verdict: Literal["regressed", "improved", "equivalent", "inconclusive", "not-comparable"]
    before: SideSummary
    after: SideSummary
    sample: Literal["session", "boot", "host", "pairs of hosts"] = "session"
    interleaved: bool | None = None
    weaker: str | None = None
    differences: tuple[Difference, ...] = ()
    equal: str = ""  # what of the surroundings is alike, or cannot be told
    confounders: tuple[str, ...] = ()
    lines: tuple[ComparedLine, ...] = ()
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
