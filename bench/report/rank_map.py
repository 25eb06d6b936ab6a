"""Rank → GPU → NUMA node → CPU mask → nearest NIC: who sits where, as rows of a table.

In: HostFacts. Out: rows of text. Where no rank is known (a host looked at alone) the GPUs are
listed under the local rank that CUDA's rules would give them, with the CPUs that are near.
"""

from __future__ import annotations

from dataclasses import dataclass

from bench.facts.placement import gpu_of, visible_gpus
from bench.records import Gpu, HostFacts, RankPlacement
from bench.report import units
from bench.report.text import abbreviated, cell

NICS_SHOWN = 2
CPUS_COLUMNS = 20
HEAD = ("rank", "GPU", "NUMA node", "CPUs", "on nodes", "nearest NIC")
ALONE_HEAD = ("local rank", "GPU", "NUMA node", "CPUs nearby", "nearest NIC")


@dataclass(frozen=True)
class Seat:
    """One row, as text."""

    rank: str
    gpu: str
    numa: str
    cpus: str
    cpu_nodes: str
    nics: str


def seats(host: HostFacts) -> list[Seat]:
    """One row per rank whose placement is known; else per GPU of a host looked at alone."""
    cards = {gpu.index: gpu for gpu in host.gpus}
    if host.placements:
        visible = host.environment.get("CUDA_VISIBLE_DEVICES")
        return [_seat(place, _card(place, cards, visible)) for place in host.placements]
    visible_now = visible_gpus(host.gpus, host.environment.get("CUDA_VISIBLE_DEVICES")) or ()
    local = {gpu: str(rank) for rank, gpu in enumerate(visible_now)}
    return [
        Seat(
            rank=local.get(gpu.index, units.UNKNOWN),
            gpu=str(gpu.index),
            numa=_known(gpu.numa_node),
            cpus=cell(gpu.cpu_affinity or units.UNKNOWN, CPUS_COLUMNS),
            cpu_nodes="",
            nics=nearest(gpu),
        )
        for gpu in host.gpus
    ]


def _card(place: RankPlacement, cards: dict[int, Gpu], visible: str | None) -> Gpu | None:
    index = place.gpu
    if index is None and cards:
        index = gpu_of(place.local_rank, list(cards.values()), visible)
    return cards.get(index) if index is not None else None


def _seat(place: RankPlacement, gpu: Gpu | None) -> Seat:
    return Seat(
        rank=str(place.rank),
        gpu=units.UNKNOWN if gpu is None else str(gpu.index),
        numa=_known(gpu.numa_node if gpu is not None else None),
        cpus=cell(place.cpus or units.UNKNOWN, CPUS_COLUMNS),
        cpu_nodes=", ".join(map(str, place.numa_nodes)) or units.UNKNOWN,
        nics=units.UNKNOWN if gpu is None else nearest(gpu),
    )


def nearest(gpu: Gpu) -> str:
    """ "mlx5_0 (PIX)"."""
    if not gpu.nearest_nics:
        return units.UNKNOWN
    path = gpu.nic_paths.get(gpu.nearest_nics[0], "")
    return f"{abbreviated(gpu.nearest_nics, NICS_SHOWN)} ({path})"


def _known(value: int | None) -> str:
    return units.UNKNOWN if value is None else str(value)
