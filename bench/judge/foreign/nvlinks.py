"""NVLinks that are down, by nvidia-smi's status, its matrix, or NCCL's topology XML.

In: a Dossier. Out: nvlink-inactive with the GPU, the links and what is left of the bandwidth. A
GPU without any link may simply have no bridge, and equal gaps on all GPUs are how a part of a
board looks in a virtual machine: only a GPU that has fewer than its neighbours, or than it shows
itself, is accused.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from bench.judge.docket import Docket
from bench.judge.foreign.gpu_matrix import Matrix
from bench.judge.foreign.places import place
from bench.judge.words import listed
from bench.records import (
    Dossier,
    Evidence,
    Finding,
    NvlinkStatus,
    Severity,
    TopologyTree,
    Where,
    XmlGpu,
)

# Boards on which NVLink is soldered; cards named PCIe or NVL have bridges, or none.
_BOARD = re.compile(r"SXM|HBM3|GB[123]00|GH200|\bB[23]00|H200|H20\b|HGX")
_CARD = re.compile(r"PCIe|NVL\b|GeForce|RTX|Quadro|TITAN|\bA[34]0\b|Active\b", re.IGNORECASE)
# Links that a GPU of this generation has to an NVSwitch (NVIDIA's architecture white papers).
SWITCHED_LINKS = {70: 6, 80: 12, 90: 18, 100: 18, 103: 18}
# Models made with fewer: H800 and A800 have 8 by design.
FEWER_BY_DESIGN = (8,)


def judge(dossier: Dossier, docket: Docket) -> None:
    """Each GPU once a file."""
    for group in _by_host(dossier.nvlinks):
        for finding in _of_status(group):
            docket.add(finding)
    for matrix in dossier.matrices:
        for finding in _of_matrix(Matrix(matrix)):
            docket.add(finding)
    for tree in dossier.trees:
        for finding in _of_tree(tree):
            docket.add(finding)


# ------------------------------------------------------------------ nvidia-smi nvlink --status


def _by_host(statuses: Iterable[NvlinkStatus]) -> list[list[NvlinkStatus]]:
    groups: dict[tuple[str, str | None], list[NvlinkStatus]] = {}
    for status in statuses:
        groups.setdefault((status.file, status.host), []).append(status)
    return list(groups.values())


def _of_status(group: Sequence[NvlinkStatus]) -> Iterator[Finding]:
    active = {status.gpu: sum(link.active for link in status.links) for status in group}
    most = max(active.values(), default=0)
    for status in group:
        down = [link.link for link in status.links if not link.active]
        if not down and not status.all_inactive:
            continue
        if active[status.gpu] == 0:
            yield _without_any(status, most)
            continue
        alike = sum(active[other.gpu] == active[status.gpu] for other in group)
        severity: Severity = "warning" if 1 < alike == len(group) else "degraded"
        yield _with_some(status, down, severity, most)


def _with_some(
    status: NvlinkStatus, down: Sequence[int], severity: Severity, most: int
) -> Finding:
    total, rates = len(status.links), [link.rate_gbs for link in status.links if link.rate_gbs]
    share = ""
    if rates and len(set(rates)) == 1:
        share = f" ({sum(rates):.1f} of {rates[0] * total:.1f} GB/s)"
    links = f"NVLink{'s' * (len(down) > 1)} {listed(map(str, down))}"
    name = f" ({status.name})" if status.name else ""
    evidence = [
        _line(status, f"GPU {status.gpu}: links {_numbers(down)} <inactive>, {_rates(rates)}")
    ]
    if severity == "warning":
        text = (
            "every GPU in the file shows the same gap: a part of a board in a virtual machine "
            "or bridges that are not fitted look like this"
        )
        evidence.append(Evidence(basis="inferred", text=text))
    elif most > len(status.links) - len(down):
        text = f"other GPUs of this host have {most} active links"
        evidence.append(Evidence(basis="claimed", text=text))
    return Finding(
        code="nvlink-inactive",
        severity=severity,
        summary=f"GPU {status.gpu}{name}: {links} inactive, {total - len(down)} of {total} "
        f"active{share}.",
        where=Where(host=status.host, gpu=status.gpu, file=status.file, line=status.line),
        evidence=tuple(evidence),
        remedy=_remedy(status.gpu),
        confidence="inferred",
    )


def _without_any(status: NvlinkStatus, most: int) -> Finding:
    """No link at all: broken beside GPUs that have some, or on a board. A card's links need a
    bridge, which its neighbours may have alone."""
    name = status.name or ""
    card = bool(_CARD.search(name))
    board = bool(_BOARD.search(name)) and not card
    expected = board or (most > 0 and not card)
    number = f"all {len(status.links)} NVLinks" if status.links else "all NVLinks"
    others = f"other GPUs of this host have {most} active links"
    why = (
        f"{others}; whether this card has no bridge, or one whose links are down, is not told"
        if most and card
        else others
        if most
        else f"{name} has its NVLinks on the board"
        if board
        else "no bridge is fitted, or the links are off; then GPUs talk over PCIe, as they should"
    )
    called = f" ({name})" if name else ""
    return Finding(
        code="nvlink-inactive",
        severity="degraded" if expected else "info",
        summary=f"GPU {status.gpu}{called}: {number} inactive"
        f"{', 0 of ' + str(len(status.links)) + ' active' if status.links else ''}.",
        where=Where(host=status.host, gpu=status.gpu, file=status.file, line=status.line),
        evidence=(_line(status, f"GPU {status.gpu}: {number} inactive"),
                  Evidence(basis="inferred", text=why)),
        remedy=_remedy(status.gpu) if expected else None,
        confidence="inferred",
    )  # fmt: skip


def _line(status: NvlinkStatus, text: str) -> Evidence:
    return Evidence(basis="claimed", text=f"{place(status.file, status.line)}: {text}")


def _rates(rates: Sequence[float]) -> str:
    if not rates:
        return "no speeds told"
    told = [f"{count} at {rate:g} GB/s" for rate, count in Counter(rates).most_common(3)]
    return ", ".join(told)


def _numbers(links: Iterable[int]) -> str:
    return ", ".join(map(str, links))


def _remedy(gpu: int) -> str:
    return (
        f"nvidia-smi nvlink -s -i {gpu}; nvidia-smi nvlink -e -i {gpu}; "
        "sudo journalctl -k --grep 'NVRM: Xid'; systemctl status nvidia-fabricmanager"
    )


# --------------------------------------------------------------------------- nvidia-smi topo -m


def _of_matrix(matrix: Matrix) -> Iterator[Finding]:
    """GPUs with fewer NVLinks than their like; whose like they are is told by the fabric."""
    lacking = matrix.lacking()
    for gpu, (has, usual, votes) in lacking.items():
        per_pair = matrix.meshed
        what = "NVLinks to each peer" if per_pair else "NVLinks in all"
        severity: Severity = "degraded" if has or per_pair else "warning"
        yield Finding(
            code="nvlink-inactive",
            severity=severity,
            summary=f"{gpu} has {has} {what} where {votes} other GPUs have {usual}.",
            where=Where(
                host=matrix.record.host,
                gpu=int(gpu[3:]),
                file=matrix.record.file,
                line=matrix.record.line,
            ),
            evidence=(
                Evidence(
                    basis="claimed",
                    text=f"{place(matrix.record.file)}: row of {gpu}: {matrix.row(gpu)}",
                ),
            ),
            remedy=_remedy(int(gpu[3:])),
            confidence="inferred",
        )
    for (a, b), (has, usual, votes) in matrix.lacking_pairs(set(lacking)).items():
        yield Finding(
            code="nvlink-inactive",
            severity="degraded",
            summary=f"{a} and {b} are joined by {has} NVLinks where the other {votes} pairs "
            f"have {usual}.",
            where=Where(
                host=matrix.record.host,
                link=(a, b),
                file=matrix.record.file,
                line=matrix.record.line,
            ),
            evidence=(
                Evidence(basis="claimed", text=f"{place(matrix.record.file)}: {a}-{b} NV{has}"),
            ),
            remedy=_remedy(int(a[3:])),
            confidence="inferred",
        )


# ----------------------------------------------------------------------------------- NCCL's XML


def _of_tree(tree: TopologyTree) -> Iterator[Finding]:
    """NCCL writes active links only: a GPU below its neighbours, or below its generation."""
    counts = {at: _total(gpu) for at, gpu in enumerate(tree.gpus) if gpu.nvlinks}
    switched = {at for at in counts if _is_switched(tree.gpus[at])}
    whole = set(counts) if _is_whole(tree) else switched
    for at, has in counts.items():
        gpu = tree.gpus[at]
        others = [counts[other] for other in whole if other != at]
        usual, votes = Counter(others).most_common(1)[0] if others else (0, 0)
        norm = SWITCHED_LINKS.get(gpu.sm or 0) if at in switched else None
        if at in whole and votes * 2 > len(others) and has < usual:
            reason = Evidence(basis="claimed", text=f"{votes} other GPUs have {usual}")
            yield _of_xml(tree, gpu, at, usual, reason)
        elif norm and has < norm and has not in FEWER_BY_DESIGN and not others:
            text = f"a GPU of sm {gpu.sm} on NVSwitches has {norm} links"
            yield _of_xml(tree, gpu, at, norm, Evidence(basis="inferred", text=text))


def _total(gpu: XmlGpu) -> int:
    return sum(link.count for link in gpu.nvlinks)


def _is_switched(gpu: XmlGpu) -> bool:
    return all(link.target_kind == "switch" for link in gpu.nvlinks)


def _is_whole(tree: TopologyTree) -> bool:
    """Whether all peers are in the dump: it holds only the GPUs of its communicator, so links to
    others may be left out of it."""
    own = {gpu.bus_id for gpu in tree.gpus}
    return all(
        link.target in own
        for gpu in tree.gpus
        for link in gpu.nvlinks
        if link.target_kind == "gpu"
    )


def _of_xml(tree: TopologyTree, gpu: XmlGpu, at: int, wanted: int, reason: Evidence) -> Finding:
    device = at if gpu.device is None else gpu.device
    shares = "+".join(str(link.count) for link in gpu.nvlinks)
    return Finding(
        code="nvlink-inactive",
        severity="degraded",
        summary=f"GPU {device} ({gpu.bus_id}): {_total(gpu)} of {wanted} {gpu.link_kind}s active.",
        where=Where(gpu=device, device=gpu.bus_id, file=tree.file, line=gpu.line or None),
        evidence=(
            Evidence(
                basis="claimed",
                text=f"{place(tree.file, gpu.line)}: {shares} active links; NCCL writes no others",
            ),
            reason,
        ),
        remedy=_remedy(device),
        confidence="inferred",
    )
