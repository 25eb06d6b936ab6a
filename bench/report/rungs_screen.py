"""The terminal view of a climb: a line per rung, what stopped it, the verdict.

In: a judged Report of a ladder. Out: text of at most `width` columns.
"""

from __future__ import annotations

from pathlib import Path

from tabulate import tabulate

from bench.records import Candidate, Report
from bench.report import units
from bench.report.findings import blocks_of, coloured_verdict
from bench.report.text import cell, printable

REASON = 44  # columns of a reason


def screen(
    report: Report, *, width: int = 80, colour: bool = False, folder: Path | None = None
) -> str:
    climbed = [c for c in report.candidates if c.kind == "default"]
    rows = [["rung", "ranks", "outcome", "started in", "busbw at most"]]
    rows += [_row(rung, report) for rung in climbed]
    table = [
        "  " + line.rstrip()
        for line in tabulate(rows, tablefmt="plain", disable_numparse=True).splitlines()
    ]
    missing = [f"  missing: {printable(text)}" for text in report.missing]
    blocks = [table, missing, *blocks_of(report.findings, width=width, colour=colour)]
    words = [report.verdict, units.count(len(report.findings), "finding")]
    words.append(units.duration(report.duration_s))
    if folder is not None:
        words.append(str(folder))
    blocks.append(coloured_verdict(report.verdict, words, width, colour))
    return "\n\n".join("\n".join(block) for block in blocks if block)


def _row(rung: Candidate, report: Report) -> list[str]:
    session = next((s for s in report.sessions if s.case.candidate == rung.name), None)
    line = next((x for x in report.lines if x.candidate == rung.name and x.points), None)
    if session is None:
        why = rung.reason if rung.outcome == "skipped" and rung.reason else "not climbed"
        return [rung.name, str(len(rung.ranks)), cell(printable(why), REASON), "", ""]
    started = units.time(session.group_s) if session.group_s is not None else units.UNKNOWN
    best = max((p.busbw_gbs for p in line.points if p.busbw_gbs), default=None) if line else None
    outcome = "works" if rung.outcome == "measured" else f"{rung.outcome} in {session.phase}"
    return [
        rung.name,
        str(len(rung.ranks)),
        outcome,
        started if rung.outcome == "measured" else "",
        units.busbw(best) if best is not None else "",
    ]
