"""What the files of a side say is wrong by themselves: an error in a log, ports that disagree.

In: two Sides with the findings of their own files. Out: what stands only AFTER, or stands there
worse, with what is known of BEFORE. A fault that both sides have is no news, unless something
failed after the change: then it may have lain there unnoticed until something took it badly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from bench.judge.catalogue import CATALOGUE
from bench.judge.verdict import serious
from bench.records import SEVERITIES, Evidence, Finding, Side

# Whether figures are low is asked of both sides' sessions together, not of each table by itself.
ASKED_ELSEWHERE = {
    "link-degraded", "latency-degraded", "host-slow", "rail-slow", "bandwidth-collapse",
    "below-expectation",
}  # fmt: skip
# Kinds of files that show such faults: where both sides have one, BEFORE's would have shown it.
SHOWING = {"log", "ports", "start", "nvlinks", "matrices", "trees", "peers", "bridges"}
ROOMS = ("interface", "link", "GPU path", "hang", "launch")
ONLY_AFTER = "in no file of BEFORE"
LATENT = "BEFORE's files show the same: it was there already, and what changed made it fail"
WORSE = "BEFORE's files show the same without a failure: it was there already, and became one"


@dataclass(frozen=True)
class Faults:
    """`worse`: something is wrong AFTER that BEFORE's files would show, or it failed where BEFORE
    worked."""

    findings: tuple[Finding, ...] = ()
    worse: bool = False


def own(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Those of a side's files that a comparison has use for."""
    return tuple(f for f in findings if serious(f) and _is_ours(f))


def compare(before: Side, after: Side) -> Faults:
    """Nothing where BEFORE's files show all of it as well."""
    had: dict[tuple[str, str | None], Finding] = {}
    for finding in sorted(before.findings, key=_rank, reverse=True):
        had.setdefault(_key(finding), finding)
    new = [f for f in after.findings if _rank(f) > _rank(had.get(_key(f)))]
    failed = any(f.severity == "broken" for f in new)
    shown = list(after.findings) if failed else new
    told = tuple(_with_past(f, had.get(_key(f))) for f in shown)
    worked = any(s.curves or s.average_busbw_gbs for s in before.sessions)
    shown_before = bool(SHOWING & set(before.told) & set(after.told))
    had_failed = any(f.severity == "broken" for f in had.values())
    return Faults(told, bool(new) and not had_failed and (shown_before or (failed and worked)))


def _is_ours(finding: Finding) -> bool:
    return (
        CATALOGUE[finding.code].room in ROOMS
        and finding.code not in ASKED_ELSEWHERE
        and finding.code != "not-determinable"
    )


def _key(finding: Finding) -> tuple[str, str | None]:
    """Hosts, files and lines are others on the other side."""
    return finding.code, finding.kind


def _rank(finding: Finding | None) -> int:
    return -1 if finding is None else SEVERITIES.index(finding.severity)


def _with_past(finding: Finding, earlier: Finding | None) -> Finding:
    both = WORSE if _rank(finding) > _rank(earlier) else LATENT
    past = Evidence(basis="inferred", text=ONLY_AFTER if earlier is None else both)
    return msgspec.structs.replace(finding, evidence=(*finding.evidence, past))
