"""The table of candidates on a terminal: figures in columns, reasons where there are none.

In: a Report. Out: lines of at most `width` columns. tabulate lays out the columns; names give way
when the screen is narrow, then whole columns from the right; a figure is never cut.
"""

from __future__ import annotations

from tabulate import tabulate

from bench.records import Report
from bench.report import digest, units
from bench.report.text import cell, printable, wrapped

INDENT = 2
GAP = 2  # what tabulate's plain format puts between two columns
NARROWEST_NAME = 6  # columns a name keeps when the table must shrink
NARROWEST_REASON = 24  # a reason with less room beside its row goes below it


def candidates(report: Report, width: int) -> list[str]:
    """One line per candidate with the figures of the plan's first collective."""
    collective = digest.main_collective(report)
    rows = digest.rows(report, collective)
    table = _table(rows, collective)
    fixed = sum(GAP + _widest(table, at) for at in range(2, len(table[0])))
    while width - INDENT - GAP - fixed < 2 * NARROWEST_NAME and len(table[0]) > 3:
        fixed -= GAP + _widest(table, len(table[0]) - 1)
        table = [line[:-1] for line in table]
    first, second = _shares(_widest(table, 0), _widest(table, 1), width - INDENT - GAP - fixed)
    table = [[cell(line[0], first), cell(line[1], second), *line[2:]] for line in table]
    align = ["left"] * 3 + ["right"] * (len(table[0]) - 3)
    # The head is a row like the others: tabulate would pad real headers by two more columns.
    text = tabulate(table, tablefmt="plain", disable_numparse=True, colalign=align)
    head, *body = [" " * INDENT + line.rstrip() for line in text.splitlines()]
    start = INDENT + sum(_widest(table, at) + GAP for at in range(3))
    lines = [head]
    for row, line in zip(rows, body, strict=True):
        if not row.reason:
            lines.append(line)
        elif width - start >= NARROWEST_REASON:
            lines += wrapped(row.reason, label=line.ljust(start), hang=start, width=width)
        else:
            lines += [line, *wrapped(row.reason, hang=2 * INDENT, width=width)]
    return lines


def _table(rows: list[digest.Row], collective: str) -> list[list[str]]:
    """Head and cells; a column in which nobody has a figure is left out."""
    figures = [row for row in rows if row.outcome == "measured" and not row.reason]
    head = ["candidate", "interface", "outcome"]
    if figures:
        head += [f"{collective} busbw", "latency"]
    if any(row.of_expected != units.UNKNOWN for row in figures):
        head.append("of expected")
    table = [head]
    for row in rows:
        numbers = [row.busbw, row.latency, row.of_expected]
        if row.reason or row.outcome != "measured":
            numbers = ["", "", ""]
        line = [printable(row.candidate), printable(row.interface), row.outcome, *numbers]
        table.append(line[: len(head)])
    return table


def _widest(table: list[list[str]], at: int) -> int:
    return max(len(line[at]) for line in table)


def _shares(first: int, second: int, room: int) -> tuple[int, int]:
    """Columns for the two name columns: what they want, or a fair part of what there is."""
    if first + second <= room:
        return first, second
    half = room // 2
    if first <= half:
        second = room - first
    elif second <= half:
        first = room - second
    else:
        first = second = half
    return max(first, NARROWEST_NAME), max(second, NARROWEST_NAME)
