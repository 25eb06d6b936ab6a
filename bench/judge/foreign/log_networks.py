"""Where a job's processes meet: loopback, link-local, tunnels and bridges, networks that differ.

In: a Job (one run's logs). Out: interface-loopback, interface-link-local, interface-virtual,
interface-no-match, interface-ambiguous. Meeting on any interface is healthy on
one host, and on a management port beside RDMA or a plugin; nobody is accused whose communicator
formed. NCCL's own lines are the witness (asked).
"""

from __future__ import annotations

import re

from bench.facts.name_lists import parse
from bench.judge.docket import Docket
from bench.judge.foreign import addresses, log_peers, log_sockets
from bench.judge.foreign.addresses import Net, is_link_local, is_loopback, named, virtual_word
from bench.judge.foreign.log_jobs import Job, Told, met_on
from bench.judge.foreign.log_words import (
    IFNAME,
    MAX_NAMES,
    advice,
    event_line,
    failures,
    line_of,
    setting_of,
)
from bench.judge.remedy import quoted
from bench.judge.words import listed
from bench.records import Finding, LogEvent, Severity, Where

# Bootstrap with NCCL_COMM_ID looks for an interface in that address's network.
_SUBNET = re.compile(r"same subnet as remote address (\S{1,80}?)(?:<|$)")
NO_INTERFACE = (
    "no socket interface found", "no interface found", "is neither AF_INET",
    "verify NCCL_OOB_NET_IFNAME", "No IP interface found", "No interface found",
)  # fmt: skip


def judge(job: Job, docket: Docket) -> None:
    """At most one finding of each kind."""
    if _no_match(job, docket):
        return
    several = job.several_hosts or job.refused_on_loopback
    found = several and (
        _loopback(job, docket)
        or _link_local(job, docket)
        or _virtual(job, docket)
        or log_sockets.unreachable(job, docket)
    )
    found = found or log_peers.offered(job, docket)
    found = found or (several and log_peers.differs(job, docket))
    if not found:
        log_peers.unreachable(job, docket)
    if several:
        _ambiguous(job, docket)
        if not found:
            log_sockets.detour(job, docket)


# --- meeting on what no other host reaches ------------------------------------------------------


def _loopback(job: Job, docket: Docket) -> bool:
    met = [(told, net) for told, net in met_on(job) if is_loopback(net)]
    if not met or (job.formed and not job.failed_connections):
        return False
    told, net = met[0]
    hosts = tuple(dict.fromkeys(told.process.host for told, _ in met))
    setting = told.process.environment.get(IFNAME)
    forced = f"{IFNAME}={setting} forces it" if setting else "nothing excludes it"
    file, line = told.place("bootstrap" if told.quote("bootstrap") else "sockets")
    others = [n for host in hosts for n in job.socket_nets(host) if is_link_local(n)]
    summary = (
        f"NCCL meets on {net.name}{_of(net)} on {listed(hosts)} in a job of several hosts, "
        f"where the loopback of another host can never be reached ({forced})"
    )
    if others:
        summary += f"; {listed(named(n) for n in others)} is link-local only and no help either"
    docket.add(
        Finding(
            code="interface-loopback",
            severity="broken",
            summary=summary + ".",
            where=_where(told, net, hosts, file, line),
            evidence=(*line_of(told, "bootstrap", "sockets"), *setting_of(told), *failures(job)),
            remedy=advice(job, hosts, forced_away=setting is not None),
            confidence="asked",
        )
    )
    return True


def _link_local(job: Job, docket: Docket) -> bool:
    met = [(told, net) for told, net in met_on(job) if is_link_local(net)]
    if not met or (job.formed and not job.failed_connections):
        return False
    told, net = met[0]
    hosts = tuple(dict.fromkeys(told.process.host for told, _ in met))
    failed = bool(job.failed_connections)
    word = virtual_word(net)
    # On a card of its own it may reach hosts of the same switch; a tunnel's or veth's never does.
    lost: Severity = "degraded" if word and len(hosts) > 1 else "warning"
    severity: Severity = "broken" if failed else lost
    kind = f"{word} with" if word else "with"
    better = addresses.usable(n for host in hosts for n in job.socket_nets(host))
    instead = f"; {named(better[0])} would do" if better else ""
    what = "and cannot reach the other host" if failed else "which no router passes on"
    docket.add(
        Finding(
            code="interface-link-local",
            severity=severity,
            summary=f"NCCL meets on {net.name} on {listed(hosts)}, {kind} an "
            f"{addresses.address_class(net)} address ({net.address}), {what}{instead}.",
            where=_where(told, net, hosts, *told.place("bootstrap")),
            evidence=(*line_of(told, "bootstrap", "sockets"), *setting_of(told), *failures(job)),
            remedy=advice(job, hosts),
            confidence="asked",
        )
    )
    return True


def _virtual(job: Job, docket: Docket) -> bool:
    """A bridge or tunnel that leads nowhere: connections fail, or two hosts have one address."""
    met = [(told, net) for told, net in met_on(job) if virtual_word(net)]
    if not met or (job.formed and not job.failed_connections):
        return False
    owners: dict[str | None, set[str]] = {}
    for told, net in met:
        owners.setdefault(net.address, set()).add(told.process.host)
    shared = [a for a, hosts in owners.items() if a and len(hosts) > 1]
    if not shared and not job.failed_connections:
        return False
    told, net = met[0]
    hosts = tuple(dict.fromkeys(told.process.host for told, _ in met))
    why = f"every host has {shared[0]} there" if shared else "its connections fail"
    docket.add(
        Finding(
            code="interface-virtual",
            severity="broken" if job.failed_connections else "degraded",
            summary=f"NCCL meets on {named(net)} on {listed(hosts)}, {virtual_word(net)}: {why}.",
            where=_where(told, net, hosts, *told.place("bootstrap")),
            evidence=(*line_of(told, "bootstrap", "sockets"), *setting_of(told), *failures(job)),
            remedy=advice(job, hosts),
            confidence="asked",
        )
    )
    return True


# --- networks that differ, names that match too much or nothing ---------------------------------


def _ambiguous(job: Job, docket: Docket) -> None:
    """Prefixes that take more interfaces than there are names, where sockets carry data."""
    for told in job.told:
        setting = told.process.environment.get(IFNAME, "")
        nets = [net for net in told.process.nets if net.network == "Socket"]
        wanted = parse(setting, MAX_NAMES)
        over = told.process.network in (None, "Socket") and told.process.plugin_outcome != "used"
        if len(setting) < 2 or wanted.exclude or wanted.exact or not over:
            continue
        if len(nets) > len(wanted.tokens):
            docket.add(
                Finding(
                    code="interface-ambiguous",
                    severity="warning",
                    summary=f"{IFNAME}={setting} takes {listed(n.name for n in nets)} on "
                    f"{told.process.host}: names are prefixes, and sockets spread over all.",
                    where=Where(
                        host=told.process.host, file=told.log.file, line=told.place("sockets")[1]
                    ),
                    evidence=(*line_of(told, "sockets"), *setting_of(told)),
                    remedy=f"export {IFNAME}={quoted('=' + nets[0].name)}",
                    confidence="asked",
                )
            )
            return


def _no_match(job: Job, docket: Docket) -> bool:
    for event in job.events:
        if not any(words in event.text for words in NO_INTERFACE) or event.role == "remark":
            continue
        told = _owner(job, event)
        setting = told.process.environment.get(IFNAME) if told else None
        asked = _SUBNET.search(event.text)
        value = f"{IFNAME}={setting} leaves" if setting else "NCCL's rules leave"
        if asked:  # NCCL_COMM_ID is what makes NCCL look for a subnet
            value = f"NCCL_COMM_ID names {asked[1]}, and NCCL found"
        name = f"export {IFNAME}='=NAME' of one that is there"
        docket.add(
            Finding(
                code="interface-no-match",
                severity="broken",
                summary=f"{value} no usable interface on {event.host or 'a host'}: {event.text}.",
                where=Where(host=event.host, rank=event.rank, file=event.file, line=event.line),
                evidence=(event_line(event), *(setting_of(told) if told else ())),
                remedy=f"unset NCCL_COMM_ID   # or {name}; ip -br addr shows them"
                if asked
                else f"ip -br addr   # then {name}",
                confidence="asked",
            )
        )
        return True
    return False


def _owner(job: Job, event: LogEvent) -> Told | None:
    """The process that said it; for an excerpt that does not name it one that has a setting, where
    all that have one have the same."""
    own = (event.host or "", event.pid or 0)
    for told in job.told:
        if (told.process.host, told.process.pid) == own and (
            event.pid or told.process.environment
        ):
            return told
    near = [told for told in job.told if event.host in (None, told.process.host)]
    having = [told for told in near if IFNAME in told.process.environment]
    alike = len({told.process.environment[IFNAME] for told in having}) == 1
    return having[0] if alike else None


# --- words --------------------------------------------------------------------------------------


def _of(net: Net) -> str:
    return f" ({net.address})" if net.address else ""


def _where(told: Told, net: Net, hosts: tuple[str, ...], file: str, line: int | None) -> Where:
    ranks = told.process.ranks
    return Where(
        host=hosts[0] if len(hosts) == 1 else None,
        hosts=hosts if len(hosts) > 1 else (),
        rank=ranks[0] if len(hosts) == 1 and len(ranks) == 1 else None,
        interface=net.name,
        file=file,
        line=line,
    )
