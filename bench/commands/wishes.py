"""The options of `cost` as they were typed, before they are checked and joined with a report."""

from __future__ import annotations

from bench.records import Record


class Wishes(Record, frozen=True, kw_only=True):
    """Empty, 0 and None mean not said. The last four come from a configuration only."""

    params: str = ""
    model: str = ""
    training: str = ""
    ranks: int = 0
    hosts: int = 0
    precision: str = ""
    optimizer: str = ""
    framework: str = ""
    micro_batches: int = 0
    sync: str = "usual"
    reshard: str = ""
    reduce_fp32: bool = False
    bucket: str = ""
    copy_buckets: bool = False
    clip: bool = False
    sequence: int = 0
    batch: int = 0
    checkpointing: bool = False
    activations: float | None = None
    gpu_memory: float | None = None
    compute: float | None = None
    tflops: float | None = None
    lora: int = 0
    qlora: int = 0
    trained: str = ""
    bucket_elements: int = 0
    offload_optimizer: bool = False
    offload_parameters: bool = False
    configured: str = ""
