"""Whether traffic went by the interface that was selected: the other two witnesses.

In: a report's networks. Out: egress-differs. NCCL's variable picks the address it listens on; by
which interface the sender leaves is the routing table's (NVIDIA/nccl #1580, #1269).
"""

from __future__ import annotations

from collections.abc import Collection

from bench.judge import carried
from bench.judge.docket import Docket
from bench.judge.networks import Networks, interfaces_of
from bench.judge.words import carrier, percent, single
from bench.records import Candidate, Evidence, Finding, Where

SHOWN = 4
# A witness is heard when it saw this much; a session of small messages moves less than its noise.
MIN_COUNTED_BYTES = 1_000_000
MOST = 0.5  # the selected interface carries most of the bytes, or something is wrong


def judge(net: Networks, docket: Docket) -> None:
    """Hold the kernel's routes and the byte counters against the interfaces selected."""
    if net.several_hosts:
        for candidate in net.networks:
            if candidate.transport == "socket":
                _egress(net, docket, candidate)


def _egress(net: Networks, docket: Docket, candidate: Candidate) -> None:
    routed: dict[str, str] = {}
    for pair in net.pairs(candidate):
        own = interfaces_of(candidate, pair.source)
        if (
            pair.outcome == "ok"
            and pair.egress
            and own
            and not _same(net, pair.source, pair.egress, own)
        ):
            routed[pair.source] = pair.egress
    counted: dict[str, tuple[str, float]] = {}
    for host in candidate.carried:
        if sum(candidate.carried[host].values()) < MIN_COUNTED_BYTES:
            continue
        shares = net.shares(candidate, host)
        own = interfaces_of(candidate, host)
        if own and sum(s for name, s in shares.items() if _same(net, host, name, own)) < MOST:
            counted[host] = max(shares.items(), key=lambda entry: entry[1])
    hosts = [host for host in net.hosts if host in routed or host in counted]
    if not hosts:
        return
    both = bool(routed) and bool(counted)
    evidence = [
        Evidence(basis="measured", text=f"{host} leaves by {name} (kernel's route)")
        for host, name in list(routed.items())[:SHOWN]
    ] + [
        Evidence(basis="measured", text=f"{host}: {name} carried {percent(share)} of the bytes")
        for host, (name, share) in list(counted.items())[:SHOWN]
    ]
    other = single([*routed.values(), *(name for name, _ in counted.values())]) or "others"
    docket.add(
        Finding(
            code="egress-differs",
            severity="degraded" if both and net.bears(candidate) else "warning",
            summary=f"Traffic selected for {carrier(candidate)} goes by {other} "
            f"on {len(hosts)} of {len(net.hosts)} hosts.",
            where=Where(
                candidate=candidate.name,
                interface=single(candidate.interfaces.values()),
                host=single(hosts),
                hosts=tuple(hosts),
            ),
            evidence=tuple(evidence),
            remedy="ip rule show; ip route show table all",
        )
    )


def _same(net: Networks, host: str, name: str, own: Collection[str]) -> bool:
    """Whether bytes of `name` are bytes of `own`: itself, what it lies on (a VLAN's parent), a
    member of either, or the master of `own`."""
    stack = carried.beneath(net.hosts.get(host), own)
    interface = net.interface(host, name)
    if name in stack or (interface is not None and interface.master in stack):
        return True
    return name in {i.master for o in own if (i := net.interface(host, o)) is not None}
