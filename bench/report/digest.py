"""A report boiled down to the words that screen, page and exports all show.

In: a Report. Out: short strings and plain rows, in the order people read them. Nothing here
measures or judges; it counts, picks and formats what the records already say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from bench.records import (
    SEVERITIES,
    Candidate,
    CostLine,
    Fabric,
    Finding,
    HostFacts,
    Plan,
    Report,
)
from bench.report import units
from bench.report.text import distinct, printable

# Severity "info" is a note, not a finding; these say that nothing could be decided, and that is
# what a person must see.
ABSTENTIONS = frozenset({"not-determinable", "inconclusive", "not-comparable"})


@dataclass(frozen=True)
class Row:
    """One candidate as the tables show it; `reason` says why there are no figures."""

    candidate: str
    interface: str
    outcome: str
    busbw: str = units.UNKNOWN
    latency: str = units.UNKNOWN
    of_expected: str = units.UNKNOWN
    reason: str = ""


def collectives(report: Report) -> tuple[str, ...]:
    """The collectives that were measured, the plan's first one first."""
    planned = report.plan.settings.collectives if report.plan else ()
    measured = {line.collective for line in report.lines}
    return distinct([*(name for name in planned if name in measured), *sorted(measured)])


def main_collective(report: Report) -> str:
    """The collective whose figures the terminal table shows."""
    measured = collectives(report)
    planned = report.plan.settings.collectives if report.plan else ()
    return measured[0] if measured else planned[0] if planned else "all_reduce"


def line_of(report: Report, candidate: str, collective: str) -> CostLine | None:
    """The fitted line of a candidate and collective, if there is one."""
    for line in report.lines:
        if (line.candidate, line.collective) == (candidate, collective):
            return line
    return None


def rows(report: Report, collective: str) -> list[Row]:
    """One row per candidate in the report's order."""
    return [
        _row(candidate, line_of(report, candidate.name, collective))
        for candidate in report.candidates
    ]


def _row(candidate: Candidate, line: CostLine | None) -> Row:
    name, interface, outcome = candidate.name, interface_words(candidate), candidate.outcome
    if outcome != "measured" or line is None:
        reason = candidate.reason or ("" if outcome != "measured" else "no line for this one")
        return Row(name, interface, outcome, reason=printable(reason))
    return Row(
        name,
        interface,
        outcome,
        units.busbw_interval(line.busbw_gbs),
        units.time(line.latency_s.value if line.latency_s else None),
        units.percent(line.busbw_gbs.value if line.busbw_gbs else None, line.expected_busbw_gbs),
        reason="" if line.busbw_gbs else printable("; ".join(line.notes)),
    )


def interface_words(candidate: Candidate) -> str:
    """`data0`, or `ens1f0 … 3 names` where hosts call it differently."""
    names = distinct(candidate.interfaces.values())
    if len(names) > 2:
        return f"{names[0]} … {len(names)} names"
    return ", ".join(names) or units.UNKNOWN


def fabric_words(
    hosts: Sequence[HostFacts], plan: Plan | None, fabric: Fabric | None, backend: str
) -> list[str]:
    """`lab`, `4 hosts × 1 rank`, `gloo (torch 2.13.0)`, `NCCL 2.32.3 asked on 4 of 4`."""
    words = [printable(fabric.name) if fabric else "no fabric file"]
    number = len(hosts) or (plan.hosts if plan else 0)
    ranks = plan.ranks if plan and plan.ranks else sum(len(host.ranks) for host in hosts)
    if number and ranks % number == 0:
        words.append(f"{units.count(number, 'host')} × {units.count(ranks // number, 'rank')}")
    else:
        words.append(f"{units.count(number, 'host')}, {units.count(ranks, 'rank')}")
    versions = distinct(host.software.torch or "" for host in hosts)
    words.append(f"{backend} (torch {', '.join(versions)})" if versions else backend)
    if hosts:
        words.append(nccl_words(hosts))
    return words


def nccl_words(hosts: Sequence[HostFacts]) -> str:
    """On how many hosts NCCL itself was asked for its choice, and which NCCL that was."""
    answers = [
        choice
        for host in hosts
        for choice in host.nccl_choices
        if choice.setting is None and choice.basis == "asked"
    ]
    if not answers:
        return "NCCL's choice predicted"
    versions = distinct(choice.nccl_version or "" for choice in answers)
    return f"NCCL {', '.join([*versions, ''])}".strip(", ") + (
        f" asked on {len(answers):,} of {len(hosts):,}"
    )


def plan_words(plan: Plan, candidates: Sequence[Candidate]) -> list[str]:
    """`quick`, `3 candidates × 2 collectives × 11 sizes × 3 sessions`, `seed 4711`.

    The case with nothing set is not counted as a candidate: nobody chose it.
    """
    named = sum(candidate.kind != "default" for candidate in candidates)
    sessions = max(Counter(case.candidate for case in plan.cases).values(), default=0)
    factors = [
        units.count(named, "candidate"),
        units.count(len(plan.settings.collectives), "collective"),
        units.count(len(plan.sizes_bytes), "size"),
        units.count(sessions or plan.settings.sessions, "session"),
    ]
    return [printable(plan.settings.name), " × ".join(factors), f"seed {plan.seed}"]


def is_note(finding: Finding) -> bool:
    """Whether a finding is a remark rather than something to act upon."""
    return finding.severity == "info" and finding.code not in ABSTENTIONS


def in_order(findings: Sequence[Finding]) -> list[Finding]:
    """What people should see first first: by severity, otherwise as the judge said it."""
    return sorted(findings, key=lambda finding: -SEVERITIES.index(finding.severity))


def title(finding: Finding) -> str:
    """`first-fault: oom`."""
    return f"{finding.code}: {finding.kind}" if finding.kind else finding.code


def severity_word(finding: Finding) -> str:
    """The word at the end of a finding's head line: a misselection has its own verdict."""
    return "misconfigured" if finding.code == "interface-misselected" else finding.severity


def mark(finding: Finding) -> str:
    """`?` where the tool abstains or only remarks, `!` where something is wrong."""
    return "?" if finding.severity == "info" or finding.code in ABSTENTIONS else "!"


def verdict_words(report: Report) -> list[str]:
    """`misconfigured`, `1 finding`, `41 s`."""
    number = sum(not is_note(finding) for finding in report.findings)
    words = [report.verdict, units.count(number, "finding") if number else "no findings"]
    if not report.complete:
        words.append("incomplete")
    return [*words, units.duration(report.duration_s)]
