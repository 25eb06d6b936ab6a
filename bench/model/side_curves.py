"""What one session measured, as curves: from raw sessions, from a report's points, from a table.

In: Sessions with samples, CostLines, or a CollectiveTable. Out: SessionCurves. Where raw sessions
are at hand each is one; a report alone has its points, which stand for the sessions behind them.
The halves of a table stay apart until it is known which of them the other side has too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from statistics import median

import numpy as np
from scipy.special import ndtri, stdtrit

from bench.model.busbw import factor
from bench.model.summary import CONFIDENCE
from bench.model.table_series import (
    HALVES,
    LONGEST_S,
    SHORTEST_S,
    bytes_share,
    scatter_of,
)
from bench.plan.volumes import WIRE_SHARES
from bench.records import (
    CollectiveTable,
    CostLine,
    Point,
    Sample,
    Session,
    SessionCurve,
    TableRow,
    TableTime,
)

_TAIL = (1 + CONFIDENCE) / 2
MEDIAN_LOSS = 1.2533  # standard error of a median over that of a mean, for a normal
UNKNOWN_SCATTER = 0.1  # of a single time
TRUSTED_SESSIONS = 3  # from so many on a point's interval is one over sessions (model/summary)


def share_of(collective: str, ranks: int | None) -> float | None:
    """busbw over size / time; None for a collective or a number of ranks that is not known."""
    if ranks is None or ranks < 1 or collective not in WIRE_SHARES:
        return None
    return factor(collective, ranks)


def of_session(session: Session, collective: str, ranks: int | None) -> SessionCurve | None:
    """The medians of one session; None where it measured no size of the collective."""
    found: dict[int, list[Sample]] = {}
    for sample in session.samples:
        if sample.collective == collective and sample.group == "fit" and sample.times_s:
            found.setdefault(sample.size_bytes, []).append(sample)
    if not found:
        return None
    kept = {size: _alike(own) for size, own in sorted(found.items())}
    times = {size: [t for sample in own for t in sample.times_s] for size, own in kept.items()}
    return SessionCurve(
        candidate=session.case.candidate,
        collective=collective,
        ranks=ranks,
        dtype=session.samples[0].dtype,
        sizes_bytes=tuple(kept),
        times_s=tuple(median(own) for own in times.values()),
        scatters=tuple(_scatter(own) for own in times.values()),
        calls=tuple(own[0].calls_per_time for own in kept.values()),
        share=share_of(collective, ranks),
    )


def _alike(samples: Sequence[Sample]) -> list[Sample]:
    """Those whose times stand for as many calls as the first one's."""
    return [s for s in samples if s.calls_per_time == samples[0].calls_per_time]


def _scatter(times_s: Sequence[float]) -> float:
    """Standard error of the median of a session's times, on logs."""
    logs = np.log(np.array(times_s))
    if logs.size < 2:
        return UNKNOWN_SCATTER
    return float(MEDIAN_LOSS * logs.std(ddof=1) / math.sqrt(logs.size))


def of_line(line: CostLine, dtype: str | None = None) -> SessionCurve | None:
    """The curve of a report's points: those that were fitted; None where there are none."""
    points = sorted((p for p in line.points if p.group == "fit"), key=lambda p: p.size_bytes)
    if not points:
        return None
    halves = [max(0.0, math.log(p.high_s / p.low_s) / 2) for p in points]
    sessions = min(p.sessions for p in points)
    normal = float(ndtri(_TAIL))
    spreads: tuple[float, ...] = ()
    if sessions >= TRUSTED_SESSIONS:
        spreads = tuple(_spread(p, half) for p, half in zip(points, halves, strict=True))
    return SessionCurve(
        candidate=line.candidate,
        collective=line.collective,
        ranks=line.ranks,
        dtype=dtype,
        sizes_bytes=tuple(p.size_bytes for p in points),
        times_s=tuple(p.time_s for p in points),
        scatters=tuple(half / normal for half in halves),
        calls=tuple(p.calls_per_time for p in points),
        sessions=sessions,
        spreads=spreads,
        share=share_of(line.collective, line.ranks),
    )


def _spread(point: Point, half: float) -> float:
    """Between its sessions, from its interval of Student's over them."""
    return half * math.sqrt(point.sessions) / float(stdtrit(point.sessions - 1, _TAIL))


def of_table(table: CollectiveTable, candidate: str) -> Iterator[SessionCurve]:
    """A curve for each half, element type and operation; rows of a size that repeat count once."""
    scatter = scatter_of(table)
    share = bytes_share(table)
    kinds = dict.fromkeys((row.dtype, row.redop) for row in table.rows)
    for dtype, redop in kinds:
        rows = [row for row in table.rows if (row.dtype, row.redop) == (dtype, redop)]
        for half in HALVES:
            found = _times(rows, half)
            if not found:
                continue
            yield SessionCurve(
                candidate=candidate,
                collective=table.collective or "unknown",
                ranks=table.ranks,
                dtype=dtype,
                redop=redop if redop not in (None, "none", "sum") else None,
                part=half,
                sizes_bytes=tuple(found),
                times_s=tuple(found.values()),
                scatters=(scatter,) * len(found),
                calls=(1,) * len(found),
                share=share,
            )


def _times(rows: Iterable[TableRow], half: str) -> dict[int, float]:
    found: dict[int, list[float]] = {}
    for row in rows:
        time: TableTime | None = row.out_of_place if half == "out-of-place" else row.in_place
        if time is not None and row.size_bytes > 0 and SHORTEST_S < time.time_s < LONGEST_S:
            found.setdefault(row.size_bytes, []).append(time.time_s)
    return {size: median(found[size]) for size in sorted(found)}
