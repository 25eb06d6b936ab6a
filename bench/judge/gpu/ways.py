"""What the way between two GPUs should be and carry, by the hardware's own claims.

In: HostFacts and the fabric file. Out: whether NCCL should go peer to peer between two GPUs, and
the busbw of a ring over them in NCCL's own constants (its src/graph/topo.h: what it believes of a
link, a tenth or two below its raw rate). Nothing is said where a link on the way is not told.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from bench.judge.expected import Expectation
from bench.records import Candidate, Fabric, Gpu, GpuPair, HostFacts, Nvlink, Report

# GB/s of PCIe x16 by generation, and across sockets, as NCCL counts them.
PCIE_X16_GBS = {1: 3.0, 2: 6.0, 3: 12.0, 4: 24.0, 5: 48.0, 6: 96.0}
AMD_SOCKETS_GBS, ARM_SOCKETS_GBS, POWER_SOCKETS_GBS = 16.0, 6.0, 32.0
# Intel by the second digit of a Xeon's model number: 6148, 8275 and 8380 are Skylake to Ice Lake;
# E5 and E7 came before.
INTEL_SOCKETS_GBS = {"E": 6.0, "1": 10.0, "2": 10.0, "3": 10.0, "4": 22.0, "5": 40.0}
_XEON = re.compile(r"Xeon.{0,40}? (?:(E)[57]-\d{4}|[3-9](\d)\d\d(?!\d))", re.IGNORECASE)
# One NVLink, one direction: (NVML's own GB/s from, what NCCL counts). Generations 5, 2 and 3, 1;
# those of GeForce and workstation Ampere are of 14 GB/s and count 12.
NVLINK_GBS = ((45.0, 40.1), (22.0, 20.0), (18.0, 18.0), (10.0, 12.0))
HOPPER_GBS = 20.6  # NVLink 4 states about what NVLink 2 and 3 do, and counts a little more
P2P_LEVEL = ("PIX", "PXB")  # NCCL's default: peer to peer over PCIe up to several switches
C2C = ("GH200", "GB200", "GB300", "GB10")  # their host lies behind NVLink-C2C, not PCIe


@dataclass(frozen=True)
class Wanted:
    """NCCL should go peer to peer between two GPUs: over what, and who says so."""

    over: Literal["nvlink", "pcie"]
    basis: Literal["expected", "claimed", "predicted"]
    text: str


def wanted(fabric: Fabric | None, facts: HostFacts, a: int, b: int) -> Wanted | None:
    """Whether GPUs `a` and `b` of a host should talk peer to peer; None where they need not, or
    where it is not known.

    MIG instances do not; without NVLink NCCL takes peer to peer only below one root port
    (PIX, PXB) and where the driver allows it, so shared memory is right for all others.
    """
    gpus = {gpu.index: gpu for gpu in facts.gpus}
    if any(gpu.mig_mode for gpu in facts.gpus):
        return None
    said = fabric.gpus.path if fabric is not None and not fabric.hint else None
    if said == "none":
        return None
    pair = pair_of(facts, a, b)
    if said == "nvlink" and apart(pair, gpus.get(a), gpus.get(b)):
        said = None
    if said is not None:
        over: Literal["nvlink", "pcie"] = "pcie" if said == "pcie" else "nvlink"
        return Wanted(over, "expected", f"the fabric file expects {said} between GPUs")
    if joined(pair, gpus.get(a), gpus.get(b)):
        links = pair.nvlinks if pair is not None else None
        number = f"{links} active NVLinks join" if links else "active NVLinks to a switch join"
        return Wanted("nvlink", "claimed", f"{number} GPU {a} and GPU {b}")
    if pair is None or pair.nvlinks is None or pair.pci_path not in P2P_LEVEL:
        return None
    if not allowed(pair):
        return None
    text = (
        f"GPU {a} and GPU {b} lie below one root port ({pair.pci_path}) and the driver allows "
        "peer access: NCCL goes peer to peer there"
    )
    return Wanted("pcie", "predicted", text)


def pair_of(facts: HostFacts, a: int, b: int) -> GpuPair | None:
    return next((p for p in facts.gpu_pairs if set(p.gpus) == {a, b}), None)


def joined(pair: GpuPair | None, a: Gpu | None, b: Gpu | None) -> bool:
    """Whether active NVLinks join two GPUs: told so, or both hang on switches."""
    if pair is not None and pair.nvlinks is not None:
        return pair.nvlinks > 0
    return all(gpu is not None and switched(gpu) for gpu in (a, b))


def all_joined(facts: HostFacts, gpus: Sequence[Gpu]) -> bool:
    """Whether every GPU has active NVLinks, and they join each two of these."""
    return all(gpu.nvlinks_active for gpu in gpus) and all(
        joined(pair_of(facts, a.index, b.index), a, b) for a, b in itertools.combinations(gpus, 2)
    )


def apart(pair: GpuPair | None, a: Gpu | None, b: Gpu | None) -> bool:
    """Whether NVLinks are known to join two GPUs with others and not with each other, as bridges
    do: a file's NVLink between GPUs does not speak of these two."""
    if pair is None or pair.nvlinks != 0 or a is None or b is None:
        return False
    return bool(a.nvlinks_active or b.nvlinks_active) and not (switched(a) or switched(b))


def switched(gpu: Gpu) -> bool:
    """Whether active NVLinks lead to a switch, so that they join it to every other GPU there."""
    return any(link.active and link.remote == "switch" for link in gpu.nvlinks)


def allowed(pair: GpuPair) -> bool:
    """Whether the driver allows reading and writing both ways; False where it says nothing."""
    words = [pair.p2p.get("read"), pair.p2p.get("write")]
    back = [pair.p2p_back.get(word, "OK") for word in ("read", "write")]
    return all(word == "OK" for word in (*words, *back))


def has_c2c(gpu: Gpu) -> bool:
    return bool(gpu.c2c_links) or any(name in (gpu.name or "") for name in C2C)


# -------------------------------------------------------------------------------- bandwidth


def of_candidate(report: Report, candidate: Candidate) -> Expectation | None:
    """The ring's busbw over a GPU path of one host, shown beside what was measured; it judges
    nothing, for these are constants of a model. None for `net`, and where a link is not told."""
    path = next(iter(candidate.interfaces.values()), "")
    facts = next((f for f in report.hosts if f.host in candidate.interfaces), None)
    if candidate.kind != "gpu-path" or facts is None or path not in ("p2p", "shm"):
        return None
    gpus = ring_gpus(facts)
    if len(gpus) < 2 or any(gpu.mig_mode for gpu in gpus):
        return None
    if path == "p2p" and all_joined(facts, gpus):
        return _over_nvlink(gpus)
    if path == "p2p" and any(gpu.nvlinks_active != 0 for gpu in gpus):
        return None
    return _over_pcie(facts, gpus, path)


def ring_gpus(facts: HostFacts) -> list[Gpu]:
    """The GPUs that a host's ranks take."""
    taken = {placement.gpu for placement in facts.placements}
    return [gpu for gpu in facts.gpus if gpu.index in taken]


def _over_nvlink(gpus: Sequence[Gpu]) -> Expectation | None:
    rates = [nvlink_gbs(gpu) for gpu in gpus]
    known = [rate for rate in rates if rate is not None]
    if len(known) < len(gpus):
        return None
    slowest = min(known)
    links = gpus[known.index(slowest)].nvlinks_active
    source = f"{links} active NVLinks of the GPU with fewest, as NCCL counts them"
    return Expectation(slowest, "claimed", source, judged=False)


def nvlink_gbs(gpu: Gpu) -> float | None:
    """What NCCL counts for all active links of a GPU together, 1e9 bytes/s in one direction."""
    active = [link for link in gpu.nvlinks if link.active]
    rates = [(_one_link(link), len(link.links)) for link in active]
    if not rates or any(rate is None for rate, _ in rates):
        return None
    return sum((rate or 0.0) * number for rate, number in rates)


def _one_link(link: Nvlink) -> float | None:
    version = (link.version or "").partition(".")[0]
    if version == "4":
        return HOPPER_GBS
    if link.speed_gbs is None:
        return {"1": 18.0, "2": 20.0, "5": 40.1}.get(version)
    return next((counts for least, counts in NVLINK_GBS if link.speed_gbs >= least), None)


def _over_pcie(facts: HostFacts, gpus: Sequence[Gpu], path: str) -> Expectation | None:
    rates = [pcie_gbs(gpu) for gpu in gpus]
    known = [rate for rate in rates if rate is not None]
    if len(known) < len(gpus) or any(has_c2c(gpu) for gpu in gpus):
        return None
    slowest, what = min(known), "the narrowest PCIe link, as NCCL counts it"
    nodes = {gpu.numa_node for gpu in gpus}
    if len(nodes) > 1:
        between = sockets_gbs(facts)
        if None in nodes or between is None:
            return None
        if between < slowest:
            slowest, what = between, "the way between the sockets, as NCCL counts it"
    return Expectation(slowest, "claimed", f"{what}; {path} at most", judged=False)


def pcie_gbs(gpu: Gpu) -> float | None:
    """What NCCL counts for a GPU's PCIe link at its best, 1e9 bytes/s in one direction."""
    x16 = PCIE_X16_GBS.get(gpu.pcie_max_generation or 0)
    return x16 * gpu.pcie_max_width / 16 if x16 and gpu.pcie_max_width else None


def sockets_gbs(facts: HostFacts) -> float | None:
    """What NCCL counts for the way from one CPU socket to the other."""
    name = facts.machine.cpu if facts.machine is not None else None
    if name is None:
        return None
    if "AMD" in name or "EPYC" in name:
        return AMD_SOCKETS_GBS
    if "POWER9" in name:
        return POWER_SOCKETS_GBS
    if any(word in name for word in ("Neoverse", "Grace", "Ampere", "Kunpeng", "Graviton")):
        return ARM_SOCKETS_GBS
    found = _XEON.search(name)
    return INTEL_SOCKETS_GBS.get((found[1] or found[2]).upper()) if found else None
