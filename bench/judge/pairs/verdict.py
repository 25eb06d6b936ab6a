"""The verdict on pairs alone, where nothing else of a run is known.

In: locations, and findings of pairs. Out: one word. Healthy needs pairs that could have shown a
fault: a list that wanders, or of which nothing was measured, decides nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.records import Finding, Location, Verdict

# What pairs of hosts can be the reason of.
CODES = (
    "host-slow", "link-degraded", "rail-slow", "latency-degraded", "below-expectation",
    "not-determinable",
)  # fmt: skip

BLUNT = 0.25  # pairs that scatter so much that less than this slowdown would not show


def of_run(location: Location, findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Of a whole run's findings those that are about its pairs' network."""
    return tuple(
        finding
        for finding in findings
        if finding.code in CODES and finding.where.candidate in (None, location.candidate)
    )


def verdict(locations: Sequence[Location], findings: Sequence[Finding]) -> Verdict:
    """The worst that is said."""
    severities = {finding.severity for finding in findings}
    if "broken" in severities:
        return "broken"
    if "degraded" in severities:
        return "degraded"
    open_questions = any(finding.code == "not-determinable" for finding in findings)
    decided = all(
        location.reference_s is not None and (location.threshold or 0.0) <= BLUNT
        for location in locations
    )
    open_questions |= any(location.unexplained for location in locations)
    return "healthy" if decided and not open_questions else "inconclusive"
