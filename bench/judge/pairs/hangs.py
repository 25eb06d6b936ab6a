"""Pairs of hosts that never got through: which host, or between which two.

In: a Location's figures without times. Out: a hang of the phase in which they stopped, or
measurement-failed. A host is named when all its pairs fail, with two partners or more, while
others' pass; one pair alone names the pair, as broken only if it failed twice and never passed.
"""

from __future__ import annotations

from bench.judge.hangs import CODES
from bench.judge.pairs.evidence import SHOWN, Context
from bench.judge.words import listed, quote
from bench.records import Evidence, Finding, Location, PairFigure, Severity, Where

HANGS_SHOWN = 4  # pairs of a fabric that is down are not told one by one
PARTNERS = 2  # different hosts with which a host must hang before it is named


def findings(location: Location, context: Context) -> list[Finding]:
    """Hosts that went silent, hosts none of whose pairs got through while others did, then the
    pairs left over."""
    silent = {host for f in location.figures for host in f.silent}
    found = [_silent(location, host, context) for host in sorted(silent)]
    bad = [f for f in location.figures if f.outcome in ("hung", "failed")]
    bad = [f for f in bad if not set(f.hosts) & silent]
    through = {host for f in location.figures if f.outcome == "ok" for host in f.hosts}
    if bad and not through:
        return [*found, _many(location, bad, context)]
    partners: dict[str, set[str]] = {}
    for figure in bad:
        for host, other in (figure.hosts, figure.hosts[::-1]):
            partners.setdefault(host, set()).add(other)
    gone = sorted(
        host
        for host, others in partners.items()
        if host not in through and len(others) >= PARTNERS
    )
    found += [_host(location, host, [f for f in bad if host in f.hosts], context) for host in gone]
    left = [f for f in bad if not set(f.hosts) & set(gone)]
    pairs = dict.fromkeys(f.hosts for f in left)
    for pair in list(pairs)[:HANGS_SHOWN]:
        found.append(_pair(location, [f for f in left if f.hosts == pair], context))
    if len(pairs) > HANGS_SHOWN:
        found.append(_many(location, left, context))
    return found


def _code(figures: list[PairFigure]) -> str:
    hung = [f for f in figures if f.outcome == "hung"]
    return CODES[hung[0].phase or "init"] if hung else "measurement-failed"


def _silent(location: Location, host: str, context: Context) -> Finding:
    """Its agent itself has gone, or was stopped: no network does that."""
    own = [f for f in location.figures if host in f.silent]
    return Finding(
        code=CODES["midrun"],
        severity="broken",
        summary=f"{host} stopped answering during the rounds of pairs{context.over}: its agent "
        "is gone or stopped.",
        where=Where(host=host, candidate=location.candidate, interface=context.interface),
        evidence=_reasons(own),
    )


def _host(location: Location, host: str, figures: list[PairFigure], context: Context) -> Finding:
    others = [next(h for h in f.hosts if h != host) for f in figures]
    return Finding(
        code=_code(figures),
        severity="broken" if context.matters else "warning",
        summary=f"None of {host}'s pairs{context.over} got through (with {listed(others)}), while "
        "pairs of other hosts did.",
        where=Where(host=host, candidate=location.candidate, interface=context.interface),
        evidence=_reasons(figures),
    )


def _pair(location: Location, figures: list[PairFigure], context: Context) -> Finding:
    a, b = figures[0].hosts
    tries = len(figures)
    passed = any(f.outcome == "ok" and set(f.hosts) == {a, b} for f in location.figures)
    sure = tries > 1 and not passed
    severity: Severity = "broken" if context.matters and sure else "warning"
    how = "hung" if any(f.outcome == "hung" for f in figures) else "failed"
    again = " but got through at another time" if passed else ""
    often = f" in each of {tries} rounds" if tries > 1 and not passed else ""
    return Finding(
        code=_code(figures),
        severity=severity,
        summary=f"{a} and {b} {how} with each other{context.over}{often}{again}.",
        where=Where(
            hosts=(a, b), link=(a, b), candidate=location.candidate, interface=context.interface
        ),
        evidence=_reasons(figures),
    )


def _many(location: Location, figures: list[PairFigure], context: Context) -> Finding:
    hosts = tuple(dict.fromkeys(host for f in figures for host in f.hosts))
    count = len(dict.fromkeys(f.hosts for f in figures))
    return Finding(
        code=_code(figures),
        severity="broken" if context.matters else "warning",
        summary=f"{count} pairs of hosts did not get through{context.over}.",
        where=Where(hosts=hosts, candidate=location.candidate, interface=context.interface),
        evidence=_reasons(figures),
    )


def _reasons(figures: list[PairFigure]) -> tuple[Evidence, ...]:
    told = dict.fromkeys(
        f"{f.hosts[0]} with {f.hosts[1]}: {f.outcome}, {quote(f.reason)}" for f in figures
    )
    return tuple(Evidence(basis="measured", text=text) for text in list(told)[:SHOWN])
