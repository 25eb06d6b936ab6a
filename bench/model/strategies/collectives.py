"""The collectives of one optimizer step, with their sizes, under each strategy.

In: a TrainingJob. Out: StepCollectives without times. A size is the total buffer, as nccl-tests
counts it. Counted against torch 2.13 itself (DDP, fully_shard, ZeroRedundancyOptimizer) by
tests/performance/bench_cost.py; DeepSpeed by its source (stage_1_and_2.py, average_tensor: with
its default use_multi_rank_bucket_allreduce, gradients are all-reduced, not reduce-scattered).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from bench.model.strategies import pieces
from bench.model.strategies.names import DDP, HYBRID, ZERO1, ZERO2, ZERO3
from bench.model.strategies.storage import STORAGE
from bench.plan.volumes import WIRE_SHARES
from bench.records import ModelUnit, StepCollective, TrainingJob, Weight
from bench.records.cost import Scope

NORM_BYTES = 4  # of clipping: one fp32 number


def of_step(job: TrainingJob, strategy: str) -> tuple[StepCollective, ...]:
    """In the order in which a step first calls them. Empty for a single rank."""
    if job.ranks < 2:
        return ()
    made = _BY_STRATEGY[strategy](job)
    if job.clip and strategy != DDP:
        made = [*made, *_all("all_reduce", Counter([1]), NORM_BYTES, job, "gradient norm")]
    return tuple(made)


def _reductions(job: TrainingJob, sharded: bool) -> int:
    """How often a step reduces its gradients."""
    if job.synchronise == "usual":
        return job.micro_batches if sharded else 1
    return job.micro_batches if job.synchronise == "each" else 1


def _made(
    collective: str,
    sizes: Counter[float],
    job: TrainingJob,
    purpose: str,
    scope: Scope = "all",
    times: int = 1,
) -> list[StepCollective]:
    ranks = {"all": job.ranks, "host": job.ranks // job.hosts, "between": job.hosts}[scope]
    if ranks < 2:
        return []
    share = WIRE_SHARES[collective](ranks)
    if collective == "broadcast":  # each rank is the root once: what all send, over the ranks
        share = (ranks - 1) / ranks
    elif collective == "reduce_scatter" and job.backend == "gloo":  # torch makes it of this
        share = WIRE_SHARES["all_reduce"](ranks)
    return [
        StepCollective(
            collective=collective,
            size_bytes=size,
            count=count * times,
            scope=scope,
            group_ranks=ranks,
            sent_bytes=count * times * size * share,
            purpose=purpose,
        )
        for size, count in sizes.items()
        if size > 0
    ]


def _all(
    collective: str, elements: Counter[int], each: float, job: TrainingJob, purpose: str,
    times: int = 1,
) -> list[StepCollective]:  # fmt: skip
    sizes = Counter[float]({count * each: number for count, number in elements.items()})
    return _made(collective, sizes, job, purpose, times=times)


def _ddp(job: TrainingJob) -> list[StepCollective]:
    """Gradients fill the buckets in their own type. A reduction in fp32 (DeepSpeed's
    communication_data_type, a communication hook of torch's) casts each bucket as it is sent."""
    own = STORAGE[job.precision].reduced
    sent = 4 if job.reduce_dtype == "fp32" else own
    buckets = pieces.ddp_buckets(job.model, own, job.bucket_bytes)
    times = _reductions(job, sharded=False)
    return _all("all_reduce", buckets, sent, job, "gradients by bucket", times)


def _zero1(job: TrainingJob) -> list[StepCollective]:
    if job.framework == "torch":
        each = STORAGE[job.precision].parameter
        shares = pieces.optimizer_shares(job.model, job.ranks)
        return [*_ddp(job), *_all("broadcast", shares, each, job, "updated parameters")]
    return _flat(job, times=_reductions(job, sharded=False))


def _flat(job: TrainingJob, times: int) -> list[StepCollective]:
    """Gradients out of flat buckets, updated parameters back."""
    sent = STORAGE[job.precision].sent
    reduced = 4 if job.reduce_dtype == "fp32" else sent
    buckets = pieces.even_buckets(job.model.trained, job.bucket_elements)
    reduction = "all_reduce" if job.framework == "deepspeed" else "reduce_scatter"
    return [
        *_all(reduction, buckets, reduced, job, "gradients by bucket", times),
        *_all("all_gather", buckets, sent, job, "updated parameters"),
    ]


def _zero2(job: TrainingJob) -> list[StepCollective]:
    if job.framework == "deepspeed":
        return _flat(job, times=_reductions(job, sharded=True))
    return _units(job, "all", lambda unit: 1)


def _zero3(job: TrainingJob) -> list[StepCollective]:
    return _units(job, "all", lambda unit: _gathers(job, unit))


def _hybrid(job: TrainingJob) -> list[StepCollective]:
    inside = _units(job, "host", lambda unit: _gathers(job, unit))
    shards = job.ranks // job.hosts
    between = Counter[float]()
    for unit in job.model.units:
        elements = pieces.padded(unit, shards, trained=True) / shards
        between[elements * _reduced(job)] += unit.count
    times = _reductions(job, sharded=True)
    return [*inside, *_made("all_reduce", between, job, "gradient shards", "between", times)]


def _gathers(job: TrainingJob, unit: ModelUnit) -> int:
    """Forward and, where it was resharded, backward again."""
    if job.reshard == "usual":
        return 1 if unit.root else 2
    return 2 if job.reshard == "always" else 1


def _reduced(job: TrainingJob) -> int:
    return 4 if job.reduce_dtype == "fp32" else STORAGE[job.precision].sent


def _units(
    job: TrainingJob, scope: Scope, gathers: Callable[[ModelUnit], int]
) -> list[StepCollective]:
    """FSDP: each unit gathered for every micro-batch, its gradients scattered."""
    sent = STORAGE[job.precision].sent
    shards = job.ranks // job.hosts if scope == "host" else job.ranks
    gathered, scattered = Counter[float](), Counter[float]()
    for unit in job.model.units:
        times = unit.count * gathers(unit) * job.micro_batches
        gathered[_unit_bytes(unit, shards, sent)] += times
        scattered[pieces.padded(unit, shards, trained=True) * _reduced(job)] += unit.count
    reductions = _reductions(job, sharded=True)
    return [
        *_made("all_gather", gathered, job, "parameters by unit", scope),
        *_made("reduce_scatter", scattered, job, "gradients by unit", scope, reductions),
    ]


def _unit_bytes(unit: ModelUnit, shards: int, sent: int) -> float:
    """Weights in 4 bit travel as they are stored."""

    def only(weights: Iterable[Weight]) -> int:
        return pieces.padded(ModelUnit(name="", weights=tuple(weights)), shards)

    packed = [weight for weight in unit.weights if weight.bits]
    plain = only(weight for weight in unit.weights if not weight.bits) * sent
    return plain + sum(only([weight]) * weight.bits / 8 for weight in packed)


_BY_STRATEGY: dict[str, Callable[[TrainingJob], list[StepCollective]]] = {
    DDP: _ddp, ZERO1: _zero1, ZERO2: _zero2, ZERO3: _zero3, HYBRID: _hybrid,
}  # fmt: skip
