"""What another host offers: addresses that cannot be reached, networks that do not meet.

In: a Job (one run's logs). Out: interface-link-local or interface-loopback where the address that
a rank was given is of that class (the fault is with the host that gave it), interface-differs
where hosts meet on different networks and cannot connect.
"""

from __future__ import annotations

from bench.judge.docket import Docket
from bench.judge.foreign import addresses
from bench.judge.foreign.addresses import Net, is_link_local, is_loopback, named
from bench.judge.foreign.log_jobs import Job, Told, met_on, peer_of
from bench.judge.foreign.log_words import IFNAME, advice, failures, line_of
from bench.judge.remedy import quoted
from bench.judge.words import listed
from bench.records import Finding, LogEvent, Where

LOST = ("timed out", "no route to host", "network is unreachable")
OFTEN = 3  # a retry or two is a peer that starts late


def offered(job: Job, docket: Docket) -> bool:
    """A connection to a link-local or loopback address: the fault is with the host that has it."""
    own = list(_locals(job).values())
    for event in job.failed_connections:
        peer = peer_of(event)
        found = addresses.parsed(peer)
        if found is None or not (found.is_link_local or found.is_loopback):
            continue
        if any(addresses.address(n) == found for n in own) or (found.is_loopback and not own):
            continue
        known = [(t, n) for t, n in met_on(job) if addresses.address(n) == found]
        if known and known[0][0].process.host == event.host:
            _own(job, known[0][1], event, docket)
            return True
        host = known[0][0].process.host if known else None
        local = f"; this host's own choice, {named(own[0])}, is right" if own else ""
        who = host or "the other host (the root of the connection)"
        like = ", typical of a BMC's USB port" if found.version == 4 else ""
        code = "interface-link-local" if found.is_link_local else "interface-loopback"
        kind = f"IPv{found.version} {'link-local' if found.is_link_local else 'loopback'}"
        docket.add(
            Finding(
                code=code,
                severity="broken",
                summary=f"{event.host or 'A rank'} cannot connect to {peer}: {who} met on an "
                f"{kind} address{like}. The fault is there, not on the host that logs it{local}.",
                where=Where(
                    host=host,
                    rank=event.rank if host is None else None,
                    interface=known[0][1].name if known else None,
                    file=event.file,
                    line=event.line,
                ),
                evidence=(
                    *failures(job),
                    *(line_of(t, "rdma", "bootstrap")[0] for t in _first(job)),
                ),
                remedy=f"export {IFNAME}={quoted('=' + own[0].name)}   # on all hosts"
                if own
                else f"on the host that has {peer}: ip -br addr; then export {IFNAME}='=NAME' "
                "with the interface of its routable address, on all hosts",
                confidence="asked" if host else "inferred",
            )
        )
        return True
    return _behind_bridges(job, docket)


def _own(job: Job, net: Net, event: LogEvent, docket: Docket) -> None:
    """A host that cannot even reach its own address, as one of this class needs its interface's
    number to be reached."""
    docket.add(
        Finding(
            code="interface-link-local" if is_link_local(net) else "interface-loopback",
            severity="broken",
            summary=f"{event.host} meets on {net.name}, whose only address is "
            f"{addresses.address_class(net)} ({net.address}), and cannot connect to it.",
            where=Where(
                host=event.host,
                rank=event.rank,
                interface=net.name,
                file=event.file,
                line=event.line,
            ),
            evidence=failures(job),
            remedy=advice(job, (event.host,) if event.host else job.hosts),
            confidence="asked",
        )
    )


def _behind_bridges(job: Job, docket: Docket) -> bool:
    """Two hosts with addresses of the range that every Docker gives its bridge, and no way between
    them. The range alone is no proof; the failed connection within it is."""
    locals_ = _locals(job)
    for event in job.failed_connections:
        peer = addresses.parsed(peer_of(event))
        own = locals_.get(event.host or "")
        if own is None or not (addresses.in_docker_range(peer) and _docker(own)):
            continue
        docket.add(
            Finding(
                code="interface-virtual",
                severity="broken",
                summary=f"{event.host} meets on {named(own)} and cannot connect to {peer}: both "
                "are of Docker's default range, which is another network on every host.",
                where=Where(host=event.host, interface=own.name, file=event.file, line=event.line),
                evidence=failures(job),
                remedy="docker run --network=host …   # or an overlay network that joins them",
                confidence="inferred",
            )
        )
        return True
    return False


def _docker(net: Net) -> bool:
    return addresses.in_docker_range(addresses.address(net))


def unreachable(job: Job, docket: Docket) -> bool:
    """A connection between ordinary addresses that times out or has no route: what lies between
    drops it. A refused one is a process that is not there, and no fault of the network."""
    locals_ = _locals(job)
    by_process = {(t.process.host, t.process.pid): _local(t) for t in job.told}
    for event in job.failed_connections:
        peer = peer_of(event)
        lost = any(words in event.text.lower() for words in LOST)
        if not lost or event.host is None or (event.role == "retry" and event.count < OFTEN):
            continue
        own = by_process.get((event.host, event.pid or 0)) or locals_.get(event.host)
        if own is None or job.formed:
            continue
        whom = peer or "its peer"
        if peer is not None and addresses.parsed(peer) == addresses.address(own):
            whom = "itself there"
        docket.add(
            Finding(
                code="interface-unreachable",
                severity="broken",
                summary=f"{event.host} meets on {named(own)} and gets no answer from {whom}: a "
                "firewall between high ports, no route, or a host that is not there.",
                where=Where(
                    host=event.host,
                    rank=event.rank,
                    interface=own.name,
                    file=event.file,
                    line=event.line,
                ),
                evidence=failures(job),
                remedy=f"ip route get {peer or 'ADDRESS'}; nc -vz {peer or 'ADDRESS'} 22   # from "
                f"{event.host}; iptables -S and nft list ruleset on both",
                confidence="inferred",
            )
        )
        return True
    return False


def _locals(job: Job) -> dict[str, Net]:
    """Host -> where it meets, of hosts that meet on an ordinary address."""
    found: dict[str, Net] = {}
    for told in job.told:
        net = _local(told)
        if net is not None:
            found.setdefault(told.process.host, net)
    return found


def _local(told: Told) -> Net | None:
    """Where this process meets: its bootstrap line, or the out-of-band interface of NET/IB."""
    net = told.process.bootstrap or told.process.oob
    return net if net is not None and not is_link_local(net) and not is_loopback(net) else None


def _first(job: Job) -> list[Told]:
    return [told for told in job.told if told.quote("rdma") or told.quote("bootstrap")][:1]


def differs(job: Job, docket: Docket) -> bool:
    """Hosts that meet on differently named interfaces of different networks."""
    by_host: dict[str, tuple[Told, Net]] = {}
    for told, net in met_on(job):
        by_host.setdefault(told.process.host, (told, net))
    places = {host: _network(net) for host, (_, net) in by_host.items()}
    if len(by_host) < 2 or None in places.values() or len(set(places.values())) < 2:
        return False
    names = {net.name for _, net in by_host.values()}
    if len(names) < 2 or job.formed:
        return (
            False  # a routed fabric has a network per host; a formed communicator proves the way
        )
    failed = bool(job.failed_connections)
    told, _ = next(iter(by_host.values()))
    pairs = [f"{host} {named(net)}" for host, (_, net) in by_host.items()]
    docket.add(
        Finding(
            code="interface-differs",
            severity="broken" if failed else "warning",
            summary=f"Hosts meet on different networks{' and cannot connect' * failed}: "
            f"{listed(pairs)}.",
            where=Where(hosts=tuple(by_host), file=told.log.file, line=told.place("bootstrap")[1]),
            evidence=(
                *(e for t, _ in list(by_host.values())[:4] for e in line_of(t, "bootstrap")),
                *failures(job),
            ),
            remedy=advice(job, tuple(by_host)),
            confidence="inferred",
        )
    )
    return True


def _network(net: Net) -> str | None:
    """The first two bytes: no prefix length is printed, and a /16 is the widest that is usual."""
    found = addresses.address(net)
    if found is None:
        return None
    return ".".join(str(found).split(".")[:2]) if found.version == 4 else str(found)[:9]
