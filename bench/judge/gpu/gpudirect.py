"""Whether RDMA adapters read and write GPU memory themselves (GPUDirect RDMA).

In: NCCL's channel lines over IB, the PCI way from GPU to adapter, kernel modules. Out:
gdr-disabled, never worse than a warning: NCCL rightly goes without it where the adapter lies
beyond a CPU (its level is PXB), and GeForce cards have none. Since 2.13 DMA-BUF does what the
peer-memory module did, so a missing module alone proves nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.judge.channels import Edge, Told
from bench.judge.docket import Docket
from bench.judge.gpu.ways import P2P_LEVEL
from bench.judge.networks import Networks
from bench.records import Evidence, Finding, HostFacts, Where

PEER_MEMORY = ("nvidia_peermem", "nv_peer_mem")
SETTINGS = ("NCCL_NET_GDR_LEVEL", "NCCL_NET_GDR_READ", "NCCL_IB_GDR_LEVEL")
SHOWN = 3


def judge(net: Networks, docket: Docket, edges: Told) -> None:
    """Add gdr-disabled for hosts none of whose IB channels has it, though a GPU lies beside an
    adapter; a note where RDMA is predicted and the log does not tell."""
    for facts in net.report.hosts:
        if not _able(facts):
            continue
        own = [
            edge
            for by_host in edges.values()
            for edge in by_host.get(facts.host, ())
            if edge.line.network == "IB"
        ]
        if own and not any(edge.line.gdr for edge in own):
            docket.add(_finding(facts, own))
        elif not own and _predicted(facts) and not _module(facts):
            docket.add(_note(facts))


def _able(facts: HostFacts) -> bool:
    """A GPU that can, with an active adapter as near as NCCL's level wants it."""
    ports = {p.device for p in facts.rdma_ports if "ACTIVE" in (p.state or "").upper()}
    return any(
        path in P2P_LEVEL and nic in ports
        for gpu in facts.gpus
        if gpu.name and "GeForce" not in gpu.name
        for nic, path in gpu.nic_paths.items()
    )


def _module(facts: HostFacts) -> bool:
    return any(name in facts.kernel_modules for name in PEER_MEMORY)


def _predicted(facts: HostFacts) -> bool:
    carries = facts.data_path is not None and facts.data_path.transport == "rdma"
    return carries and bool(facts.kernel_modules)


def _modules(facts: HostFacts) -> list[Evidence]:
    if not facts.kernel_modules or _module(facts):
        return []
    text = (
        f"neither {' nor '.join(PEER_MEMORY)} is loaded on {facts.host}; DMA-BUF may still serve"
    )
    return [Evidence(basis="claimed", text=text)]


def _finding(facts: HostFacts, own: Sequence[Edge]) -> Finding:
    set_there = [
        Evidence(basis="claimed", text=f"{name}={facts.environment[name]} on {facts.host}")
        for name in SETTINGS
        if name in facts.environment
    ]
    near = next(
        f"GPU {gpu.index} and {nic} are {path} apart"
        for gpu in facts.gpus
        for nic, path in gpu.nic_paths.items()
        if path in P2P_LEVEL
    )
    return Finding(
        code="gdr-disabled",
        severity="warning",
        summary=f"None of {len(own)} channel edges over IB on {facts.host} has GPUDirect RDMA: "
        "every byte takes the way through host memory.",
        where=Where(host=facts.host),
        evidence=(
            *(Evidence(basis="asked", text=f"NCCL: {edge.text}") for edge in own[:SHOWN]),
            Evidence(basis="claimed", text=f"{near}, near enough for it"),
            *_modules(facts),
            *set_there,
        ),
        remedy="unset " + " ".join(n for n in SETTINGS if n in facts.environment)
        if set_there
        else "sudo modprobe nvidia_peermem; lsmod | grep -i peer",
        confidence="asked",
    )


def _note(facts: HostFacts) -> Finding:
    return Finding(
        code="gdr-disabled",
        severity="info",
        summary=f"RDMA carries NCCL's data on {facts.host} ({len(facts.rdma_ports)} ports) and no "
        "peer-memory module is loaded; whether DMA-BUF stands in is not known.",
        where=Where(host=facts.host),
        evidence=tuple(_modules(facts)),
        remedy="sudo modprobe nvidia_peermem",
        confidence="predicted",
    )
