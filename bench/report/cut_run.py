"""A run that was cut short, finished from its raw samples.

In: the folder of a run with samples.jsonl and no report.json. Out: the report that the sweep would
have written of these sessions, saying how many are missing, and all files of a finished run.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bench.records import Report, Session
from bench.report import conclusion
from bench.report.journal import Header, Journal, read_samples


def finish(run: Path) -> tuple[Report, tuple[str, ...]]:
    """Judge the run and write its files; the report, and a sentence per file that failed.

    BadInput where the folder holds no samples, a finished report, or a sweep that is still going.
    """
    header, sessions = read_samples(run)
    with Journal(run, keep_samples=True) as journal:
        report = conclusion.conclude(as_far_as_it_went(header, sessions))
        return report, journal.write(report)


def as_far_as_it_went(header: Header, sessions: Sequence[Session]) -> Report:
    """The report of these sessions before anything is fitted or judged."""
    planned = len(header.plan.cases) if header.plan else 0
    missing: tuple[str, ...] = ()
    if len(sessions) < planned:
        missing = (f"The run was cut short after {len(sessions)} of {planned} sessions.",)
    ends = [session.started_at + session.duration_s for session in sessions]
    return Report(
        run=header.run or "cut",
        verdict="inconclusive",
        backend=header.plan.backend if header.plan else "gloo",
        duration_s=round(max(0.0, max(ends, default=0.0) - header.started_at), 1),
        complete=not missing,
        missing=missing,
        labels=header.labels,
        fabric=header.fabric,
        hosts=header.hosts,
        plan=header.plan,
        candidates=header.candidates,
        preflight=header.preflight,
        sessions=tuple(sessions),
    )
