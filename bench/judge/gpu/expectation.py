"""What the GPUs of a fabric file are, from what NVML says of those that are here.

In: HostFacts. Out: FabricGpus of what all have in common; what differs is told and left out, and
so is what nobody can say (whether a pair could reach each other, where the driver refused).
"""

from __future__ import annotations

import glob
from collections.abc import Sequence
from typing import Literal

from bench.judge.gpu import ways
from bench.records import FabricGpus, Gpu, HostFacts


def gpus_of(hosts: Sequence[HostFacts], notes: list[str]) -> FabricGpus:
    """What the GPUs of all hosts have in common; what differs is told and left out."""
    gpus = [gpu for facts in hosts for gpu in facts.gpus]
    if not gpus:
        return FabricGpus()
    counts = {len(facts.gpus) for facts in hosts if facts.gpus}
    if len(counts) > 1:
        notes.append(f"hosts have {min(counts)} to {max(counts)} GPUs; no number is written")
    links = {gpu.nvlinks_active for gpu in gpus if gpu.nvlinks_active is not None}
    if len(links) > 1:
        notes.append(
            f"GPUs have {min(links)} to {max(links)} active NVLinks; no number is written"
        )
    idle = sum(gpu.nvlinks_inactive or 0 for gpu in gpus)
    if idle:
        notes.append(f"{idle} NVLinks are inactive and not expected: look whether they should be")
    slots = {_slot(gpu) for gpu in gpus} - {None}
    if len(slots) > 1:
        notes.append(f"PCIe slots differ ({', '.join(sorted(map(str, slots)))}); none is written")
    speeds = {_nvlink_gbs(gpu) for gpu in gpus} - {None}
    return FabricGpus(
        model=tuple(sorted({glob.escape(gpu.name) for gpu in gpus if gpu.name})),
        per_host=counts.pop() if len(counts) == 1 else None,
        path=_path(hosts),
        nvlinks=links.pop() if len(links) == 1 else None,
        nvlink_gbs=speeds.pop() if len(speeds) == 1 else None,
        pcie=slots.pop() if len(slots) == 1 else None,
    )


def _slot(gpu: Gpu) -> str | None:
    """What GPU and slot can do together; at rest the link itself may say less."""
    if gpu.pcie_max_generation is None or gpu.pcie_max_width is None:
        return None
    return f"{gpu.pcie_max_generation}x{gpu.pcie_max_width}"


def _nvlink_gbs(gpu: Gpu) -> float | None:
    told = [(link.speed_gbs, len(link.links)) for link in gpu.nvlinks if link.active]
    if not told or any(speed is None for speed, _ in told):
        return None
    return round(sum((speed or 0.0) * links for speed, links in told), 1)


def _path(hosts: Sequence[HostFacts]) -> Literal["nvlink", "pcie", "none"] | None:
    """NVLink where it joins all GPUs of each host, else what the driver says of reading a peer.
    GPUs that bridges join two by two have NVLinks, and go by PCIe to the others."""
    gpus = [gpu for facts in hosts for gpu in facts.gpus]
    if all(ways.all_joined(facts, facts.gpus) for facts in hosts):
        return "nvlink"
    pairs = [pair for facts in hosts for pair in facts.gpu_pairs]
    words = {pair.p2p.get("read") for pair in pairs}
    if not words or None in words or any(gpu.nvlinks_active for gpu in gpus):
        return None  # nothing told, or only some pairs have a bridge
    return "pcie" if words == {"OK"} else "none" if "OK" not in words else None
