"""What a cost line says of any size, and how right it is at sizes it has never seen.

In: a CostLine (and points). Out: predicted seconds, errors by range, a curve to draw. Between the
last size of one piece and the first of the next lies the switch: where exactly is not known.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Sequence

from bench.records import BadInput, CostLine, Piece, Point, Record

SMALL_BYTES = 64 * 1024  # up to here latency's jitter rules; errors are told apart


class Score(Record, frozen=True, kw_only=True):
    """Errors |predicted / measured - 1| over one range of sizes; `count` points."""

    count: int
    median: float
    p95: float
    largest: float


def _on(piece: Piece, size_bytes: float) -> float:
    return piece.latency_s + size_bytes / piece.bandwidth_bytes_per_s


def predict(line: CostLine, size_bytes: float) -> float:
    """Seconds that the line gives `size_bytes`; beyond its ends the outer pieces are prolonged.

    In a switch: the lower of the two pieces where they cross within it (a library that picks the
    cheaper protocol), else their geometric mean, which halves the error of a wrong guess.
    Raises BadInput for a line without pieces or a size below 0.
    """
    if not line.pieces:
        raise BadInput(f"{line.candidate}, {line.collective}: no line was fitted")
    if not size_bytes >= 0:
        raise BadInput(f"a size is at least 0 bytes, not {size_bytes}")
    right = bisect.bisect_left([piece.to_bytes for piece in line.pieces], size_bytes)
    after = line.pieces[min(right, len(line.pieces) - 1)]
    if size_bytes >= after.from_bytes or right == 0:
        return _on(after, size_bytes)
    before = line.pieces[right - 1]
    crosses = _on(before, before.to_bytes) <= _on(after, before.to_bytes) and _on(
        after, after.from_bytes
    ) <= _on(before, after.from_bytes)
    left, other = _on(before, size_bytes), _on(after, size_bytes)
    return min(left, other) if crosses else math.sqrt(left * other)


def in_switch(line: CostLine, size_bytes: float) -> bool:
    """Does the size lie between two pieces?"""
    return any(
        before.to_bytes < size_bytes < after.from_bytes
        for before, after in itertools.pairwise(line.pieces)
    )


def _score(errors: Sequence[float]) -> Score | None:
    if not errors:
        return None
    ordered = sorted(errors)
    last = len(ordered) - 1
    middle = (ordered[last // 2] + ordered[(last + 1) // 2]) / 2
    return Score(
        count=len(ordered),
        median=middle,
        p95=ordered[math.ceil(0.95 * last)],
        largest=ordered[last],
    )


def score(line: CostLine, points: Sequence[Point], group: str = "held-out") -> dict[str, Score]:
    """Errors of the line at `points` of one group, by range: "up to 64 KiB", "above 64 KiB" and,
    told apart because a misplaced break costs up to 30 % there, "in a switch". Ranges without
    points are left out."""
    errors: dict[str, list[float]] = {}
    for point in points:
        if point.group != group or not line.pieces:
            continue
        size = point.size_bytes
        where = "up to 64 KiB" if size <= SMALL_BYTES else "above 64 KiB"
        if in_switch(line, size):
            where = "in a switch"
        errors.setdefault(where, []).append(abs(predict(line, size) / point.time_s - 1))
    scored = {where: _score(found) for where, found in sorted(errors.items())}
    return {where: one for where, one in scored.items() if one is not None}


def held_out_error(line: CostLine, points: Sequence[Point]) -> float | None:
    """Median |predicted / measured - 1| over held-out points above 64 KiB, switches included;
    None where there is none."""
    if not line.pieces:
        return None
    one = _score(
        [
            abs(predict(line, point.size_bytes) / point.time_s - 1)
            for point in points
            if point.group == "held-out" and point.size_bytes > SMALL_BYTES
        ]
    )
    return one.median if one else None


def curve(line: CostLine, steps: int = 16) -> tuple[tuple[tuple[float, float], ...], ...]:
    """For drawing: per piece, (size_bytes, seconds) at `steps` + 1 sizes evenly spread on logs."""
    drawn = []
    for piece in line.pieces:
        ratio = piece.to_bytes / piece.from_bytes
        sizes = [piece.from_bytes * ratio ** (step / steps) for step in range(steps + 1)]
        drawn.append(tuple((size, _on(piece, size)) for size in sizes))
    return tuple(drawn)
