"""From sessions to a finished report: outcomes, the model's lines, the judge's verdict.

Used by the sweep at its end, and by `fabric-bench report` on a run that was cut short.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from bench.judge import verdict
from bench.model import costline, summary
from bench.records import Candidate, CostLine, Report, Session


def conclude(report: Report) -> Report:
    """The report with outcomes, lines, findings, recommendation and verdict filled in."""
    return verdict.judge(fitted(report))


def fitted(report: Report) -> Report:
    """The report with outcomes and lines filled in, so far unjudged."""
    candidates = tuple(_ended(candidate, report.sessions) for candidate in report.candidates)
    report = msgspec.structs.replace(report, candidates=candidates)
    return msgspec.structs.replace(report, lines=tuple(_lines(report)))


def _ended(candidate: Candidate, sessions: Sequence[Session]) -> Candidate:
    """The candidate with what became of it and which interfaces its bytes came in by."""
    own = [session for session in sessions if session.case.candidate == candidate.name]
    if candidate.outcome != "planned":
        return candidate
    if not own:
        return msgspec.structs.replace(candidate, outcome="skipped", reason="not reached in time")
    carried: dict[str, Counter[str]] = {}
    for session in own:
        for evidence in session.hosts:
            received = carried.setdefault(evidence.host, Counter())
            received.update({n: c.rx_bytes for n, c in evidence.interfaces.items() if c.rx_bytes})
    outcomes = {session.outcome for session in own}
    worst = next((s for s in own if s.outcome != "measured"), own[0])
    outcome = next((o for o in ("measured", "hung", "failed") if o in outcomes), "skipped")
    return msgspec.structs.replace(
        candidate,
        outcome=outcome,
        reason=worst.reason,
        carried={host: dict(received) for host, received in carried.items()},
    )


def _lines(report: Report) -> Iterator[CostLine]:
    """One line per candidate and collective that has samples."""
    everyone = report.plan.ranks if report.plan is not None else 0
    collectives = report.plan.settings.collectives if report.plan is not None else ()
    for candidate in report.candidates:
        ranks = len(candidate.ranks) or everyone
        for collective in collectives:
            points = summary.points(report.sessions, candidate.name, collective, ranks)
            if points:
                medians = summary.session_medians(report.sessions, candidate.name, collective)
                yield costline.fit(candidate.name, collective, ranks, points, medians)
