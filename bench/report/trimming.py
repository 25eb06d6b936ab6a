"""What of a run goes into report.json, so that four hosts of eight GPUs stay below 300 KB.

In: a Report and a level. Out: the same with foreign texts cut, and beyond the first level without
what nothing was found in. samples.jsonl has all of it. Nothing that is left out would read as a
zero that was not measured: what is kept says what moved.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, TypeVar

import msgspec

from bench.facts.rdma import DATA_COUNTERS
from bench.records import (
    Case,
    Fact,
    HostEvidence,
    HostFacts,
    Location,
    PairFigure,
    PairRound,
    PairTime,
    Point,
    RankOutcome,
    Report,
    Session,
    Suspect,
)

Count = TypeVar("Count", int, float)

LEAST_PAIRS = 256  # measured pairs that are kept however few hosts there are
RANKS_LISTED = 64  # beyond, ranks that did nothing remarkable are left out of a session
NCCL_LINE_COLUMNS = 240
DIGITS = 6  # of numbers where room is short: far below what any measurement here resolves
# Seconds since the epoch: six digits of them would be right to a quarter of an hour.
TIMES, TIME_DECIMALS = ("started_at",), 3
SAME_TEXT = "as on {host}"  # a tool's text that an earlier host has told already


@dataclass(frozen=True)
class Trim:
    """How much is kept: characters of stacks and log tails, lines of NCCL's log per host (of a
    candidate's first session, and of every session that went wrong).

    `pairs` is how many measured pairs are kept for each host: those that decided something first.
    `quiet`: ranks that ended well and counters that stood at zero. `bytes_of`: whose bytes per
    interface and port are kept (all sessions', each candidate's first, none; what went wrong keeps
    them). `spread`: one thing per line, for people; else as few characters as JSON takes.
    """

    stacks: int
    log_tail: int
    nccl_lines: int
    pairs: int
    quiet: bool = True
    bytes_of: Literal["all", "first", "none"] = "all"
    spread: bool = True


# The first is what people read; the others are for reports that would not fit otherwise.
TRIMS = (
    Trim(4000, 2000, 20, 32),
    Trim(1500, 800, 6, 16, quiet=False, bytes_of="first"),
    Trim(400, 400, 0, 8, quiet=False, bytes_of="none"),
    Trim(400, 400, 0, 4, quiet=False, bytes_of="none", spread=False),
)


def trimmed(report: Report, trim: Trim = TRIMS[0]) -> Report:
    """`report` without raw times and with foreign texts cut."""
    seen: set[str] = set()
    sessions = []
    for session in report.sessions:
        first = session.case.candidate not in seen
        seen.add(session.case.candidate)
        sessions.append(_session(session, trim, first=first))
    return msgspec.structs.replace(
        report,
        sessions=tuple(sessions),
        hosts=_hosts(report.hosts, trim),
        location=_location(report.location, trim) if report.location else None,
    )


def _location(location: Location, trim: Trim) -> Location:
    """Figures of many hosts are the square of their number. The page's map of them is in `grid`;
    what decided is kept, then whatever there is room for, in order."""
    most = max(LEAST_PAIRS, trim.pairs * len(location.hosts))
    if len(location.figures) <= most:
        return location
    told = {frozenset(pair) for suspect in location.suspects for pair in suspect.deciding}
    doubtful = {frozenset(group) for group in location.undecided}
    spread = set(location.spread)

    def tells(figure: PairFigure) -> bool:
        pair, names = frozenset(figure.hosts), "-".join(figure.hosts)
        return (
            figure.outcome != "ok"
            or pair in told
            or names in spread
            or any(pair <= group for group in doubtful)
        )

    telling = [figure for figure in location.figures if tells(figure)]
    others = [figure for figure in location.figures if not tells(figure)]
    kept = (*telling, *others)[:most]
    return msgspec.structs.replace(
        location,
        figures=tuple(sorted(kept, key=lambda figure: figure.round)),
        rounds=tuple(msgspec.structs.replace(one, pairs=(), idle=()) for one in location.rounds),
        notes=(*location.notes, f"{len(kept):,} of {len(location.figures):,} pairs are listed"),
    )


def _session(session: Session, trim: Trim, *, first: bool) -> Session:
    wrong = session.outcome != "measured"
    few = len(session.ranks) <= RANKS_LISTED and (trim.quiet or wrong)
    lines = trim.nccl_lines if first or wrong else 0
    with_bytes = wrong or trim.bytes_of == "all" or (first and trim.bytes_of == "first")
    evidence = [_evidence(host, lines, trim, with_bytes) for host in session.hosts]
    return msgspec.structs.replace(
        session,
        samples=(),
        ranks=tuple(_rank(rank, trim) for rank in session.ranks if few or rank.outcome != "ok"),
        hosts=tuple(host for host in evidence if host is not None),
    )


def _rank(rank: RankOutcome, trim: Trim) -> RankOutcome:
    return msgspec.structs.replace(
        rank, stacks=_end(rank.stacks, trim.stacks), log_tail=_end(rank.log_tail, trim.log_tail)
    )


def _evidence(host: HostEvidence, lines: int, trim: Trim, with_bytes: bool) -> HostEvidence | None:
    kept = tuple(line[:NCCL_LINE_COLUMNS] for line in host.nccl_log[:lines])
    told = msgspec.structs.replace(host, nccl_log=kept)
    if trim.quiet:
        return told
    clocks = {gpus: ends for gpus, ends in host.gpu_clocks_mhz.items() if ends[0] != ends[1]}
    told = msgspec.structs.replace(told, gpu_clocks_mhz=clocks)
    if with_bytes:
        return told
    ports = {
        port: risen
        for port, counts in host.rdma.items()
        if (risen := {k: n for k, n in counts.items() if n and not _is_data(k)})
    }
    told = msgspec.structs.replace(told, interfaces={}, rdma=ports)
    still = HostEvidence(
        host=host.host,
        unreadable=host.unreadable,
        tcp_segments_out=host.tcp_segments_out,
        tcp_retransmits=host.tcp_retransmits,
    )
    return None if told == still and not host.tcp_retransmits else told


def _is_data(counter: str) -> bool:
    return counter in DATA_COUNTERS or counter in ("port_xmit_bytes", "port_rcv_bytes")


def _hosts(hosts: Sequence[HostFacts], trim: Trim) -> tuple[HostFacts, ...]:
    """Equal hosts print equal tables; the first tells for all."""
    told: dict[tuple[str, str], str] = {}
    found = []
    for host in hosts:
        texts = {}
        for name, text in host.tool_outputs.items():
            first = told.setdefault((name, text), host.host)
            texts[name] = text if first == host.host else SAME_TEXT.format(host=first)
        short = msgspec.structs.replace(host, tool_outputs=texts) if texts else host
        found.append(short if trim.quiet else _risen(short))
    return tuple(found)


def _risen(host: HostFacts) -> HostFacts:
    """Without counters that stand at zero."""
    return msgspec.structs.replace(
        host,
        gpus=tuple(
            msgspec.structs.replace(
                gpu,
                error_counters=_above_zero(gpu.error_counters),
                throttled_s=_above_zero(gpu.throttled_s),
            )
            for gpu in host.gpus
        ),
        rdma_ports=tuple(
            msgspec.structs.replace(port, counters=_above_zero(port.counters))
            for port in host.rdma_ports
        ),
    )


def _above_zero(counters: dict[str, Count]) -> dict[str, Count]:
    return {name: count for name, count in counters.items() if count}


def _end(text: str | None, characters: int) -> str | None:
    """The end of a text (the innermost frame, the last message) and how much is missing."""
    if text is None or len(text) <= characters:
        return text
    return f"[{len(text) - characters} characters cut]\n{text[-characters:]}"


# Fields at their default are left out of these where room is short: whoever reads the file with
# these records gets them back.
_SPARSE = (
    Fact, Session, Case, RankOutcome, HostEvidence, Point,
    Location, PairFigure, PairRound, PairTime, Suspect,
)  # fmt: skip


def sparse(value: Any) -> Any:
    """The record as dicts and lists without defaults, numbers with as many digits as matter."""
    if isinstance(value, msgspec.Struct):
        left_out = _defaults(type(value)) if isinstance(value, _SPARSE) else {}
        return {
            name: round(item, TIME_DECIMALS) if name in TIMES else sparse(item)
            for name in value.__struct_fields__
            if (item := getattr(value, name)) != left_out.get(name, _NONE)
        }
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else value
    if isinstance(value, dict):
        return {key: sparse(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [sparse(item) for item in value]
    return value


_NONE = object()  # equal to no value


@cache
def _defaults(kind: type[msgspec.Struct]) -> dict[str, Any]:
    found = {}
    for field in msgspec.structs.fields(kind):
        if field.default is not msgspec.NODEFAULT:
            found[field.name] = field.default
        elif field.default_factory is not msgspec.NODEFAULT:
            found[field.name] = field.default_factory()
    return found
