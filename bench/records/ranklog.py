"""What the logs of a job's ranks tell: who speaks, what went wrong, who waited, who left how.

Times are seconds into a year of 366 days (glog prints no year), so that lines of all forms can be
compared; `clock` says in whose: the host's own, UTC, or a day's alone.
"""

from __future__ import annotations

from typing import Literal

from bench.records.words import Basis, Phase, Record

# fault: of its own. outside: somebody ended the job. wait: a collective or the store timed out.
# weak: the network or NCCL failed, as cause or as consequence. consequence: of another's end.
# mention: words of a fault in a line that says it was survived.
SignRole = Literal["fault", "outside", "wait", "weak", "consequence", "mention"]
Clock = Literal["local", "utc", "day"]


class RankSign(Record, frozen=True, kw_only=True):
    """One thing that a line, or a traceback that ends in it, says.

    `time_s` is the line's own time, or the latest known before it in its stream (`is_exact` tells
    which); `until_s` the next known behind it. `uncaught`: the interpreter itself printed it at
    its end. `survived`: the stream made progress behind it. `place` is the innermost frame of the
    program's own code, `chain` the user's frames above it, outermost first. `peers` are ranks that
    the text itself names as absent.
    """

    kind: str
    role: SignRole
    text: str
    file: str
    line: int
    stream: str = ""
    rank: int | None = None
    host: str | None = None
    pid: int | None = None
    time: str | None = None  # as printed
    time_s: float | None = None
    until_s: float | None = None
    clock: Clock | None = None
    is_exact: bool = False
    uncaught: bool = False
    survived: bool = False
    place: str | None = None
    chain: tuple[str, ...] = ()
    peers: tuple[int, ...] = ()
    count: int = 1
    last_line: int | None = None
    phase: Phase | None = None  # where the message itself belongs to one


class RankWait(Record, frozen=True, kw_only=True):
    """A collective that a rank's watchdog gave up, or how far a rank's group has come.

    `group` is the process group's GUID ("0" is the default one), None where the version prints
    none; `group_counted`: it is the process's own counter, which groups of other ranks have as
    well; `ran_s` how long the rank had waited, so the wait began at `time_s - ran_s`; where the
    line has no time, it began after `after_s`, the last time before. `reporter` is the rank whose
    watchdog fired first, by word of this one.
    """

    file: str
    line: int
    rank: int | None = None
    stream: str = ""
    group: str | None = None
    group_name: str | None = None
    group_counted: bool = False
    sequence: int | None = None
    operation: str | None = None
    elements_in: int | None = None
    elements_out: int | None = None
    timeout_s: float | None = None
    ran_s: float | None = None
    enqueued: int | None = None
    completed: int | None = None
    reporter: int | None = None
    text: str = ""
    time_s: float | None = None
    after_s: float | None = None
    clock: Clock | None = None


class RankExit(Record, frozen=True, kw_only=True):
    """How a process ended, by the word of who started it. A negative code is a signal."""

    file: str
    line: int
    rank: int | None = None
    local_rank: int | None = None
    host: str | None = None
    pid: int | None = None
    code: int | None = None
    time_s: float | None = None
    clock: Clock | None = None
    first: bool = False  # the launcher's "Root Cause (first observed failure)"
    message: str | None = None


class RankStep(Record, frozen=True, kw_only=True):
    """A mark of progress: "step 7/12" is word step, number 7, of 12."""

    word: str
    number: float
    of: int | None = None
    line: int = 0
    time_s: float | None = None


class RankStream(Record, frozen=True, kw_only=True):
    """One process's lines in one file. `rank_basis`: told by the lines, by the file's name, by its
    place in torchrun's log tree, or inferred. `attempt` counts torchrun's restarts; `node` tells
    the log trees of several nodes apart. `ended`: words that say it had come to an end."""

    name: str
    file: str
    rank: int | None = None
    rank_basis: Literal["told", "file", "tree", "inferred"] | None = None
    local_rank: int | None = None
    host: str | None = None
    pid: int | None = None
    attempt: int | None = None
    node: str | None = None
    first_line: int = 0
    last_line: int = 0
    last_text: str = ""
    begun_s: float | None = None
    ended_s: float | None = None
    clock: Clock | None = None
    steps: tuple[RankStep, ...] = ()  # the last ones
    ended: str | None = None
    ended_line: int | None = None


class RankLog(Record, frozen=True, kw_only=True):
    """One file. `settings` are variables that decide which evidence exists, with their line."""

    file: str
    bytes: int = 0
    lines: int = 0
    streams: tuple[RankStream, ...] = ()
    signs: tuple[RankSign, ...] = ()
    waits: tuple[RankWait, ...] = ()
    exits: tuple[RankExit, ...] = ()
    world_size: int | None = None
    settings: dict[str, tuple[str, int]] = {}
    restarts: tuple[int, ...] = ()  # lines at which the launcher started the workers again
    has_nccl: bool = False
    left_out: int = 0  # lines with words of a fault that were only counted
    notes: tuple[str, ...] = ()


class PhaseClue(Record, frozen=True, kw_only=True):
    """What tells in which phase a job stopped; from logs, dumps or NCCL's own words."""

    phase: Phase
    text: str
    basis: Basis = "asked"
    ranks: tuple[int, ...] = ()
    file: str | None = None
    line: int | None = None
