"""What tests between GPUs of a host show: who reaches whom, how fast, and if it arrives right.

In: a Dossier (p2pBandwidthLatencyTest, simpleP2P, topo -p2p, nvbandwidth, matrices). Out:
p2p-blocked, and pcie-downgraded for a GPU that is slow with every peer and from the host. That a
driver offers no peer access is right for many cards, and across sockets for most: it is held
against NVLinks of the same pair, or only noted.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping

from bench.judge.docket import Docket
from bench.judge.foreign.gpu_matrix import Matrix
from bench.judge.foreign.places import place
from bench.judge.gpu import peer_access
from bench.judge.words import listed
from bench.records import Dossier, Evidence, Finding, PeerMatrix, Where

REASONS = {**peer_access.REASONS, "NO": "the driver says no"}
# The same copy through host memory: peer to peer that is this much slower takes a detour. Both
# directions through one root port cost up to a quarter even where all is well.
SLOWER_THAN_STAGED = 0.75
# The next narrower link gives half; memory on the other socket costs up to a third.
ODD_SHARE = 0.6
LEAST_GPUS = 3
# Two runs of the same copy differ by a percent or two; a peer's way by far more.
ALIKE, FEWEST_DIRECTIONS = 0.03, 2
SHOWN = 6


def judge(dossier: Dossier, docket: Docket) -> None:
    """Wrong data first, then what the driver refuses, then what is slow."""
    for peers in dossier.peers:
        if peers.wrong or peers.failed:
            docket.add(_corrupted(peers))
        for finding in (_refused(peers, dossier), _detour(peers), _without_effect(peers)):
            if finding is not None:
                docket.add(finding)
        for finding in _odd_gpus(peers):
            docket.add(finding)


def suffers(peers: PeerMatrix) -> bool:
    """Whether copies between its GPUs arrive wrong, fail, or take a detour."""
    return bool(peers.wrong or peers.failed) or _detour(peers) is not None


def _where(peers: PeerMatrix, pairs: list[str] | tuple[str, ...] = ()) -> Where:
    return Where(
        host=peers.host,
        link=tuple(f"GPU{gpu}" for gpu in pairs[0].split("-")) if len(pairs) == 1 else (),
        file=peers.file,
        line=peers.line or None,
    )


def _corrupted(peers: PeerMatrix) -> Finding:
    number = f"{peers.wrong} values" if peers.wrong else "values"
    return Finding(
        code="p2p-blocked",
        severity="broken",
        summary=f"{peers.tool or 'The test'} read back {number} wrong after a copy between GPUs: "
        "peer access is offered and does not work.",
        where=_where(peers),
        evidence=(
            Evidence(
                basis="measured", text=f"{place(peers.file)}: verification of the copy failed"
            ),
            Evidence(
                basis="inferred",
                text="an IOMMU that translates, or a driver that offers peer access on cards "
                "without it, does this",
            ),
        ),
        remedy="export NCCL_P2P_DISABLE='1'   # until the IOMMU is off or in passthrough",
        confidence="measured",
    )


# --------------------------------------------------------------------------- the driver says no


def _refused(peers: PeerMatrix, dossier: Dossier) -> Finding | None:
    refused = _pairs(peers, allowed=False)
    if not refused:
        return None
    words = sorted({_word(peers, pair) for pair in refused})
    why = listed(f"{REASONS.get(word, word)} ({word})" for word in words)
    linked = [pair for pair in refused if _has_nvlink(pair, peers, dossier)]
    if linked:
        return Finding(
            code="p2p-blocked",
            severity="degraded",
            summary=f"The driver allows no peer access between GPUs {listed(linked)}, which "
            f"NVLinks join: {why}.",
            where=_where(peers, linked),
            evidence=(_status(peers, linked),),
            remedy="nvidia-smi topo -p2p r; nvidia-smi topo -m; systemctl status "
            "nvidia-fabricmanager",
            confidence="inferred",
        )
    if _pairs(peers, allowed=True) and words != ["DR"]:
        return None  # inside sockets and not across: how most machines are built
    everywhere = "between any two GPUs" if not _pairs(peers, allowed=True) else (
        f"between GPUs {listed(refused[:SHOWN])}"
    )  # fmt: skip
    by_design = set(words) <= {"GNS", "NO"}
    return Finding(
        code="p2p-blocked",
        severity="info" if by_design else "warning",
        summary=f"The driver allows no peer access {everywhere}: {why}. NCCL then goes through "
        "host memory (SHM), which is what these cards can do."
        if by_design
        else f"The driver allows no peer access {everywhere}: {why}. NCCL goes through host "
        "memory (SHM) instead.",
        where=_where(peers, refused),
        evidence=(_status(peers, refused),),
        confidence="inferred",
    )


def _pairs(peers: PeerMatrix, *, allowed: bool) -> list[str]:
    """ "0-1" of unordered pairs, refused if either direction is."""
    found: dict[tuple[int, int], bool] = {}
    for pair, word in peers.status.items():
        a, b = sorted(map(int, pair.split("-")))
        found[a, b] = found.get((a, b), True) and word == "OK"
    return [f"{a}-{b}" for (a, b), ok in sorted(found.items()) if ok is allowed]


def _word(peers: PeerMatrix, pair: str) -> str:
    a, b = pair.split("-")
    words = (peers.status.get(f"{a}-{b}", "OK"), peers.status.get(f"{b}-{a}", "OK"))
    return next((word for word in words if word != "OK"), "NO")


def _status(peers: PeerMatrix, pairs: list[str]) -> Evidence:
    told = ", ".join(f"{pair} {_word(peers, pair)}" for pair in pairs[:SHOWN])
    more = f" and {len(pairs) - SHOWN} more" if len(pairs) > SHOWN else ""
    return Evidence(basis="claimed", text=f"{place(peers.file)}: {told}{more}")


def _has_nvlink(pair: str, peers: PeerMatrix, dossier: Dossier) -> bool:
    """By a matrix of as many GPUs; of another host it would say nothing."""
    a, b = pair.split("-")
    for record in dossier.matrices:
        same = len(record.gpus) == peers.gpus and (record.host in (None, peers.host))
        if same and Matrix(record).kind(f"GPU{a}", f"GPU{b}") == "NV":
            return True
    return False


# ------------------------------------------------------------------------------- what is slow


def _detour(peers: PeerMatrix) -> Finding | None:
    """Peer to peer slower than the same copy through host memory."""
    slower = {
        pair: (direct, peers.staged_gbs[pair])
        for pair, direct in peers.bandwidth_gbs.items()
        if peers.status.get(pair, "OK") == "OK"
        and peers.staged_gbs.get(pair, 0) * SLOWER_THAN_STAGED > direct
    }
    if not slower:
        return None
    direct = statistics.median(value for value, _ in slower.values())
    staged = statistics.median(value for _, value in slower.values())
    pairs = sorted({"-".join(sorted(pair.split("-"), key=int)) for pair in slower})
    return Finding(
        code="p2p-blocked",
        severity="degraded",
        summary=f"Peer to peer is slower than through host memory: {direct:.4g} GB/s against "
        f"{staged:.4g} (median of {len(slower)} directions, GPUs {listed(pairs)}).",
        where=_where(peers, pairs),
        evidence=(
            Evidence(
                basis="measured",
                text=f"{place(peers.file)}: P2P on {direct:.4g} GB/s, P2P off {staged:.4g} GB/s",
            ),
            Evidence(
                basis="inferred",
                text="ACS or an IOMMU on the way, or a chipset that passes peer traffic slowly",
            ),
        ),
        remedy="sudo lspci -vvv | grep ACSCtl; export NCCL_P2P_DISABLE='1'   # measure both",
        confidence="measured",
    )


def _without_effect(peers: PeerMatrix) -> Finding | None:
    """P2P on is as fast as off between all GPUs, and nothing says that a driver refuses it: what
    the test calls enabled goes through host memory as well."""
    on, off = peers.bandwidth_gbs, peers.staged_gbs
    if not (on and off):
        on, off = peers.both_ways_gbs, peers.staged_both_ways_gbs
    pairs = sorted(on.keys() & off.keys())
    if peers.status or len(pairs) < FEWEST_DIRECTIONS:
        return None
    if any(abs(on[pair] - off[pair]) > ALIKE * off[pair] for pair in pairs):
        return None
    low, high = min(on[pair] for pair in pairs), max(on[pair] for pair in pairs)
    return Finding(
        code="p2p-blocked",
        severity="warning",
        summary=f"With P2P enabled copies between GPUs are as fast as without it ({low:.4g}-"
        f"{high:.4g} GB/s): no peer access is in effect, all go through host memory.",
        where=_where(peers),
        evidence=(
            Evidence(
                basis="measured",
                text=f"{place(peers.file)}: all {len(pairs)} directions differ by less than "
                f"{ALIKE:.0%}",
            ),
            Evidence(basis="inferred", text="GeForce cards since Ampere offer no peer access"),
        ),
        remedy="nvidia-smi topo -p2p r   # why: GNS, CNS",
        confidence="inferred",
    )


def _odd_gpus(peers: PeerMatrix) -> Iterator[Finding]:
    """A GPU whose link is narrow is slow with every peer and towards the host."""
    for name, best in (("from host memory", _by_gpu(peers.host_gbs)),
                       ("through host memory", _best(peers.staged_gbs))):  # fmt: skip
        if len(best) < LEAST_GPUS:
            continue
        usual = statistics.median_low(list(best.values()))
        odd = {gpu: value for gpu, value in best.items() if value < ODD_SHARE * usual}
        if not odd or len(odd) * 2 >= len(best):
            continue
        for gpu, value in odd.items():
            yield Finding(
                code="pcie-downgraded",
                severity="degraded",
                summary=f"GPU {gpu} copies {name} at {value:.4g} GB/s at best where the others "
                f"reach {usual:.4g}: its link, or a switch above it, is narrower or slower.",
                where=Where(host=peers.host, gpu=gpu, file=peers.file, line=peers.line or None),
                evidence=(Evidence(basis="measured", text=f"{place(peers.file)}: {_told(best)}"),),
                remedy=f"nvidia-smi -i {gpu} --query-gpu=pcie.link.gen.current,"
                "pcie.link.width.current,pcie.link.width.max --format=csv   # under load",
                confidence="measured",
            )
        return


def _by_gpu(host_gbs: Mapping[int, float]) -> dict[int, float]:
    return {gpu: value for gpu, value in sorted(host_gbs.items()) if value > 0}


def _best(staged: Mapping[str, float]) -> dict[int, float]:
    """The best that each GPU reaches with any peer: its own link bounds all of them."""
    best: dict[int, float] = {}
    for pair, value in staged.items():
        for gpu in map(int, pair.split("-")):
            best[gpu] = max(best.get(gpu, 0.0), value)
    return dict(sorted(best.items()))


def _told(best: Mapping[int, float]) -> str:
    return ", ".join(f"GPU {gpu} {value:.4g}" for gpu, value in list(best.items())[:16])
