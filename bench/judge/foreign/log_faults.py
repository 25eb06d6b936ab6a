"""The first fault of a job's log: who said it first, what kind it is, who failed besides.

In: a Job (one run's logs, its events in order). Out: first-fault with its kind. Consequences and
remarks are never first; a warning of a plugin after which the communicator formed is no fault, as
NCCL went on without it. First in the file is not first in time: a log may begin behind a warning.
"""

from __future__ import annotations

from bench.judge.docket import Docket
from bench.judge.foreign import fault_kinds
from bench.judge.foreign.fault_kinds import Kind
from bench.judge.foreign.log_jobs import Job, peer_of
from bench.judge.foreign.log_sockets import socket_edges
from bench.judge.foreign.log_words import event_line
from bench.judge.words import listed
from bench.records import Evidence, Finding, LogEvent, Severity, Where

SHOWN = 4
LONGEST = 240
OFTEN = 3  # a retry or two is a peer that starts late
# These end a job wherever they are said; others do where a return trace or an abort follows.
FATAL = (
    "shm-full", "version-mismatch", "duplicate-gpu", "address-family", "settings-differ",
    "no-interface", "no-network", "rank-count", "connection", "rdma-connection", "rdma-error",
    "rdma-memory", "oom", "proxy", "nvlink-fabric",
)  # fmt: skip
EXPLAINED_BY = {
    "connection": (
        "interface-loopback", "interface-link-local", "interface-virtual", "interface-differs",
        "interface-unreachable",
    ),
    "address-family": ("interface-no-match",),
    "no-interface": ("interface-no-match",),
    "duplicate-gpu": ("duplicate-gpu",),
    "device-not-opened": ("hca-set-differs", "fallback-to-sockets"),
    "settings-differ": ("setting-not-exported",),
    "rdma-error": ("mtu-mismatch",),
    "version-mismatch": ("software-differs",),
    "rank-count": ("launcher-world-size",),
}  # fmt: skip
# Proven by other files than the log, or in another run of the same job.
ELSEWHERE = ("setting-not-exported", "mtu-mismatch", "hca-set-differs")
CONNECTING = ("proxy", "connection", "rdma-connection", "settings-differ")


def judge(job: Job, docket: Docket) -> None:
    """At most one finding a job."""
    told = [(event, fault_kinds.of(event)) for event in job.faults]
    real = [(event, kind) for event, kind in told if not _survived(job, event, kind)]
    real = real or _retried(job)
    if not real:
        return
    event, kind = _spoken(real)
    severity: Severity = "broken" if _fatal(job, event, kind) else "warning"
    if severity == "warning" and kind is not None and kind.name == "port-down":
        severity = "degraded"  # NCCL sends again until the port is back, or fails
    if _explained(job, kind, docket):
        severity = "info"  # told once: the finding that knows the cause carries the weight
    name = kind.name if kind else "unknown"
    means = kind.meaning(_with_followers(job, event)) if kind else ""
    rank = f"rank {event.rank}" if event.rank is not None else "a rank"
    rank += " (by its GPU's number)" if event.rank_basis == "inferred" else ""
    process = f", pid {event.pid}" if event.pid else ""
    place = f"{rank} on {event.host}{process}" if event.host else rank
    text = event.text[:LONGEST].rstrip(" .")
    docket.add(
        Finding(
            code="first-fault",
            kind=name,
            severity=severity,
            summary=f"First fault: {place}: {text}."
            + (f" {means[0].upper()}{means[1:]}." if means else ""),
            where=Where(
                host=event.host,
                rank=event.rank,
                gpu=event.device,
                file=event.file,
                line=event.line,
            ),
            evidence=(
                event_line(event),
                *_trace(event),
                *_channels(job, event, kind),
                *_others(job, [e for e, _ in real if e is not event]),
                *_orphans(job),
                *_consequences(job),
            ),
            remedy=_remedy(kind, event),
            confidence="asked",
        )
    )


def _explained(job: Job, kind: Kind | None, docket: Docket) -> bool:
    """Whether a finding of this job says why a fault of this kind came about."""
    codes = EXPLAINED_BY.get(kind.name, ()) if kind else ()
    files = {log.file for log in job.logs}
    return any(
        finding.code in codes
        and finding.severity in ("degraded", "broken")
        and (finding.where.file in files or finding.code in ELSEWHERE)
        for finding in docket.findings
    )


def _spoken(real: list[tuple[LogEvent, Kind | None]]) -> tuple[LogEvent, Kind | None]:
    """The first; of equal kind rather one that says whose it is."""
    event, kind = real[0]
    if event.host is not None:
        return real[0]
    return next(((e, k) for e, k in real if k is kind and e.host is not None), real[0])


def _retried(job: Job) -> list[tuple[LogEvent, Kind | None]]:
    """Where nothing is called a fault: connections that are tried again and again."""
    if job.formed:
        return []
    return [
        (event, fault_kinds.of(event))
        for event in job.events
        if event.role == "retry" and event.count >= OFTEN
    ]


def _survived(job: Job, event: LogEvent, kind: Kind | None) -> bool:
    """NCCL tried a plugin, was refused and took another network: the job went on."""
    if kind is None or kind.name != "plugin" or event.trace or _aborts(job, event):
        return False
    own = [t for t in job.told if (t.process.host, t.process.pid) == (event.host, event.pid)]
    return any(t.process.network is not None for t in own) or job.formed


def _fatal(job: Job, event: LogEvent, kind: Kind | None) -> bool:
    if event.severity == "error" or any(e.trace for e in job.events if e.pid == event.pid):
        return True
    if kind is not None and kind.name == "gpu-code":  # NCCL tries code of several kinds
        return not job.formed
    if kind is not None and kind.name == "plugin" and _aborts(job, event):
        return True
    aborted = any(member.aborted for _, member in job.members.values())
    return aborted or (kind is not None and kind.name in FATAL)


def _aborts(job: Job, event: LogEvent) -> bool:
    """Whether a plugin says that it ends the process instead of being refused."""
    return any("aborting" in e.text for e in job.events if e.pid == event.pid)


def _with_followers(job: Job, event: LogEvent) -> LogEvent:
    """What the same thread says behind it may name the size: "(size 9637888)"."""
    more = [e.text for e in job.events if e.pid == event.pid and e.role == "consequence"]
    fields = {name: getattr(event, name) for name in event.__struct_fields__}
    return LogEvent(**{**fields, "trace": (*event.trace, *more)})


def _trace(event: LogEvent) -> tuple[Evidence, ...]:
    if not event.trace:
        return ()
    return (Evidence(basis="asked", text=f"it returned through {', '.join(event.trace[:8])}"),)


def _channels(job: Job, event: LogEvent, kind: Kind | None) -> list[Evidence]:
    """The channels over the network that the failing rank was to set up."""
    if kind is None or kind.name not in CONNECTING or event.rank is None:
        return []
    nets = {id(edge): net for _, edge, net in socket_edges(job)}
    steps = _ring_steps(job, event.rank)
    found: dict[tuple[int, str], list[int]] = {}
    for _, edge in job.edges:
        if edge.transport == "NET" and edge.direction == "send" and edge.source == event.rank:
            net = nets.get(id(edge))
            name = f" = {net.name}" if net else ""
            way = f"NET/{edge.network}/{edge.device}{name}"
            found.setdefault((edge.destination, way), []).append(edge.channel)
    return [
        Evidence(
            basis="asked",
            text=f"rank {event.rank} sends channel "
            f"{listed(f'{c:02d}' for c in sorted({*channels, *steps.get(target, ())}))} via {way} "
            f"to rank {target}",
        )
        for (target, way), channels in list(found.items())[:SHOWN]
    ]


def _ring_steps(job: Job, rank: int) -> dict[int, set[int]]:
    """Next rank -> the channels whose ring goes there from this rank; a trimmed log may have the
    rings and one channel line of several."""
    found: dict[int, set[int]] = {}
    for _, group in job.communicators:
        for channel, ring in group.rings.items():
            if rank in ring:
                after = ring[(ring.index(rank) + 1) % len(ring)]
                found.setdefault(after, set()).add(channel)
    return found


def _others(job: Job, events: list[LogEvent]) -> list[Evidence]:
    """Further faults: each text once, with how many processes said it."""
    counts: dict[str, list[LogEvent]] = {}
    for event in events:
        counts.setdefault(event.text, []).append(event)
    shown = []
    for group in list(counts.values())[:SHOWN]:
        first = event_line(group[0]).text
        more = f", and {len(group) - 1} more processes" if len(group) > 1 else ""
        shown.append(Evidence(basis="asked", text=f"later: {first}{more}"))
    return shown


def _orphans(job: Job) -> list[Evidence]:
    """Processes that failed as well, but whose own warning is not in the file."""
    found = []
    for told in job.told:
        quote = told.process.failed
        if quote is not None:
            ranks = told.process.ranks
            who = f"rank {ranks[0]}" if len(ranks) == 1 else f"pid {told.process.pid}"
            found.append(
                Evidence(
                    basis="asked",
                    text=f"also failed: {who} on {told.process.host} ({told.log.file}:"
                    f"{quote.line}: {quote.text}); its own warning is not in the file",
                )
            )
    return found[:SHOWN]


def _consequences(job: Job) -> list[Evidence]:
    """One line on what followed from it."""
    following = [event for event in job.events if event.role == "consequence"]
    if not following:
        return []
    first = event_line(following[0]).text
    more = f" (and {len(following) - 1} like it)" if len(following) > 1 else ""
    return [Evidence(basis="asked", text=f"a consequence: {first}{more}")]


def _remedy(kind: Kind | None, event: LogEvent) -> str | None:
    remedy = kind.mended_by(event) if kind is not None else None
    peer = peer_of(event)
    return remedy.replace("ADDRESS", peer) if remedy and peer else remedy
