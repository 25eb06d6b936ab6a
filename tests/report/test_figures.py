"""Figures are valid plotly and show what the lines say."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import plotly.graph_objects as go
import pytest

from bench.report import figures


@pytest.mark.parametrize("name", ["healthy", "misselected", "hung", "thousand", "hostile"])
def test_plotly_accepts_every_figure(made: Any, name: str) -> None:
    for figure in (figures.busbw, figures.times):
        drawing = figure(getattr(made, name), "all_reduce")
        assert drawing["data"]
        go.Figure(drawing)  # raises on a property that plotly does not know
        json.dumps(drawing, allow_nan=False)


def test_candidates_lie_over_each_other_with_bands_ticks_and_expectation(made: Any) -> None:
    data = figures.busbw(made.misselected, "all_reduce")["data"]
    named = [trace["name"] for trace in data if trace.get("showlegend", True)]
    assert named == ["data", "mgmt", "(default)", "expected 0.0603 GB/s"]
    assert sum(trace.get("fill") == "toself" for trace in data) == 3
    breaks = [trace for trace in data if trace.get("marker", {}).get("symbol") == "line-ns"]
    assert [trace["x"] for trace in breaks] == [[65536]] * 3
    (expected,) = [trace for trace in data if trace["name"].startswith("expected")]
    assert expected["line"]["dash"] == "dash" and expected["y"] == [0.0603, 0.0603]


def test_the_fitted_line_goes_through_the_points_it_was_made_from(made: Any) -> None:
    data = figures.times(made.misselected, "all_reduce")["data"]
    points = next(trace for trace in data if trace["mode"] == "markers" and "text" in trace)
    pieces = [t for t in data if t["mode"] == "lines" and t["legendgroup"] == "0"]
    assert len(pieces) == 2
    assert pieces[-1]["y"][-1] == pytest.approx(points["y"][-1], rel=0.02)
    assert pieces[0]["y"][0] == pytest.approx(points["y"][0], rel=0.02)


def test_a_candidate_keeps_its_colour_when_another_is_missing(made: Any) -> None:
    def colour(report: Any) -> str:
        data = figures.busbw(report, "all_reduce")["data"]
        return next(t["line"]["color"] for t in data if t["name"] == "(default)" and "text" in t)

    assert colour(made.misselected) == colour(made.hung)


def test_points_that_logarithmic_axes_cannot_show_are_left_out(made: Any) -> None:
    line = made.healthy.lines[0]
    zero = msgspec.structs.replace(line.points[0], size_bytes=0, busbw_gbs=0.0)
    report = msgspec.structs.replace(
        made.healthy, lines=(msgspec.structs.replace(line, points=(zero, *line.points)),)
    )
    curve = figures.busbw(report, "all_reduce")["data"][1]
    assert min(curve["x"]) == 4096
    empty = msgspec.structs.replace(line, points=(zero,))
    nothing = msgspec.structs.replace(made.healthy, lines=(empty,))
    assert figures.busbw(nothing, "all_reduce")["data"] == []


def test_axis_labels_are_few_and_round(made: Any) -> None:
    layout = figures.busbw(made.misselected, "all_reduce")["layout"]
    assert layout["xaxis"]["ticktext"][-1] == "4 MiB"
    assert len(layout["xaxis"]["ticktext"]) <= figures.TICKS
    assert layout["yaxis"]["ticktext"] == [
        "0.005 GB/s",
        "0.01 GB/s",
        "0.02 GB/s",
        "0.05 GB/s",
    ]
