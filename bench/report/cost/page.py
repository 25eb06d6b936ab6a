"""The page of a cost: advice, the table, the chart over hosts, worse networks, each collective.

In: a CostReport. Out: one HTML file that loads nothing and escapes everything, with the style and
the scripts of a run's page (report/page).
"""

from __future__ import annotations

from typing import Any

from bench.records import CostReport
from bench.report import template
from bench.report.cost import figures as cost_figures
from bench.report.cost import rows as cost_rows


def render(report: CostReport) -> str:
    """About 2 MB with the chart: plotly.js travels inside."""
    drawn: dict[str, Any] = {}
    figure = cost_figures.over_hosts(report)
    if figure["data"]:
        drawn["hosts"] = figure
    return template.named("cost/page.html").render(
        report=report,
        rows=list(zip(report.strategies, cost_rows.rows(report), strict=True)),
        columns=cost_rows.columns(report),
        model=cost_rows.model_words(report),
        job=cost_rows.job_words(report),
        cost_rows=cost_rows,
        figures=drawn,
        plotly=template.packed_plotly() if drawn else "",
    )
