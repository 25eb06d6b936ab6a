"""What `python -m bench diagnose` says of a job: the evidence at hand, and what follows from it.

Built from the records of each kind of evidence; a kind that was not there is None. A FlightPicture
is what the dumps of all ranks show together; ranks are global, `files` stand for dumps whose rank
is not certain.
"""

from __future__ import annotations

from bench.records.dossier import ForeignFile
from bench.records.finding import Finding
from bench.records.flight import FlightCall, FlightFrame, FlightState
from bench.records.launch_files import NodeLaunch
from bench.records.words import Phase, Record, Verdict


class FlightRank(Record, frozen=True, kw_only=True):
    """One process. `waits_in` and `last` name a collective as "all_reduce #3 of default_pg".

    `late_s`: the median by which others waited for it, where it was the last in most collectives.
    """

    rank: int | None
    file: str
    entries: int = 0
    first_record: int | None = None
    last_record: int | None = None
    last: str = ""
    waits_in: str = ""
    stack: int = -1  # of what it waits in, else of its newest call
    late_s: float | None = None


class FlightStop(Record, frozen=True, kw_only=True):
    """A collective that does not end, with the ranks by what they did with it. `older`: their
    dump is of an earlier moment; `no_dump`: they left none."""

    group: str
    seq: int
    call: FlightCall
    waiting: tuple[int, ...] = ()
    waiting_files: tuple[str, ...] = ()
    finished: tuple[int, ...] = ()
    absent: tuple[int, ...] = ()
    absent_files: tuple[str, ...] = ()
    older: tuple[int, ...] = ()
    no_dump: tuple[int, ...] = ()
    stack: int = -1


class FlightSide(Record, frozen=True, kw_only=True):
    """Ranks that called the same."""

    call: FlightCall
    ranks: tuple[int, ...] = ()
    files: tuple[str, ...] = ()
    stack: int = -1


class FlightMismatch(Record, frozen=True, kw_only=True):
    """Different calls at one place of a group's sequence, the largest side first. `odd`: who is
    not of the majority; empty where the evidence is level."""

    group: str
    seq: int
    kind: str  # type, size, dtype, order
    sides: tuple[FlightSide, ...] = ()
    odd: tuple[int, ...] = ()


class FlightCollective(Record, frozen=True, kw_only=True):
    """One row of the list: a collective, how many joined and finished it, which of its ranks
    did not join, as far as their dumps reach."""

    group: str
    seq: int
    call: FlightCall
    joined: int = 0
    missing: tuple[int, ...] = ()
    finished: int = 0
    state: FlightState = "scheduled"  # the least advanced
    mismatch: bool = False


class FlightPicture(Record, frozen=True, kw_only=True):
    """All dumps together. `named`: the ranks (or files) that the findings point to; `suspects`:
    ranks that the evidence cannot clear. `world`: all ranks as far as dumps tell. `left_out`:
    (file, why); `incomparable`: groups whose sequence numbers do not belong together; `undecided`:
    something is under way, beside the stops, of which nothing tells whether it stands still."""

    phase: Phase | None = None
    world: tuple[int, ...] = ()
    schemas: tuple[str, ...] = ()
    ranks: tuple[FlightRank, ...] = ()
    missing: tuple[int, ...] = ()
    left_out: tuple[tuple[str, str], ...] = ()
    groups: int = 0
    collectives: int = 0  # matched over all ranks
    stops: tuple[FlightStop, ...] = ()
    mismatches: tuple[FlightMismatch, ...] = ()
    listed: tuple[FlightCollective, ...] = ()
    listed_of: int = 0
    named: tuple[int, ...] = ()
    named_files: tuple[str, ...] = ()
    suspects: tuple[int, ...] = ()
    incomparable: tuple[str, ...] = ()
    undecided: bool = False
    stacks: tuple[tuple[FlightFrame, ...], ...] = ()  # innermost first; `stack` counts them


class Diagnosis(Record, frozen=True, kw_only=True):
    """The whole answer. `ranks`: where to look first: those that evidence points to; where it
    points to none, the `suspects`, which it cannot clear."""

    schema: int = 1
    verdict: Verdict = "inconclusive"
    ranks: tuple[int, ...] = ()
    suspects: tuple[int, ...] = ()
    phase: Phase | None = None
    files: tuple[ForeignFile, ...] = ()
    flight: FlightPicture | None = None
    facts: tuple[tuple[str, str], ...] = ()  # of rank logs: a label and a sentence each
    launches: tuple[NodeLaunch, ...] = ()  # what each node would start, by its launch files
    undecided: tuple[tuple[str, str], ...] = ()  # what launch files leave open, likewise
    findings: tuple[Finding, ...] = ()
