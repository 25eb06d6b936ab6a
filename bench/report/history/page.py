"""The page of a history: what holds tonight, the curves of the nights, change points, hosts.

In: the Nightly of the last night, with all nights in its series. Out: one HTML file that loads
nothing and escapes everything, with the style and the scripts of a run's page.
"""

from __future__ import annotations

from typing import Any

from bench.judge.history.words import SIZES, ends, signed
from bench.records import Nightly, NightlySeries
from bench.report import template
from bench.report.history import figures as history_figures
from bench.report.history import sparks
from bench.report.history.nightly_rows import state, value
from bench.report.history.nightly_screen import baseline_words, history_words
from bench.report.history.screen import change_rows

CANDIDATES_SHOWN = 12  # more make a page that no one scrolls


def render(told: Nightly) -> str:
    """About 2 MB with curves: plotly.js travels inside."""
    groups: dict[tuple[str, str], list[NightlySeries]] = {}
    for one in told.series:
        groups.setdefault((one.candidate, one.part), []).append(one)
    names = list(dict.fromkeys(name for name, _ in groups))[:CANDIDATES_SHOWN]
    drawn: dict[str, Any] = {}
    plots = []
    for name in names:
        for part in ("large", "small"):
            own = groups.get((name, part), [])
            if any(value is not None for one in own for value in one.values):
                key = f"nights-{len(drawn)}"
                drawn[key] = history_figures.nights(own)
                plots.append((key, name, SIZES[part]))
    return template.named("history/page.html").render(
        told=told,
        history=history_words(told),
        baseline=baseline_words(told),
        plots=plots,
        hidden=max(len({name for name, _ in groups}) - CANDIDATES_SHOWN, 0),
        changes=sorted(change_rows(told), key=lambda row: row[2]),
        figures=drawn,
        plotly=template.packed_plotly() if drawn else "",
        sizes=SIZES,
        signed=signed,
        ends=ends,
        state=state,
        value=value,
        day=sparks.day,
    )
