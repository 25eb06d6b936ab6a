"""Runs that may teach: alike, whole, and good; and what a reader should know of them.

In: Reports. Out: BadInput for runs that are not one kind or not good, else sentences. A gate that
was learned from a bad run calls the fault normal ever after, so such runs are refused by default.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence

from bench.judge.words import listed
from bench.model.gate import FEWEST_RUNS
from bench.records import BadInput, Report

SERIOUS = ("degraded", "broken")


def distinct(reports: Sequence[Report]) -> tuple[list[Report], list[str]]:
    """The runs, by name, each once: a copy of a run would count as agreement between runs."""
    runs: list[Report] = []
    copies: list[str] = []
    for report in sorted(reports, key=lambda report: report.run):
        if any(report.run == other.run and report.lines == other.lines for other in runs):
            copies.append(f"run {report.run} is there twice and counts once")
        else:
            runs.append(report)
    return runs, copies


def refuse_unlike(runs: Sequence[Report]) -> None:
    """Backend, hosts and ranks must agree: other numbers of them are other systems."""
    first = runs[0]
    sizes: dict[str, Callable[[Report], object]] = {
        "backend": lambda report: report.backend,
        "hosts": lambda report: len(report.hosts),
        "ranks": lambda report: sum(len(facts.ranks) for facts in report.hosts),
        "GPUs": lambda report: Counter(g.name for f in report.hosts for g in f.gpus),
    }
    for word, of in sizes.items():
        for other in runs[1:]:
            if of(other) != of(first):
                raise BadInput(
                    f"runs {first.run} and {other.run} are not alike in {word} "
                    f"({_spoken(of(first))} and {_spoken(of(other))}); learn from each kind alone"
                )


def _spoken(value: object) -> str:
    if isinstance(value, Counter):
        told = sorted(f"{count} × {name or 'unnamed'}" for name, count in value.items())
        return " + ".join(told) or "none"
    return str(value)


def refuse_bad(runs: Sequence[Report]) -> None:
    """BadInput for a run with a serious finding, or one that was cut short."""
    for report in runs:
        if not report.complete:
            raise BadInput(
                f"run {report.run} was cut short; leave it out, or say --accept-findings"
            )
        codes = listed(f.code for f in report.findings if f.severity in SERIOUS)
        if codes:
            raise BadInput(
                f"run {report.run} is no good run ({codes}); mend that, leave it out, or say "
                "--accept-findings"
            )


def with_findings(runs: Sequence[Report]) -> list[str]:
    """What was wrong in runs that are believed all the same, as a sentence."""
    found = Counter(
        finding.code
        for report in runs
        for finding in report.findings
        if finding.severity in SERIOUS
    )
    if not found:
        return []
    told = listed(f"{code} in {count}" for code, count in found.most_common())
    return [f"learned in spite of findings: {told}; what is wrong in them now counts as good"]


def about(runs: Sequence[Report]) -> list[str]:
    """What a reader should know of the runs: too few, too close together, unlike in versions."""
    notes = []
    if len(runs) < FEWEST_RUNS:
        many = "one run" if len(runs) == 1 else f"{len(runs)} runs"
        notes.append(
            f"{many}: how far runs lie apart is unknown, so every tolerance is only the default; "
            f"a gate needs {FEWEST_RUNS} runs, and is sharp from 5 on"
        )
    days = {day(report) for report in runs}
    if len(runs) >= FEWEST_RUNS and len(days) == 1 and None not in days:
        notes.append(
            "all runs are of one day: what changes from day to day is not in the tolerances"
        )
    versions: dict[str, set[str | None]] = {
        "NCCL": {f.software.nccl for r in runs for f in r.hosts},
        "torch": {f.software.torch for r in runs for f in r.hosts},
        "driver": {f.software.driver for r in runs for f in r.hosts},
        "plan": {r.plan.settings.name for r in runs if r.plan},
    }
    for word, seen in versions.items():
        told = sorted(str(version) for version in seen if version)
        if len(told) > 1:
            notes.append(f"runs differ in {word}: {listed(told)}")
    return notes


def source(runs: Sequence[Report]) -> str:
    """The runs by name, for the file's `source`."""
    names = [report.run for report in runs]
    shown = names if len(names) <= 2 else [names[0], "…", names[-1]]
    return f"{len(names)} good run{'s' if len(names) > 1 else ''}: {' '.join(shown)}"


def day(report: Report) -> str | None:
    """Runs are named by their time in UTC unless a user chose the folder's name."""
    found = re.match(r"\d{4}-\d\d-\d\d", report.run)
    return found[0] if found else None
