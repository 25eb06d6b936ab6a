"""A comparison as markdown, for a pull request or a ticket.

In: a Comparison. Out: a heading with the verdict, what changed, one table, and below it what a
reader must know before believing it. Foreign names are shown as they are and never as markup.
"""

from __future__ import annotations

from tabulate import tabulate

from bench.records import Comparison, Finding
from bench.report import digest
from bench.report.comparison.rows import blocks
from bench.report.comparison.screen import (
    beyond_head,
    changed_words,
    is_told,
    other_words,
    sessions_words,
    verdict_words,
)
from bench.report.exports import escaped

ROWS_SHOWN = 200


def render(comparison: Comparison) -> str:
    """GitHub's flavour; ends with a newline."""
    parts = [f"## {escaped(' · '.join(verdict_words(comparison)))}"]
    lines = [f"**changed** {escaped(' · '.join(changed_words(comparison)))}"]
    others = other_words(comparison)
    if others:
        lines.append(f"**also** {escaped(' · '.join(others))}")
    lines.append(f"**sessions** {escaped(' · '.join(sessions_words(comparison)))}")
    if comparison.weaker:
        lines.append(f"**weaker** {escaped(comparison.weaker)}")
    lines += [f"**beware** {escaped(doubt)}" for doubt in comparison.confounders]
    parts.append("  \n".join(lines))
    if comparison.lines:
        parts.append(_table(comparison))
    told = [beyond_head(f, comparison) for f in comparison.findings if is_told(f)]
    parts += [_finding(finding) for finding in told]
    if comparison.notes:
        parts.append("\n".join(f"- {escaped(note)}" for note in comparison.notes))
    parts.append("Small sizes: change of time. Large: of bus bandwidth. Intervals of 95 %.")
    return "\n\n".join(parts) + "\n"


def _table(comparison: Comparison) -> str:
    head = ["", "before", "after", "change", "verdict"]
    rows: list[list[str]] = []
    remarks: list[str] = []
    for block in blocks(comparison):
        rows.append([f"**{escaped(block.name)}**", "", "", "", ""])
        for row in block.rows:
            verdict = f"**{row.verdict}**" if row.verdict == "regressed" else row.verdict
            rows.append([escaped(row.name), row.before, row.after, row.change, verdict])
        remarks += [f"- {escaped(block.name)}: {escaped(remark)}" for remark in block.remarks]
    more = len(rows) - ROWS_SHOWN
    if more > 0:
        rows = [*rows[:ROWS_SHOWN], [f"{more} more rows in --json", "", "", "", ""]]
    align = ["left", "right", "right", "left", "left"]
    table = tabulate(rows, headers=head, tablefmt="github", disable_numparse=True, colalign=align)
    return "\n".join([table, *(["", *remarks] if remarks else [])])


def _finding(finding: Finding) -> str:
    head = f"**{escaped(digest.title(finding))}** ({digest.severity_word(finding)})"
    lines = [f"{head} {escaped(finding.summary)}"]
    if finding.evidence:
        lines += ["", *(f"- *{proof.basis}*: {escaped(proof.text)}" for proof in finding.evidence)]
    if finding.remedy:
        lines += ["", f"Fix: {escaped(finding.remedy)}"]
    return "\n".join(lines)
