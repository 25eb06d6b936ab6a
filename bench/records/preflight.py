"""`python -m bench preflight`: whether a job can start, before it is started."""

from __future__ import annotations

from bench.records.facts import HostFacts
from bench.records.finding import Finding
from bench.records.plan import Candidate
from bench.records.readiness import Meeting
from bench.records.session import PreflightPair
from bench.records.words import Record, Verdict


class Preflight(Record, frozen=True, kw_only=True):
    """One host alone, or all hosts of a job together. `together` tells which: alone, nothing is
    known of the others but what this host sees of the place where ranks are to meet."""

    schema: int = 1
    verdict: Verdict = "inconclusive"
    together: bool = False
    duration_s: float = 0.0
    meetings: tuple[Meeting, ...] = ()
    hosts: tuple[HostFacts, ...] = ()
    candidates: tuple[Candidate, ...] = ()
    pairs: tuple[PreflightPair, ...] = ()
    missing: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
