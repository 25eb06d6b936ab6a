"""lines.csv: every measured size of a run, a row each, for a spreadsheet or a data frame.

In: a Report, or the series of a history. Out: CSV with a header. A foreign name that a spreadsheet
would take for a formula gets an apostrophe before it.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence

from bench.records import NightlySeries, Report
from bench.report.text import printable

FORMULA = ("=", "+", "-", "@", "\t", "\r")
LINE_HEAD = (
    "run", "candidate", "collective", "ranks", "size_bytes", "time_s", "low_s", "high_s",
    "algbw_gbs", "busbw_gbs", "sessions", "iterations", "skew", "noisy", "settled", "wrong",
    "group", "expected_busbw_gbs",
)  # fmt: skip
NIGHT_HEAD = ("run", "candidate", "collective", "sizes", "change", "level_change")


def lines(report: Report) -> str:
    """A row per size of each candidate and collective."""
    return _table(
        LINE_HEAD,
        (
            (
                report.run, line.candidate, line.collective, line.ranks, p.size_bytes, p.time_s,
                p.low_s, p.high_s, p.algbw_gbs, p.busbw_gbs, p.sessions, p.iterations, p.skew,
                int(p.noisy), int(p.settled), p.wrong, p.group, line.expected_busbw_gbs,
            )
            for line in report.lines
            for p in line.points
        ),
    )  # fmt: skip


def nights(series: Sequence[NightlySeries]) -> str:
    """A row per night of each series; `change` is of the time against the baseline, `level_change`
    that of the level where it changed with this night."""
    return _table(NIGHT_HEAD, _nights(series))


def _nights(series: Sequence[NightlySeries]) -> Iterator[Sequence[object]]:
    for one in series:
        steps = {change.run: change.change for change in one.changes}
        for run, value in zip(one.runs, one.values, strict=True):
            if value is not None:
                where = (run, one.candidate, one.collective, one.part)
                yield *where, value, steps.get(run)


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(head)
    for row in rows:
        writer.writerow([_cell(value) for value in row])
    return out.getvalue()


def _cell(value: object) -> object:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.8g}"
    if not isinstance(value, str):
        return value
    text = printable(value)
    return f"'{text}" if text.startswith(FORMULA) else text
