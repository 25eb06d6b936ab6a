"""How a model's tensors are cut up: DDP's buckets, FSDP's padded units, shares of an optimizer.

In: a Model. Out: numbers of elements, in the order in which a step sends them. Sources (torch
2.13): reducer.cpp (compute_bucket_assignment_by_size; rebuilt in the order of gradients),
_fsdp_param.py (each tensor padded on dim 0 to a multiple of the ranks),
zero_redundancy_optimizer.py (largest first, to the rank with the least).
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Iterator

from bench.records import Model, ModelUnit, Weight

FIRST_BUCKET_BYTES = 1 << 20  # torch.distributed._DEFAULT_FIRST_BUCKET_BYTES
BUCKET_BYTES = 25 << 20  # DistributedDataParallel's bucket_cap_mb


def trained_sizes(model: Model) -> Iterator[int]:
    """Elements of each tensor that has a gradient, last layer first, as backward makes them: the
    head, the blocks from the last to the first, the embedding."""
    blocks = [unit for unit in model.units if not unit.root]
    roots = [unit for unit in model.units if unit.root]
    before = [w for unit in roots for w in unit.weights if w.name.startswith("embedding")]
    after = [w for unit in roots for w in unit.weights if not w.name.startswith("embedding")]
    yield from _sizes(after)
    for unit in reversed(blocks):
        for _ in range(unit.count):
            yield from _sizes(list(unit.weights))
    yield from _sizes(before)


def _sizes(weights: list[Weight]) -> Iterator[int]:
    for weight in reversed(weights):
        if weight.trained:
            for _ in range(weight.count):
                yield math.prod(weight.shape)


def ddp_buckets(model: Model, element_bytes: int, bucket_bytes: int | None = None) -> Counter[int]:
    """How many buckets of how many elements: one closes with the tensor that fills it."""
    limit = bucket_bytes or BUCKET_BYTES
    cap = FIRST_BUCKET_BYTES if bucket_bytes is None else limit
    buckets: Counter[int] = Counter()
    filled = 0
    for elements in trained_sizes(model):
        filled += elements
        if filled * element_bytes >= cap:
            buckets[filled] += 1
            filled, cap = 0, limit
    if filled:
        buckets[filled] += 1
    return buckets


def even_buckets(elements: int, largest: int) -> Counter[int]:
    """Of a flat buffer: pieces of `largest` elements, and what is left."""
    buckets: Counter[int] = Counter()
    whole, rest = divmod(elements, largest)
    if whole:
        buckets[largest] += whole
    if rest:
        buckets[rest] += 1
    return buckets


def padded(unit: ModelUnit, shards: int, *, trained: bool = False) -> int:
    """Elements of a gathered unit (or of its gradients): each tensor's first dimension is rounded
    up to a multiple of the shards."""
    return sum(
        weight.count * math.ceil(weight.shape[0] / shards) * shards * math.prod(weight.shape[1:])
        for weight in unit.weights
        if weight.trained or not trained
    )


def optimizer_shares(model: Model, ranks: int) -> Counter[int]:
    """Elements that each rank updates, as ZeroRedundancyOptimizer shares out whole tensors: how
    many ranks have so many. Ranks that get none are left out."""
    loads = [(0, rank) for rank in range(ranks)]
    for elements in sorted(trained_sizes(model), reverse=True):
        load, rank = heapq.heappop(loads)
        heapq.heappush(loads, (load + elements, rank))
    return Counter(load for load, _ in loads if load)
