"""Which rank has which GPU and which cores.

In: facts with placements. Out: rank-placement: ranks that see no GPU on a host that has some,
ranks that share one, ranks pinned to cores of another NUMA node than their GPU's, and ranks that
share a single core.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.judge.docket import Docket
from bench.records import Evidence, Finding, HostFacts, RankPlacement, Where

VISIBLE = "CUDA_VISIBLE_DEVICES"


def judge(hosts: Sequence[HostFacts], docket: Docket) -> None:
    for host in hosts:
        if host.gpus:
            _blind(host, docket)
            _shared(host, docket)
            _far(host, docket)
        _crowded(host, docket)


def _sees_nothing(host: HostFacts, place: RankPlacement) -> bool:
    said = place.visible if place.visible is not None else host.environment.get(VISIBLE)
    return said is not None and said.strip() in ("", "-1", "NoDevFiles")


def _ranks(places: Sequence[RankPlacement]) -> str:
    shown = ", ".join(str(p.rank) for p in places[:8]) + (" …" if len(places) > 8 else "")
    return f"rank {shown}" if len(places) == 1 else f"ranks {shown}"


def _finding(
    host: HostFacts,
    kind: str,
    places: Sequence[RankPlacement],
    summary: str,
    texts: Sequence[str],
    remedy: str | None = None,
) -> Finding:
    return Finding(
        code="rank-placement",
        kind=kind,
        severity="degraded" if kind in ("no-gpu", "one-gpu") else "warning",
        summary=summary,
        where=Where(host=host.host, ranks=tuple(p.rank for p in places)),
        evidence=tuple(Evidence(basis="measured", text=text) for text in texts[:4]),
        remedy=remedy,
    )


def _blind(host: HostFacts, docket: Docket) -> None:
    blind = [place for place in host.placements if _sees_nothing(host, place)]
    if blind:
        summary = f"On {host.host}, {_ranks(blind)} may see no GPU, though the host has some."
        texts = [f"{VISIBLE}={place.visible!r} for rank {place.rank}" for place in blind]
        docket.add(_finding(host, "no-gpu", blind, summary, texts, f"unset {VISIBLE}"))


def _shared(host: HostFacts, docket: Docket) -> None:
    users: dict[int, list[RankPlacement]] = {}
    for place in host.placements:
        if place.gpu is not None:
            users.setdefault(place.gpu, []).append(place)
    twice = {gpu: places for gpu, places in users.items() if len(places) > 1}
    if twice:
        gpu, places = next(iter(twice.items()))
        summary = (
            f"On {host.host}, {_ranks(places)} take the same GPU, {gpu}: NCCL refuses a "
            "communicator in which two ranks share a GPU."
        )
        texts = [f"GPU {gpu}: {_ranks(places)}" for gpu, places in twice.items()]
        docket.add(_finding(host, "one-gpu", places, summary, texts))


def _far(host: HostFacts, docket: Docket) -> None:
    nodes = {gpu.index: gpu.numa_node for gpu in host.gpus}
    far = [
        place
        for place in host.placements
        if place.gpu is not None
        and nodes.get(place.gpu) is not None
        and place.numa_nodes
        and nodes[place.gpu] not in place.numa_nodes
    ]
    if far:
        summary = (
            f"On {host.host}, {_ranks(far)} may run only on cores of another NUMA node than "
            "their GPU's: every launch and copy crosses the sockets."
        )
        texts = [
            f"rank {p.rank}: CPUs {p.cpus} (NUMA {', '.join(map(str, p.numa_nodes))}), GPU "
            f"{p.gpu} on NUMA {nodes[p.gpu]}"
            for p in far
            if p.gpu is not None
        ]
        docket.add(_finding(host, "far-cpu", far, summary, texts))


def _crowded(host: HostFacts, docket: Docket) -> None:
    by_mask: dict[str, list[RankPlacement]] = {}
    for place in host.placements:
        if place.cpus and place.cpus.isdecimal():
            by_mask.setdefault(place.cpus, []).append(place)
    crowded = {cpu: places for cpu, places in by_mask.items() if len(places) > 1}
    if crowded and host.cores > 1:
        cpu, places = next(iter(crowded.items()))
        summary = (
            f"On {host.host}, {_ranks(places)} are pinned to one core, {cpu}: NCCL's threads and "
            "the training loop take turns on it."
        )
        texts = [f"CPU {cpu}: {_ranks(places)}" for cpu, places in crowded.items()]
        remedy = "srun --cpu-bind=none …   # mpirun --bind-to none"
        docket.add(_finding(host, "one-core", places, summary, texts, remedy))
