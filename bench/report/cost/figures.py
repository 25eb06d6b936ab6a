"""Communication time of a step over the number of hosts, a curve per strategy.

In: a CostReport. Out: a plain dict in plotly's schema, drawn as the page of a run draws its own
(report/figures). Filled points were measured on that many hosts, hollow ones are inferred, and the
band around each curve says how far they may be wrong.
"""

from __future__ import annotations

from typing import Any

from bench.records import CostReport, Interval, ScalingPoint
from bench.report import figures, units

SHOWN = {"DDP": 0, "ZeRO-1": 1, "ZeRO-2": 2, "ZeRO-3": 3, "HYBRID_SHARD": 4}


def over_hosts(report: CostReport) -> dict[str, Any]:
    """Logarithmic both ways; empty data where there are fewer than two numbers of hosts."""
    traces: list[dict[str, Any]] = []
    for cost in report.strategies:
        points = [
            (point, took)
            for point in report.scaling
            if (took := point.communication_s.get(cost.strategy)) is not None and took.value > 0
        ]
        if len(points) > 1:
            at = SHOWN.get(cost.strategy, len(SHOWN))
            traces += [_band(cost.strategy, at, points), _curve(cost.strategy, at, points)]
    hosts = [point.hosts for point in report.scaling]
    values = [value for trace in traces for value in trace["y"]]
    layout = figures.axes(hosts, values, units.time)
    layout["xaxis"] |= {
        "ticktext": [str(each) for each in layout["xaxis"]["tickvals"]],
        "title": {"text": "hosts"},
        "unifiedhovertitle": {"text": "%{x:d} hosts"},
    }
    layout["margin"]["b"] = 44
    layout["legend"]["y"] = -0.22
    return {"data": traces, "layout": layout}


def _curve(name: str, at: int, points: list[tuple[ScalingPoint, Interval]]) -> dict[str, Any]:
    colour = figures.COLOURS[at % len(figures.COLOURS)]
    symbol = figures.SYMBOLS[at % len(figures.SYMBOLS)]
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": name,
        "legendgroup": name,
        "x": [point.hosts for point, _ in points],
        "y": [took.value for _, took in points],
        "text": [f"{units.time(took.value)} {units.spread(took)}" for _, took in points],
        "hovertemplate": "%{text}",
        "line": {"color": colour, "width": 2},
        "marker": {
            "color": colour,
            "symbol": [
                symbol + ("" if name in point.measured else "-open") for point, _ in points
            ],
            "size": 8,
        },
    }


def _band(name: str, at: int, points: list[tuple[ScalingPoint, Interval]]) -> dict[str, Any]:
    hosts = [point.hosts for point, _ in points]
    colour = figures.COLOURS[at % len(figures.COLOURS)]
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "legendgroup": name,
        "showlegend": False,
        "hoverinfo": "skip",
        "x": hosts + hosts[::-1],
        "y": [took.high for _, took in points] + [took.low for _, took in points][::-1],
        "fill": "toself",
        "fillcolor": f"rgba({red},{green},{blue},0.1)",
        "line": {"width": 0, "color": colour},
    }
