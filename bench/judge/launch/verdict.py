"""The judge of a preflight: what was seen in, findings worst first and a verdict out.

In: a Preflight without findings. Out: the same with them. Networks are judged by the sweep's own
rules; nothing has been measured, so nothing is called slow.
"""

from __future__ import annotations

import msgspec

from bench.judge import agreement, egress, reach, settings
from bench.judge.catalogue import ORDER
from bench.judge.docket import Docket
from bench.judge.launch import clocks, host_names, limits, meeting, seats, versions
from bench.judge.networks import Networks
from bench.records import SEVERITIES, Evidence, Finding, Preflight, Report, Verdict


def judge(seen: Preflight, *, several: bool, waiting: bool, rank: int | None = None) -> Preflight:
    """`several`: the job is to span hosts; `waiting`: rank 0 is known to hold its store open;
    `rank`: of the process that looked, where rank 0 opens it itself."""
    docket = Docket()
    meeting.judge(seen.meetings, seen.hosts, docket, several=several, waiting=waiting, rank=rank)
    _absent(seen, docket)
    host_names.judge(seen.hosts, docket, several=several)
    limits.judge(seen.hosts, docket)
    seats.judge(seen.hosts, docket)
    if seen.together:
        versions.judge(seen.hosts, docket)
        clocks.judge(seen.pairs, docket)
        _networks(seen, docket)
    findings = tuple(
        sorted(docket.findings, key=lambda f: (-SEVERITIES.index(f.severity), ORDER[f.code]))
    )
    return msgspec.structs.replace(seen, findings=findings, verdict=_verdict(seen, findings))


def _networks(seen: Preflight, docket: Docket) -> None:
    report = Report(
        run="preflight", verdict="inconclusive", hosts=seen.hosts, candidates=seen.candidates,
        preflight=seen.pairs,
    )  # fmt: skip
    net = Networks(report)
    settings.judge(net, docket)
    reach.judge(net, docket)
    agreement.differs(net, docket)
    agreement.not_exported(net, docket)
    egress.judge(net, docket)


def _absent(seen: Preflight, docket: Docket) -> None:
    if seen.together and seen.missing:
        docket.add(
            Finding(
                code="rendezvous-unreachable",
                kind="absent",
                severity="broken",
                summary=f"Not everybody came: {seen.missing[0]}.",
                evidence=tuple(Evidence(basis="measured", text=text) for text in seen.missing),
                remedy=None,
            )
        )


def _verdict(seen: Preflight, findings: tuple[Finding, ...]) -> Verdict:
    worst = max((SEVERITIES.index(f.severity) for f in findings), default=0)
    if SEVERITIES[worst] in ("broken", "degraded"):
        return "broken" if SEVERITIES[worst] == "broken" else "misconfigured"
    # Alone, what the other hosts see is not known.
    return "healthy" if seen.together or not seen.meetings else "inconclusive"
