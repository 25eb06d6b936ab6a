"""Copies between host and GPUs: what each PCIe link and each pair of GPUs really carries."""

from __future__ import annotations

from typing import Literal

from bench.records.words import Record


class CopyFigure(Record, frozen=True, kw_only=True):
    """One direction of one GPU's link to the host, or of the way to a neighbour.

    `gpu` is NVML's index, None where CUDA's device could not be matched to it (`device` is CUDA's
    own number); a copy to-peer leaves `gpu` and arrives at `peer` (`peer_device`). Bandwidths are
    medians, least and most over `copies` timed copies of `size_bytes`, 1e9 bytes/s, host memory
    pinned. `pcie_generation` and `pcie_width` were read while a copy was under way. `near` is
    whether the host's memory was on the GPU's own NUMA node; `direct` whether CUDA lets the one
    GPU address the other. None: not known. `wrong` are elements of four bytes that arrived wrong.
    """

    host: str
    way: Literal["to-device", "from-device", "to-peer"]
    device: int
    gpu: int | None = None
    peer_device: int | None = None
    peer: int | None = None
    size_bytes: int
    copies: int
    bandwidth_gbs: float
    least_gbs: float
    most_gbs: float
    pcie_generation: int | None = None
    pcie_width: int | None = None
    near: bool | None = None
    direct: bool | None = None
    wrong: int = 0


class CopyCheck(Record, frozen=True, kw_only=True):
    """The copies of one host. `trouble` is a sentence where they ended early; `stuck` is the pair
    (or the one GPU) between which a copy did not end, in NVML's indexes."""

    host: str
    figures: tuple[CopyFigure, ...] = ()
    trouble: str | None = None
    stuck: tuple[int, ...] = ()
