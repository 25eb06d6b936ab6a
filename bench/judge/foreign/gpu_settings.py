"""Variables that keep GPUs off the ways which their topology shows.

In: a Dossier with variables and a matrix or NVLink status. Out: gpu-path-unexpected where P2P is
off between GPUs that NVLinks join, gdr-disabled where NCCL_NET_GDR_LEVEL is nearer than the
nearest NIC; and words that NCCL ignores. Levels and their old numbers: src/graph/paths.cc and
topo.h of NCCL; nvidia-smi's NODE is NCCL's PHB. Predicted: where a log has channels, those say
what was taken, and nothing is predicted here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from bench.judge.docket import Docket
from bench.judge.foreign.gpu_matrix import Matrix
from bench.judge.foreign.places import place
from bench.judge.words import listed
from bench.records import Dossier, Evidence, Finding, Variables, Where

# Nearest first, as NCCL 2.30 orders them; a level lets everything up to it.
LEVELS = ("LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS", "NET", "DIS")
OLD_NUMBERS = ("LOC", "PIX", "PXB", "PHB", "SYS", "SYS")
AS_NCCL = {"NODE": "PHB"}
P2P_OFF, P2P_LEVEL, GDR_LEVEL = "NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL", "NCCL_NET_GDR_LEVEL"


def judge(dossier: Dossier, docket: Docket) -> None:
    """Each file of variables against what is known of the GPUs."""
    if any(c.edges for log in dossier.logs for c in log.communicators):
        return
    for variables in dossier.variables:
        for finding in (*_p2p(variables, dossier), *_gdr(variables, dossier)):
            docket.add(finding)


def sentences(dossier: Dossier) -> Iterator[str]:
    """Levels that NCCL does not know and so ignores, silently."""
    for variables in dossier.variables:
        for name in (P2P_LEVEL, GDR_LEVEL):
            value = variables.variables.get(name)
            if value and level(value) is None:
                yield (
                    f"{place(variables.file)}: {name}={value} is none of NCCL's levels "
                    f"({', '.join(LEVELS[:10])}) and is ignored"
                )


def level(value: str) -> str | None:
    """The level that NCCL takes a value for: a name in capitals, or an old number."""
    if value in LEVELS:
        return value
    if value.isdigit() and len(value) < 3:
        return OLD_NUMBERS[min(int(value), len(OLD_NUMBERS) - 1)]
    return None


def _p2p(variables: Variables, dossier: Dossier) -> Iterator[Finding]:
    off = variables.variables.get(P2P_OFF) == "1"
    limited = variables.variables.get(P2P_LEVEL, "")
    if not off and level(limited) != "LOC":
        return
    shown = _nvlinks(dossier)
    if shown is None:
        return  # over PCIe it may well be a workaround
    name = P2P_OFF if off else P2P_LEVEL
    yield Finding(
        code="gpu-path-unexpected",
        severity="degraded",
        summary=f"{name}={variables.variables[name]} keeps NCCL off the NVLinks that these GPUs "
        f"have ({shown}): it goes through host memory instead.",
        where=Where(host=variables.host, file=variables.file, line=variables.line),
        evidence=(
            Evidence(
                basis="claimed",
                text=f"{place(variables.file)}: {name}={variables.variables[name]}",
            ),
            Evidence(basis="claimed", text=shown),
        ),
        remedy=f"unset {name}",
        confidence="predicted",
    )


def _nvlinks(dossier: Dossier) -> str | None:
    """What shows NVLinks between GPUs."""
    for record in dossier.matrices:
        pairs = Matrix(record).pairs.values()
        kinds = Counter(f"NV{link.nvlinks}" for link in pairs if link.kind == "NV")
        if kinds:
            word, number = kinds.most_common(1)[0]
            return f"{number} pair{'s' * (number > 1)} {word} in {place(record.file)}"
    active = [s for s in dossier.nvlinks if any(link.active for link in s.links)]
    if len(active) > 1:
        return f"active links on {len(active)} GPUs in {place(active[0].file)}"
    return None


def _gdr(variables: Variables, dossier: Dossier) -> Iterator[Finding]:
    allowed = level(variables.variables.get(GDR_LEVEL, ""))
    if allowed is None:
        return
    for record in dossier.matrices:
        matrix = Matrix(record)
        beyond: dict[str, list[str]] = {}
        for gpu in record.gpus:
            kinds = [matrix.kind(gpu, nic) for nic in record.nics]
            near = [k for kind in kinds if kind and (k := AS_NCCL.get(kind, kind)) in LEVELS]
            best = min(near, key=LEVELS.index, default=None)
            if best is not None and LEVELS.index(best) > LEVELS.index(allowed):
                beyond.setdefault(best, []).append(gpu)
        for kind, gpus in beyond.items():
            value = variables.variables[GDR_LEVEL]
            yield Finding(
                code="gdr-disabled",
                severity="warning",
                summary=f"{GDR_LEVEL}={value} lets GPUDirect RDMA reach up to {allowed}, and the "
                f"nearest NIC of {listed(gpus)} is {kind}: their data goes through host memory.",
                where=Where(host=record.host, file=variables.file, line=variables.line),
                evidence=(
                    Evidence(
                        basis="claimed", text=f"{place(variables.file)}: {GDR_LEVEL}={value}"
                    ),
                    Evidence(
                        basis="claimed",
                        text=f"{place(record.file)}: row of {gpus[0]}: {matrix.row(gpus[0])}",
                    ),
                ),
                remedy=f"unset {GDR_LEVEL}   # or export {GDR_LEVEL}='{kind}'",
                confidence="predicted",
            )
