"""What no run of a system can exceed: the rate of its links, and what algorithms make of it.

In: a fabric, a collective, hosts and ranks. Out: the busbw of a ring at full link rate, and the
busbw that the least possible traffic over those links would give. Between them lies what NVLink
SHARP (inside a host) and trees (over two hosts) rightly reach: "more than the wire" is no error.
"""

from __future__ import annotations

from dataclasses import dataclass

from bench.records import Fabric

ROOTLESS = ("all_reduce", "all_gather", "reduce_scatter")
# GB/s of one lane and direction after encoding: 8b/10b, then 128b/130b (PCIe 1 to 5), PAM4 flits.
LANE_GBS = {1: 0.25, 2: 0.5, 3: 0.985, 4: 1.969, 5: 3.938, 6: 7.56}


@dataclass(frozen=True)
class Limit:
    """busbw in 1e9 bytes/s: `ring_gbs` where every link is full in a ring, `any_gbs` where each
    host's (or GPU's) links carry no more than they must. `links` says which links."""

    ring_gbs: float
    any_gbs: float
    links: str


def limit(fabric: Fabric, collective: str, hosts: int | None, ranks: int | None) -> Limit | None:
    """The limit for a collective over so many hosts and ranks; None where the fabric does not
    state the rate of the links that decide, or the collective has a root or pairs.

    Over N hosts of n ranks with B bytes/s each, a host must move 2 (N-1)/N of an all_reduce's
    buffer, and half of that for the other two, so busbw <= B (n-1)/n N/(N-1): nearly 2 B over two
    hosts, B over many. Inside NVLink, a switch that adds (SHARP) spares a GPU half of all_reduce.
    """
    if collective not in ROOTLESS or hosts is None or ranks is None or not 1 <= hosts <= ranks:
        return None
    if ranks < 2:
        return None
    domain = fabric.gpus.domain or 0
    if hosts == 1 or ranks <= domain:
        return _inside(fabric, collective, ranks)
    rate, links = _between(fabric)
    if rate is None:
        return None
    most = rate * (ranks - 1) / ranks * hosts / (hosts - 1)
    return Limit(ring_gbs=rate, any_gbs=max(most, rate), links=links)


def pcie_gbs(link: str | None) -> float | None:
    """GB/s one direction of "5x16"; None where it is not of that form."""
    generation, _, lanes = (link or "").partition("x")
    if not (generation.isdigit() and lanes.isdigit()) or int(generation) not in LANE_GBS:
        return None
    return LANE_GBS[int(generation)] * int(lanes)


def _inside(fabric: Fabric, collective: str, ranks: int) -> Limit | None:
    gpus = fabric.gpus
    if gpus.path in ("nvlink", "xgmi") and gpus.nvlink_gbs is not None:
        sharp = gpus.path == "nvlink" and collective == "all_reduce"
        most = gpus.nvlink_gbs * (2 * (ranks - 1) / ranks if sharp else 1)
        name = "NVLinks" if gpus.path == "nvlink" else "xGMI links"
        links = f"{gpus.nvlink_gbs:g} GB/s of a GPU's {name}"
        return Limit(ring_gbs=gpus.nvlink_gbs, any_gbs=max(most, gpus.nvlink_gbs), links=links)
    rate = pcie_gbs(gpus.pcie)
    if gpus.path not in ("pcie", "none") or rate is None:
        return None
    return Limit(ring_gbs=rate, any_gbs=rate, links=f"{rate:.3g} GB/s of PCIe {gpus.pcie}")


def _between(fabric: Fabric) -> tuple[float | None, str]:
    """What a host's data ports carry together, in 1e9 bytes/s."""
    data = [n for n in fabric.network if n.role == "data" and n.rate_gbps is not None]
    if len(data) != 1:  # several data networks: which one is used is not told
        return None, ""
    ports, rate = data[0].ports_per_host or 1, data[0].rate_gbps or 0.0
    return ports * rate / 8, f"{ports * rate / 8:g} GB/s of {ports} × {rate:g} Gbit/s a host"
