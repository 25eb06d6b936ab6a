"""The same job under two versions of NCCL: channels that became fewer, rings that became one.

In: Jobs of a dossier. Out: software-differs within a job; regressed, where logs of equally many
ranks and hosts, with equal settings and different versions, show half the channels or fewer under
the newer one. What that costs is not in the logs, so it is inferred, and a warning where nothing
says that it is one job.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePath

from bench.judge.docket import Docket
from bench.judge.foreign.log_jobs import Job, Told
from bench.judge.foreign.log_words import event_line, line_of
from bench.judge.words import listed
from bench.records import Evidence, Finding, LogCommunicator, NcclLog, Where

# NCCL adds a channel or two from version to version; half of them gone is another graph.
FEWER = 0.5
# What decides by itself how many channels there are.
_LIMITS = re.compile(
    r"NCCL_(?:(?:MAX|MIN)_\w*(?:NCHANNELS|NRINGS|CTAS)|NRINGS|NTHREADS|ALGO|PROTO|NET|NET_PLUGIN"
    r"|IB_HCA|IB_DISABLE|SOCKET_IFNAME|SHM_DISABLE|CROSS_NIC|P2P_\w+|NVLS\w*|MNNVL\w*"
    r"|TOPO_FILE|GRAPH_FILE)\Z"
)
NAMES = (("before", "after"), ("old", "new"), ("good", "bad"), ("pre", "post"))


@dataclass(frozen=True)
class Seen:
    """A communicator's rings under one version."""

    log: NcclLog
    group: LogCommunicator
    version: str
    ranks: int
    channels: int


def differ(job: Job, docket: Docket) -> None:
    """Ranks of one job that load different libraries: NCCL says so, or they do."""
    said = [event for event in job.events if "Mismatched NCCL" in event.text]
    versions: dict[str, list[Told]] = {}
    for told in job.told:
        if told.process.nccl_version:
            versions.setdefault(told.process.nccl_version, []).append(told)
    if not said and len(versions) < 2:
        return
    parts = [f"{v} on {listed(t.process.host for t in group)}" for v, group in versions.items()]
    odd = min(versions.values(), key=len)[0] if len(versions) > 1 else None
    first = said[0] if said else None
    told_by = f": {first.text}" if first is not None and len(versions) < 2 else ""
    docket.add(
        Finding(
            code="software-differs",
            severity="broken" if said else "warning",
            summary=f"Ranks run different NCCL versions{told_by}"
            + (f": {'; '.join(parts)}." if len(versions) > 1 else "."),
            where=Where(
                host=odd.process.host if odd else first.host if first else None,
                rank=first.rank if first else None,
                file=first.file if first else odd.log.file if odd else None,
                line=first.line if first else odd.place("version")[1] if odd else None,
            ),
            evidence=(
                *(event_line(event) for event in said[:1]),
                *(
                    e
                    for group in list(versions.values())[:4]
                    for e in line_of(group[0], "version")
                ),
            ),
            remedy="one image for all hosts; LD_LIBRARY_PATH and LD_PRELOAD decide which libnccl "
            "is loaded",
            confidence="asked",
        )
    )


def judge(jobs: tuple[Job, ...], docket: Docket) -> None:
    """At most one finding: the oldest against the newest of equal size."""
    seen = sorted(
        (one for job in jobs for log in job.logs if (one := _seen(log)) is not None),
        key=lambda one: _order(one.version),
    )
    for old in seen:
        for new in reversed(seen):
            if not _alike(old, new) or _order(old.version) >= _order(new.version):
                continue
            if new.channels <= FEWER * old.channels:
                docket.add(_finding(old, new, job=_job_of(jobs, new)))
                return


def _seen(log: NcclLog) -> Seen | None:
    """The largest communicator of a log of one version."""
    best: Seen | None = None
    for group in log.communicators:
        channels = group.ring_channels or len(group.rings)
        size = max((len(ring) for ring in group.rings.values()), default=0)
        ranks = group.ranks or size
        if len(log.versions) == 1 and channels and ranks > (best.ranks if best else 1):
            best = Seen(log, group, log.versions[0], ranks, channels)
    return best


def _alike(old: Seen, new: Seen) -> bool:
    """Whether nothing but the version is seen to differ that decides the number of channels."""
    nodes = _nodes(old), _nodes(new)
    spread = nodes if None not in nodes else (len(old.log.hosts), len(new.log.hosts))
    return (
        old.ranks == new.ranks
        and old.log.flavour == new.log.flavour
        and spread[0] == spread[1]
        and _limits(old.log) == _limits(new.log)
    )


def _nodes(seen: Seen) -> int | None:
    """Over how many nodes the ranks are spread: by NCCL's word, or where all are in the log."""
    if seen.group.nodes is not None:
        return seen.group.nodes
    whole = len(seen.group.members) == seen.ranks
    return len({member.host for member in seen.group.members}) if whole else None


def _limits(log: NcclLog) -> dict[str, set[str]]:
    """Settings that limit the channels, with all values that processes have."""
    found: dict[str, set[str]] = {}
    for process in log.processes:
        for name, value in process.environment.items():
            if _LIMITS.match(name):
                found.setdefault(name, set()).add(value)
    return found


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d{1,6}", version.partition("+")[0])[:4])


def _job_of(jobs: tuple[Job, ...], seen: Seen) -> Job:
    return next(job for job in jobs if seen.log in job.logs)


def _orders(seen: Seen) -> str:
    """Nothing where NCCL printed the first ranks of a large ring only."""
    orders = set(seen.group.rings.values())
    if not orders:
        return ""
    return " (all in one order)" if len(orders) == 1 else f" (in {len(orders)} different orders)"


def _named_so(old: Seen, new: Seen) -> bool:
    """Whether these are one job before and after, by the files' names or the hosts in them."""
    before, after = PurePath(old.log.file).name.lower(), PurePath(new.log.file).name.lower()
    named = any(a in before and b in after for a, b in NAMES)
    return named or bool(set(old.log.hosts) & set(new.log.hosts))


def _finding(old: Seen, new: Seen, job: Job) -> Finding:
    tree = [f"{e.file}:{e.line}: {e.text}" for e in job.faults if "pattern" in e.text]
    one_node = _nodes(new) == 1
    cost = "move less at once" if one_node else "fill fewer NIC ports"
    return Finding(
        code="regressed",
        severity="degraded" if _named_so(old, new) else "warning",
        summary=f"With NCCL {new.version} {new.ranks} ranks use {new.channels} channels"
        f"{_orders(new)}, with {old.version} they used {old.channels}{_orders(old)}: fewer "
        f"channels {cost}, so large messages are slower.",
        where=Where(file=new.log.file, line=new.group.line or None),
        evidence=(
            Evidence(
                basis="asked",
                text=f"{old.log.file}:{old.group.line}: {old.channels} channels, "
                f"{listed(old.log.hosts)}",
            ),
            Evidence(
                basis="asked",
                text=f"{new.log.file}:{new.group.line}: {new.channels} channels, "
                f"{listed(new.log.hosts)}",
            ),
            *(Evidence(basis="asked", text=text) for text in tree[:1]),
        ),
        remedy="export NCCL_DEBUG='INFO' NCCL_DEBUG_SUBSYS='INIT,GRAPH,TUNING'   # with both "
        "versions, and compare"
        if one_node
        else "export NCCL_PXN_DISABLE='1'   # try; and compare "
        "NCCL_DEBUG_SUBSYS=GRAPH,TUNING of both versions",
        confidence="inferred",
    )
