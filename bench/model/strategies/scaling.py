"""Communication time of a step over the number of hosts, for a chart.

In: a TrainingJob and MeasuredLines. Out: ScalingPoints: as many ranks a host as the job has, on
doubling numbers of hosts around the measured one. What lies beside it is inferred, and its
interval grows with what is not known (bench.model.strategies.timing).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from bench.model.strategies.measured import MeasuredLine
from bench.model.strategies.outcome import costs
from bench.records import BadInput, ScalingPoint, TrainingJob

MOST_HOSTS = 64  # beyond, nothing measured on a few hosts says anything
FURTHER = 8  # times the job's own hosts, or as many as were measured


def over_hosts(
    job: TrainingJob, lines: Sequence[MeasuredLine], *, infer: bool = True
) -> tuple[ScalingPoint, ...]:
    """At 1, 2, 4 … hosts, the job's own and the measured numbers of hosts. Empty without lines."""
    if not lines:
        return ()
    per_host = job.ranks // job.hosts
    measured = {each.hosts for each in lines}
    largest = min(max(FURTHER * max(job.hosts, *measured), 2), max(MOST_HOSTS, job.hosts))
    counts = {job.hosts, *(count for count in measured if count <= largest)}
    at = 1
    while at <= largest:
        counts.add(at)
        at *= 2
    points = []
    for hosts in sorted(counts):
        if per_host * hosts < 2:
            continue
        there = msgspec.structs.replace(
            job, hosts=hosts, ranks=per_host * hosts, gpu_memory_bytes=None, compute_s=None
        )
        try:
            rows, _ = costs(there, lines, infer=infer)
        except BadInput:  # more shards than parameters: nothing to draw from there on
            break
        took = {row.strategy: row.communication_s for row in rows}
        if any(took.values()):
            exact = tuple(row.strategy for row in rows if row.basis == "measured")
            points.append(
                ScalingPoint(hosts=hosts, ranks=there.ranks, communication_s=took, measured=exact)
            )
    return tuple(points)
