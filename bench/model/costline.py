"""Points into a cost line: latency, bandwidth and the pieces between, with their intervals.

In: the points of one candidate and collective, and each session's own medians. Out: a CostLine.
Quoted are only the first piece's latency and the last piece's bandwidth: what lies between is
shape, not physics. `pieces` does the fit, `spread` the intervals, `prediction` what follows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from bench.model.busbw import factor
from bench.model.pieces import LAST_POINTS, PIECE_POINTS, Breaks, Floats, fit_rows, split
from bench.model.prediction import held_out_error, predict, score
from bench.model.spread import FEW_SESSIONS, Spread
from bench.records import BadInput, CostLine, Interval, Piece, Point

__all__ = ["fit", "held_out_error", "predict", "score"]

WEIGHT_FLOOR = 0.01  # no point counts as known better than 1 %: the straight line is not either
NEIGHBOURS, STANDS_OUT = 5, 3.0
LATENCY_SHARE = 0.05  # of the largest size's time: above, the plateau has not been reached
BENT = 0.03  # of the bandwidth: a smaller bend is within what is promised of it
BYTES_SHARE = 0.5  # of the largest size's time: below, mostly latency was measured, no bandwidth

SessionMedians = Sequence[Mapping[int, float]]


def _checked(points: Sequence[Point]) -> list[Point]:
    ordered = sorted(points, key=lambda point: (point.size_bytes, point.group))
    for point in ordered:
        times = (point.low_s, point.time_s, point.high_s)
        if not all(math.isfinite(time) and time > 0 for time in times):
            raise BadInput(f"{point.size_bytes} bytes: times are finite and above 0, not {times}")
    keys = {(point.size_bytes, point.group) for point in ordered}
    if len(keys) != len(ordered):
        raise BadInput("a cost line takes one point per size")
    return ordered


def _by_session(medians: SessionMedians, points: Sequence[Point]) -> Floats:
    """(sessions, points), NaN where a session lacks a size; in an order that depends on the
    values only, so that the resamples do not depend on the order of sessions."""
    rows = [[one.get(point.size_bytes, math.nan) for point in points] for one in medians]
    for row in rows:
        if any(not math.isnan(time) and not 0 < time < math.inf for time in row):
            raise BadInput("a session's medians are finite and above 0")
    rows.sort(key=lambda row: [0.0 if math.isnan(time) else time for time in row])
    return np.array(rows, dtype=float).reshape(len(rows), len(points))


def _log_half(point: Point) -> float:
    """Half-width of a point's interval on logs."""
    return max(0.0, math.log(point.high_s / point.low_s) / 2)


def point_weights(half_widths: Floats) -> Floats:
    """1 for the best known points, less in proportion to a wider interval.

    An interval over three sessions is itself known badly, and points that are narrow by luck must
    not rule the line: weighing each by its own covered the bandwidth in 81 % of simulated runs, by
    the median of five neighbours (noise changes slowly with size) in 95 %. A point that stands out
    from its neighbours keeps its own.
    """
    reach, count = NEIGHBOURS // 2, half_widths.size
    windows = [half_widths[max(0, i - reach) : i + reach + 1] for i in range(count)]
    near = np.array([np.median(window) for window in windows])
    believed = np.where(half_widths > STANDS_OUT * near, half_widths, near)
    believed = np.maximum(believed, WEIGHT_FLOOR)
    return np.asarray(believed.min() / believed)


def _unbent(spread: Spread, breaks: Breaks, parameters: Floats) -> tuple[Breaks, Floats]:
    """The pieces, with the four largest sizes apart where their bandwidth clearly is another.

    The split weighs all sizes; noise among small ones (ranks that fight for cores) can hide that
    the last piece is bent, and its bandwidth is what is quoted: 20-30 % wrong in 1 of 25 simulated
    runs on a busy machine. Apart only on evidence: outside the interval of the four's own.
    """
    start, end = breaks[-1]
    middle = end - LAST_POINTS
    if middle - start < PIECE_POINTS:
        return breaks, parameters
    top = slice(middle, end)
    own, _ = fit_rows(spread.sizes[top], spread.times[None, top], spread.weights[None, top])
    value, quoted = 1 / float(own[0, 1]), 1 / float(parameters[-1, 1])
    interval = spread.bandwidth(value, (middle, end))
    if abs(math.log(value / quoted)) <= BENT or interval.low <= quoted <= interval.high:
        return breaks, parameters
    below = slice(0, middle)
    breaks, parameters = split(spread.sizes[below], spread.times[below], spread.weights[below])
    return (*breaks, (middle, end)), np.concatenate([parameters, own])


def as_pieces(sizes: Floats, breaks: Breaks, parameters: Floats) -> tuple[Piece, ...]:
    """What `split` found, as records."""
    return tuple(
        Piece(
            from_bytes=int(sizes[i]),
            to_bytes=int(sizes[j - 1]),
            latency_s=float(latency_s),
            bandwidth_bytes_per_s=float(1 / s_per_byte),
        )
        for (i, j), (latency_s, s_per_byte) in zip(breaks, parameters, strict=True)
    )


def _latency(spread: Spread, piece: Piece, columns: tuple[int, int]) -> Interval | None:
    smallest_s = piece.latency_s + piece.from_bytes / piece.bandwidth_bytes_per_s
    if piece.latency_s <= 1e-6 * smallest_s:
        return None
    return spread.latency(piece.latency_s, columns)


def _bandwidth(spread: Spread, piece: Piece, columns: tuple[int, int]) -> Interval | None:
    bytes_s = piece.to_bytes / piece.bandwidth_bytes_per_s
    if bytes_s < BYTES_SHARE * (piece.latency_s + bytes_s):
        return None
    return spread.bandwidth(piece.bandwidth_bytes_per_s, columns)


def _notes(
    fitted: Sequence[Point],
    pieces: Sequence[Piece],
    latency: Interval | None,
    bandwidth: Interval | None,
    sessions: int,
) -> list[str]:
    """What a reader must know before believing the line."""
    notes = []
    last = pieces[-1]
    share = last.latency_s / (last.latency_s + last.to_bytes / last.bandwidth_bytes_per_s)
    if bandwidth is None:
        notes.append(f"no bandwidth: {share:.0%} of the largest size's time is latency")
    elif share > LATENCY_SHARE:
        notes.append(
            f"plateau not reached: {share:.0%} of the largest size's time is still latency"
        )
    first = [point for point in fitted if point.size_bytes <= pieces[0].to_bytes]
    if latency is None:
        notes.append("no latency shows: the times lie on a line through zero")
    elif latency.high - latency.low > latency.value:
        notes.append("noisy latency: its interval is wider than itself")
    elif 2 * sum(point.noisy for point in first) >= len(first):
        notes.append("noisy latency: the small sizes are noisy")
    noisy = sum(point.noisy for point in fitted)
    if noisy:
        notes.append(f"{noisy} of {len(fitted)} sizes are noisy")
    left_out = sum(point.left_out > 0 for point in fitted)
    if left_out:
        notes.append(
            f"at {left_out} of {len(fitted)} sizes sessions are left out: a time of theirs stands "
            "for another number of calls"
        )
    if sessions < FEW_SESSIONS:
        told = f"{sessions} session{'s' if sessions != 1 else ''}"
        notes.append(f"{told}: the intervals cannot show how sessions differ")
    return notes


def fit(
    candidate: str,
    collective: str,
    ranks: int,
    points: Sequence[Point],
    session_medians: SessionMedians | None = None,
    *,
    share: float | None = None,
) -> CostLine:
    """The cost line through the grid points among `points`; held-out ones only try it.

    `session_medians`: per session, median seconds by size_bytes (summary.session_medians); without
    them the intervals rest on the points' own. Where fewer than 4 sizes carry a line, latency,
    bandwidth and busbw are None and a note says why; a barrier (size 0) has its latency.
    `share` is busbw over algorithm bandwidth where the points themselves tell it (foreign tables).
    Raises BadInput for times not finite and above 0 or two points of one size.
    """
    ordered = _checked(points)
    share = factor(collective, ranks) if share is None else share
    line = CostLine(candidate=candidate, collective=collective, ranks=ranks, points=tuple(ordered))
    grid = [point for point in ordered if point.group == "fit"]
    fitted = [point for point in grid if point.size_bytes > 0]
    if grid and not fitted:
        empty = grid[0]
        latency = Interval(value=empty.time_s, low=empty.low_s, high=empty.high_s)
        notes: tuple[str, ...] = ("no payload: latency only",)
        return msgspec.structs.replace(line, latency_s=latency, notes=notes)
    if len(fitted) < LAST_POINTS:
        told = f"{len(fitted)} size{'s' if len(fitted) != 1 else ''} measured"
        return msgspec.structs.replace(line, notes=(f"{told}: a line needs {LAST_POINTS}",))

    sizes = np.array([point.size_bytes for point in fitted], dtype=float)
    times = np.array([point.time_s for point in fitted])
    half_widths = np.array([_log_half(point) for point in fitted])
    weights = point_weights(half_widths)
    by_session = _by_session(session_medians or (), fitted)
    spread = Spread(sizes, times, weights, half_widths, by_session)
    breaks, parameters = _unbent(spread, *split(sizes, times, weights))
    pieces = as_pieces(sizes, breaks, parameters)
    first_latency = _latency(spread, pieces[0], breaks[0])
    bandwidth = _bandwidth(spread, pieces[-1], breaks[-1])
    remarks = _notes(fitted, pieces, first_latency, bandwidth, len(by_session))
    busbw = None
    if bandwidth and share > 0:
        ends = (bandwidth.value, bandwidth.low, bandwidth.high)
        value, low, high = (end * share / 1e9 for end in ends)
        busbw = Interval(value=value, low=low, high=high)
    elif share == 0:
        remarks.append("busbw is zero by definition: nothing crosses a link")
    line = msgspec.structs.replace(
        line,
        latency_s=first_latency,
        bandwidth_bytes_per_s=bandwidth,
        busbw_gbs=busbw,
        pieces=pieces,
        notes=tuple(remarks),
    )
    return msgspec.structs.replace(line, held_out_error=held_out_error(line, ordered))
