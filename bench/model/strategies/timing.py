"""Seconds of a step's collectives by measured lines, for groups of any number of ranks.

In: StepCollectives and MeasuredLines. Out: the same with an Interval each, and sentences on what
was inferred. A line of other ranks is carried over as rings and trees scale: bytes by the share
that crosses a host's link (bench.plan.volumes), latency by steps (a ring's n - 1, a tree's log n).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np

from bench.model.prediction import predict
from bench.model.strategies.measured import Choice, MeasuredLine, choose
from bench.model.table_line import LINE_ERROR
from bench.plan.volumes import WIRE_SHARES
from bench.records import CostLine, Interval, StepCollective, TrainingJob

LEAST_ERROR = 0.01  # a line is not known better
# More hosts than were measured: eight H100 hosts reach 321 GB/s where two of them reach 467
# (public nccl-tests, same cluster): NVLSTree serves two, longer trees and rings more.
MORE_HOSTS = 467 / 321


def timed(
    uses: Sequence[StepCollective],
    job: TrainingJob,
    lines: Sequence[MeasuredLine],
    *,
    infer: bool = True,
) -> tuple[tuple[StepCollective, ...], tuple[str, ...], tuple[str, ...]]:
    """The uses with times; sentences on what was inferred; collectives that have no line."""
    made, inferred, missing = [], [], []
    for use in uses:
        inside = use.scope == "host" or job.hosts == 1
        choice = choose(
            lines,
            use.collective,
            inside=inside,
            ranks=use.group_ranks if inside else job.ranks,
            hosts=1 if inside else job.hosts,
            infer=infer,
        )
        if choice is None:
            where = "inside a host" if inside else "between hosts"
            missing.append(f"{use.collective} {where}")
            made.append(use)
            continue
        words = _words(use, job, choice, inside)
        time_s = _one_call(use, job, choice, inside)
        made.append(
            msgspec.structs.replace(
                use,
                time_s=Interval(
                    value=use.count * time_s.value,
                    low=use.count * time_s.low,
                    high=use.count * time_s.high,
                ),
                basis="inferred" if words else "measured",
            )
        )
        inferred += words
    return tuple(made), tuple(dict.fromkeys(inferred)), tuple(dict.fromkeys(missing))


def _words(use: StepCollective, job: TrainingJob, choice: Choice, inside: bool) -> list[str]:
    told = []
    measured = choice.measured
    if choice.words:
        told.append(f"{use.collective} was not measured: {choice.words}")
    wanted = (use.group_ranks, 1) if inside else (job.ranks, job.hosts)
    if (measured.ranks, measured.hosts) != wanted:
        told.append(
            f"{_group(*wanted)}: carried over from {_group(measured.ranks, measured.hosts)}"
        )
    if use.scope == "between" and job.ranks > job.hosts:
        told.append("groups of one rank a host share the host's network, all at the same time")
    return told


def _group(ranks: int, hosts: int) -> str:
    return f"{ranks} ranks on {hosts} host{'s' if hosts != 1 else ''}"


def _one_call(use: StepCollective, job: TrainingJob, choice: Choice, inside: bool) -> Interval:
    measured = choice.measured
    line, ranks = measured.line, measured.ranks
    name = line.collective
    total = seconds(line, use.size_bytes)
    latency = min(line.latency_s.value if line.latency_s else line.pieces[0].latency_s, total)
    shares = WIRE_SHARES[name](use.group_ranks) / WIRE_SHARES[name](ranks)
    if use.scope == "between":
        # `total` is of a ring through each host once; these are as many rings as ranks a host.
        shares *= job.ranks // job.hosts
    least, usual, most = _latency_ratios(name, measured, use.group_ranks)
    carried = (total - latency) * shares
    low, high = _errors(line, latency / total)
    more = MORE_HOSTS if not inside and job.hosts > measured.hosts else 1.0
    value = choice.times * (latency * usual + carried)
    return Interval(
        value=value,
        low=choice.times * choice.low * (latency * least + carried) * (1 - low),
        high=choice.times * choice.high * (latency * most + carried * more) * (1 + high),
    )


def _latency_ratios(name: str, measured: MeasuredLine, ranks: int) -> tuple[float, float, float]:
    """Least, usual, most: of a tree and of a ring. NCCL's all-reduce takes trees for what is
    small; gloo's collectives here, and NCCL's gathers, are rings."""
    before = measured.ranks
    if ranks == before:
        return 1.0, 1.0, 1.0
    ring = (ranks - 1) / (before - 1)
    tree = math.log2(ranks) / math.log2(before)
    usual = tree if measured.backend == "nccl" and name in ("all_reduce", "broadcast") else ring
    return min(ring, tree), usual, max(ring, tree)


def seconds(line: CostLine, size_bytes: float) -> float:
    """By the pieces; where a table's curve is no line (its held-out sizes are missed by more than
    5 %), between its rows on logs, and beyond the last row in proportion to it."""
    points = sorted(
        (point for point in line.points if point.group == "fit" and point.size_bytes > 0),
        key=lambda point: point.size_bytes,
    )
    if (line.held_out_error or 0.0) <= LINE_ERROR or len(points) < 2:
        return predict(line, size_bytes)
    last = points[-1]
    if size_bytes >= last.size_bytes:
        return last.time_s * size_bytes / last.size_bytes
    sizes = np.log([point.size_bytes for point in points])
    times = np.log([point.time_s for point in points])
    return float(np.exp(np.interp(math.log(max(size_bytes, 1.0)), sizes, times)))


def _errors(line: CostLine, latency_share: float) -> tuple[float, float]:
    """Fractions below and above, of the line's own intervals weighed by what they are of."""
    floor = max(LEAST_ERROR, line.held_out_error or 0.0)
    sides = []
    for of_latency, of_bandwidth in (
        (_below(line.latency_s), _above(line.bandwidth_bytes_per_s)),
        (_above(line.latency_s), _below(line.bandwidth_bytes_per_s)),
    ):
        sides.append(latency_share * of_latency + (1 - latency_share) * of_bandwidth)
    low, high = (max(floor, side) for side in sides)
    return min(low, 0.99), high


def _below(interval: Interval | None) -> float:
    if interval is None or not interval.value > 0:
        return 0.0
    return max(0.0, min(0.99, 1 - interval.low / interval.value))


def _above(interval: Interval | None) -> float:
    if interval is None or not interval.value > 0 or not math.isfinite(interval.high):
        return 0.0
    return max(0.0, interval.high / interval.value - 1)
