"""Which interface a channel over sockets goes by: NET/Socket/N mapped to the host's list.

In: a Job (one run's logs). Out: edges with their interfaces; interface-link-local, -virtual or
-loopback for one that leads nowhere, as a good bootstrap line hides what carries the data; and
interface-virtual for a VPN or Wi-Fi that does carry data beside a wired port.
"""

from __future__ import annotations

from bench.judge.docket import Docket
from bench.judge.foreign import addresses
from bench.judge.foreign.addresses import Net, is_link_local, is_loopback, named, virtual_word
from bench.judge.foreign.log_jobs import Job
from bench.judge.foreign.log_words import advice, failures, line_of
from bench.judge.remedy import quoted
from bench.records import Evidence, Finding, LogEdge, NcclLog, Where

SLOW = ("a VPN", "Wi-Fi")  # as addresses.virtual_word calls them


def socket_edges(job: Job) -> list[tuple[NcclLog, LogEdge, Net | None]]:
    """Every edge via NET/Socket/N with the interface that N is on the host that printed it."""
    nets: dict[str, dict[int | None, Net]] = {}
    found = []
    for log, edge in job.edges:
        if edge.transport == "NET" and edge.network == "Socket":
            host = edge.host or ""
            if host not in nets:
                nets[host] = {net.index: net for net in job.socket_nets(host)}
            found.append((log, edge, nets[host].get(edge.device)))
    return found


def detour(job: Job, docket: Docket) -> None:
    """Data over a VPN or Wi-Fi although the host has a wired port. A warning: whether the hosts
    reach each other over that port too is not in the log."""
    for log, edge, net in socket_edges(job):
        word = virtual_word(net) if net is not None else None
        if net is None or word not in SLOW:
            continue
        wired = [n for n in job.socket_nets(edge.host or "") if virtual_word(n) is None]
        wired = [n for n in addresses.usable(wired) if n.name != net.name]
        if not wired:
            continue
        docket.add(
            Finding(
                code="interface-virtual",
                severity="warning",
                summary=f"Channel {edge.channel:02d} ({edge.source} -> {edge.destination}) goes "
                f"over {net.name}, {word}, although {edge.host or 'the host'} has "
                f"{named(wired[0])}: the slowest interface sets the pace.",
                where=Where(
                    host=edge.host,
                    rank=edge.told_by,
                    interface=net.name,
                    file=log.file,
                    line=edge.line or None,
                ),
                evidence=(
                    *(line_of(t, "sockets")[0] for t in job.told[:1] if t.quote("sockets")),
                    Evidence(
                        basis="asked",
                        text=f"{log.file}:{edge.line}: channel {edge.channel:02d} {edge.source} "
                        f"-> {edge.destination} via NET/Socket/{edge.device}",
                    ),
                ),
                remedy=f"export NCCL_SOCKET_IFNAME={quoted('=' + wired[0].name)}   # if the hosts "
                "reach each other there",
                confidence="asked",
            )
        )
        return


def unreachable(job: Job, docket: Docket) -> bool:
    """The first edge over a link-local, loopback or virtual interface that does not connect."""
    for log, edge, net in socket_edges(job):
        if net is None or not (is_link_local(net) or is_loopback(net) or virtual_word(net)):
            continue
        # Data may well flow over a VPN or a pod's network; a failed connection proves it does not.
        connected = job.formed and not job.failed_connections
        if connected or (not is_link_local(net) and not job.failed_connections):
            continue
        met = next(
            (t for t in job.told if t.process.host == edge.host and t.process.bootstrap), None
        )
        start = met.process.bootstrap if met else None
        begins = f"Bootstrap is on {named(start)}, but channel" if start else "Channel"
        word = virtual_word(net)
        what = f", {word}" if word else ""
        only = (
            f" with only an {addresses.address_class(net)} address" if is_link_local(net) else ""
        )
        code = "interface-link-local" if is_link_local(net) else "interface-virtual"
        code = "interface-loopback" if is_loopback(net) else code
        hosts = (edge.host,) if edge.host else ()
        docket.add(
            Finding(
                code=code,
                severity="broken" if job.failed_connections else "warning",
                summary=f"{begins} {edge.channel:02d} ({edge.source} -> {edge.destination}) goes "
                f"over NET/Socket/{edge.device}, which is {net.name}{what}{only}.",
                where=Where(
                    host=edge.host,
                    rank=edge.told_by,
                    interface=net.name,
                    file=log.file,
                    line=edge.line or None,
                ),
                evidence=(
                    *(line_of(met, "sockets", "bootstrap") if met else ()),
                    Evidence(
                        basis="asked",
                        text=f"{log.file}:{edge.line}: channel {edge.channel:02d} {edge.source} "
                        f"-> {edge.destination} via NET/Socket/{edge.device}",
                    ),
                    *failures(job),
                ),
                remedy=advice(job, hosts or job.hosts),
                confidence="asked",
            )
        )
        return True
    return False
