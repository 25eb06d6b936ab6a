"""The judge: a measured report in, the same report with findings, advice and a verdict out.

Causes are heard before consequences, so that one fault is one finding. Pure: opens no file, asks
nobody, has no clock.
"""

from __future__ import annotations

import msgspec

from bench.judge import (
    absent,
    agreement,
    egress,
    expected,
    hangs,
    interface,
    learned,
    links,
    measurement,
    reach,
    remedy,
    settings,
    virtual,
)
from bench.judge.catalogue import ORDER
from bench.judge.docket import Docket
from bench.judge.gpu import paths, ways
from bench.judge.networks import Networks, interfaces_of
from bench.records import (
    SEVERITIES,
    Candidate,
    CostLine,
    Finding,
    Recommendation,
    Report,
    Verdict,
)

# Findings that the recommended setting mends, however badly jobs fail until then: their verdict is
# "misconfigured", and "broken" is kept for what no line to paste will repair.
MENDED_BY_SETTING = ("interface-misselected", *remedy.NAMED)
CERTAINTY = {"measured": 0, "asked": 0, "predicted": 1, "inferred": 2}


def judge(report: Report) -> Report:
    """Fill in findings (worst first, surest first), the recommendation, the verdict, which
    network the default choice is, and what each line is held against."""
    net = Networks(report)
    docket = Docket()
    absent.judge(net, docket)
    settings.judge(net, docket)
    virtual.virtual(net, docket)
    interface.misselected(net, docket)
    reach.judge(net, docket)
    agreement.differs(net, docket)
    agreement.not_exported(net, docket)
    egress.judge(net, docket)
    paths.judge(net, docket)
    hangs.judge(net, docket)
    links.judge(net, docket)
    learned.judge(net, docket)
    measurement.judge(net, docket)
    settings.overridden(net, docket)
    findings = sorted(
        docket.findings,
        key=lambda f: (-SEVERITIES.index(f.severity), CERTAINTY[f.confidence], ORDER[f.code]),
    )
    advice = remedy.advice(
        net, {f.code for f in findings if f.code in MENDED_BY_SETTING and serious(f)}
    )
    return msgspec.structs.replace(
        report,
        findings=tuple(findings),
        recommendation=advice,
        verdict=_verdict(net, tuple(findings), advice),
        candidates=_default_marked(net),
        lines=tuple(_held_against(report, line) for line in report.lines),
    )


def serious(finding: Finding) -> bool:
    return finding.severity in ("degraded", "broken")


def _verdict(net: Networks, findings: tuple[Finding, ...], advice: Recommendation) -> Verdict:
    mendable = bool(advice.environment or advice.per_host)
    found = [finding for finding in findings if serious(finding)]
    mended = [f for f in found if f.code in MENDED_BY_SETTING and mendable]
    if any(f.severity == "broken" for f in found if f not in mended):
        return "broken"
    if mended:
        return "misconfigured"
    if found:
        misconfigured = any(f.code in MENDED_BY_SETTING for f in found)
        return "misconfigured" if misconfigured else "degraded"
    return "healthy" if net.report.complete and _default_seen(net) else "inconclusive"


def _default_seen(net: Networks) -> bool:
    """Whether what users get was measured: the default case, or a network that it equals."""
    if not any(line.points for line in net.report.lines):
        return False
    if sum(len(facts.ranks) for facts in net.report.hosts) == 1:
        return False  # one rank alone crosses nothing
    if net.default is not None and net.default.outcome == "measured":
        return True
    return any(
        c.outcome == "measured"
        and all(net.path(h) and set(net.path(h)) <= interfaces_of(c, h) for h in net.hosts)
        for c in net.networks
    )


def _default_marked(net: Networks) -> tuple[Candidate, ...]:
    """One network is the default choice: where NCCL meets, if data is predicted there too, else
    where its data goes. The basis is "asked" only for what NCCL itself named."""
    met = [c for c in net.networks if net.meets(c) and net.carries(c)]
    sent = [c for c in net.networks if net.carries(c)]
    chosen = next(iter(met or sent), None)
    if chosen is None:
        return net.report.candidates
    asked = bool(met) and all(
        (choice := net.choice(host)) is not None and choice.basis == "asked"
        for host in net.meets(chosen)
    )
    return tuple(
        msgspec.structs.replace(
            c, default_choice=True, choice_basis="asked" if asked else "predicted"
        )
        if c is chosen
        else c
        for c in net.report.candidates
    )


def _held_against(report: Report, line: CostLine) -> CostLine:
    candidate = next((c for c in report.candidates if c.name == line.candidate), None)
    if candidate is None:
        return line
    expectation = expected.of_line(report, candidate, line)
    if expectation is None and line.collective in expected.RING_COLLECTIVES:
        expectation = ways.of_candidate(report, candidate)
    if expectation is None:
        return line
    return msgspec.structs.replace(
        line, expected_busbw_gbs=expectation.busbw_gbs, expected_basis=expectation.basis
    )
