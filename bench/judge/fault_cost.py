"""What training over a bad network costs, a step and a day.

In: the chosen StrategyCost, the lines that it was timed by, lines of the report's other networks,
findings. Out: FaultCosts: over the interface that NCCL takes by itself, over lines that fall short
of their expectation, and, supposed, over a network with one link at half its rate.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from bench.judge.strategy_advice import AS_FAST
from bench.model.strategies import collectives, timing
from bench.model.strategies.measured import MeasuredLine
from bench.records import CostLine, FaultCost, Finding, Interval, Piece, StrategyCost, TrainingJob

HALF = 0.5
DAY_H = 24.0
FALLS_SHORT = 0.9  # of the expectation: the judge's own tolerance for bandwidth
BY_INTERFACE = "interface-misselected"


def faults(
    job: TrainingJob,
    row: StrategyCost,
    chosen: Sequence[MeasuredLine],
    others: Mapping[str, Sequence[MeasuredLine]],
    default: str | None,
    findings: Iterable[Finding],
) -> tuple[FaultCost, ...]:
    """What `row` costs over the report's other networks, over what its own should be, and over a
    network with one link at half its rate (a ring is as fast as its slowest link)."""
    ours = row.communication_s
    if ours is None or job.ranks < 2:
        return ()
    paths = [each for each in chosen if each.hosts == 1] if job.hosts > 1 else []
    made: list[FaultCost] = []
    told = list(findings)
    misselected = any(finding.code == BY_INTERFACE for finding in told)
    for name, lines in others.items():
        took = _took(job, row, [*lines, *paths])
        if took is None or took <= AS_FAST * ours.value:
            continue
        is_default = name == default
        label = f"{name}, which NCCL takes" if is_default and misselected else name
        made.append(_fault(label, "misselected", ours, took, job, row.basis or "inferred"))
    better = _expected(job, row, chosen)
    if better is not None and ours.value > AS_FAST * better:
        # Here the measured state is the fault, and the expectation the good one.
        good = Interval(value=better, low=better, high=better)
        what = ", ".join(dict.fromkeys(f.code for f in told if f.code != BY_INTERFACE))
        label = f"as measured ({what or 'below what is expected'})"
        made.append(_fault(label, "degraded", good, ours.value, job, "inferred"))
    slow = [_slowed(each, HALF) if each.hosts > 1 or job.hosts == 1 else each for each in chosen]
    took = _took(job, row, slow)
    if took is not None and took > ours.value:
        made.append(_fault("one link at half its rate", "supposed", ours, took, job, "inferred"))
    return tuple(made)


def _fault(
    name: str, kind: str, good: Interval, took: float, job: TrainingJob, basis: str
) -> FaultCost:
    compute = job.compute_s or 0.0
    return msgspec.convert(
        {
            "name": name,
            "kind": kind,
            "communication_s": took,
            "added_s": took - good.value,
            "hours_a_day": DAY_H * (1 - (good.value + compute) / (took + compute)),
            "at_most": job.compute_s is None,
            "basis": basis,
        },
        FaultCost,
    )


def _took(job: TrainingJob, row: StrategyCost, lines: Sequence[MeasuredLine]) -> float | None:
    uses, _, missing = timing.timed(collectives.of_step(job, row.strategy), job, lines)
    if missing:
        return None
    return sum(use.time_s.value for use in uses if use.time_s is not None)


def _expected(job: TrainingJob, row: StrategyCost, chosen: Sequence[MeasuredLine]) -> float | None:
    """The step on lines as fast as they are expected to be; None where nobody expects more. A
    line without an expectation is held to fall short as the others of its kind do."""
    shares: dict[bool, float] = {}
    for each in chosen:
        line = each.line
        if line.busbw_gbs is not None and line.expected_busbw_gbs:
            share = line.busbw_gbs.value / line.expected_busbw_gbs
            shares[each.hosts == 1] = min(shares.get(each.hosts == 1, 1.0), share)
    short = {inside: share for inside, share in shares.items() if share < FALLS_SHORT}
    if not short:
        return None
    mended = [_slowed(each, 1 / short.get(each.hosts == 1, 1.0)) for each in chosen]
    return _took(job, row, mended)


def _slowed(measured: MeasuredLine, factor: float) -> MeasuredLine:
    """The same line with `factor` times its bandwidth and the same latency."""
    line = measured.line
    pieces = tuple(
        Piece(
            from_bytes=piece.from_bytes,
            to_bytes=piece.to_bytes,
            latency_s=piece.latency_s,
            bandwidth_bytes_per_s=piece.bandwidth_bytes_per_s * factor,
        )
        for piece in line.pieces
    )
    latency = line.latency_s.value if line.latency_s else 0.0
    points = tuple(
        msgspec.structs.replace(
            point, time_s=min(latency, point.time_s) + max(point.time_s - latency, 0) / factor
        )
        for point in line.points
    )
    slow: CostLine = msgspec.structs.replace(line, pieces=pieces, points=points)
    return msgspec.structs.replace(measured, line=slow)
