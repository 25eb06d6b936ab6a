"""The ways between GPUs: the rules of the room "GPU path", in the order of causes.

In: a report's networks and the docket. Out: findings of NVLinks, PCIe links, peer access and
transports, and those told here: duplicate-gpu, topology-unknown, and copies that arrived wrong.
Nothing is said of hosts without GPUs, nor of AMD's, of which NVML tells nothing.
"""

from __future__ import annotations

from bench.judge import channels, transports
from bench.judge.docket import Docket
from bench.judge.gpu import acs, gpudirect, nvlinks, pcie_devices, pcie_links, peer_access
from bench.judge.networks import Networks
from bench.judge.words import listed, quote
from bench.records import Evidence, Finding, HostFacts, RankOutcome, Where

# How NCCL says it: up to 2.29, in 2.30.3, from 2.30.7 on.
REFUSALS = (
    "Duplicate GPU detected",
    "Multiple ranks detected using the same GPU",
    "Multiple Ranks are using the same GPU",
)
SHOWN = 4


def judge(net: Networks, docket: Docket) -> None:
    """Add what is wrong between GPUs; a cause before what follows from it."""
    _duplicates(net, docket)
    _unknown(net, docket)
    _missing(net, docket)
    nvlinks.judge(net, docket)
    pcie_links.judge(net, docket)
    pcie_devices.judge(net, docket)
    _wrong_copies(net, docket)
    peer_access.judge(net, docket)
    edges = channels.of_all(net)
    transports.judge(net, docket, edges)
    gpudirect.judge(net, docket, edges)


# ---------------------------------------------------------------------------------- sharing


def _duplicates(net: Networks, docket: Docket) -> None:
    """Ranks on one GPU: NCCL refused them, or this sweep let them pass for hosts of their own."""
    refused = _refused(net)
    for facts in net.report.hosts:
        sharing: dict[int, list[int]] = {}
        for placement in facts.placements:
            if placement.gpu is not None:
                sharing.setdefault(placement.gpu, []).append(placement.rank)
        shared = {gpu: ranks for gpu, ranks in sharing.items() if len(ranks) > 1}
        said = [(rank, name, line) for rank, name, line in refused if rank.host == facts.host]
        if said:
            _add_refused(docket, facts, shared, said)
        elif shared and net.report.backend == "nccl":
            _add_shared(docket, facts, shared)


def _refused(net: Networks) -> list[tuple[RankOutcome, str, str]]:
    """(rank, candidate, NCCL's line) of sessions that ended with such words."""
    found = []
    for session in net.report.sessions:
        for rank in session.ranks:
            for text in (rank.error or "", rank.log_tail or ""):
                line = next((x for x in text.splitlines() if any(r in x for r in REFUSALS)), None)
                if line is not None:
                    found.append((rank, session.case.candidate, line))
                    break
    return found


def _add_refused(
    docket: Docket,
    facts: HostFacts,
    shared: dict[int, list[int]],
    said: list[tuple[RankOutcome, str, str]],
) -> None:
    ranks = sorted({rank.rank for rank, _, _ in said})
    docket.add(
        Finding(
            code="duplicate-gpu",
            severity="broken",
            summary=f"NCCL refuses {len(facts.ranks)} ranks on {facts.host}: several of them use "
            "the same GPU.",
            where=Where(
                host=facts.host,
                gpu=next(iter(shared)) if len(shared) == 1 else None,
                ranks=tuple(ranks),
            ),
            evidence=(
                *(
                    Evidence(basis="asked", text=f"rank {rank.rank}: {quote(line)}")
                    for rank, _, line in said[:SHOWN]
                ),
                *_who(shared),
                *_visible(facts),
            ),
            remedy='nvidia-smi -L; echo "$CUDA_VISIBLE_DEVICES"',
            confidence="asked",
        ),
        explains=dict.fromkeys(name for _, name, _ in said),
    )


def _add_shared(docket: Docket, facts: HostFacts, shared: dict[int, list[int]]) -> None:
    """A remark where there are more ranks than GPUs, which somebody meant; else a warning: a job
    of the same launch would be refused."""
    crowded = len(facts.ranks) > len(facts.gpus)
    gpu, ranks = next(iter(shared.items()))
    docket.add(
        Finding(
            code="duplicate-gpu",
            severity="info" if crowded else "warning",
            summary=f"Ranks {listed(str(rank) for rank in ranks)} on {facts.host} share GPU "
            f"{gpu}; they pass for hosts of their own, so their figures are those of the network "
            "and of a shared GPU. NCCL refuses such a job.",
            where=Where(host=facts.host, gpu=gpu, ranks=tuple(ranks)),
            evidence=(*_who(shared), *_visible(facts)),
            remedy='nvidia-smi -L; echo "$CUDA_VISIBLE_DEVICES"',
            confidence="inferred",
        )
    )


def _who(shared: dict[int, list[int]]) -> list[Evidence]:
    return [
        Evidence(basis="claimed", text=f"GPU {gpu}: ranks {listed(str(r) for r in ranks)}")
        for gpu, ranks in list(shared.items())[:SHOWN]
    ]


def _visible(facts: HostFacts) -> list[Evidence]:
    value = facts.environment.get("CUDA_VISIBLE_DEVICES")
    seen = "unset" if value is None else repr(value)
    text = f"{facts.host}: {len(facts.gpus)} GPUs, CUDA_VISIBLE_DEVICES {seen}"
    return [Evidence(basis="claimed", text=text)]


# ------------------------------------------------------------------------- what is not there


def _unknown(net: Networks, docket: Docket) -> None:
    """A driver that does not answer. Without a driver there is nothing to know, and single items
    that a device does not tell stand with it."""
    for facts in net.report.hosts:
        why = facts.unreadable.get("nvml")
        if facts.gpus or why is None or "nvidia" not in facts.kernel_modules:
            continue
        docket.add(
            Finding(
                code="topology-unknown",
                severity="warning",
                summary=f"The NVIDIA driver is loaded on {facts.host}, yet NVML tells of 0 GPUs: "
                f"{why.rstrip('.')}.",
                where=Where(host=facts.host),
                evidence=(Evidence(basis="claimed", text=f"NVML on {facts.host}: {why}"),),
                remedy="nvidia-smi; cat /proc/driver/nvidia/version",
                confidence="inferred",
            )
        )


def _missing(net: Networks, docket: Docket) -> None:
    """Fewer GPUs than the operator's fabric file has on a host."""
    fabric = net.report.fabric
    if fabric is None or fabric.hint or not fabric.gpus.per_host:
        return
    for facts in net.report.hosts:
        wanted, here = fabric.gpus.per_host, len(facts.gpus)
        if here >= wanted or (here == 0 and "nvml" in facts.unreadable):
            continue
        others = sum(len(other.gpus) >= wanted for other in net.report.hosts)
        xids = {k: n for k, n in facts.error_counters.items() if k.startswith("xid")}
        docket.add(
            Finding(
                code="topology-unknown",
                kind="gpu-missing",
                severity="degraded",
                summary=f"{facts.host} shows {here} of {wanted} GPUs: {_lost(wanted - here)}.",
                where=Where(host=facts.host),
                evidence=(
                    Evidence(basis="expected", text=f"the fabric file has {wanted} GPUs a host"),
                    Evidence(
                        basis="claimed",
                        text=f"NVML on {facts.host}: GPUs "
                        f"{listed(str(gpu.index) for gpu in facts.gpus) or 'none'}; {others} "
                        "hosts show all",
                    ),
                    *(
                        Evidence(basis="claimed", text=f"{facts.host}: {name} {count} times")
                        for name, count in list(xids.items())[:SHOWN]
                    ),
                ),
                remedy="nvidia-smi -L; lspci -d 10de:; "
                "sudo journalctl -k --grep 'fallen off the bus|Xid'",
                confidence="inferred",
            )
        )


def _lost(number: int) -> str:
    return f"{number} {'is' if number == 1 else 'are'} hidden or have fallen off the bus"


def _wrong_copies(net: Networks, docket: Docket) -> None:
    """Bytes that did not arrive as they left: nothing else on such a host matters as much."""
    for check in net.report.copies:
        wrong = [figure for figure in check.figures if figure.wrong]
        if not wrong:
            continue
        first = wrong[0]
        pair = first.way == "to-peer" and first.gpu is not None and first.peer is not None
        ways = [
            f"GPU {f.gpu} to GPU {f.peer}" if f.way == "to-peer"
            else f"host to GPU {f.gpu}" if f.way == "to-device"
            else f"GPU {f.gpu} to host"
            for f in wrong
        ]  # fmt: skip
        facts = net.hosts.get(check.host)
        docket.add(
            Finding(
                code="wrong-result",
                severity="broken",
                summary=f"{sum(f.wrong for f in wrong):,} elements of plain copies on "
                f"{check.host} arrived with wrong values ({listed(ways)}).",
                where=Where(
                    host=check.host,
                    gpu=first.gpu,
                    link=(f"GPU{first.gpu}", f"GPU{first.peer}") if pair else (),
                ),
                evidence=(
                    *(
                        Evidence(basis="measured", text=f"{way}: {figure.wrong:,} of "
                                 f"{figure.size_bytes // 4:,} elements")
                        for way, figure in list(zip(ways, wrong, strict=True))[:SHOWN]
                    ),
                    *(
                        acs.barriers(facts, [g.index for g in facts.gpus])
                        if facts is not None and pair
                        else ()
                    ),
                ),
                remedy="export NCCL_P2P_DISABLE='1'" if pair else "nvidia-smi -q -d ECC",
            )
        )  # fmt: skip
