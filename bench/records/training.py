"""A training job as far as memory and communication depend on it: a model, and its training.

`bench.formats.model_config` makes models of config.json files, `bench.model.strategies` the rest.
"""

from __future__ import annotations

import math
from typing import Literal

from bench.records.words import Backend, Record

Precision = Literal["fp32", "bf16-mixed", "fp16-mixed", "bf16-autocast", "fp16-autocast", "bf16"]
Optimizer = Literal["sgd", "momentum", "adam", "adamw", "lion", "adafactor", "adam8bit"]
Framework = Literal["paper", "torch", "deepspeed"]
Synchronise = Literal["usual", "each", "last"]
Reshard = Literal["usual", "always", "never"]


class Weight(Record, frozen=True, kw_only=True):
    """Tensors of one shape. `bits` other than 0 is how a frozen one is stored (QLoRA's 4)."""

    name: str
    shape: tuple[int, ...]
    count: int = 1
    trained: bool = True
    bits: float = 0.0

    @property
    def elements(self) -> int:
        """Of all `count` tensors."""
        return self.count * math.prod(self.shape)


class ModelUnit(Record, frozen=True, kw_only=True):
    """What is sharded and gathered as one: a transformer block, `count` times alike; or the root
    (embeddings, last norm, head), which FSDP keeps gathered between forward and backward."""

    name: str
    weights: tuple[Weight, ...]
    count: int = 1
    root: bool = False

    @property
    def elements(self) -> int:
        """Of one of the `count` units."""
        return sum(weight.elements for weight in self.weights)


class Model(Record, frozen=True, kw_only=True):
    """A model's tensors. `basis` "estimated": only the number of parameters was given, and blocks
    are those of a transformer of that size. What is 0 is not known."""

    name: str
    units: tuple[ModelUnit, ...]
    basis: Literal["config", "estimated"] = "estimated"
    architecture: str = ""
    hidden: int = 0
    layers: int = 0
    heads: int = 0
    vocabulary: int = 0
    notes: tuple[str, ...] = ()

    @property
    def parameters(self) -> int:
        return sum(unit.count * unit.elements for unit in self.units)

    @property
    def trained(self) -> int:
        """Parameters that have a gradient."""
        return sum(
            unit.count * weight.elements
            for unit in self.units
            for weight in unit.weights
            if weight.trained
        )


class TrainingJob(Record, frozen=True, kw_only=True):
    """One optimizer step. `framework` says how ZeRO-1 and ZeRO-2 are written: as in the paper
    (reduce-scatter, then all-gather), torch's ZeroRedundancyOptimizer, or DeepSpeed.

    `synchronise`: with several micro-batches, gradients are reduced after "each" of them, after
    the "last" only (no_sync), or as each strategy does by default ("usual": DDP and ZeRO-1 after
    the last, sharded gradients after each). `reshard` is FSDP's reshard_after_forward: "usual" is
    True for blocks and False for the root. None is not known.
    """

    model: Model
    ranks: int
    hosts: int = 1
    precision: Precision = "bf16-mixed"
    optimizer: Optimizer = "adamw"
    framework: Framework = "paper"
    backend: Backend = "nccl"
    micro_batches: int = 1
    synchronise: Synchronise = "usual"
    reshard: Reshard = "usual"
    reduce_dtype: Literal["as-parameters", "fp32"] = "as-parameters"
    bucket_bytes: int | None = None  # of DDP; None: torch's 1 MiB, then 25 MiB
    bucket_elements: int = 500_000_000  # of ZeRO-1 and ZeRO-2, DeepSpeed's default
    bucket_view: bool = True  # gradients live in DDP's buckets instead of being copied into them
    clip: bool = False
    offload_optimizer: bool = False
    offload_parameters: bool = False
    sequence: int | None = None
    batch: int | None = None  # sequences of one micro-batch on one GPU
    checkpointing: bool = False
    activation_bytes: float | None = None  # where given; else estimated from the three above
    gpu_memory_bytes: float | None = None
    compute_s: float | None = None
    compute_basis: Literal["measured", "estimated"] = "measured"
