"""The network that NCCL takes by itself, held against the networks that work.

In: a report's networks. Out: interface-misselected. The bootstrap line proves only where NCCL
meets; data is accused from counters, from a single match, or as predicted, and slowness only by a
measured ratio (facts: NCCL, interface selection).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from bench.judge import expected
from bench.judge.docket import Docket
from bench.judge.networks import BROKEN_OUTCOMES, Networks, interfaces_of
from bench.judge.ratio import times, told
from bench.judge.remedy import data_line
from bench.judge.words import asked, carrier, data_path, listed, opening, percent, single, some
from bench.records import Candidate, Evidence, Finding, Interval, Where


def misselected(net: Networks, docket: Docket) -> None:
    """Add interface-misselected; it explains the default case where that does not work at all."""
    default, best = net.default, net.best
    if not net.several_hosts or default is None or best is None or docket.explains(default.name):
        return
    if net.report.backend == "gloo" and net.other_transport:
        return  # gloo's default case says nothing about data that will go over RDMA or a plugin
    away = [h for h in net.hosts if net.path(h) and set(net.path(h)) != interfaces_of(best, h)]
    if not away:
        return
    if default.outcome == "measured":
        found = _slower(net, default, best)
        if found is not None:
            docket.add(_accuse(net, default, best, away, found))
    elif default.outcome in BROKEN_OUTCOMES:
        bad = _unwanted(net, best)
        if bad:
            finding = _accuse(net, default, best, away, None, bad)
            docket.add(finding, explains=[default.name, *(c.name for c in bad)])


def _slower(net: Networks, default: Candidate, best: Candidate) -> tuple[str, Interval] | None:
    """The first collective in which `best` is surely faster by more than the tolerance; None if
    there is none, or if another collective says the opposite as surely."""
    margin = 1 + expected.tolerance(net.report).bandwidth
    ratios = {name: net.ratio(best, default, name) for name in net.collectives}
    known = {name: ratio for name, ratio in ratios.items() if ratio is not None}
    if any(ratio.high < 1 / margin for ratio in known.values()):
        return None
    return next(((n, ratio) for n, ratio in known.items() if ratio.low > margin), None)


def _unwanted(net: Networks, best: Candidate) -> list[Candidate]:
    """Networks that the default needs, that do not work, and that the fabric file does not want:
    with it, the choice is at fault; without it, whatever broke the network is."""
    if best not in net.data_networks:
        return []
    return [
        c
        for c in net.networks
        if net.chosen(c) and c.outcome in BROKEN_OUTCOMES and c not in net.data_networks
    ]


def _accuse(
    net: Networks,
    default: Candidate,
    best: Candidate,
    away: Sequence[str],
    slower: tuple[str, Interval] | None,
    bad: Sequence[Candidate] = (),
) -> Finding:
    full = carrier(best)
    name = full if single(best.interfaces.values()) else best.name  # told in full once
    paths = {net.path(host) for host in away}
    shared = any(len(path) > 1 for path in paths)
    partly = shared and any(
        interfaces_of(best, h) & set(net.path(h)) and set(net.path(h)) - interfaces_of(best, h)
        for h in away
    )
    alone = " alone" if partly else ""
    called = ""
    wanted = net.expected(best)
    if wanted is not None and wanted.role == "data":
        called = f" and is what your fabric calls {wanted.name}"
    evidence = [*asked(net, away), *data_path(net, away)]
    if slower is not None:
        collective, ratio = slower
        claim = f"{full}{alone} is {times(ratio.value)} times faster {told(ratio)}{called}."
        evidence += _figures(net, default, best, collective, name + alone)
    else:
        failed = listed(carrier(c) for c in bad)
        claim = f"{failed} does not work between the hosts, {full} does{called}."
        evidence += [
            Evidence(basis="measured", text=f"{carrier(c)}: {c.reason or c.outcome}") for c in bad
        ]
    share = _carried(net, best)
    if share is not None:
        text = f"with {name} alone, {name} carried {percent(share)} of the bytes"
        evidence.append(Evidence(basis="measured", text=text))
    if wanted is not None:
        text = f"your fabric file has {name} as a {wanted.role} network"
        evidence.append(Evidence(basis="expected", text=text))
    slow = [_where_slow(net, best, host) for host in away]
    return Finding(
        code="interface-misselected",
        severity="degraded",
        summary=f"{opening(net, data=True)} {_route(net, away)} {claim}",
        where=Where(
            candidate=default.name,
            interface=single(slow),
            hosts=some(net, away),
            collective=slower[0] if slower else None,
        ),
        evidence=tuple(evidence),
        remedy=data_line(net, best),
        confidence=_confidence(net, away),
    )


def _route(net: Networks, away: Sequence[str]) -> str:
    """NCCL meets on mgmt0 and spreads its channels over mgmt0 and data0; …, for a first host."""
    host = away[0]
    path, choice = net.path(host), net.choice(host)
    met = choice.bootstrap if choice else None
    alike = len({(net.path(h), (c := net.choice(h)) and c.bootstrap) for h in away}) == 1
    place = "" if alike else f" (on {host})"
    meets = f"meets on {met} and " if met else ""
    if len(path) > 1:
        over = f"{listed(path)}{place}"
        return f"NCCL {meets}spreads its channels over {over}; the slowest sets the pace."
    if met == path[0]:
        return f"NCCL meets on {met} and sends its data there{place}."
    return f"NCCL {meets}sends its data over {path[0]}{place}."


def _where_slow(net: Networks, best: Candidate, host: str) -> str:
    path = net.path(host)
    return "+".join(name for name in path if name not in interfaces_of(best, host)) or "+".join(
        path
    )


def _figures(
    net: Networks, default: Candidate, best: Candidate, collective: str, alone: str
) -> list[Evidence]:
    slow, fast = net.speed(default, collective), net.speed(best, collective)
    if slow is None or fast is None:
        return []
    text = f"{collective} busbw {slow.value:.4g} GB/s as it is, {fast.value:.4g} GB/s with {alone}"
    return [Evidence(basis="measured", text=text)]


def _carried(net: Networks, candidate: Candidate) -> float | None:
    """The smallest share, over hosts, of bytes that a candidate's own interface carried."""
    found = [
        sum(share for name, share in shares.items() if name in interfaces_of(candidate, host))
        for host in candidate.carried
        if (shares := net.shares(candidate, host))
    ]
    return min(found, default=None)


def _confidence(net: Networks, away: Sequence[str]) -> Literal["asked", "measured", "predicted"]:
    """How sure it is that the default's data goes where the finding says."""
    if all(net.basis(host) == "measured" for host in away):
        return "measured"
    choices = [net.choice(host) for host in away]
    single_match = all(
        c is not None and c.basis == "asked" and c.interfaces == (c.bootstrap,) for c in choices
    )
    return "asked" if single_match and not net.other_transport else "predicted"
