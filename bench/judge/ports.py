"""Ports whose rate is lower than the others', or than it should be.

In: a report's networks. Out: link-negotiated-down. A port that runs at its own maximum has
negotiated nothing down: it is a slower NIC, which only the fabric file can call wrong.
"""

from __future__ import annotations

from collections import Counter

from bench.judge.docket import Docket
from bench.judge.networks import Networks
from bench.judge.shortfall import Shortfall
from bench.judge.words import carrier, listed, single
from bench.records import Candidate, Evidence, Finding, Interface, Severity, Where

SHOWN = 4
Ports = list[tuple[str, Interface]]
"""With their hosts."""


def judge(net: Networks, docket: Docket, candidate: Candidate, short: Shortfall | None) -> bool:
    """Ports slower than the fabric file or most peers; slower than they could be is a note. True
    where they explain the shortfall."""
    claims = [(h, i) for h, i in net.members(candidate) if i.kind == "physical" and i.speed_mbit]
    if not claims:
        return False
    network = net.expected(candidate)
    usual, votes = Counter(i.speed_mbit or 0 for _, i in claims).most_common(1)[0]
    fabric = (network.rate_gbps or 0) * 1000 if network else 0
    wanted = max(fabric, usual if votes * 2 > len(claims) else 0)
    behind = [(h, i) for h, i in claims if (i.speed_mbit or 0) < wanted]
    slow = [(h, i) for h, i in behind if not at_its_most(i) or (i.speed_mbit or 0) < fabric]
    able = [(h, i) for h, i in claims if (i.speed_mbit or 0) < (i.max_speed_mbit or 0)]
    others = f"{votes} of {len(claims)} ports"
    if slow:
        stated = fabric >= wanted or all(at_its_most(i) for _, i in slow)
        than = (
            f"the {fabric / 1000:g} Gbit/s of the fabric file" if stated
            else f"the {wanted / 1000:g} Gbit/s of {others}"
        )  # fmt: skip
        harms = net.bears(candidate) or (short is not None and net.matters(candidate))
        explained = short is not None and short.share * wanted >= 0.8 * _lowest(slow)
        proof = short.evidence if short and explained else ()
        finding = _port(candidate, slow, "degraded" if harms else "warning", than, proof)
        docket.add(finding, explains=[candidate.name] if explained else [])
        return explained
    if behind:
        docket.add(_slower_nic(candidate, behind, f"{usual / 1000:g} Gbit/s of {others}"))
    elif able:
        docket.add(_port(candidate, able, "info", "their own maximum", ()))
    return False


def at_its_most(interface: Interface) -> bool:
    """Whether a port runs as fast as it ever could; False where its maximum is not told."""
    most = interface.max_speed_mbit
    return most is not None and (interface.speed_mbit or 0) >= most


def _port(
    candidate: Candidate, ports: Ports, severity: Severity, than: str, proof: tuple[Evidence, ...]
) -> Finding:
    hosts = list(dict.fromkeys(host for host, _ in ports))
    name = single(i.name for _, i in ports)
    again = "" if all(at_its_most(i) for _, i in ports) else f"; sudo ethtool -r {name}"
    did = "negotiated" if again else "can do no more than"
    return Finding(
        code="link-negotiated-down",
        severity=severity,
        summary=f"{carrier(candidate, hosts)} on {listed(hosts)} {did} {_lowest(ports) / 1000:g} "
        f"Gbit/s, below {than}.",
        where=_where(candidate, ports),
        evidence=(*_claims(ports), *proof),
        remedy=f"ethtool {name}{again}" if name else None,
        confidence="inferred",
    )


def _slower_nic(candidate: Candidate, ports: Ports, than: str) -> Finding:
    hosts = list(dict.fromkeys(host for host, _ in ports))
    return Finding(
        code="link-negotiated-down",
        severity="info",
        summary=f"{carrier(candidate, hosts)} on {listed(hosts)} is a slower NIC: "
        f"{_lowest(ports) / 1000:g} Gbit/s is its own maximum, beside {than}; a ring over it goes "
        "at its pace.",
        where=_where(candidate, ports),
        evidence=_claims(ports),
        confidence="inferred",
    )


def _lowest(ports: Ports) -> int:
    return min(i.speed_mbit or 0 for _, i in ports)


def _where(candidate: Candidate, ports: Ports) -> Where:
    hosts = list(dict.fromkeys(host for host, _ in ports))
    return Where(
        candidate=candidate.name,
        interface=single(i.name for _, i in ports),
        host=single(hosts),
        hosts=tuple(hosts),
    )


def _claims(ports: Ports) -> tuple[Evidence, ...]:
    return tuple(
        Evidence(
            basis="claimed",
            text=f"{h}: {i.name} runs at {(i.speed_mbit or 0) / 1000:g} Gbit/s"
            + (f" of {i.max_speed_mbit / 1000:g}" if i.max_speed_mbit else ""),
        )
        for h, i in ports[:SHOWN]
    )
