"""Whether GPUs of a host may address each other, and what stands in the way.

In: the driver's P2P status, ACS and IOMMU from sysfs, copies between neighbours, and the cases
p2p and shm. Out: p2p-blocked, told once per host. That a driver allows no peer access is right for
many cards: it is held against NVLinks, the fabric file, or other pairs that lie as near.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.judge import hangs
from bench.judge.docket import Docket
from bench.judge.gpu import acs, fleet, ways
from bench.judge.gpu.fleet import path, peers_of, slowed
from bench.judge.networks import Networks
from bench.judge.words import listed
from bench.records import (
    Candidate,
    Evidence,
    Finding,
    GpuPair,
    HostFacts,
    Where,
)

REASONS = {
    "CNS": "the chipset does not support it",
    "GNS": "the GPU does not support it",
    "TNS": "the topology does not support it",
    "DR": "disabled by a registry key of the driver",
    "NS": "not supported",
    "U": "for reasons it does not tell",
}
SHOWN = 4


def judge(net: Networks, docket: Docket) -> None:
    """Add p2p-blocked: what hangs, then what the driver refuses, then what is redirected."""
    for facts in net.report.hosts:
        if any(gpu.mig_mode for gpu in facts.gpus):
            continue  # instances have no peers
        told = _hung(net, docket, facts) or _refused(net, docket, facts)
        if not told:
            acs.judge(net, docket, facts)


# -------------------------------------------------------------------------- it does not end


def _hung(net: Networks, docket: Docket, facts: HostFacts) -> bool:
    """Peer to peer stops where shared memory works, or a copy to a neighbour never ended."""
    stuck = next((c.stuck for c in net.report.copies if c.host == facts.host), ())
    p2p, shm = path(net, facts.host, "p2p"), path(net, facts.host, "shm")
    stopped = (
        p2p is not None
        and shm is not None
        and p2p.outcome in ("hung", "failed")
        and shm.outcome == "measured"
        and not _somebody_else(net, p2p)
    )
    if not stopped and len(stuck) != 2:
        return False
    evidence = []
    if len(stuck) == 2:
        text = f"the copy from GPU {stuck[0]} to GPU {stuck[1]} did not end and was killed"
        evidence.append(Evidence(basis="measured", text=text))
    if stopped and p2p is not None and shm is not None:
        evidence.append(
            Evidence(
                basis="measured",
                text=f"{p2p.name} {p2p.outcome}, {shm.name} was measured on the same GPUs",
            )
        )
    evidence += acs.barriers(facts, [gpu.index for gpu in facts.gpus])
    explained = [p2p.name] if stopped and p2p is not None else []
    default = net.default
    ends = default is not None and default.outcome == "measured" and not stuck
    if default is not None and default.outcome in ("hung", "failed"):
        explained.append(default.name)
    docket.add(
        Finding(
            code="p2p-blocked",
            severity="degraded" if ends else "broken",  # what users get does end
            summary=f"GPUs on {facts.host} cannot reach each other directly: "
            + (f"GPU {stuck[0]} to GPU {stuck[1]} hangs." if len(stuck) == 2
               else f"peer to peer {'hangs' if p2p and p2p.outcome == 'hung' else 'fails'} where "
               f"shared memory between the same {len(ways.ring_gpus(facts))} GPUs works."),
            where=Where(
                host=facts.host,
                candidate=explained[0] if explained else None,
                link=tuple(f"GPU{gpu}" for gpu in stuck) if len(stuck) == 2 else (),
            ),
            evidence=tuple(evidence),
            remedy=acs.remedy(facts) or "export NCCL_P2P_DISABLE='1'",
        ),
        explains=[*explained, peers_of(facts.host)],
    )  # fmt: skip
    return True


def _somebody_else(net: Networks, candidate: Candidate) -> bool:
    """A rank that died or was stopped explains a hang better than any path."""
    for session in net.report.sessions:
        if session.case.candidate == candidate.name and session.outcome != "measured":
            guilt = hangs.guilty(session.ranks)
            if guilt is not None and not guilt.inferred:
                return True
    return False


# --------------------------------------------------------------------- the driver says no


def _refused(net: Networks, docket: Docket, facts: HostFacts) -> bool:
    told = [
        pair
        for pair in facts.gpu_pairs
        if pair.p2p.get("read") is not None and not ways.allowed(pair)
    ]
    accused = {pair.gpus: why for pair in told if (why := _against(net, facts, pair, told))}
    if not accused:
        return False
    pairs = [pair for pair in told if pair.gpus in accused]
    common = set.intersection(*({*pair.gpus} for pair in pairs))
    gpu = common.pop() if len(common) == 1 and len(pairs) > 1 else None
    whom = (
        f"GPU {gpu} and {len(pairs)} others" if gpu is not None
        else f"{listed(_named(p) for p in pairs)}" if len(pairs) <= SHOWN
        else f"{len(pairs)} pairs of GPUs"
    )  # fmt: skip
    word = _word(pairs[0])
    docket.add(
        Finding(
            code="p2p-blocked",
            severity="degraded",
            summary=f"The driver on {facts.host} allows no peer access between {whom}: "
            f"{REASONS.get(word, word)} ({word}).",
            where=Where(
                host=facts.host,
                gpu=gpu,
                link=tuple(f"GPU{n}" for n in pairs[0].gpus) if len(pairs) == 1 else (),
            ),
            evidence=(
                *(
                    Evidence(basis="claimed", text=f"{_named(pair)}: {_word(pair)}")
                    for pair in pairs[:SHOWN]
                ),
                *dict.fromkeys(accused[pair.gpus] for pair in pairs[:SHOWN]),
                *acs.barriers(facts, [n for pair in pairs for n in pair.gpus]),
            ),
            remedy="nvidia-smi topo -p2p r; nvidia-smi topo -m",
            confidence="inferred",
        ),
        explains=[peers_of(facts.host), *slowed(net, facts.host, "p2p")],
    )
    return True


def _against(
    net: Networks, facts: HostFacts, pair: GpuPair, refused: Sequence[GpuPair]
) -> Evidence | None:
    """What contradicts the driver's no: links that join the two, the fabric file, other pairs as
    near as these."""
    gpus = {gpu.index: gpu for gpu in facts.gpus}
    a, b = pair.gpus
    if ways.joined(pair, gpus.get(a), gpus.get(b)):
        number = pair.nvlinks or "active"
        return Evidence(basis="claimed", text=f"{number} NVLinks join {_named(pair)}")
    first = gpus.get(a)
    meant = fleet.stated(net.report.fabric, first).path if first is not None else None
    if meant == "nvlink" and ways.apart(pair, first, gpus.get(b)):
        meant = None
    if meant in ("nvlink", "pcie"):
        return Evidence(basis="expected", text=f"the fabric file expects {meant} between GPUs")
    alike = [
        other
        for other in facts.gpu_pairs
        if other.pci_path == pair.pci_path is not None and other.ancestor == pair.ancestor
        and other.p2p.get("read") is not None
    ]  # fmt: skip
    fine = [other for other in alike if ways.allowed(other)]
    if len(fine) * 2 <= len(alike) or len(fine) < 2:
        return None
    text = f"{len(fine)} other pairs as near ({pair.pci_path}) may reach each other"
    return Evidence(basis="claimed", text=text)


def _word(pair: GpuPair) -> str:
    words = [pair.p2p.get("read"), pair.p2p.get("write")]
    words += [pair.p2p_back.get("read", "OK"), pair.p2p_back.get("write", "OK")]
    return next((word for word in words if word not in (None, "OK")), None) or "OK"


def _named(pair: GpuPair) -> str:
    return f"GPU {pair.gpus[0]} and GPU {pair.gpus[1]}"
