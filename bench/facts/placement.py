"""Where a rank may run: its CPU mask, the NUMA nodes that mask touches, and its GPU.

In: a process. Out: `RankPlacement` with the CPUs in the kernel's list format ("0-3,8"). A rank
pinned to the other socket's cores is slow for a reason that is no link's fault. The GPU is worked
out by CUDA's rules (CUDA_VISIBLE_DEVICES in its programming guide), not asked: asking makes a
context, and an agent has none.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from bench.facts import sysfs
from bench.records import Gpu, RankPlacement


def read(
    rank: int,
    local_rank: int,
    *,
    process: int = 0,
    gpu: int | None = None,
    nodes: Path = Path("/sys/devices/system/node"),
) -> RankPlacement:
    """The placement of a process (0: this one); `cpus` None where the kernel refuses."""
    try:
        cpus = os.sched_getaffinity(process)
    except (OSError, AttributeError):  # gone, not ours, or not Linux
        return RankPlacement(rank=rank, local_rank=local_rank, gpu=gpu)
    return RankPlacement(
        rank=rank,
        local_rank=local_rank,
        cpus=cpu_list(cpus),
        numa_nodes=numa_nodes(cpus, nodes),
        gpu=gpu,
    )


def visible_gpus(gpus: Sequence[Gpu], visible: str | None) -> tuple[int, ...] | None:
    """NVML indexes of the GPUs that a process with CUDA_VISIBLE_DEVICES=`visible` sees, in CUDA's
    order. As CUDA does, the list ends before the first entry that names no GPU.

    None where it cannot be known: MIG instances, UUIDs that NVML does not tell, a GPU named twice,
    or different models by number (CUDA numbers the fastest first, NVML by PCI address).
    """
    known = sorted(gpus, key=lambda gpu: gpu.index)
    if any(gpu.mig_mode for gpu in known):
        return None
    entries = [str(i) for i in range(len(known))] if visible is None else visible.split(",")
    chosen: list[Gpu] = []
    for entry in (entry.strip() for entry in entries):
        by_number = entry.isdecimal()
        if entry.startswith("MIG") or (by_number and len({gpu.name for gpu in known}) > 1):
            return None
        if not by_number and any(gpu.uuid is None for gpu in known):
            return None
        fitting = [
            gpu
            for position, gpu in enumerate(known)
            if (str(position) == entry if by_number else _named(gpu, entry))
        ]
        if len(fitting) != 1:
            break
        chosen += fitting
    indexes = tuple(gpu.index for gpu in chosen)
    return indexes if len(set(indexes)) == len(indexes) else None


def _named(gpu: Gpu, entry: str) -> bool:
    """ "GPU-8f3a" names a GPU by the beginning of its UUID."""
    return entry.startswith("GPU-") and (gpu.uuid or "").lower().startswith(entry.lower())


def gpu_of(local_rank: int, gpus: Sequence[Gpu], visible: str | None) -> int | None:
    """NVML index of the GPU that a worker takes: the visible one at `local_rank`, modulo their
    number. `gpus` are the host's, `visible` the value of CUDA_VISIBLE_DEVICES. None: not known."""
    seen = visible_gpus(gpus, visible)
    return seen[local_rank % len(seen)] if seen else None


def numa_nodes(
    cpus: Collection[int], nodes: Path = Path("/sys/devices/system/node")
) -> tuple[int, ...]:
    """NUMA nodes that own at least one of the CPUs."""
    touched = []
    for name in sysfs.names(nodes):
        if name.startswith("node") and name[4:].isdigit():
            owned = parse_cpu_list(sysfs.text(nodes / name / "cpulist") or "")
            if owned.intersection(cpus):
                touched.append(int(name[4:]))
    return tuple(sorted(touched))


def cpu_list(cpus: Iterable[int]) -> str:
    """{0, 1, 2, 8} -> "0-2,8"."""
    spans: list[tuple[int, int]] = []
    for cpu in sorted(cpus):
        if spans and cpu == spans[-1][1] + 1:
            spans[-1] = (spans[-1][0], cpu)
        else:
            spans.append((cpu, cpu))
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in spans)


def parse_cpu_list(text: str) -> set[int]:
    """ "0-2,8" -> {0, 1, 2, 8}; parts that are no range are skipped."""
    cpus: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if first.isdigit() and (last.isdigit() or not dash):
            cpus.update(range(int(first), int(last or first) + 1))
    return cpus
