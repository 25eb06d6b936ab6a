"""Sockets that carry a job's data although something faster was meant: why, and over what.

In: a Job (one run's logs) and its dossier. Out: fallback-to-sockets (a plugin failed, or RDMA or
Slingshot was there). "No plugin found" alone is no finding. What the user switched off is a
remark, a warning where RDMA hardware shows. An excerpt that does not show whether the job has
several hosts gets a warning where a plugin failed in it: within one host no network carries data.
"""

from __future__ import annotations

from bench.judge.docket import Docket
from bench.judge.foreign import addresses, unused_rdma
from bench.judge.foreign.addresses import named
from bench.judge.foreign.log_jobs import Job, Told
from bench.judge.foreign.log_sockets import socket_edges
from bench.judge.foreign.log_words import event_line, line_of, setting_of
from bench.judge.foreign.unused_rdma import CLOSED, IPOIB, MAYBE, NO_DEVICE
from bench.judge.words import listed
from bench.records import Dossier, Evidence, Finding, Severity, Where

SHOWN = 4


def judge(job: Job, dossier: Dossier, docket: Docket) -> None:
    """Sockets only; RDMA devices are another judge's."""
    if job.several_hosts or not job.one_host:
        _fallback(job, dossier, docket)


def _fallback(job: Job, dossier: Dossier, docket: Docket) -> None:
    over = [told for told in job.told if _sockets_carry(job, told)]
    if not over:
        _tcp_provider(job, docket)
        return
    told, why, lines = next(
        (
            (t, *reason)
            for look in (unused_rdma.at_hand, unused_rdma.without_device)
            for t in over
            if (reason := look(job, t, dossier))
        ),
        (None, "", ()),
    )
    if told is None:
        return
    off = _switched_off(told)
    severity = _severity(job, told, why, off)
    if severity is None:
        return
    carried = _carried(job)
    hosts = tuple(dict.fromkeys(t.process.host for t in over))
    names = tuple(dict.fromkeys(carried))
    data = f" over {listed(names)}" if names else ""
    met = dict.fromkeys(
        named(net) for t in over if (net := t.process.bootstrap or t.process.oob) is not None
    )
    carries = "NCCL carries" if job.several_hosts else "Between hosts NCCL would carry"
    meets = f"; bootstrap is on {listed(met)}" if met else ""
    chosen = f" ({off} is set)" if off else ""
    interface = "+".join(name.partition(" ")[0] for name in names) or None
    docket.add(
        Finding(
            code="fallback-to-sockets",
            severity=severity,
            summary=f"{carries} data by TCP sockets{data}, not by RDMA: {why}{chosen}{meets}.",
            where=Where(
                host=hosts[0] if len(hosts) == 1 else None,
                hosts=hosts if len(hosts) > 1 else (),
                interface=interface,
                file=told.log.file,
                line=told.place("network")[1],
            ),
            evidence=(
                *lines,
                *_plugin_lines(job, told),
                *line_of(told, "no-rdma"),
                *line_of(told, "network"),
                *line_of(told, "sockets"),
                *_edges_told(job),
                *setting_of(told),
            ),
            remedy=_remedy(told, off, why),
            confidence="asked",
        )
    )


def _severity(job: Job, told: Told, why: str, off: str | None) -> Severity | None:
    """None where an excerpt shows neither several hosts nor a plugin that failed."""
    if not job.several_hosts:
        if off:
            return None
        if CLOSED in why:
            return "degraded"  # a fault of its own, however many hosts there are
        if told.process.plugin_outcome == "failed" or "leaves no RDMA device" in why:
            return "warning"
        # Images of one vendor load their plugin everywhere: without devices it says nothing.
        told_apart = told.process.plugin_outcome == "loaded" or IPOIB in why
        return "info" if told_apart else None
    if NO_DEVICE in why:
        return "info"  # images of one vendor load their plugin everywhere
    if off:
        return "warning" if IPOIB in why or told.process.rdma is True else "info"
    return "warning" if why.startswith(MAYBE) else "degraded"


def _sockets_carry(job: Job, told: Told) -> bool:
    """By NCCL's word, or by its channels where it is too old to say so."""
    if told.process.network is not None:
        return told.process.network == "Socket"
    return any(e.host == told.process.host for _, e, _ in socket_edges(job))


def _tcp_provider(job: Job, docket: Docket) -> None:
    """libfabric itself over TCP: the plugin is used, the fabric is not."""
    for told in job.told:
        quote = told.quote("provider")
        provider = quote.text.partition("rovider is ")[2].split(" ")[0] if quote else ""
        if not provider.startswith(("tcp", "sockets", "net;", "udp")):
            continue
        docket.add(
            Finding(
                code="fallback-to-sockets",
                severity="degraded",
                summary=f"The libfabric plugin on {told.process.host} uses the provider "
                f"{provider}, which is TCP: no EFA, Slingshot or RDMA device was found.",
                where=Where(
                    host=told.process.host, file=told.log.file, line=quote.line if quote else None
                ),
                evidence=(*line_of(told, "provider"), *line_of(told, "network")),
                remedy="fi_info -l   # must list efa, cxi or verbs inside the job's container",
                confidence="asked",
            )
        )
        return


def _switched_off(told: Told) -> str | None:
    """What the user set to get sockets."""
    environment = told.process.environment
    if environment.get("NCCL_IB_DISABLE", "0") not in ("0", ""):
        return f"NCCL_IB_DISABLE={environment['NCCL_IB_DISABLE']}"
    if environment.get("NCCL_NET", "").lower() == "socket":
        return f"NCCL_NET={environment['NCCL_NET']}"
    return None


def _carried(job: Job) -> list[str]:
    """ "hsn0 (NET/Socket/1)", in the order of the first edge; the list where no edge is told."""
    names = [
        f"{net.name} (NET/Socket/{edge.device})"
        for _, edge, net in socket_edges(job)
        if net is not None
    ]
    if names:
        return names
    nets = [net for host in job.hosts for net in job.socket_nets(host)]
    return [named(net) for net in nets] if len({net.name for net in nets}) == 1 else []


def _plugin_lines(job: Job, told: Told) -> tuple[Evidence, ...]:
    """Its first warning, and that it was loaded, which is no proof of its use."""
    if told.process.plugin_outcome != "failed":
        return ()
    own = [
        event_line(event)
        for event in job.events
        if event.pid == told.process.pid and event.text.startswith("NET/")
    ]
    return (*own[:1], *line_of(told, "plugin"))


def _edges_told(job: Job) -> tuple[Evidence, ...]:
    """Channels by interface, of all hosts together."""
    counts: dict[str, int] = {}
    for _, edge, net in socket_edges(job):
        key = f"NET/Socket/{edge.device}" + (f" = {net.name}" if net else "")
        counts[key] = counts.get(key, 0) + 1
    if not counts:
        return ()
    told = ", ".join(f"{key} ({n} channel ends)" for key, n in list(counts.items())[:SHOWN])
    return (Evidence(basis="asked", text=f"channels go via {told}"),)


def _remedy(told: Told, off: str | None, why: str) -> str:
    process = told.process
    if off:
        return f"unset {off.partition('=')[0]}   # if RDMA is meant to carry the data"
    if NO_DEVICE in why:
        return "ls /sys/class/infiniband   # on the host, and in the job's container"
    plugin = (process.plugin or "").lower()
    if process.flavour == "rccl" or any(addresses.is_slingshot(net.name) for net in process.nets):
        return (
            "install the libfabric plugin for this system (aws-ofi-nccl, for RCCL aws-ofi-rccl, "
            "with the cxi provider) and put its folder into LD_LIBRARY_PATH"
        )
    if "ofi" in plugin or "libfabric" in plugin:
        return (
            "fi_info -p efa   # must list a provider: instance type with EFA, device in the "
            "container, security group that allows itself"
        )
    if process.plugin_outcome in ("failed", "not-found") and process.plugin_wanted:
        return "unset NCCL_NET_PLUGIN   # or install the plugin for this NCCL"
    hca = process.environment.get("NCCL_IB_HCA")
    fix = "unset NCCL_IB_HCA; " if hca and process.rdma is False else ""
    return f"{fix}ls /dev/infiniband; ibv_devinfo   # inside the job's container"
