"""What strategies cost, on a terminal: the job, the table, what was inferred, the advice last.

In: a CostReport. Out: text of at most `width` columns. Every foreign string is made harmless.
"""

from __future__ import annotations

from collections.abc import Sequence

from tabulate import tabulate

from bench.records import CostReport
from bench.report import units
from bench.report.cost import rows as cost_rows
from bench.report.findings import GREEN, PLAIN, labelled
from bench.report.text import cell, printable, wrapped

LABEL = 10
INDENT = 2
SENTENCES_SHOWN = 6
FAULTS_SHOWN = 6
NAME_COLUMNS = 34
# Columns that give way first where the screen is narrow: the others say nearly the same.
GIVE_WAY = ("state", "share", "overlapped", "sent", "step")


def screen(report: CostReport, *, width: int = 80, colour: bool = False) -> str:
    """The whole answer."""
    blocks = [_head(report, width), _table(report, width)]
    blocks += [
        _listed("inferred", report.inferred, width),
        _listed("beware", report.notes, width),
        _faults(report, width),
        _advice(report, width, colour),
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block)


def _head(report: CostReport, width: int) -> list[str]:
    lines = labelled("model", cost_rows.model_words(report), width, hang=LABEL)
    lines += labelled("job", cost_rows.job_words(report), width, hang=LABEL)
    for at, sentence in enumerate(report.lines):
        lines += wrapped(sentence, label="" if at else "measured", hang=LABEL, width=width)
    return lines


def _table(report: CostReport, width: int) -> list[str]:
    columns = cost_rows.columns(report)
    made = cost_rows.rows(report)
    for name in GIVE_WAY:
        lines = _laid_out(columns, made)
        if max(map(len, lines)) <= width - INDENT:
            break
        columns = [column for column in columns if column[0] != name]
    lines = _laid_out(columns, made)
    notes = [f"{cost.strategy}: {note}" for cost in report.strategies for note in cost.notes]
    lines = [" " * INDENT + line for line in lines]
    for note in notes[:SENTENCES_SHOWN]:
        lines += wrapped(printable(note), hang=2 * INDENT, width=width)
    return lines


def _laid_out(columns: Sequence[tuple[str, str]], made: Sequence[cost_rows.Row]) -> list[str]:
    table = [[head for head, _ in columns]]
    table += [[getattr(row, field) for _, field in columns] for row in made]
    align = ["left"] + ["right"] * (len(columns) - 1)
    text = tabulate(table, tablefmt="plain", disable_numparse=True, colalign=align)
    return [line.rstrip() for line in text.splitlines()]


def _listed(label: str, sentences: Sequence[str], width: int) -> list[str]:
    lines: list[str] = []
    for sentence in sentences[:SENTENCES_SHOWN]:
        lines += wrapped(
            printable(sentence), label="" if lines else label, hang=LABEL, width=width
        )
    if len(sentences) > SENTENCES_SHOWN:
        lines.append(" " * LABEL + f"… {len(sentences) - SENTENCES_SHOWN} more in --json")
    return lines


def _faults(report: CostReport, width: int) -> list[str]:
    """What a worse network would cost: of the chosen strategy."""
    shown = report.faults[:FAULTS_SHOWN]
    if not shown:
        return []
    table = [[f"{report.chosen} over", "communication", "added", "lost a day"]]
    for fault in shown:
        name = cell(fault.name, NAME_COLUMNS)
        took, added = units.time(fault.communication_s), units.time(fault.added_s)
        table.append([name, took, added, cost_rows.day(fault)])
    text = tabulate(
        table, tablefmt="plain", disable_numparse=True, colalign=["left"] + ["right"] * 3
    )
    lines = [" " * INDENT + line.rstrip() for line in text.splitlines()]
    if any(fault.at_most for fault in shown):
        lines += wrapped(
            "lost at most: less by what a step computes (--compute, --tflops)",
            hang=INDENT,
            width=width,
        )
    return lines


def _advice(report: CostReport, width: int, colour: bool) -> list[str]:
    lines = wrapped(
        printable(report.recommendation), label="advice:", hang=len("advice: "), width=width
    )
    if colour and report.chosen:
        lines[0] = lines[0].replace(report.chosen, f"{GREEN}{report.chosen}{PLAIN}", 1)
    return lines
