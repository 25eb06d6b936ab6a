"""What torch's Flight Recorder left of one rank: its process groups and its newest collectives.

A dump of 2,000 entries is kept as rows of ENTRY_LAYOUT in one bytes object (a NumPy structured
array reads it without a copy); what repeats in them (calls, groups, stacks) stands in tables
beside it. Times are of the rank's own clock. FlightEntry is one row written out.
Source: torch/csrc/distributed/c10d/FlightRecorderDetail.hpp.
"""

from __future__ import annotations

from typing import Literal

from bench.records.words import Record

FlightState = Literal["scheduled", "started", "completed"]
FLIGHT_STATES: tuple[FlightState, ...] = ("scheduled", "started", "completed")

# A row of FlightDump.rows, packed, little-endian. Absent times are 0, absent durations NaN, a
# missing stack is -1; `state` counts FLIGHT_STATES, `group`, `call` and `stack` the dump's tables.
ENTRY_LAYOUT: tuple[tuple[str, str], ...] = (
    ("record_id", "<i8"),
    ("op_id", "<i8"),
    ("seq", "<i8"),  # collective_seq_id: +1 per collective or coalesced group of them
    ("p2p_seq", "<i8"),
    ("created_ns", "<i8"),
    ("started_ns", "<i8"),
    ("completed_ns", "<i8"),
    ("timeout_ms", "<i8"),
    ("duration_ms", "<f4"),
    ("group", "<i4"),
    ("call", "<i4"),
    ("stack", "<i4"),
    ("state", "<i1"),
    ("retired", "<i1"),
    ("p2p", "<i1"),
)


class FlightFrame(Record, frozen=True, kw_only=True):
    """A line of a stack, innermost first in its list."""

    name: str
    file: str
    line: int


class FlightCall(Record, frozen=True, kw_only=True):
    """What was called: `name` without the library's prefix ("all_reduce", "send"), which is
    `library` ("nccl", "gloo"). `peer`: for send and recv, the other rank within the group, and
    `me` the own one. Shapes and element types as torch names them ("Float", "BFloat16")."""

    library: str
    name: str
    input_sizes: tuple[tuple[int, ...], ...] = ()
    output_sizes: tuple[tuple[int, ...], ...] = ()
    input_dtypes: tuple[str, ...] = ()
    output_dtypes: tuple[str, ...] = ()
    me: int | None = None
    peer: int | None = None


class FlightGroup(Record, frozen=True, kw_only=True):
    """A process group as one dump has it. `ranks` empty where the dump does not say (gloo, once a
    subgroup exists). `pg_id`: the process's own counter, the only difference between groups
    without names (TORCH_DISTRIBUTED_DEBUG=DETAIL)."""

    name: str
    desc: str = ""
    ranks: tuple[int, ...] = ()
    pg_id: int | None = None
    configured: bool = True  # stands in pg_config; else only its entries name it
    # pg_status: the newest collective that was called, has started, is done; None: not told
    last_enqueued: int | None = None
    last_started: int | None = None
    last_completed: int | None = None


class FlightDump(Record, frozen=True, kw_only=True):
    """One dump. `rank` as far as the file itself decides it; `name_numbers` are the numbers of
    its name that may be the rank, the likeliest first, `possible_ranks` what its groups allow
    (empty: anything)."""

    file: str
    version: str = ""  # of the dump's schema, "2.10"
    library_version: str = ""
    form: Literal["pickle", "json"] = "pickle"
    file_bytes: int = 0
    rank: int | None = None
    name_numbers: tuple[tuple[str, int], ...] = ()
    possible_ranks: tuple[int, ...] = ()
    groups: tuple[FlightGroup, ...] = ()
    calls: tuple[FlightCall, ...] = ()
    frames: tuple[FlightFrame, ...] = ()
    stacks: tuple[tuple[int, ...], ...] = ()  # numbers of `frames`
    rows: bytes = b""
    entries: int = 0
    notes: tuple[str, ...] = ()


class FlightEntry(Record, frozen=True, kw_only=True):
    """One recorded call of one rank, written out."""

    rank: int | None
    file: str
    record_id: int
    group: str
    desc: str = ""
    seq: int
    call: FlightCall
    state: FlightState
    retired: bool = False
    created_ns: int = 0
    started_ns: int = 0
    completed_ns: int = 0
    duration_ms: float | None = None
    stack: tuple[FlightFrame, ...] = ()


class RankStack(Record, frozen=True, kw_only=True):
    """Where one thread of a rank stood when somebody asked, innermost frame first."""

    rank: int
    file: str
    line: int = 1
    thread: str = ""
    frames: tuple[FlightFrame, ...] = ()


class TraceNote(Record, frozen=True, kw_only=True):
    """What torchfrtrace printed of one collective. `missing`: ranks that did not join; `culprits`:
    ranks that differ from whichever dump it happened to read first; `unread`: without a dump."""

    file: str
    line: int = 1
    group: str = ""
    seq: int | None = None
    collective: str = ""
    input_sizes: str = ""
    expected: tuple[int, ...] = ()
    missing: tuple[int, ...] = ()
    culprits: tuple[int, ...] = ()
    unread: tuple[int, ...] = ()
    errors: tuple[str, ...] = ()
