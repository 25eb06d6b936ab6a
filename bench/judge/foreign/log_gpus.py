"""GPUs in a job's log: two ranks on one, and host memory or the network where NVLink is.

In: a Job (one run's logs) and matrices of the same dossier. Out: duplicate-gpu,
gpu-path-unexpected. Sockets, shared memory and direct access between GPUs are all healthy
somewhere: without a matrix that shows NVLink between a pair, or a fault of shared memory, the way
taken is only told.
"""

from __future__ import annotations

import re
from collections import defaultdict

from bench.judge import systems
from bench.judge.docket import Docket
from bench.judge.foreign.gpu_matrix import Matrix
from bench.judge.foreign.log_jobs import Job
from bench.judge.foreign.log_words import event_line
from bench.judge.words import listed
from bench.records import Dossier, Evidence, Finding, LogCommunicator, LogEdge, NcclLog, Where

_DUPLICATE = re.compile(
    r"Duplicate GPU detected : rank (\d{1,7}) and rank (\d{1,7}) both on CUDA device (\w{1,20})"
)
_SHARED = ("ranks detected using the same GPU", "Ranks are using the same GPU")
SHM_FAULTS = ("dev/shm", "posix_fallocate", "shared memory segment")
# What forbids the direct way, or makes it the user's choice.
MOST_RANKS = 16  # in a sentence; `where` has them all
WISHES = ("NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL", "NCCL_SHM_DISABLE", "NCCL_CUMEM_ENABLE")


def judge(job: Job, dossier: Dossier, docket: Docket) -> None:
    """At most one finding of each kind."""
    _duplicate(job, docket)
    _ways(job, dossier, docket)


# --- one GPU, several ranks ----------------------------------------------------------------------


def _duplicate(job: Job, docket: Docket) -> None:
    ranks: set[int] = set()
    buses: dict[str, None] = {}
    events = []
    for event in job.events:
        if match := _DUPLICATE.search(event.text):
            ranks |= {int(match[1]), int(match[2])}
            buses[match[3]] = None
            events.append(event)
        elif any(words in event.text for words in _SHARED):
            events.append(event)
    if not events:
        return
    first = events[0]
    shared = _same_bus(job)
    if shared and not ranks:
        (_, bus), members = next(iter(shared.items()))
        ranks, buses = set(members), {bus: None}
    zero = {e.device for e in events} == {0} and len({e.pid for e in events}) > 1
    hosts = tuple(dict.fromkeys(e.host for e in events if e.host))
    who = f"ranks {', '.join(map(str, sorted(ranks)[:MOST_RANKS]))}" if ranks else "several ranks"
    bus = f" (bus {listed(buses)})" if buses else ""
    index = "; every process opened device 0, so the local rank was not used" if zero else ""
    docket.add(
        Finding(
            code="duplicate-gpu",
            severity="broken",
            summary=f"On {listed(hosts) or 'one host'} {who} share one GPU{bus}{index}.",
            where=Where(
                host=hosts[0] if len(hosts) == 1 else None,
                hosts=hosts if len(hosts) > 1 else (),
                rank=first.rank,
                ranks=tuple(sorted(ranks)),
                gpu=0 if zero else None,
                device=next(iter(buses)) if len(buses) == 1 else None,
                file=first.file,
                line=first.line,
            ),
            evidence=tuple(event_line(event) for event in events[:4]),
            remedy="torch.cuda.set_device(int(os.environ['LOCAL_RANK']))   # before the group is "
            "made; Horovod: hvd.local_rank()",
            confidence="asked",
        )
    )


def _same_bus(job: Job) -> dict[tuple[str, str], list[int]]:
    found: dict[tuple[str, str], list[int]] = defaultdict(list)
    for (_, rank), (_, member) in job.members.items():
        if member.bus_id:
            found[member.host, member.bus_id].append(rank)
    return {key: ranks for key, ranks in found.items() if len(set(ranks)) > 1}


# --- the way between GPUs of one host ------------------------------------------------------------


Local = tuple[NcclLog, LogEdge]


def _ways(job: Job, dossier: Dossier, docket: Docket) -> None:
    local = [pair for log, group in job.communicators for pair in _local(job, log, group)]
    slow = [(log, e) for log, e in local if e.transport in ("SHM", "NET")]
    if not slow:
        return
    wishes = [f"{name}={found[0]}" for name in WISHES if (found := job.setting(name))]
    set_by = f" ({listed(wishes)} set)" if wishes else ""
    apart = all(any(one.startswith(word) for one in wishes) for word in ("NCCL_P2P", "NCCL_SHM"))
    if apart and _over_network(local, wishes, docket):
        return  # nobody sets both by mistake: it is the network that is to be seen
    linked = _linked(slow, dossier) or _of_class(slow, job, dossier)
    if linked:
        log, edge, a, b, why = linked[0]
        kind = "shared host memory" if edge.transport == "SHM" else "the network"
        docket.add(
            Finding(
                code="gpu-path-unexpected",
                severity="degraded",
                summary=f"{a} and {b} {why}, but NCCL goes from rank "
                f"{edge.source} to {edge.destination} by {kind}{set_by}.",
                where=Where(host=edge.host, link=(a, b), file=log.file, line=edge.line or None),
                evidence=(_told(log, edge), *(_told(one, e) for one, e, *_ in linked[1:3])),
                remedy=f"unset {' '.join(one.partition('=')[0] for one in wishes)}   # else: "
                "nvidia-smi topo -p2p r"
                if wishes
                else "nvidia-smi topo -p2p r   # containers that see one GPU each cannot use it",
                confidence="asked",
            )
        )
        return
    if _over_network(local, wishes, docket):
        return
    full = [e for e in job.faults if any(words in e.text for words in SHM_FAULTS)]
    if full and all(edge.transport == "SHM" for _, edge in local):
        log, edge = slow[0]
        pairs = {frozenset((e.source, e.destination)) for _, e in slow}
        docket.add(
            Finding(
                code="gpu-path-unexpected",
                severity="info",
                summary=f"All {len(pairs)} pairs of GPUs in the log talk through shared memory, "
                "none directly: P2P is blocked or the GPUs are too far apart, and every "
                f"connection needs room in /dev/shm{set_by}.",
                where=Where(host=edge.host, file=log.file, line=edge.line or None),
                evidence=(_told(log, edge),),
                remedy="nvidia-smi topo -m; nvidia-smi topo -p2p r",
                confidence="asked",
            )
        )
        return
    _as_wished(job, local, docket)


def _as_wished(job: Job, local: list[Local], docket: Docket) -> None:
    """P2P that the user switched off: a workaround on some machines, forgotten on others."""
    name = next(
        (
            f"{name}={found[0]}"
            for name, off in (("NCCL_P2P_DISABLE", ("1",)), ("NCCL_P2P_LEVEL", ("LOC", "0")))
            if (found := job.setting(name)) and found[0] in off
        ),
        None,
    )
    if name is None or any(edge.transport != "SHM" for _, edge in local):
        return
    log, edge = local[0]
    docket.add(
        Finding(
            code="gpu-path-unexpected",
            severity="info",
            summary=f"{name} keeps the GPUs of {edge.host or 'the host'} from direct access: all "
            "of them talk through shared host memory.",
            where=Where(host=edge.host, file=log.file, line=edge.line or None),
            evidence=(_told(log, edge),),
            remedy=f"unset {name.partition('=')[0]}   # and look at nvidia-smi topo -m",
            confidence="asked",
        )
    )


def _over_network(local: list[Local], wishes: list[str], docket: Docket) -> bool:
    """GPUs of one host that talk over its network card: slow, but NCCL may have its reasons."""
    over = [(log, edge) for log, edge in local if edge.transport == "NET"]
    if not over or len(over) < len(local):
        return False
    log, edge = over[0]
    why = f"as {listed(wishes)} tell it to" if wishes else "as if they were hosts of their own"
    docket.add(
        Finding(
            code="gpu-path-unexpected",
            severity="warning",
            summary=f"All GPUs of {edge.host} talk to each other over NET/{edge.network}, {why}: "
            "neither directly nor through shared memory.",
            where=Where(host=edge.host, file=log.file, line=edge.line or None),
            evidence=(_told(log, edge),),
            remedy="unset NCCL_P2P_DISABLE NCCL_SHM_DISABLE NCCL_HOSTID   # containers of one "
            "host need --ipc=host to share memory",
            confidence="asked",
        )
    )
    return True


def _local(job: Job, log: NcclLog, group: LogCommunicator) -> list[Local]:
    """Edges between two GPUs of one host. P2P and SHM are such by nature."""
    return [
        (log, edge)
        for edge in group.edges
        if edge.transport in ("P2P", "SHM")
        or (edge.transport == "NET" and job.both_here(group, edge))
    ]


Linked = tuple[NcclLog, LogEdge, str, str, str]


def _of_class(slow: list[Local], job: Job, dossier: Dossier) -> list[Linked]:
    """All of these edges, where the table in the same file, or the only NVLink status, names GPUs
    that NVLink or xGMI joins in every system that has them."""
    files = {log.file for log in job.logs}
    names = {
        device.name
        for table in dossier.tables
        if table.file in files
        for device in table.devices
        if device.name
    }
    if len({status.host for status in dossier.nvlinks}) == 1 and len(job.hosts) == 1:
        names |= {s.name for s in dossier.nvlinks if s.name and any(x.active for x in s.links)}
    fabrics = systems.match(tuple(names)) if names else ()
    if not fabrics or any(fabric.gpus.path not in ("nvlink", "xgmi") for fabric in fabrics):
        return []
    link = "xGMI" if fabrics[0].gpus.path == "xgmi" else "NVLink"
    why = f"({listed(sorted(names))}) are joined by {link} in every known system"
    return [
        (log, edge, f"GPU{edge.source_device}", f"GPU{edge.destination_device}", why)
        for log, edge in slow
    ]


def _linked(slow: list[Local], dossier: Dossier) -> list[Linked]:
    """Of these edges those whose GPUs a matrix joins by NVLink."""
    found = []
    for record in dossier.matrices:
        matrix = Matrix(record)
        for log, edge in slow:
            if not _index(edge.source_device) or not _index(edge.destination_device):
                continue  # a bus id, which the matrix does not have
            if record.host is not None and edge.host is not None and record.host != edge.host:
                continue
            a, b = f"GPU{edge.source_device}", f"GPU{edge.destination_device}"
            if matrix.kind(a, b) == "NV":
                found.append((log, edge, a, b, "are joined by NVLink"))
    return found


def _index(device: str | None) -> bool:
    return device is not None and device.isdigit() and len(device) <= 2


def _told(log: NcclLog, edge: LogEdge) -> Evidence:
    via = edge.transport if edge.network is None else f"NET/{edge.network}/{edge.device}"
    return Evidence(
        basis="asked",
        text=f"{log.file}:{edge.line}: channel {edge.channel:02d} {edge.source}"
        f"[{edge.source_device}] -> {edge.destination}[{edge.destination_device}] via {via}",
    )
