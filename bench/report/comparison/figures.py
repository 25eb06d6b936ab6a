"""Both sides of a comparison as curves, and the change of every size with its interval.

In: a ComparedLine. Out: plain dicts in plotly's schema, drawn as the page of a run draws its own
(report/figures): before and after laid over each other, and below them how much longer each size
takes, sizes that moved filled, the others hollow.
"""

from __future__ import annotations

import math
from typing import Any

from bench.judge.sides import words
from bench.records import Candidate, ComparedCell, ComparedLine, CostLine, Point, Report
from bench.report import figures, units

MARGIN = 0.03  # within it lies what is called equal
BEFORE, AFTER = "before", "after"
TICK_APART = 0.16  # of the axis: so wide is "512 KiB" on 400 pixels


def curves(line: ComparedLine) -> dict[str, Any]:
    """Busbw over size, or time where the share of bytes is not known."""
    report = Report(
        run="",
        verdict="inconclusive",
        candidates=tuple(Candidate(name=name, kind="network") for name in (BEFORE, AFTER)),
        lines=(_side(line, BEFORE), _side(line, AFTER)),
    )
    shown = all(cell.before_busbw_gbs for cell in line.cells)
    figure = (figures.busbw if shown else figures.times)(report, line.collective)
    figure["layout"]["xaxis"] |= _ticks(line)
    return figure


def _ticks(line: ComparedLine) -> dict[str, Any]:
    """Sizes as the table calls them, powers of two where there are any."""
    sizes = [cell.size_bytes for cell in line.cells if cell.size_bytes > 0]
    grid = [size for size in sizes if size & (size - 1) == 0] or sizes
    apart = TICK_APART * math.log(grid[-1] / grid[0]) if len(grid) > 1 else 0.0
    across: list[int] = []
    for size in reversed(grid):  # the largest first: where the plateau is
        if not across or math.log(across[0] / size) >= apart:
            across.insert(0, size)
    return {"tickvals": across, "ticktext": [words.size(size) for size in across]}


def _side(line: ComparedLine, which: str) -> CostLine:
    points = []
    for cell in line.cells:
        time_s = cell.before_s if which == BEFORE else cell.after_s
        busbw = cell.before_busbw_gbs if which == BEFORE else cell.after_busbw_gbs
        points.append(
            Point(
                size_bytes=cell.size_bytes,
                time_s=time_s,
                low_s=time_s,
                high_s=time_s,
                iterations=0,
                sessions=line.before_sessions if which == BEFORE else line.after_sessions,
                algbw_gbs=cell.size_bytes / time_s / 1e9,
                busbw_gbs=busbw or cell.size_bytes / time_s / 1e9,
            )
        )
    return CostLine(
        candidate=which, collective=line.collective, ranks=line.ranks or 0, points=tuple(points)
    )


def changes(line: ComparedLine) -> dict[str, Any]:
    """Change of time in per cent over size; the band of ±3 % is what is called equal."""
    cells = [cell for cell in line.cells if cell.size_bytes > 0]
    sizes = [cell.size_bytes for cell in cells]
    values = [100 * cell.change.value for cell in cells]
    trace: dict[str, Any] = {
        "type": "scatter",
        "mode": "markers+lines",
        "name": "change of time",
        "showlegend": False,
        "x": sizes,
        "y": values,
        "text": [_told(cell) for cell in cells],
        "hovertemplate": "%{text}",
        "line": {"color": figures.NEUTRAL, "width": 1, "dash": "dot"},
        "marker": {
            "color": [_colour(cell) for cell in cells],
            "symbol": ["circle" if cell.moved else "circle-open" for cell in cells],
            "size": 8,
        },
    }
    known = [(c.change.low, c.change.high) for c in cells]
    bars = [pair for pair in known if pair[0] is not None and pair[1] is not None]
    if len(bars) == len(cells):
        trace["error_y"] = {
            "type": "data",
            "symmetric": False,
            "array": [100 * (c.change.high or 0) - v for c, v in zip(cells, values, strict=True)],
            "arrayminus": [
                v - 100 * (c.change.low or 0) for c, v in zip(cells, values, strict=True)
            ],
            "thickness": 1.2,
            "width": 3,
            "color": figures.NEUTRAL,
        }
    layout = figures.busbw(Report(run="", verdict="inconclusive"), "")["layout"]
    layout["xaxis"] |= _ticks(line)
    layout["yaxis"] = {"type": "linear", "ticks": "outside", "ticksuffix": " %", "zeroline": True,
                       "zerolinecolor": figures.NEUTRAL, "rangemode": "tozero"}  # fmt: skip
    layout["shapes"] = [
        {
            "type": "rect", "xref": "paper", "x0": 0, "x1": 1, "yref": "y",
            "y0": -100 * MARGIN, "y1": 100 * MARGIN, "line": {"width": 0},
            "fillcolor": "rgba(139,143,152,0.15)", "layer": "below",
        }
    ]  # fmt: skip
    return {"data": [trace], "layout": layout}


def _colour(cell: ComparedCell) -> str:
    if not cell.moved:
        return figures.NEUTRAL
    return "#d0455b" if cell.change.value > 0 else "#1f9d74"


def _told(cell: ComparedCell) -> str:
    times = f"{units.time(cell.before_s)} before, {units.time(cell.after_s)} after"
    return f"{words.percent(cell.change.value)} ({times})"
