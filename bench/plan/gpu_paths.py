"""The ways by which GPUs of one host reach each other, as candidates.

In: HostFacts. Out: `p2p` (NCCL's own way, but for NVLS), `shm` (through host memory) and `net` (as
if each GPU were a host of its own). NCCL cannot be made to use PCIe peer-to-peer between GPUs that
have NVLink (facts: its P2P level is a threshold and CUDA picks NVLink), so there is no such
candidate: what their PCIe links carry, the copies between host and GPU tell.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.facts.placement import visible_gpus
from bench.records import Candidate, HostFacts

MOST_HOSTS = 4  # above, three more cases per host would outlast the networks: the first host only

# A user's own setting would turn one path into another, so each path states all that decides it.
# NVLS needs no P2P by NCCL's rules: it would carry an all_reduce past the other two settings, and
# on p2p its busbw rightly exceeds what the links of a ring can carry, so nothing could be held
# against them. MNNVL is for other hosts. NET_DISABLE_INTRA=1 keeps NCCL from taking the network
# inside a host where it models that as faster; RCCL has it on, which would leave `net` no way.
# An empty level is none, and unlike an unset one is not filled in from nccl.conf.
_SAME: dict[str, str | None] = {
    "NCCL_NVLS_ENABLE": "0", "NCCL_MNNVL_ENABLE": "0", "NCCL_P2P_LEVEL": ""
}  # fmt: skip
_PATHS: dict[str, dict[str, str | None]] = {
    "p2p": {"NCCL_P2P_DISABLE": "0", "NCCL_SHM_DISABLE": "0", "NCCL_NET_DISABLE_INTRA": "1"},
    "shm": {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "0", "NCCL_NET_DISABLE_INTRA": "1"},
    "net": {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1", "NCCL_NET_DISABLE_INTRA": "0"},
}


def gpu_paths(hosts: Sequence[HostFacts]) -> list[Candidate]:
    """Three candidates for each of up to four hosts that have two or more ranks, each on a GPU of
    its own; of a larger cluster the first such host only. `ranks` are the host's own."""
    able = [host for host in hosts if len(host.ranks) > 1 and _a_gpu_each(host)]
    if len(hosts) > MOST_HOSTS:
        able = able[:1]
    return [
        Candidate(
            name=path if len(hosts) == 1 else f"{path}@{host.host}",
            kind="gpu-path",
            transport="gpu" if path != "net" else "mixed",
            interfaces={host.host: path},
            environment={**_SAME, **settings},
            ranks=() if len(hosts) == 1 else tuple(host.ranks),
        )
        for host in able
        for path, settings in _PATHS.items()
    ]


def _a_gpu_each(host: HostFacts) -> bool:
    """Ranks that share a GPU are told to NCCL as hosts of their own, else it refuses them: their
    every path would be the network, whatever it is called."""
    taken = [placement.gpu for placement in host.placements if placement.gpu is not None]
    if len(taken) == len(host.ranks):
        return len(set(taken)) == len(taken)
    seen = visible_gpus(host.gpus, host.environment.get("CUDA_VISIBLE_DEVICES"))
    return len(host.ranks) <= len(host.gpus if seen is None else seen)
