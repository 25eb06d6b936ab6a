"""Curves as plotly figures: busbw over size and time over size, candidates laid over each other.

In: a Report. Out: plain dicts in plotly's schema, without a colour for ink or paper (the page's
style sheet has those, so that light, dark and print need no second drawing). Plotly reads names as
a kind of HTML: every foreign string is escaped here.
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Sequence
from typing import Any

from bench.records import CostLine, Point, Report
from bench.report import units
from bench.report.text import printable

# Told apart on white and on near-black, also by most colour-blind people; shapes repeat the
# difference for those who see none.
COLOURS = ("#2f81d6", "#d9730d", "#1f9d74", "#a55ac0", "#d0455b", "#8a8f1e", "#3aa6b9", "#8b8f98")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x", "star", "hexagon", "cross")
DEFAULT = "(default)"  # the name that the plan gives to the case with nothing set
NEUTRAL = "#8b8f98"
BAND = 0.2  # opacity of interval bands
FITTED_POINTS = 25  # per piece: a line is straight on linear axes, curved on these
TICKS = 8  # labels along an axis before they touch at 400 px


def busbw(report: Report, collective: str) -> dict[str, Any]:
    """Busbw (1e9 bytes/s) over size: interval bands, expectation dashed, piece breaks ticked."""
    traces: list[dict[str, Any]] = []
    lines = _lines(report, collective)
    for at, line in lines:
        points = _points(line)
        low = [point.busbw_gbs * point.time_s / point.high_s for point in points]
        high = [point.busbw_gbs * point.time_s / point.low_s for point in points]
        traces += [
            _band(line, at, points, low, high),
            _curve(line, at, points, [p.busbw_gbs for p in points], "lines+markers", _busbw_text),
        ]
        breaks = [piece.from_bytes for piece in line.pieces[1:]]
        traces += _breaks(line, at, breaks, [_fitted_busbw(line, size) for size in breaks])
    sizes = [point.size_bytes for _, line in lines for point in line.points]
    traces += _expectations([line for _, line in lines], sizes)
    values = [value for trace in traces for value in trace["y"]]
    return {"data": traces, "layout": axes(sizes, values, units.busbw)}


def times(report: Report, collective: str) -> dict[str, Any]:
    """Time (s) over size: measured points, and the fitted pieces as lines through them."""
    traces: list[dict[str, Any]] = []
    lines = _lines(report, collective)
    for at, line in lines:
        points = _points(line)
        curve = _curve(line, at, points, [point.time_s for point in points], "markers", _time_text)
        curve["error_y"] = {
            "type": "data",
            "symmetric": False,
            "array": [point.high_s - point.time_s for point in points],
            "arrayminus": [point.time_s - point.low_s for point in points],
            "thickness": 1.2,
            "width": 3,
        }
        traces.append(curve)
        for piece in line.pieces:
            sizes_bytes = _spread(piece.from_bytes, piece.to_bytes)
            fitted = [piece.latency_s + s / piece.bandwidth_bytes_per_s for s in sizes_bytes]
            traces.append(_quiet(line, at, sizes_bytes, fitted, mode="lines"))
        breaks = [piece.from_bytes for piece in line.pieces[1:]]
        traces += _breaks(line, at, breaks, [_fitted_s(line, size) for size in breaks])
    sizes = [point.size_bytes for _, line in lines for point in line.points]
    values = [value for trace in traces for value in trace["y"]]
    return {"data": traces, "layout": axes(sizes, values, units.time)}


def _lines(report: Report, collective: str) -> list[tuple[int, CostLine]]:
    """Lines to draw, each with its candidate's number: the same colour in every figure."""
    order = {candidate.name: at for at, candidate in enumerate(report.candidates)}
    return [
        (order.setdefault(line.candidate, len(order)), line)
        for line in report.lines
        if line.collective == collective and _points(line)
    ]


def _points(line: CostLine) -> list[Point]:
    """Points that logarithmic axes can show, by size."""
    shown = (p for p in line.points if min(p.size_bytes, p.low_s, p.time_s, p.busbw_gbs) > 0)
    return sorted(shown, key=lambda point: point.size_bytes)


def _name(line: CostLine) -> str:
    return html.escape(printable(line.candidate))


def _busbw_text(point: Point) -> str:
    return f"{units.busbw(point.busbw_gbs)} {_spread_words(point)}"


def _time_text(point: Point) -> str:
    return f"{units.time(point.time_s)} {_spread_words(point)}"


def _spread_words(point: Point) -> str:
    side = max(point.high_s - point.time_s, point.time_s - point.low_s) / point.time_s
    held_out = ", held out" if point.group == "held-out" else ""
    return f"±{100 * side:.1f} %{', noisy' if point.noisy else ''}{held_out}"


def _curve(
    line: CostLine,
    at: int,
    points: Sequence[Point],
    values: list[float],
    mode: str,
    words: Callable[[Point], str],
) -> dict[str, Any]:
    symbol = SYMBOLS[at % len(SYMBOLS)]
    # Hollow: this size took no part in the fit.
    symbols = [symbol + ("-open" if point.group == "held-out" else "") for point in points]
    return {
        "type": "scatter",
        "mode": mode,
        "name": _name(line),
        "legendgroup": str(at),
        "x": [point.size_bytes for point in points],
        "y": values,
        "text": [words(point) for point in points],
        "hovertemplate": "%{text}",
        "line": _stroke(line, at),
        "marker": {"color": COLOURS[at % len(COLOURS)], "symbol": symbols, "size": 7},
    }


def _stroke(line: CostLine, at: int) -> dict[str, Any]:
    """Dotted for the case with nothing set: it often lies upon one of the others."""
    dash = "dot" if line.candidate == DEFAULT else "solid"
    return {"color": COLOURS[at % len(COLOURS)], "width": 2, "dash": dash}


def _quiet(
    line: CostLine, at: int, sizes: Sequence[float], values: Sequence[float], **how: Any
) -> dict[str, Any]:
    """A trace that goes with its candidate's in the legend and says nothing under the pointer."""
    return {
        "type": "scatter",
        "name": _name(line),
        "legendgroup": str(at),
        "showlegend": False,
        "hoverinfo": "skip",
        "x": list(sizes),
        "y": list(values),
        "line": _stroke(line, at),
        **how,
    }


def _band(
    line: CostLine, at: int, points: Sequence[Point], low: list[float], high: list[float]
) -> dict[str, Any]:
    sizes = [point.size_bytes for point in points]
    band = _quiet(line, at, sizes + sizes[::-1], high + low[::-1], mode="lines", fill="toself")
    red, green, blue = (int(COLOURS[at % len(COLOURS)][i : i + 2], 16) for i in (1, 3, 5))
    return {**band, "fillcolor": f"rgba({red},{green},{blue},{BAND})", "line": {"width": 0}}


def _breaks(
    line: CostLine, at: int, sizes: Sequence[int], values: Sequence[float]
) -> list[dict[str, Any]]:
    """Ticks across the curve where the fit passes from one piece to the next."""
    if not sizes:
        return []
    marker = {
        "symbol": "line-ns",
        "size": 16,
        "line": {"color": COLOURS[at % len(COLOURS)], "width": 2},
    }
    return [_quiet(line, at, sizes, values, mode="markers", marker=marker)]


def _expectations(lines: Sequence[CostLine], sizes: Sequence[int]) -> list[dict[str, Any]]:
    """One dashed line per distinct expectation, and the word that says who expects it."""
    distinct = {
        (line.expected_busbw_gbs, line.expected_basis or "expected")
        for line in lines
        if line.expected_busbw_gbs
    }
    return [
        {
            "type": "scatter",
            "mode": "lines",
            "name": f"{basis} {units.busbw(value)}",
            "hoverinfo": "skip",
            "x": [min(sizes), max(sizes)],
            "y": [value, value],
            "line": {"color": NEUTRAL, "width": 1.6, "dash": "dash"},
        }
        for value, basis in sorted(distinct)
    ]


def _fitted_s(line: CostLine, size_bytes: float) -> float:
    for piece in reversed(line.pieces):
        if size_bytes >= piece.from_bytes:
            return piece.latency_s + size_bytes / piece.bandwidth_bytes_per_s
    return math.nan


def _fitted_busbw(line: CostLine, size_bytes: float) -> float:
    factor = next((p.busbw_gbs / p.algbw_gbs for p in line.points if p.algbw_gbs), math.nan)
    return size_bytes / _fitted_s(line, size_bytes) / 1e9 * factor


def _spread(low: float, high: float) -> list[float]:
    step = math.log(high / low) / (FITTED_POINTS - 1) if high > low > 0 else 0.0
    return [low * math.exp(step * at) for at in range(FITTED_POINTS if step else 1)]


def axes(
    sizes: Sequence[int], values: Sequence[float], words: Callable[[float | None], str]
) -> dict[str, Any]:
    """The layout of two logarithmic axes: `sizes` across, `values` up in `words`."""
    grid = sorted({size for size in sizes if size & (size - 1) == 0} or set(sizes))
    step = math.ceil(len(grid) / TICKS) if grid else 1
    across = grid[::-1][::step][::-1]
    up = _log_ticks([value for value in values if math.isfinite(value) and value > 0])
    axis = {"type": "log", "ticks": "outside", "tickmode": "array", "zeroline": False}
    return {
        "autosize": True,
        "margin": {"l": 78, "r": 10, "t": 10, "b": 30},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "hovermode": "x unified",
        "legend": {"orientation": "h", "x": 0, "y": -0.16, "yanchor": "top"},
        "xaxis": {
            **axis,
            "tickvals": across,
            "ticktext": [units.size(size) for size in across],
            "tickangle": 0,
            "spikecolor": NEUTRAL,
            "spikethickness": 1,
            "spikedash": "solid",
            "unifiedhovertitle": {"text": "%{x:,d} bytes"},
        },
        "yaxis": {**axis, "tickvals": up, "ticktext": [_round(words(value)) for value in up]},
    }


def _round(words: str) -> str:
    """A tick's label without the zeros that tell precision: `0.05 GB/s`, not `0.0500 GB/s`."""
    number, _, unit = words.partition(" ")
    return f"{number.rstrip('0').rstrip('.') if '.' in number else number} {unit}"


def _log_ticks(values: Sequence[float]) -> list[float]:
    """1, 2 and 5 of every decade that the values touch; only 1 where that makes too many, and more
    where all values lie between two of them."""
    if not values:
        return []
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))

    def near(*digits: float) -> list[float]:
        ticks = [float(f"{digit}e{decade}") for decade in range(low, high + 1) for digit in digits]
        return [tick for tick in ticks if min(values) / 1.5 <= tick <= max(values) * 1.5]

    usual = near(1, 2, 5)
    if len(usual) > TICKS:
        return near(1)
    return usual if len(usual) > 2 else near(1, 1.5, 2, 3, 4, 5, 6, 8)
