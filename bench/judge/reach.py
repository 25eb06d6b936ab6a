"""Who reaches whom, by which way: the first probes, before any collective ran.

In: a report's networks with preflight pairs. Out: interface-unreachable and mtu-blackhole. A host
is named when all its probes fail and the others' do not; one pair alone names the pair.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from bench.judge.docket import Docket
from bench.judge.networks import Networks
from bench.judge.virtual import is_virtual
from bench.judge.words import carrier, listed, single
from bench.records import Candidate, Evidence, Finding, PreflightPair, Severity, Where

PAIRS_SHOWN = 4
HOLE = "mtu-blackhole"


def judge(net: Networks, docket: Docket) -> None:
    """Add what the probes found; a broken network explains its own and the default's failure."""
    if not net.several_hosts:
        return
    for candidate in net.networks:
        if not docket.explains(candidate.name):
            _blackhole(net, docket, candidate)
            _unreachable(net, docket, candidate)


def culprits(failed: Sequence[PreflightPair], passed: Sequence[PreflightPair]) -> tuple[str, ...]:
    """Hosts that explain all failed probes: every probe with them, to them or from them failed,
    with at least two partners, while others passed. Empty where no host stands out."""
    hosts = {host for pair in failed for host in (pair.source, pair.destination)}
    named = set()
    for host in hosts:
        for side in (
            lambda pair: (pair.source, pair.destination),
            lambda pair: (pair.source,),
            lambda pair: (pair.destination,),
        ):
            bad = [pair for pair in failed if host in side(pair)]
            partners = {pair.source for pair in bad} | {pair.destination for pair in bad}
            if len(partners - {host}) >= 2 and not any(host in side(pair) for pair in passed):
                named.add(host)
    if not passed or len(named) * 2 > len(hosts | {p.source for p in passed}):
        return ()  # everything or most of it fails: the network, not a host
    if any(not {pair.source, pair.destination} & named for pair in failed):
        return ()
    return tuple(sorted(named))


def _explains(net: Networks, candidate: Candidate) -> list[str]:
    chosen = net.default is not None and net.chosen(candidate)
    return [candidate.name, *([net.default.name] if chosen and net.default else [])]


def _blackhole(net: Networks, docket: Docket, candidate: Candidate) -> None:
    pairs = net.pairs(candidate)
    failed = [pair for pair in pairs if pair.outcome == HOLE]
    if not failed:
        return
    passed = [pair for pair in pairs if pair.outcome == "ok"]
    role = net.expected(candidate)
    aside = (role is not None and role.role != "data") or _all_virtual(net, candidate)
    severity: Severity = "broken" if net.needed(candidate) or not aside else "warning"
    mtus = {interface.mtu for _, interface in net.members(candidate) if interface.mtu}
    told = f" of MTU {listed(str(m) for m in sorted(mtus))}" if mtus else ""
    evidence = _pair_evidence(failed, passed)
    if mtus:
        text = f"{carrier(candidate)} has MTU {listed(str(m) for m in sorted(mtus))} on the hosts"
        evidence.append(Evidence(basis="claimed", text=text))
    named = culprits(failed, passed)
    docket.add(
        Finding(
            code=HOLE,
            severity=severity,
            summary=f"On {carrier(candidate)} full-sized packets{told} vanish "
            f"{_between(failed, named)} while small ones pass "
            f"({len(failed)} of {len(pairs)} probes); the first large collective hangs.",
            where=_where(candidate, failed, named),
            evidence=tuple(evidence),
            remedy="sudo sysctl -w net.ipv4.tcp_mtu_probing=1",
        ),
        explains=_explains(net, candidate) if severity == "broken" else [candidate.name],
    )


def _unreachable(net: Networks, docket: Docket, candidate: Candidate) -> None:
    pairs = net.pairs(candidate)
    failed = [pair for pair in pairs if pair.outcome not in ("ok", HOLE)]
    if not failed and (candidate.outcome != "unreachable" or docket.explains(candidate.name)):
        return
    passed = [pair for pair in pairs if pair.outcome == "ok"]
    role = net.expected(candidate)
    severity: Severity = "info"
    if candidate.outcome == "measured":
        severity = "warning" if net.needed(candidate) else "info"
    elif net.needed(candidate):
        works = net.default is not None and net.default.outcome == "measured"
        severity = "warning" if works and candidate not in net.data_networks else "broken"
    elif role is not None:
        severity = "warning"
    twins = _twins(candidate, failed)
    named = twins or culprits(failed, passed)
    evidence = _pair_evidence(failed, passed)
    if twins:
        text = f"{listed(twins)} have the same address, {candidate.addresses[twins[0]]}"
        evidence.insert(0, Evidence(basis="claimed", text=text))
    why = f": {candidate.reason}" if candidate.reason and not named else ""
    if not failed:
        text = candidate.reason or "no host answered another"
        evidence.append(Evidence(basis="measured", text=text))
    if role is not None:
        text = f"your fabric file has {carrier(candidate)} as a {role.role} network"
        evidence.append(Evidence(basis="expected", text=text))
    number = f" ({len(failed)} of {len(pairs)} probes failed)" if pairs else ""
    address = next((pair.address for pair in failed if pair.address), None)
    docket.add(
        Finding(
            code="interface-unreachable",
            severity=severity,
            summary=f"On {carrier(candidate)} no connection {_between(failed, named)}{number}"
            f"{why}.",
            where=_where(candidate, failed, named),
            evidence=tuple(evidence),
            remedy=_look(candidate, address, twins) if severity == "broken" else None,
        ),
        explains=_explains(net, candidate) if severity == "broken" else [candidate.name],
    )


def _look(candidate: Candidate, address: str | None, twins: Sequence[str]) -> str | None:
    name = single(candidate.interfaces.values())
    if twins:
        return f"ip -br address show dev {name}" if name else "ip -br address"
    return f"ip route get {address}; sudo iptables -S; sudo nft list ruleset" if address else None


def _twins(candidate: Candidate, failed: Sequence[PreflightPair]) -> tuple[str, ...]:
    """Hosts that call one address theirs, where that explains all failed probes; which of them is
    wrong, nobody but the operator knows. Not where every host has it: that is a docker0."""
    owners: dict[str, list[str]] = {}
    for host, address in candidate.addresses.items():
        owners.setdefault(address, []).append(host)
    shared = [hosts for hosts in owners.values() if 1 < len(hosts) < len(candidate.addresses)]
    if len(shared) != 1 or not failed:
        return ()
    hosts = shared[0]
    explained = all(pair.source in hosts or pair.destination in hosts for pair in failed)
    return tuple(hosts) if explained else ()


def _all_virtual(net: Networks, candidate: Candidate) -> bool:
    members = net.members(candidate)
    return bool(members) and all(is_virtual(net, host, i) for host, i in members)


def _between(failed: Sequence[PreflightPair], named: Collection[str]) -> str:
    if named:
        others = {h for pair in failed for h in (pair.source, pair.destination)} - set(named)
        return f"between {listed(sorted(named))} and {listed(sorted(others))}"
    if failed:
        links = dict.fromkeys(tuple(sorted((p.source, p.destination))) for p in failed)
        if len(links) == 1:
            return f"between {' and '.join(next(iter(links)))}"
        return f"between {len(links)} pairs of hosts"
    return "between the hosts"


def _pair_evidence(
    failed: Sequence[PreflightPair], passed: Sequence[PreflightPair]
) -> list[Evidence]:
    """One line per pair of hosts, both directions together where they failed alike."""
    alike = {(pair.source, pair.destination): pair.outcome for pair in failed}
    lines: list[Evidence] = []
    told = 0
    for pair in failed:
        both = alike.get((pair.destination, pair.source)) == pair.outcome
        if both and pair.source > pair.destination:
            continue  # told by the other direction
        if len(lines) == PAIRS_SHOWN:
            break
        at = f" ({pair.address})" if pair.address else ""
        detail = f": {pair.detail}" if pair.detail else ""
        way = "↔" if both else "→"
        text = f"{pair.source} {way} {pair.destination}{at}: {pair.outcome}{detail}"
        lines.append(Evidence(basis="measured", text=text))
        told += 1 + both
    rest = [f"{len(failed) - told} more failed"] if told < len(failed) else []
    rest += [f"{len(passed)} other probes passed"] if passed else []
    if failed and rest:
        lines.append(Evidence(basis="measured", text=", ".join(rest)))
    return lines


def _where(candidate: Candidate, failed: Sequence[PreflightPair], named: Sequence[str]) -> Where:
    links = {tuple(sorted((pair.source, pair.destination))) for pair in failed}
    return Where(
        candidate=candidate.name,
        interface=single(candidate.interfaces.values()),
        host=single(named),
        hosts=tuple(named),
        link=next(iter(links)) if len(links) == 1 else (),
    )
