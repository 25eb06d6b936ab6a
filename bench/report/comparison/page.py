"""The page of a comparison: verdict, what changed, both curves, the change of every size, tables.

In: a Comparison. Out: one HTML file that loads nothing and escapes everything, with the style and
the scripts of a run's page (report/page). Lines on which nothing moved are folded away.
"""

from __future__ import annotations

from typing import Any

from bench.judge.sides import words
from bench.records import Comparison
from bench.report import template
from bench.report.comparison import figures as comparison_figures
from bench.report.comparison.rows import Block, blocks, name_of
from bench.report.comparison.screen import (
    beyond_head,
    changed_words,
    is_told,
    other_words,
    sessions_words,
    verdict_words,
)

LINES_SHOWN = 60  # more make a page that no one scrolls
SHADES = {"regressed": "degraded", "improved": "healthy", "equivalent": "healthy"}


def render(comparison: Comparison) -> str:
    """About 2 MB with curves: plotly.js travels inside."""
    ordered = blocks(comparison)
    names = {name_of(line, comparison): line for line in comparison.lines}
    drawn: dict[str, Any] = {}
    for at, block in enumerate(ordered[:LINES_SHOWN]):
        line = names[block.name]
        if len(line.cells) > 1:
            drawn[f"busbw-{at}"] = comparison_figures.curves(line)
            drawn[f"change-{at}"] = comparison_figures.changes(line)
    return template.named("comparison/page.html").render(
        comparison=comparison,
        lines=[(at, block, names[block.name]) for at, block in enumerate(ordered[:LINES_SHOWN])],
        hidden=max(len(ordered) - LINES_SHOWN, 0),
        findings=[beyond_head(f, comparison) for f in comparison.findings if is_told(f)],
        verdict=verdict_words(comparison),
        shade=SHADES.get(comparison.verdict, "inconclusive"),
        changed=changed_words(comparison),
        also=other_words(comparison),
        sessions=sessions_words(comparison),
        figures=drawn,
        plotly=template.packed_plotly() if drawn else "",
        is_open=_is_open,
        size=words.size,
    )


def _is_open(block: Block, at: int) -> bool:
    """What moved is unfolded, and the first line, so that a page of nothing shows something."""
    return block.moved or at == 0
