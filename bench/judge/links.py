"""Networks that work and carry less than they should, or lose packets on the way.

In: a report's networks. Out: link-lossy, link-negotiated-down, mtu-mismatch and link-degraded. A
ring is as fast as its slowest member: a host is named only where counters, claims or pairs of
hosts name it. What explains a shortfall takes it as evidence: one cause is one finding.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from bench.judge import expected
from bench.judge.docket import Docket
from bench.judge.expected import Expectation
from bench.judge.losses import errors, lossy, standing_out
from bench.judge.networks import Networks, interfaces_of
from bench.judge.pairs import located
from bench.judge.words import carrier, listed, percent, single
from bench.records import Candidate, Evidence, Finding, Interface, Severity, Where

# A smaller MTU costs payload share and packets per second, a third of the rate at the very worst
# (9000 to 1500 on one CPU); a deeper shortfall has another cause.
MTU_EXPLAINS_DOWN_TO = 0.65


@dataclass(frozen=True)
class Shortfall:
    """A network surely below its expectation: how far, in which collectives."""

    share: float  # of the expectation, in the worst collective
    collectives: tuple[str, ...]
    expectation: Expectation  # of that collective
    evidence: tuple[Evidence, ...]


def judge(net: Networks, docket: Docket) -> None:
    """Add what is wrong with measured networks, causes before effects."""
    for candidate in net.networks:
        shortfall = _shortfall(net, candidate)
        explained = lossy(net, docket, candidate, shortfall.evidence if shortfall else ())
        explained |= _negotiated_down(net, docket, candidate, shortfall)
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


def short_of(net: Networks, candidate: Candidate, measured: Candidate) -> Shortfall | None:
    """How far collectives are below a candidate's expectation, beyond tolerance and their own
    95 % interval; None where they are not, or where nothing is expected."""
    usual = expected.tolerance(net.report).bandwidth
    short: dict[str, tuple[float, Expectation]] = {}
    evidence = []
    for collective in net.collectives:
        line = net.line(measured, collective)
        speed = line.busbw_gbs if line else None  # fitted: one size alone holds latency too
        wanted = expected.of_line(net.report, candidate, line) if line else None
        if speed is None or wanted is None or not wanted.judged:
            continue
        floor = 1 - (usual if wanted.tolerance is None else wanted.tolerance)
        if speed.high >= floor * wanted.busbw_gbs:
            continue
        share = speed.value / wanted.busbw_gbs
        short[collective] = share, wanted
        text = (
            f"{collective} busbw {speed.value:.4g} GB/s (95 % interval {speed.low:.4g}-"
            f"{speed.high:.4g}), {percent(share)} of {wanted.busbw_gbs:.4g} GB/s"
        )
        evidence.append(Evidence(basis="measured", text=text))
    if not short:
        return None
    sources = dict.fromkeys((wanted.basis, wanted.source) for _, wanted in short.values())
    evidence += [Evidence(basis=basis, text=source) for basis, source in sources]
    share, worst = min(short.values(), key=lambda pair: pair[0])
    return Shortfall(share, tuple(short), worst, tuple(evidence))


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
            remedy=_look(candidate),
        ),
        explains=[candidate.name],
    )


def _look(candidate: Candidate) -> str | None:
    name = single(candidate.interfaces.values())
    return f"ethtool {name}; ip -s -s link show dev {name}" if name else None


def _negotiated_down(
    net: Networks, docket: Docket, candidate: Candidate, short: Shortfall | None
) -> bool:
    """Ports slower than the fabric file or most peers; slower than they could be is a note."""
    claims = [(h, i) for h, i in net.members(candidate) if i.kind == "physical" and i.speed_mbit]
    if not claims:
        return False
    network = net.expected(candidate)
    usual, votes = Counter(i.speed_mbit or 0 for _, i in claims).most_common(1)[0]
    fabric = (network.rate_gbps or 0) * 1000 if network else 0
    wanted = max(fabric, usual if votes * 2 > len(claims) else 0)
    slow = [(h, i) for h, i in claims if (i.speed_mbit or 0) < wanted]
    if not slow:
        able = [(h, i) for h, i in claims if (i.speed_mbit or 0) < (i.max_speed_mbit or 0)]
        if able:
            docket.add(_port(candidate, able, "info", "their own maximum", ()))
        return False
    severity: Severity = "degraded" if net.needed(candidate) or short else "warning"
    than = f"the {wanted / 1000:g} Gbit/s of " + (
        "the fabric file" if fabric >= wanted else f"{votes} of {len(claims)} ports"
    )
    lowest = min(i.speed_mbit or 0 for _, i in slow)
    explained = short is not None and short.share * wanted >= 0.8 * lowest
    proof = short.evidence if short and explained else ()
    finding = _port(candidate, slow, severity, than, proof)
    docket.add(finding, explains=[candidate.name] if explained else [])
    return explained


def _port(
    candidate: Candidate,
    ports: list[tuple[str, Interface]],
    severity: Severity,
    than: str,
    proof: tuple[Evidence, ...],
) -> Finding:
    hosts = list(dict.fromkeys(host for host, _ in ports))
    lowest = min(i.speed_mbit or 0 for _, i in ports)
    lines = [
        Evidence(
            basis="claimed",
            text=f"{h}: {i.name} runs at {(i.speed_mbit or 0) / 1000:g} Gbit/s"
            + (f" of {i.max_speed_mbit / 1000:g}" if i.max_speed_mbit else ""),
        )
        for h, i in ports[:4]
    ]
    name = single(i.name for _, i in ports)
    return Finding(
        code="link-negotiated-down",
        severity=severity,
        summary=f"{carrier(candidate, hosts)} on {listed(hosts)} negotiated {lowest / 1000:g} "
        f"Gbit/s, below {than}.",
        where=Where(
            candidate=candidate.name, interface=name, host=single(hosts), hosts=tuple(hosts)
        ),
        evidence=(*lines, *proof),
        remedy=f"ethtool {name}; sudo ethtool -r {name}" if name else None,
        confidence="inferred",
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
    finding = Finding(
        code="mtu-mismatch",
        severity="degraded" if explained or (wanted and net.needed(candidate)) else "warning",
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
