"""Bytes on one GPU under each strategy.

In: a TrainingJob. Out: a Memory per strategy. State follows the ZeRO paper (arXiv 1910.02054,
table 1: 7.5 billion parameters on 64 GPUs take 120, 31.4, 16.6 and 1.9 GB). Activations follow
Korthikanti et al. (arXiv 2205.05198): 34 s b h bytes a block with flash attention (its attention
matrices are not kept), or 2 s b h with checkpointing and one block at work.
"""

from __future__ import annotations

from bench.model.strategies import storage
from bench.model.strategies.names import DDP, HYBRID, ZERO1, ZERO2, ZERO3
from bench.model.strategies.pieces import padded
from bench.model.strategies.storage import Storage
from bench.records import Memory, TrainingJob

# Units that lie gathered at once beside the root: the one at work and the one fetched ahead
# (torch 2.13, _fsdp_param_group.py: one implicit prefetch forward, one backward).
LIVE_UNITS = 2
BLOCK_ACTIVATIONS, CHECKPOINT_ACTIVATIONS = 34, 2  # bytes per token and hidden unit, 16-bit
LOGIT_BYTES = 4 + 4 + 2  # logits in fp32, their gradient, and the 16-bit ones below


def of(job: TrainingJob, strategy: str) -> Memory:
    """What `strategy` takes on one GPU of this job."""
    kept = storage.STORAGE[job.precision]
    frozen = _frozen(job, kept)
    trained = float(job.model.trained * kept.parameter)
    gradients = float(job.model.trained * kept.gradient)
    weights = [
        (unit.count, weight)
        for unit in job.model.units
        for weight in unit.weights
        if weight.trained
    ]
    state = storage.optimizer_bytes(job.optimizer, kept, weights)
    parameters = frozen + trained
    live, buckets = 0.0, 0.0
    if strategy in (ZERO2, ZERO3, HYBRID) and job.ranks > 1:
        shards = job.ranks // job.hosts if strategy == HYBRID else job.ranks
        if job.synchronise == "last" and job.micro_batches > 1:
            live += gradients  # no_sync keeps them whole until the last micro-batch
        gradients, state = gradients / shards, state / shards
        if strategy == ZERO2:
            if _keeps_fp32_shards(job):
                parameters = parameters / shards
                live += _gathered(job, kept)
        else:
            parameters = parameters / shards
            live += _live(job, kept)
    elif strategy == ZERO1:
        state /= job.ranks
    if strategy in (DDP, ZERO1) and not job.bucket_view:
        buckets = float(job.model.trained * kept.reduced)
    if job.framework == "deepspeed" and strategy in (ZERO1, ZERO2):
        buckets = float(min(job.bucket_elements, job.model.trained) * kept.sent)
    if job.offload_optimizer and strategy != DDP:
        state = 0.0
    if job.offload_parameters and strategy in (ZERO3, HYBRID):
        parameters = 0.0
    return Memory(
        parameters=parameters,
        gradients=gradients,
        optimizer=state,
        buckets=buckets,
        live=live,
        activations=activations(job),
    )


def _frozen(job: TrainingJob, kept: Storage) -> float:
    """Frozen weights lie as they are stored: 4 bit, or 16 bit where the precision has any."""
    each = kept.parameter if job.precision != "fp32" else 4
    return sum(
        unit.count * weight.elements * (weight.bits / 8 if weight.bits else each)
        for unit in job.model.units
        for weight in unit.weights
        if not weight.trained
    )


def _keeps_fp32_shards(job: TrainingJob) -> bool:
    """SHARD_GRAD_OP under autocast: the whole parameters exist only as 16-bit copies."""
    return job.precision.endswith("autocast") and job.framework != "deepspeed"


def _gathered(job: TrainingJob, kept: Storage) -> float:
    return float(job.model.parameters * kept.sent)


def _live(job: TrainingJob, kept: Storage) -> float:
    """Gathered units: the root, the one at work, the next; and a unit's gradients before they are
    reduced. With reshard "never" all of them."""
    if job.reshard == "never":
        return _gathered(job, kept)
    roots = sum(padded(unit, job.ranks) for unit in job.model.units if unit.root)
    blocks = [padded(unit, job.ranks) for unit in job.model.units if not unit.root]
    largest = max(blocks, default=0)
    copies = min(LIVE_UNITS, sum(u.count for u in job.model.units if not u.root))
    trained = max((padded(unit, job.ranks, trained=True) for unit in job.model.units
                   if not unit.root), default=0)  # fmt: skip
    return float((roots + copies * largest + trained) * kept.sent)


def activations(job: TrainingJob) -> float | None:
    """As given, or estimated of one micro-batch; None where sequence, batch or shapes are not
    known."""
    if job.activation_bytes is not None:
        return job.activation_bytes
    model = job.model
    if not (job.sequence and job.batch and model.hidden and model.layers):
        return None
    tokens = float(job.sequence * job.batch)
    wide = 2 if job.precision == "fp32" else 1
    block = wide * BLOCK_ACTIVATIONS * tokens * model.hidden
    kept = model.layers * block
    if job.checkpointing:
        kept = model.layers * wide * CHECKPOINT_ACTIVATIONS * tokens * model.hidden + block
    return kept + LOGIT_BYTES * tokens * model.vocabulary
