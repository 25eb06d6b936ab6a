"""What one session of a candidate costs in seconds, from the plan and what is known of its links.

In: plan settings, candidates, hosts, the fabric file. Out: seconds by candidate. An estimate: what
a network carries is what the sweep is to find out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bench.plan.naming import expected_network
from bench.plan.sizes import held_out, ladder
from bench.plan.volumes import WIRE_SHARES, WITHOUT_PAYLOAD
from bench.records import Backend, Candidate, Fabric, HostFacts, PlanSettings

# What a sweep spends besides its cells; measured in the lab for gloo, supposed for NCCL (a CUDA
# context and the topology search of every fresh process take seconds).
FIXED_S = 8.0  # facts, preflight, fit, judgement, page
WORKER_S = {"gloo": 0.15, "nccl": 3.0}
GROUP_S = {"gloo": 0.05, "nccl": 1.5}
GROUP_S_PER_RANK = {"gloo": 0.004, "nccl": 0.02}
# Copies between host and GPUs: CUDA's start, then a context, two ways to the host and two to the
# neighbour for each GPU (a quarter of a second each way at most where links are healthy).
COPIES_S, COPIES_S_PER_GPU = 2.5, 0.75
COPIES_SHARE = 0.25  # of the budget at most: what users get is measured first
WARMUP = 1.2  # warm-up calls, agreement on when to stop and value checks, per measured second


def costs_s(
    settings: PlanSettings,
    candidates: Iterable[Candidate],
    hosts: Sequence[HostFacts],
    backend: Backend,
    ranks: int,
    fabric: Fabric | None,
) -> dict[str, float]:
    """Seconds of one session of each candidate, by name."""
    sizes = ladder(settings, ranks)
    return {
        c.name: _case_s(settings, sizes, rate_of(c, hosts, fabric), len(c.ranks) or ranks, backend)
        for c in candidates
    }


def copies_s(
    settings: PlanSettings, hosts: Sequence[HostFacts], backend: Backend, limit_s: float
) -> float:
    """Seconds of the copy check, all hosts at once; 0 where none is wanted or it is too dear."""
    if backend != "nccl" or not settings.copies:
        return 0.0
    seconds = COPIES_S + COPIES_S_PER_GPU * max(len(host.gpus) for host in hosts)
    return seconds if seconds <= COPIES_SHARE * limit_s else 0.0


def gpu_hours(ranks: int, seconds: float) -> float:
    """What a scheduler charges: every rank holds a GPU for as long as the sweep lasts."""
    return ranks * seconds / 3600


def _case_s(
    settings: PlanSettings, sizes: Sequence[int], rate: float | None, ranks: int, backend: Backend
) -> float:
    """Seconds of one case. Without a known rate every cell takes its nominal time; on a slow
    network the few iterations it must have take longer."""
    cells_s = sum(
        settings.cell_s
        if collective in WITHOUT_PAYLOAD
        else _cells_s(settings, sizes, WIRE_SHARES[collective](ranks), rate)
        for collective in settings.collectives
    )
    group_s = GROUP_S[backend] + GROUP_S_PER_RANK[backend] * ranks
    return WORKER_S[backend] + group_s + WARMUP * cells_s


def _cells_s(
    settings: PlanSettings, sizes: Sequence[int], wire_share: float, rate: float | None
) -> float:
    total = 0.0
    for size in sorted({*sizes, *(held_out(sizes) if settings.held_out else ())}):
        call_s = size * wire_share / rate if rate else 0.0
        total += max(settings.cell_s, settings.min_iterations * call_s)
        if settings.early_stop and call_s > settings.cell_s:
            break  # four sizes of pure transfer lie below: the plateau is known by then
    return total


def rate_of(
    candidate: Candidate, hosts: Sequence[HostFacts], fabric: Fabric | None
) -> float | None:
    """Bytes per second that the fabric file expects or the slowest port claims; None where nobody
    says. Virtual interfaces claim nothing."""
    expected = expected_network(fabric, candidate.interfaces, candidate.addresses)
    if expected is not None and expected.rate_gbps:
        return expected.rate_gbps * 1e9 / 8
    claims = [
        card.speed_mbit
        for host in hosts
        for card in host.interfaces
        if card.kind in ("physical", "bond")
        and card.speed_mbit
        and card.name in candidate.interfaces.get(host.host, "").split("+")
    ]
    return min(claims) * 1e6 / 8 if claims else None
