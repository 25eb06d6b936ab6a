"""RDMA ports that are not alike within a host, and data that is staged in host memory.

In: a Job (one run's logs). Out: hca-set-differs (kind mixed-ports), gdr-disabled. Both are
remarks: a log does not tell whether a port is meant to be in the list, or GPU and NIC are near.
"""

from __future__ import annotations

import re
from collections import Counter

from bench.judge.docket import Docket
from bench.judge.foreign.log_devices import listing
from bench.judge.foreign.log_jobs import Job
from bench.judge.foreign.log_words import line_of
from bench.judge.remedy import quoted
from bench.judge.words import listed
from bench.records import Evidence, Finding, LogNet, Where

RATES = ("25", "40", "50", "56", "100", "200", "400", "800")  # Gbit/s, as names carry them
_NUMBER = re.compile(r"\d+")


def judge(job: Job, docket: Docket) -> None:
    """At most one finding of each kind."""
    _mixed_list(job, docket)
    _gpu_direct(job, docket)


def _mixed_list(job: Job, docket: Docket) -> None:
    """InfiniBand beside RoCE, or speeds that differ, in one list: channels spread over all."""
    for told in listing(job):
        nets = [net for net in told.process.nets if net.network == "IB"]
        odd = _odd(nets)
        if not odd:
            continue
        good = [net.name for net in nets if net.name not in odd]
        docket.add(
            Finding(
                code="hca-set-differs",
                kind="mixed-ports",
                severity="warning",
                summary=f"NCCL's {len(nets)} RDMA devices on {told.process.host} are not alike: "
                f"{listed(f'{name} ({why})' for name, why in odd.items())}. Channels spread over "
                "all of them, and the slowest sets the pace.",
                where=Where(
                    host=told.process.host,
                    device=next(iter(odd)) if len(odd) == 1 else None,
                    file=told.log.file,
                    line=told.place("rdma")[1],
                ),
                evidence=line_of(told, "rdma"),
                remedy=f"export NCCL_IB_HCA={quoted('=' + ','.join(good))}",
                confidence="inferred",
            )
        )
        return


def _odd(nets: list[LogNet]) -> dict[str, str]:
    """Device -> how it differs from most, where most are alike."""
    if len(nets) < 3:
        return {}
    odd: dict[str, str] = {}
    layer, votes = Counter(net.link_layer for net in nets).most_common(1)[0]
    if votes * 2 > len(nets):
        odd |= {net.name: f"{net.link_layer}" for net in nets if net.link_layer != layer}
    speeds = [net.speed_mbit for net in nets if net.speed_mbit]
    if len(speeds) == len(nets):
        usual, votes = Counter(speeds).most_common(1)[0]
        slower = {n.name: n.speed_mbit or 0 for n in nets if (n.speed_mbit or 0) < usual}
        if votes * 2 > len(nets):
            odd |= {name: f"{speed / 1000:g} Gbit/s" for name, speed in slower.items()}
        return odd
    return odd | _odd_names([net.name for net in nets if net.name not in odd])


def _odd_names(names: list[str]) -> dict[str, str]:
    """One name whose numbers stand apart ("ib6s200p0" among "ib7s400p0", "ib7s400p1", …): names
    that carry a rate are a system's own, so this only says that the name differs."""
    numbers = {name: _NUMBER.findall(name) for name in names}
    rates = {name: [n for n in parts if n in RATES] for name, parts in numbers.items()}
    if not all(len(found) == 1 for found in rates.values()):
        return {}
    usual, votes = Counter(found[0] for found in rates.values()).most_common(1)[0]
    if votes * 2 <= len(names):
        return {}
    return {
        name: f"{found[0]} in its name where the others have {usual}"
        for name, found in rates.items()
        if found[0] != usual
    }


# --- GPUDirect -----------------------------------------------------------------------------------


def _gpu_direct(job: Job, docket: Docket) -> None:
    """RDMA channels that stage in host memory: all of them, or some devices."""
    rdma = [(log, e) for log, e in job.edges if e.transport == "NET" and e.gdr is not None]
    without = [(log, edge) for log, edge in rdma if not edge.gdr]
    if not rdma:
        _capability(job, docket)
    if not without:
        return
    direct = {(edge.host, edge.network, edge.device) for _, edge in rdma if edge.gdr}
    staged = {(edge.host, edge.network, edge.device) for _, edge in without} - direct
    if not staged:
        return  # the far GPU of a device that another GPU uses directly
    log, edge = next(
        (log, edge) for log, edge in without if (edge.host, edge.network, edge.device) in staged
    )
    names = _devices(staged)
    used = _devices(direct)
    some = bool(direct)
    has = "have" if len(used) > 1 else "has"
    beside = f" while {listed(used)} {has} it" if some and set(used) != set(names) else ""
    off = job.setting("NCCL_NET_GDR_LEVEL")
    docket.add(
        Finding(
            code="gdr-disabled",
            severity="warning" if some else "info",
            summary=f"{listed(names)} {'go' if len(names) > 1 else 'goes'} without GPUDirect RDMA"
            f"{beside}: data is staged in host memory.",
            where=Where(host=edge.host, rank=edge.told_by, file=log.file, line=edge.line or None),
            evidence=(
                Evidence(
                    basis="asked",
                    text=f"{log.file}:{edge.line}: channel {edge.channel:02d} {edge.source} -> "
                    f"{edge.destination} via NET/{edge.network}/{edge.device}, no /GDRDMA",
                ),
                *(e for t in job.told[:1] for e in line_of(t, "no-gdr")),
                *(
                    (Evidence(basis="asked", text=f"NCCL_NET_GDR_LEVEL={off[0]} is set"),)
                    if off
                    else ()
                ),
            ),
            remedy="lsmod | grep nvidia_peermem; nvidia-smi topo -m   # a NIC far from its GPU "
            "needs NCCL_NET_GDR_LEVEL",
            confidence="asked",
        )
    )


def _capability(job: Job, docket: Docket) -> None:
    """Without channel lines: what NCCL said of each device when it looked at it."""
    for told in job.told:
        off = [name for name, on in told.process.gdr_devices.items() if not on]
        if not off or told.process.network == "Socket":
            continue
        docket.add(
            Finding(
                code="gdr-disabled",
                severity="warning",
                summary=f"NCCL on {told.process.host} has GPUDirect RDMA disabled for "
                f"{listed(off)}: data would be staged in host memory.",
                where=Where(
                    host=told.process.host,
                    device=off[0] if len(off) == 1 else None,
                    file=told.log.file,
                    line=told.place("no-gdr")[1],
                ),
                evidence=line_of(told, "no-gdr"),
                remedy="lsmod | grep nvidia_peermem   # or a kernel and driver with DMA-BUF",
                confidence="asked",
            )
        )
        return


def _devices(ends: set[tuple[str | None, str | None, int | None]]) -> list[str]:
    """ "NET/IB/0", each once whatever the host."""
    return sorted({f"NET/{network}/{device}" for _, network, device in ends})
