"""A whole run: report.json is this record and nothing else."""

from __future__ import annotations

from bench.records.copies import CopyCheck
from bench.records.fabric import Fabric
from bench.records.facts import HostFacts
from bench.records.finding import Finding
from bench.records.line import CostLine
from bench.records.pairs import Location
from bench.records.plan import Candidate, Plan
from bench.records.session import PreflightPair, Session
from bench.records.words import Backend, Record, Verdict

SCHEMA = 1


class Recommendation(Record, frozen=True, kw_only=True):
    """Settings to export: the same everywhere, or per host where interface names differ."""

    environment: dict[str, str] = {}
    per_host: dict[str, dict[str, str]] = {}


class Report(Record, frozen=True, kw_only=True):
    """A whole run. Self-contained; `report.json` is this record and nothing else."""

    schema: int = SCHEMA
    run: str
    verdict: Verdict
    backend: Backend = "gloo"
    duration_s: float = 0.0
    complete: bool = True
    missing: tuple[str, ...] = ()  # sentences: what could not be measured, and why
    labels: dict[str, str] = {}
    fabric: Fabric | None = None
    hosts: tuple[HostFacts, ...] = ()
    plan: Plan | None = None
    candidates: tuple[Candidate, ...] = ()
    preflight: tuple[PreflightPair, ...] = ()
    copies: tuple[CopyCheck, ...] = ()  # one per host with GPUs
    sessions: tuple[Session, ...] = ()  # without samples; those are in samples.jsonl
    lines: tuple[CostLine, ...] = ()
    location: Location | None = None  # pairs of hosts, measured to find out which part is slow
    findings: tuple[Finding, ...] = ()
    recommendation: Recommendation = Recommendation()
