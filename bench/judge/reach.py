"""Who reaches whom, by which way: the first probes, before any collective ran.

In: a report's networks with preflight pairs. Out: interface-unreachable and mtu-blackhole. A host
is named when all its probes fail and the others' do not; one pair alone names the pair.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from bench.judge import expected
from bench.judge.docket import Docket
from bench.judge.networks import Networks
from bench.judge.virtual import is_virtual
from bench.judge.words import carrier, listed, single
from bench.records import Candidate, Evidence, Finding, Interface, PreflightPair, Severity, Where

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
    _absent(net, docket)


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
    named = culprits(failed, passed)
    evidence = _pair_evidence(failed, passed)
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
            remedy=f"ip route get {address}; sudo iptables -S; sudo nft list ruleset"
            if severity in ("degraded", "broken") and address
            else None,
        ),
        explains=_explains(net, candidate) if severity == "broken" else [candidate.name],
    )


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


def _absent(net: Networks, docket: Docket) -> None:
    """Hosts without a working interface in a network that the operator or the other hosts use."""
    fabric = net.report.fabric
    for network in fabric.network if fabric else ():
        if network.role != "data":
            continue
        states = {}
        for host, facts in net.hosts.items():
            found = expected.interfaces_of(network, facts)
            if not facts.rdma_ports and not any(_usable(i) for i in found):
                told = "; ".join(f"{i.name} is {_state(i)}" for i in found)
                states[host] = told or "no such interface"
        over = [c for c in net.networks if net.expected(c) is network]
        if 0 < len(states) < len(net.hosts):
            called = f"{network.name}, which your fabric calls a data network"
            name = single(n for c in over for n in c.interfaces.values())
            _lacking(net, docket, over, states, called, name or single(network.interfaces))
    for candidate in net.networks:
        if candidate in net.data_networks or candidate.outcome != "skipped":
            continue
        down = {h: f"{i.name} is {_state(i)}" for h, i in net.members(candidate) if not _usable(i)}
        if down and set(net.carries(candidate)) - set(down):
            name = single(candidate.interfaces.values())
            called = f"{candidate.name}, over which NCCL sends on the others"
            _lacking(net, docket, [candidate], down, called, name)


def _lacking(
    net: Networks,
    docket: Docket,
    over: Sequence[Candidate],
    states: dict[str, str],
    called: str,
    name: str | None,
) -> None:
    lines = [Evidence(basis="claimed", text=f"{host}: {told}") for host, told in states.items()]
    lines = lines[:PAIRS_SHOWN]
    if over and docket.explains(over[0].name):
        for line in lines:
            docket.attach(over[0].name, line)
        return
    works = net.default is not None and net.default.outcome == "measured"
    wanted = any(c in net.data_networks for c in over) or not over
    docket.add(
        Finding(
            code="interface-unreachable",
            severity="broken" if wanted or not works else "degraded",
            summary=f"{listed(states)} of {len(net.hosts)} hosts "
            f"{'has' if len(states) == 1 else 'have'} no working interface in {called}.",
            where=Where(
                host=single(states),
                hosts=tuple(states),
                candidate=over[0].name if over else None,
                interface=name,
            ),
            evidence=tuple(lines),
            remedy=f"ip -br link show dev {name}; sudo ip link set dev {name} up"
            if name
            else None,
        ),
        explains=[*(c.name for c in over), *([net.default.name] if net.default else [])],
    )


def _usable(interface: Interface) -> bool:
    return interface.up and interface.running and bool(interface.addresses)


def _state(interface: Interface) -> str:
    if not interface.up:
        return "down"
    return "without an address" if interface.running else "without carrier"
