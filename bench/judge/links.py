"""Networks that work and carry less than they should, or lose packets on the way.

In: a report's networks. Out: mtu-mismatch and link-degraded, beside what lost packets, ports and
pairs of hosts tell. A ring is as fast as its slowest member: a host is named only where counters,
claims or pairs of hosts name it. What explains a shortfall takes it as evidence: one cause is one
finding.
"""

from __future__ import annotations

from collections import Counter

from bench.judge import ports
from bench.judge.docket import Docket
from bench.judge.losses import errors, lossy, standing_out
from bench.judge.networks import Networks, interfaces_of
from bench.judge.pairs import located
from bench.judge.remedy import look
from bench.judge.shortfall import Shortfall, short_of
from bench.judge.words import carrier, listed, percent, single
from bench.records import Candidate, Evidence, Finding, Where

# A smaller MTU costs payload share and packets per second, a third of the rate at the very worst
# (9000 to 1500 on one CPU); a deeper shortfall has another cause.
MTU_EXPLAINS_DOWN_TO = 0.65


def judge(net: Networks, docket: Docket) -> None:
    """Add what is wrong with measured networks, causes before effects."""
    for candidate in net.networks:
        shortfall = _shortfall(net, candidate)
        explained = lossy(net, docket, candidate, shortfall.evidence if shortfall else ())
        explained |= ports.judge(net, docket, candidate, shortfall)
        explained |= _mtu_mismatch(net, docket, candidate, shortfall)
        short = None if explained else shortfall
        explained |= located.judge(
            net,
            docket,
            candidate,
            share=short.share if short else None,
            proof=short.evidence if short else (),
            marks=_marks(net, candidate),
        )
        if shortfall is not None and not explained and not docket.explains(candidate.name):
            _degraded(net, docket, candidate, shortfall)
    if net.default is not None:
        located.judge(net, docket, net.default)


def _marks(net: Networks, candidate: Candidate) -> dict[str, Evidence]:
    """What the hosts' own interfaces counted, of the one host that stands out."""
    counts = errors(net, candidate, drops=False)
    host = standing_out(counts)
    if host is None:
        return {}
    return {host: Evidence(basis="measured", text=f"{host}: {counts[host]:,} errors counted")}


def _shortfall(net: Networks, candidate: Candidate) -> Shortfall | None:
    """Of the network itself, or of the default case where only that was measured, over it."""
    if candidate.outcome == "measured":
        return short_of(net, candidate, candidate)
    default = net.default
    if default is None or default.outcome != "measured" or not net.joins_all(candidate):
        return None
    same = all(set(net.path(h)) == interfaces_of(candidate, h) for h in net.hosts)
    return short_of(net, candidate, default) if same else None


def _degraded(net: Networks, docket: Docket, candidate: Candidate, short: Shortfall) -> None:
    host = standing_out(errors(net, candidate, drops=False))
    blame, pairs = located.blame(net, candidate) or (
        f"; a ring cannot tell which of {len(candidate.interfaces)} hosts or links is slow", ()
    )  # fmt: skip
    if host:
        blame = f"; errors count up on {host}"
    word = "expected" if short.expectation.basis == "expected" else "claimed"
    docket.add(
        Finding(
            code="link-degraded",
            severity="degraded" if net.matters(candidate) else "warning",
            summary=f"{carrier(candidate)} reaches {percent(short.share)} of the {word} "
            f"{short.expectation.busbw_gbs:.4g} GB/s in {listed(short.collectives)}{blame}.",
            where=Where(
                candidate=candidate.name,
                interface=single(candidate.interfaces.values()),
                collective=single(short.collectives),
                host=host,
            ),
            evidence=(*short.evidence, *pairs),
            remedy=look(single(candidate.interfaces.values()), candidate.transport),
        ),
        explains=[candidate.name],
    )


def _mtu_mismatch(
    net: Networks, docket: Docket, candidate: Candidate, short: Shortfall | None
) -> bool:
    members = [(h, i) for h, i in net.members(candidate) if i.mtu and i.kind != "loopback"]
    network = net.expected(candidate)
    wanted = network.mtu if network and network.mtu else None
    counts = Counter(i.mtu for _, i in members)
    if not counts or (len(counts) == 1 and wanted in (None, *counts)):
        return False
    most, votes = counts.most_common(1)[0]
    usual = wanted or (most if votes * 2 > len(members) else max(counts))
    odd = [(h, i) for h, i in members if i.mtu != usual]
    if not odd:
        return False
    explained = short is not None and short.share >= MTU_EXPLAINS_DOWN_TO
    hosts = list(dict.fromkeys(host for host, _ in odd))
    name = single(i.name for _, i in odd)
    told = "; ".join(
        f"{mtu} on {listed(h for h, i in members if i.mtu == mtu)}" for mtu in sorted(counts)
    )
    says = f", the fabric file says {wanted}" if wanted else ""
    harms = (explained and net.matters(candidate)) or (wanted and net.bears(candidate))
    finding = Finding(
        code="mtu-mismatch",
        severity="degraded" if harms else "warning",
        summary=f"The MTU of {candidate.name} differs: {told}{says}.",
        where=Where(
            candidate=candidate.name,
            interface=name,
            host=single(hosts),
            hosts=tuple(hosts),
        ),
        evidence=(
            *(
                Evidence(basis="claimed", text=f"{h}: {i.name} has MTU {i.mtu}")
                for h, i in odd[:4]
            ),
            *(short.evidence if short and explained else ()),
        ),
        remedy=f"sudo ip link set dev {name} mtu {usual}" if name else None,
    )
    if docket.explains(candidate.name):
        for line in finding.evidence:
            docket.attach(candidate.name, line)
        return False
    docket.add(finding, explains=[candidate.name] if explained else [])
    return explained
