"""Lines held against the figures of good runs where no network of their own is to blame.

In: a report's networks whose fabric file has [[busbw]] entries. Out: latency-degraded, and
below-expectation for what users get (nothing set) and for GPU paths. Networks below their learned
bandwidth are judged with the other links; what those explain is not told twice.
"""

from __future__ import annotations

from bench.judge import expected, stated
from bench.judge.docket import Docket
from bench.judge.networks import Networks
from bench.judge.ratio import times
from bench.judge.shortfall import Shortfall, short_of
from bench.judge.words import listed, percent, single
from bench.records import Candidate, Evidence, Finding, Severity, Where

WHAT_USERS_GET = ("p2p",)  # of the GPU paths; the others are measured to compare with


def judge(net: Networks, docket: Docket) -> None:
    """Add what is slower than the fabric file's own figures for it."""
    fabric = net.report.fabric
    if fabric is None or fabric.hint or not fabric.busbw:
        return
    for candidate in net.report.candidates:
        if candidate.outcome != "measured":
            continue
        if candidate.kind != "network":
            short = short_of(net, candidate, candidate)
            if short is not None:
                _below(net, docket, candidate, short)
        _latency(net, docket, candidate)


def _below(net: Networks, docket: Docket, candidate: Candidate, short: Shortfall) -> None:
    cause = _explained_by(net, docket, candidate)
    if cause is not None:
        for line in short.evidence:
            docket.attach(cause, line)
        return
    finding = Finding(
        code="below-expectation",
        severity=_severity(net, candidate),
        summary=f"{_called(candidate)} reaches {percent(short.share)} of the expected "
        f"{short.expectation.busbw_gbs:.4g} GB/s in {listed(short.collectives)}; nothing else "
        "here says why.",
        where=_where(candidate, short.collectives),
        evidence=short.evidence,
    )
    docket.add(finding, explains=[candidate.name])


def _latency(net: Networks, docket: Docket, candidate: Candidate) -> None:
    usual = expected.tolerance(net.report).latency
    slow: dict[str, float] = {}
    evidence = []
    for collective in net.collectives:
        line = net.line(candidate, collective)
        if line is None or line.latency_s is None:
            continue
        entry = stated.entry_for(
            net.report.fabric, candidate, line,
            hosts=len(net.report.hosts), backend=net.report.backend,
        )  # fmt: skip
        if entry is None or not entry.latency_us:
            continue
        limit = 1 + (usual if entry.latency_tolerance is None else entry.latency_tolerance)
        wanted, seen = entry.latency_us * 1e-6, line.latency_s
        if seen.low <= limit * wanted:
            continue
        slow[collective] = seen.value / wanted
        text = (
            f"{collective} starts at {_us(seen.value)} (95 % interval {_us(seen.low)}-"
            f"{_us(seen.high)}), {times(seen.value / wanted)} times {_us(wanted)}"
        )
        evidence.append(Evidence(basis="measured", text=text))
        told = f"the fabric file's {_us(wanted)} for {collective}, up to {percent(limit)} of it"
        evidence.append(Evidence(basis="expected", text=told))
    if not slow:
        return
    cause = _explained_by(net, docket, candidate)
    if cause is not None:
        for item in evidence:
            docket.attach(cause, item)
        return
    worst = max(slow.values())
    docket.add(
        Finding(
            code="latency-degraded",
            severity=_severity(net, candidate),
            summary=f"Small messages over {_called(candidate)} take {times(worst)} times as long "
            f"as expected in {listed(slow)}.",
            where=_where(candidate, tuple(slow)),
            evidence=tuple(evidence),
        )
    )


def _explained_by(net: Networks, docket: Docket, candidate: Candidate) -> str | None:
    """The candidate whose finding explains this one: itself, or a network that carries it."""
    if docket.explains(candidate.name):
        return candidate.name
    if candidate.kind != "default":
        return None
    carrying = (c.name for c in net.networks if net.carries(c))
    return next((name for name in carrying if docket.explains(name)), None)


def _severity(net: Networks, candidate: Candidate) -> Severity:
    if candidate.kind == "network":
        return "degraded" if net.matters(candidate) else "warning"
    matters = candidate.kind == "default" or stated.path_of(candidate) in WHAT_USERS_GET
    return "degraded" if matters else "warning"


def _where(candidate: Candidate, collectives: tuple[str, ...]) -> Where:
    network = candidate.kind == "network"
    return Where(
        candidate=candidate.name,
        interface=single(candidate.interfaces.values()) if network else None,
        host=single(candidate.interfaces) if candidate.kind == "gpu-path" else None,
        collective=single(collectives),
    )


def _called(candidate: Candidate) -> str:
    return "NCCL as it is" if candidate.kind == "default" else candidate.name


def _us(seconds: float) -> str:
    return f"{seconds * 1e6:.4g} µs"
