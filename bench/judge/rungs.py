"""A climb up the ladder: which rung failed first, and what that step had added.

In: a Report whose default candidates are the rungs, in order, and whose sessions end with the one
that failed. Out: the same with findings and a verdict. The fault itself is found by the sweep's
own rules, as if the failed rung were the case with nothing set; the step is added as inference.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from bench.judge import agreement, hangs, reach, settings
from bench.judge.catalogue import ORDER
from bench.judge.docket import Docket
from bench.judge.networks import Networks
from bench.judge.words import listed
from bench.records import SEVERITIES, Candidate, Evidence, Finding, HostFacts, Report, Verdict

RANKS_SHOWN = 8


def judge(report: Report) -> Report:
    """Findings about the rung that failed; none, and healthy, where every rung works."""
    climbed = [c for c in report.candidates if c.kind == "default"]
    failed = next((c for c in climbed if c.outcome in ("hung", "failed")), None)
    if failed is None:
        reached = [c for c in climbed if c.outcome == "measured"]
        verdict: Verdict = "healthy" if reached == climbed and climbed else "inconclusive"
        return msgspec.structs.replace(report, verdict=verdict)
    below = next((c for c in reversed(climbed[: climbed.index(failed)])), None)
    as_default = msgspec.structs.replace(
        report,
        candidates=(*(c for c in report.candidates if c.kind != "default"), failed),
        sessions=tuple(s for s in report.sessions if s.case.candidate == failed.name),
    )
    net, docket = Networks(as_default), Docket()
    settings.judge(net, docket)
    reach.judge(net, docket)
    agreement.differs(net, docket)
    hangs.judge(net, docket)
    step = added(failed, below, report.hosts)
    if docket.explains(failed.name):
        docket.attach(failed.name, Evidence(basis="inferred", text=step))
    findings = sorted(
        docket.findings, key=lambda f: (-SEVERITIES.index(f.severity), ORDER[f.code])
    )
    return msgspec.structs.replace(report, findings=tuple(findings), verdict=_verdict(findings))


def _verdict(findings: Sequence[Finding]) -> Verdict:
    return "broken" if any(f.severity == "broken" for f in findings) else "degraded"


def added(failed: Candidate, below: Candidate | None, hosts: Sequence[HostFacts]) -> str:
    """What the step to `failed` brought that the rung below had not."""
    if below is None:
        return (
            "the first rung is one rank by itself: no network is in it, only torch, its backend, "
            "the driver and the GPU"
        )
    ranks = [rank for rank in failed.ranks if rank not in below.ranks]
    here = {host.host for host in hosts if set(host.ranks) & set(below.ranks)}
    new = [host.host for host in hosts if set(host.ranks) & set(ranks) and host.host not in here]
    shown = ", ".join(map(str, ranks[:RANKS_SHOWN])) + (" …" if len(ranks) > RANKS_SHOWN else "")
    which = f"rank {shown}" if len(ranks) == 1 else f"ranks {shown}"
    if new and len(here) == 1 and len(new) == 1:
        what = (
            f"{which} on {new[0]}: the first step that crosses the network; look at interface, "
            f"firewall and MTU between {listed(here)} and {new[0]}"
        )
    elif new:
        what = f"{which} on {listed(new)}: one of these hosts, or the way to it"
    elif len(below.ranks) == 1:
        what = (
            f"{which} on {listed(here)}: the first step with a peer, and still inside a host: "
            "shared memory, P2P between two GPUs, loopback"
        )
    else:
        what = f"{which} on {listed(here)}: the other GPUs and the paths between them"
    return f"{below.name} works; the step to {failed.name} added {what}"
