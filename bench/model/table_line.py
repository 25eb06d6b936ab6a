"""A foreign table as cost lines, and how well a line foretells a size it has not seen.

In: a CollectiveTable. Out: one CostLine a half, fitted as a sweep's own are (bench.model
.costline). Rows of size 0 are no message, one-offs weigh as little as they are far off, and holes
are left out: 70 ms rows would bend the line through all others. A single rank has no line.
"""

from __future__ import annotations

import math

import msgspec
import numpy as np

from bench.model import costline
from bench.model.pieces import LAST_POINTS, split_without
from bench.model.prediction import predict
from bench.model.stretches import JUMP, Stretch, stretches
from bench.model.table_series import HALVES, Half, Series, better, bytes_share, series
from bench.records import CollectiveTable, CostLine, Point

# Left out and foretold, half of the sizes of a public table lie within this (issue: <= 5 %).
LINE_ERROR = 0.05
# Above it nothing is quoted of the line: a bandwidth that misses sizes by a quarter is none.
NO_LINE = 0.25
# Sizes of a line: a fit costs their cube. Of a table with more (steps of so many bytes) that many
# rows are taken, evenly spread.
MOST_SIZES = 64
MOST_LEFT_OUT = 32  # likewise, for trying


def lines(table: CollectiveTable, *, tried: bool = True) -> tuple[CostLine, ...]:
    """The lines of the halves that carry one (4 sizes or more), with notes on what they are.

    `held_out_error` is the leave-one-size-out error: see `left_out_errors`; None without `tried`.
    Nothing for a single rank, or where neither ranks nor rows say what crosses a link.
    """
    share = bytes_share(table)
    if share is None or not share > 0:
        return ()
    holes = left_out(table)
    return tuple(
        line
        for half in HALVES
        for line in [_line(table, half, holes, share, tried)]
        if line is not None
    )


def left_out(table: CollectiveTable) -> tuple[Stretch, ...]:
    """Holes of the better half: sizes that lie on no line (indices of `better`)."""
    best = better(table)
    scatter = float(best.half_widths[0]) if len(best) else 0.0
    found = stretches(best.sizes, best.times, scatter)
    return tuple(one for one in found if one.kind == "hole" and one.factor >= JUMP)


def _line(
    table: CollectiveTable, half: Half, holes: tuple[Stretch, ...], share: float, tried: bool
) -> CostLine | None:
    one = series(table, half)
    if len(one) < LAST_POINTS:
        return None
    points = _points(table, one, holes, share)
    line = costline.fit(
        f"{table.file}:{table.line} {half}",
        table.collective or "unknown",
        table.ranks or 0,
        points,
        share=share,
    )
    if not line.pieces:
        return line
    errors = left_out_errors(points) if tried else []
    error = float(np.median(errors)) if errors else None
    notes = [note for note in line.notes if "sessions" not in note]
    notes.append("one run: its rows are means, and how runs differ does not show")
    notes += [_hole_note(table, hole) for hole in holes]
    if error is not None and error > LINE_ERROR:
        notes.append(
            f"not a line: a size left out is foretold {error:.0%} off (median), so between sizes "
            "only the rows themselves can be believed"
        )
    if error is not None and error > NO_LINE:
        line = msgspec.structs.replace(line, bandwidth_bytes_per_s=None, busbw_gbs=None)
    return msgspec.structs.replace(line, held_out_error=error, notes=tuple(notes))


def _hole_note(table: CollectiveTable, hole: Stretch) -> str:
    sizes = better(table).sizes
    return f"left out of the line: {sizes[hole.first]:.0f} to {sizes[hole.last]:.0f} bytes"


def _points(
    table: CollectiveTable, one: Series, holes: tuple[Stretch, ...], share: float
) -> tuple[Point, ...]:
    best = better(table).sizes
    taken = np.arange(len(one))
    if taken.size > MOST_SIZES:
        taken = np.unique(np.linspace(0, taken.size - 1, MOST_SIZES).round().astype(int))
    iterations = table.settings.get("iters", "")
    off = [(best[hole.first], best[hole.last]) for hole in holes]
    made = []
    columns = (one.sizes[taken], one.times[taken], one.half_widths[taken])
    for size, time, width in zip(*columns, strict=True):
        algbw = size / time / 1e9
        made.append(
            Point(
                size_bytes=int(size),
                time_s=float(time),
                low_s=float(time * math.exp(-width)),
                high_s=float(time * math.exp(width)),
                iterations=int(iterations) if iterations.isdecimal() else 0,
                sessions=1,
                algbw_gbs=float(algbw),
                busbw_gbs=float(algbw * share),
                group="held-out" if any(a <= size <= b for a, b in off) else "fit",
            )
        )
    return tuple(made)


def left_out_errors(points: tuple[Point, ...]) -> list[float]:
    """|predicted / measured - 1| at each inner size, foretold by a line that never saw it.

    Each size but the first and last is left out in turn, the whole line (breaks too) is fitted to
    the others and asked for it. Ends are not: beyond the last size there is nothing to hold a
    line to. Sizes that lie in a hole are neither fitted nor foretold.
    """
    fitted = [point for point in points if point.group == "fit" and point.size_bytes > 0]
    if len(fitted) < LAST_POINTS + 1:
        return []
    sizes = np.array([point.size_bytes for point in fitted], dtype=float)
    times = np.array([point.time_s for point in fitted])
    widths = np.array([math.log(point.high_s / point.low_s) / 2 for point in fitted])
    weights = costline.point_weights(widths)
    inner = np.arange(1, len(fitted) - 1)
    if inner.size > MOST_LEFT_OUT:
        inner = np.unique(np.linspace(1, len(fitted) - 2, MOST_LEFT_OUT).round().astype(int))
    errors = []
    left = split_without(sizes, times, weights, inner.tolist())
    for at, (breaks, parameters) in zip(inner, left, strict=True):
        bare = CostLine(
            candidate="",
            collective="",
            ranks=0,
            pieces=costline.as_pieces(np.delete(sizes, at), breaks, parameters),
        )
        foretold = predict(bare, sizes[at])
        errors.append(abs(foretold / times[at] - 1))
    return errors
