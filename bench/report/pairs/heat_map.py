"""Host × host heat maps as plotly figures: how much longer each pair took than a good one.

In: a Location. Out: plain dicts in plotly's schema, as in `figures`. Up to 64 hosts every pair is
a cell; beyond, blocks of hosts, each as slow as its slowest pair, which the judge has counted.
"""

from __future__ import annotations

import html
import math
import statistics
from collections.abc import Sequence
from typing import Any

from bench.judge.pairs.grid import CELLS, block_hosts
from bench.judge.pairs.values import typical
from bench.records import Location, PairFigure
from bench.report.figures import NEUTRAL
from bench.report.text import printable

TICKS = 12  # names along an edge before they touch
NAME_CHARACTERS = 14
ROWS, MOST_PARTNERS = 12, 40
# Told apart on white and on near-black, by lightness as well as by hue.
SCALE = [[0.0, "#3d6f9e"], [0.35, "#7fa36b"], [0.65, "#e0a030"], [1.0, "#c8324b"]]
LEAST_TOP = 1.25  # the scale's upper end; noise of 2 % must not look like a fire
MOST_TOP = 4.0  # and one pair at a hundredth of the rate must not hide all others


def figure(location: Location) -> dict[str, Any] | None:
    """None where nothing was measured, or too little for a map."""
    if location.reference_s is None or len(location.hosts) < 3:
        return None
    if len(location.hosts) <= CELLS:
        return _drawn(pairs(location), list(location.hosts))
    if not location.grid:
        return None
    size = block_hosts(len(location.hosts))
    names = [
        _block_name(location.hosts[at : at + size]) for at in range(0, len(location.hosts), size)
    ]
    return _drawn([list(row) for row in location.grid], names)


def suspects_rows(location: Location) -> dict[str, Any] | None:
    """Of many hosts, the pairs of each suspected one, in the order of time: all of them are slow,
    or there would be no suspect. None for few hosts, whose map shows it."""
    named = [s.host for s in location.suspects if s.host and s.quantity == "bandwidth"]
    hosts = list(dict.fromkeys(named))[:ROWS]
    if location.reference_s is None or len(location.hosts) <= CELLS or not hosts:
        return None
    rows: dict[str, list[tuple[float, str]]] = {host: [] for host in hosts}
    for measured in location.figures:
        for host, other in (measured.hosts, measured.hosts[::-1]):
            if host in rows and measured.times:
                rows[host].append((round(_seconds(measured) / location.reference_s, 3), other))
    width = min(MOST_PARTNERS, max(map(len, rows.values())))
    cells = [[r for r, _ in row[:width]] + [None] * (width - len(row)) for row in rows.values()]
    drawn = _drawn(cells, hosts)
    partners = [[other for _, other in row[:width]] for row in rows.values()]
    drawn["data"][0]["customdata"] = [
        [[html.escape(printable(host)), html.escape(printable(other))] for other in row]
        + [["", ""]] * (width - len(row))
        for host, row in zip(hosts, partners, strict=True)
    ]
    drawn["layout"]["xaxis"] = {
        "title": {"text": "its pairs, in order of time"},
        "showticklabels": False, "showgrid": False, "zeroline": False,
    }  # fmt: skip
    del drawn["layout"]["yaxis"]["scaleanchor"]
    return drawn


def pairs(location: Location) -> list[list[float | None]]:
    """Times of a good pair that each pair took, the median of its measurements (the slower way);
    of several rails the slowest one."""
    assert location.reference_s is not None, "nothing to compare with"
    index = {host: at for at, host in enumerate(location.hosts)}
    seen: dict[tuple[int, int], dict[int | None, list[float]]] = {}
    for measured in location.figures:
        if (
            measured.outcome == "ok"
            and measured.times
            and measured.other_rail in (None, measured.rail)
        ):
            a, b = sorted(index[host] for host in measured.hosts)
            ratio = _seconds(measured) / location.reference_s
            seen.setdefault((a, b), {}).setdefault(measured.rail, []).append(ratio)
    cells: list[list[float | None]] = [[None] * len(index) for _ in index]
    for (a, b), rails in seen.items():
        worst = max(statistics.median(values) for values in rails.values())
        cells[a][b] = cells[b][a] = round(worst, 3) if math.isfinite(worst) else None
    return cells


def whole(drawn: dict[str, Any] | None) -> bool:
    """Whether a map lacks nothing but what a host is to itself."""
    cells = drawn["data"][0]["z"] if drawn else []
    return all(
        cell is not None or row == column
        for row, line in enumerate(cells)
        for column, cell in enumerate(line)
    )


def _seconds(measured: PairFigure) -> float:
    return max(
        typical(time.forward_s for time in measured.times),
        typical(time.backward_s for time in measured.times),
    )


def _block_name(hosts: Sequence[str]) -> str:
    return hosts[0] if len(hosts) == 1 else f"{hosts[0]} … {hosts[-1]}"


def _drawn(cells: Sequence[Sequence[float | None]], names: Sequence[str]) -> dict[str, Any]:
    values = [value for row in cells for value in row if value is not None]
    top = min(MOST_TOP, max([LEAST_TOP, *values]))
    # Two hosts may be called alike: cells are placed by number, names are only shown.
    shown = [html.escape(printable(name)) for name in names]
    step = math.ceil(len(names) / TICKS)
    ticks = list(range(0, len(names), step))
    axis = {
        "tickmode": "array",
        "tickvals": ticks,
        "ticktext": [_short(names[at]) for at in ticks],
        "showgrid": False,
        "zeroline": False,
        "constrain": "domain",
    }
    trace = {
        "type": "heatmap",
        "z": cells,
        "customdata": [[[a, b] for b in shown] for a in shown],
        "zmin": 1.0,
        "zmax": round(top, 2),
        "colorscale": SCALE,
        "hoverongaps": False,
        "hovertemplate": "%{customdata[0]} with %{customdata[1]}: %{z:.2f} times a good pair"
        "<extra></extra>",
        "xgap": 1 if len(names) <= 32 else 0,
        "ygap": 1 if len(names) <= 32 else 0,
        "colorbar": {
            "title": {"text": "times a good pair", "side": "right"},
            "thickness": 12,
            "outlinewidth": 0,
        },
    }
    layout = {
        "autosize": True,
        "margin": {"l": 90, "r": 10, "t": 10, "b": 70},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "xaxis": {**axis, "tickangle": -45, "linecolor": NEUTRAL},
        "yaxis": {**axis, "autorange": "reversed", "scaleanchor": "x", "linecolor": NEUTRAL},
    }
    return {"data": [trace], "layout": layout}


def _short(name: str) -> str:
    """An end of the name: that is where hosts differ."""
    text = printable(name)
    text = text if len(text) <= NAME_CHARACTERS else f"…{text[1 - NAME_CHARACTERS :]}"
    return html.escape(text)
