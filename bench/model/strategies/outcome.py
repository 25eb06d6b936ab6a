"""All strategies of a job side by side: memory, bytes, times, whether they fit.

In: a TrainingJob and MeasuredLines (none: memory and bytes only). Out: StrategyCosts. With no
overlap a step is computation, then communication; with full overlap it is the longer of the two:
what a real step takes lies between.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.model.strategies import collectives, memory, timing
from bench.model.strategies.measured import MeasuredLine
from bench.model.strategies.names import ALSO, HYBRID, STRATEGIES
from bench.records import BadInput, Interval, StepCollective, StrategyCost, TrainingJob

# CUDA contexts, NCCL's buffers and the allocator's fragments take 5 to 8 GB of an 80 GB GPU.
USABLE = 0.92


def costs(
    job: TrainingJob, lines: Sequence[MeasuredLine] = (), *, infer: bool = True
) -> tuple[tuple[StrategyCost, ...], tuple[str, ...]]:
    """A row per strategy that this job can have, and sentences on what was inferred."""
    check(job)
    rows: list[StrategyCost] = []
    told: list[str] = []
    for strategy in STRATEGIES:
        if strategy == HYBRID and (job.hosts < 2 or job.ranks == job.hosts):
            continue  # one host is FULL_SHARD, one rank a host is DDP
        row, inferred = _row(job, strategy, lines, infer)
        rows.append(row)
        told += inferred
    return tuple(rows), tuple(dict.fromkeys(told))


def check(job: TrainingJob) -> None:
    """BadInput for a job that cannot be, in one sentence."""
    if job.ranks < 1 or job.hosts < 1:
        raise BadInput(f"ranks and hosts are at least 1, not {job.ranks} and {job.hosts}")
    if job.ranks % job.hosts:
        raise BadInput(f"{job.ranks} ranks do not spread evenly over {job.hosts} hosts")
    if job.ranks > job.model.parameters:
        raise BadInput(
            f"{job.ranks:,} ranks are more shards than the model has parameters "
            f"({job.model.parameters:,})"
        )
    if job.micro_batches < 1:
        raise BadInput(f"a step has at least 1 micro-batch, not {job.micro_batches}")


def _row(
    job: TrainingJob, strategy: str, lines: Sequence[MeasuredLine], infer: bool
) -> tuple[StrategyCost, tuple[str, ...]]:
    uses: tuple[StepCollective, ...] = collectives.of_step(job, strategy)
    inferred: tuple[str, ...] = ()
    notes: list[str] = []
    took: Interval | None = None
    if lines or not uses:
        uses, inferred, missing = timing.timed(uses, job, lines, infer=infer)
        took = _sum(uses)
        notes += [f"no line of {what} was measured" for what in missing]
    kept = memory.of(job, strategy)
    fits = None
    if job.gpu_memory_bytes is not None:
        fits = kept.total <= USABLE * job.gpu_memory_bytes
    compute = job.compute_s
    both = took.value + compute if took is not None and compute is not None else None
    return StrategyCost(
        strategy=strategy,
        also=ALSO.get(strategy, ""),
        memory=kept,
        memory_bytes=kept.total,
        state_bytes=kept.state,
        fits=fits,
        collectives=uses,
        sent_bytes=sum(use.sent_bytes for use in uses),
        communication_s=took,
        basis=("inferred" if inferred else "measured") if took is not None and uses else None,
        step_no_overlap_s=both,
        step_full_overlap_s=max(took.value, compute) if took and compute is not None else None,
        share=took.value / both if took and both else None,
        notes=tuple(notes),
    ), inferred


def _sum(uses: Sequence[StepCollective]) -> Interval | None:
    """Ends add up: what a line errs by, it errs by in all of its calls."""
    times = [use.time_s for use in uses]
    known = [time for time in times if time is not None]
    if len(known) < len(times):
        return None
    return Interval(
        value=sum(time.value for time in known),
        low=sum(time.low for time in known),
        high=sum(time.high for time in known),
    )
