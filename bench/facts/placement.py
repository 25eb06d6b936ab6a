"""Where a rank may run: its CPU mask and the NUMA nodes that mask touches.

In: a process. Out: `RankPlacement` with the CPUs in the kernel's list format ("0-3,8"). A rank
pinned to the other socket's cores is slow for a reason that is no link's fault.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from pathlib import Path

from bench.facts import sysfs
from bench.records import RankPlacement


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
