"""Nights as plotly figures: the change of time of each collective, with its change points.

In: NightlySeries of one candidate and part. Out: plain dicts in plotly's schema, foreign names
escaped, colours and symbols as in the curves of a run.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

from bench.judge.history.words import signed
from bench.records import NightlySeries
from bench.report.figures import COLOURS, NEUTRAL, SYMBOLS
from bench.report.history import sparks
from bench.report.text import printable

TICKS = 6  # labels of nights before they touch at 400 px
LEAST_REACH = 5.0  # per cent on either side: less makes a mountain of noise


def nights(series: Sequence[NightlySeries]) -> dict[str, Any]:
    """One figure: a trace for each collective; holes are gaps, change points are larger."""
    traces = [_trace(at, one) for at, one in enumerate(series)]
    values = [value for trace in traces for value in trace["y"] if value is not None]
    reach = max([LEAST_REACH, *(abs(value) * 1.1 for value in values)])
    low = -reach if min(values, default=0.0) < -LEAST_REACH else -LEAST_REACH
    runs = series[0].runs
    step = max(1, -(-len(runs) // TICKS))
    shown = list(range(len(runs)))[::-1][::step][::-1]
    return {
        "data": traces,
        "layout": {
            "autosize": True,
            "margin": {"l": 62, "r": 10, "t": 10, "b": 30},
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "hovermode": "x unified",
            "legend": {"orientation": "h", "x": 0, "y": -0.16, "yanchor": "top"},
            "xaxis": {
                "ticks": "outside",
                "tickmode": "array",
                "tickvals": shown,
                "ticktext": [_name(sparks.day(runs[at]))[-5:] for at in shown],
                "zeroline": False,
            },
            "yaxis": {"ticksuffix": " %", "range": [low, reach], "zeroline": True,
                      "zerolinecolor": NEUTRAL, "ticks": "outside"},
        },
    }  # fmt: skip


def _trace(at: int, one: NightlySeries) -> dict[str, Any]:
    changed = {change.run for change in one.changes}
    colour = COLOURS[at % len(COLOURS)]
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": _name(one.collective),
        "x": list(range(len(one.runs))),
        "y": [None if value is None else round(100 * value, 3) for value in one.values],
        "text": [
            f"{_name(run)}: {signed(value)}"
            for run, value in zip(one.runs, one.values, strict=True)
        ],
        "hovertemplate": "%{text}",
        "connectgaps": False,
        "line": {"color": colour, "width": 1.6},
        "marker": {
            "color": colour,
            "symbol": SYMBOLS[at % len(SYMBOLS)],
            "size": [13 if run in changed else 5 for run in one.runs],
        },
    }


def _name(text: str) -> str:
    return html.escape(printable(text))
