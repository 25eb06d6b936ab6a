"""`gate REPORT`: exit 1 if a report holds a finding that severe."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from bench.commands.answer import DONE, FOUND, severity
from bench.records import SEVERITIES, BadInput


def gate(
    report: Annotated[
        Path, typer.Argument(metavar="REPORT", help="A run's folder or its report.json.")
    ],
    fail_on: Annotated[
        str, typer.Option(metavar="SEVERITY", help="info, warning, degraded, broken or none.")
    ] = "degraded",
) -> int:
    """Exit 1 if a report holds a finding that severe.

    Exit 1 also when the run was cut short: what it did not measure has not passed. Exit 2 when
    nothing was measured at all.
    """
    from bench.report import stored
    from bench.report.text import printable, show

    worst_allowed = severity(fail_on)
    read = stored.read_report(report)
    bad = [f for f in read.findings if SEVERITIES.index(f.severity) >= worst_allowed]
    for finding in bad:
        show(f"{finding.severity}  {finding.code}: {printable(finding.summary)}", sys.stdout)
    if bad:
        return FOUND
    if not read.findings and not any(line.points for line in read.lines):
        raise BadInput("nothing was measured, so there is nothing to pass", file=str(report))
    if not read.complete:
        why = f": {printable(read.missing[0]).rstrip('.')}" if read.missing else ""
        show(f"cut short{why}; what was not measured has not passed", sys.stdout)
        return FOUND
    show(f"{read.verdict}: no finding at {fail_on} or above", sys.stdout)
    return DONE
