"""Judges of NCCL's logs, each heard once per job: causes before what follows from them.

In: a Dossier. Out: findings (judge), and sentences without judgement that need several lines of a
log together (facts): which interface carries which channels, who waited for whom.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath

from bench.judge.docket import Docket
from bench.judge.foreign import (
    log_carriers,
    log_devices,
    log_fabric,
    log_faults,
    log_gpus,
    log_inits,
    log_launch,
    log_networks,
    log_ports,
    log_settings,
    log_sockets,
    log_versions,
)
from bench.judge.foreign.addresses import named
from bench.judge.foreign.log_jobs import Job
from bench.judge.foreign.log_runs import jobs
from bench.judge.words import listed
from bench.records import Dossier

JOBS_SHOWN = 16
SHOWN = 6
FEW = 2  # addresses told
LONGEST = 120  # characters of a remark


def judge(dossier: Dossier, docket: Docket) -> None:
    """Every job by itself, then versions against each other."""
    found = jobs(dossier)
    told = log_settings.launched(found, dossier, docket)
    for job in found:
        log_launch.judge(job, docket)
        log_versions.differ(job, docket)
        log_networks.judge(job, docket)
        log_carriers.judge(job, dossier, docket)
        log_devices.judge(job, dossier, docket)
        if job is not told:
            log_settings.judge(job, dossier, docket)
        log_gpus.judge(job, dossier, docket)
        log_fabric.judge(job, docket)
        log_inits.judge(job, dossier, docket)
        log_faults.judge(job, docket)
        log_ports.judge(job, docket)
    log_versions.judge(found, docket)


def facts(dossier: Dossier) -> tuple[str, ...]:
    """One sentence each, with the file's name where there are several jobs."""
    found = jobs(dossier)
    told = []
    for job in found[:JOBS_SHOWN]:
        name = f"{PurePath(job.logs[0].file).name}: " if len(found) > 1 else ""
        told += [f"{name}{sentence}" for sentence in _sentences(job)]
    return tuple(told)


def _sentences(job: Job) -> Iterator[str]:
    yield from _data_path(job)
    yield from log_inits.sentences(job)
    yield from _remarks(job)


def _remarks(job: Job) -> Iterator[str]:
    """What NCCL and RCCL recommend on machines that work as well."""
    texts = dict.fromkeys(event.text for event in job.events if event.role == "remark")
    told = [text if len(text) <= LONGEST else text[: LONGEST - 1] + "…" for text in texts]
    for text in told[:SHOWN]:
        yield f"a remark: {text}"


def _data_path(job: Job) -> Iterator[str]:
    """ "data path: NET/Socket/1 = hsn0, 4 channel ends; bootstrap bond0 (10.64.4.21)"."""
    counts: dict[str, int] = {}
    nets = {id(edge): net for _, edge, net in log_sockets.socket_edges(job)}
    devices = {
        (told.process.host, net.index): net.name
        for told in job.told
        for net in (*told.process.nets, *told.process.fused)
        if net.network != "Socket"
    }
    for _, edge in job.edges:
        if edge.transport != "NET":
            continue
        net = nets.get(id(edge))
        name = net.name if net else devices.get((edge.host or "", edge.device))
        direct = "/GDRDMA" if edge.gdr else ""
        key = f"NET/{edge.network}/{edge.device}{direct}" + (f" = {name}" if name else "")
        counts[key] = counts.get(key, 0) + 1
    if not counts:
        return
    told = [f"{key}, {number} channel ends" for key, number in list(counts.items())[:SHOWN]]
    more = f"; {len(counts) - SHOWN} more devices" if len(counts) > SHOWN else ""
    yield f"data path: {'; '.join(told)}{more}{_meeting(job)}"


def _meeting(job: Job) -> str:
    """ "; bootstrap bond0 (10.64.4.21)": with addresses where they are few."""
    met = [net for t in job.told if (net := t.process.bootstrap or t.process.oob) is not None]
    addresses = dict.fromkeys(named(net) for net in met)
    names = dict.fromkeys(net.name for net in met)
    return f"; bootstrap {listed(addresses if len(addresses) <= FEW else names)}" if met else ""
