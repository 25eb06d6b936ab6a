"""What the interface setting in force means on each host.

In: a report's networks. Out: interface-no-match, interface-loopback, interface-link-local,
interface-ambiguous and setting-overridden. NCCL's grammar: a list of prefixes, ^ excludes, =
matches exactly, order in the list means nothing (facts: NCCL, interface selection).
"""

from __future__ import annotations

import ipaddress
from typing import Literal

from bench.judge.absent import usable
from bench.judge.docket import Docket
from bench.judge.networks import BROKEN_OUTCOMES, Networks
from bench.judge.remedy import name_line
from bench.judge.words import asked, carrier, listed, opening, single, some
from bench.records import Candidate, Evidence, Finding, NcclChoice, Where


def judge(net: Networks, docket: Docket) -> None:
    """Add what is wrong with the setting itself; says where that explains the default case."""
    _no_match(net, docket)
    if net.several_hosts:
        _loopback(net, docket)
        _link_local(net, docket)
        _ambiguous(net, docket)


def _default_name(net: Networks) -> list[str]:
    return [net.default.name] if net.default else []


def _no_match(net: Networks, docket: Docket) -> None:
    hosts = []
    for host in net.hosts:
        choice = net.choice(host)
        if choice is None:
            continue
        nothing = choice.basis == "predicted" and not choice.interfaces
        if choice.bootstrap is None and (choice.code not in (None, 0) or nothing):
            hosts.append(host)
    if not hosts:
        return
    evidence = asked(net, hosts)
    down = next((c for c in net.networks if _is_down(net, docket, c, hosts)), None)
    if down is not None:
        for line in evidence:
            docket.attach(down.name, line)
        return
    for host in hosts[:2]:
        names = ", ".join(i.name for i in net.hosts[host].interfaces if i.up)
        evidence.append(Evidence(basis="claimed", text=f"interfaces up on {host}: {names}"))
    docket.add(
        Finding(
            code="interface-no-match",
            severity="broken",
            summary=f"{opening(net)} NCCL finds no interface on {listed(hosts)} "
            f"({len(hosts)} of {len(net.hosts)} hosts) and fails at init.",
            where=Where(hosts=some(net, hosts), host=single(hosts)),
            evidence=tuple(evidence),
            remedy=name_line(net),
            confidence="asked" if evidence[0].basis == "asked" else "predicted",
        ),
        explains=_default_name(net),
    )


def _is_down(net: Networks, docket: Docket, candidate: Candidate, hosts: list[str]) -> bool:
    """Whether NCCL finds nothing on these hosts because this network is already known to lack
    them: the others take it, and there its interface is down or missing."""
    working = {host for host, interface in net.members(candidate) if usable(interface)}
    taken = bool(net.meets(candidate)) or candidate in net.data_networks
    return docket.explains(candidate.name) and taken and not working & set(hosts)


def _loopback(net: Networks, docket: Docket) -> None:
    hosts = []
    for host in net.hosts:
        choice = net.choice(host)
        interface = net.interface(host, choice.bootstrap) if choice and choice.bootstrap else None
        if interface is not None and interface.kind == "loopback":
            hosts.append(host)
    if not hosts or (net.default and net.default.outcome == "measured"):
        return
    values = [net.setting(host)[0] or "" for host in hosts]
    readmits = any(v.startswith("^") and "lo" not in v.lstrip("^=").split(",") for v in values)
    why = " An exclusion replaces NCCL's own, so lo must be named in it again." if readmits else ""
    docket.add(
        Finding(
            code="interface-loopback",
            severity="broken",
            summary=f"{opening(net)} NCCL meets on loopback on {len(hosts)} of "
            f"{len(net.hosts)} hosts: no other host can connect to 127.0.0.1.{why}",
            where=Where(
                interface=single(
                    c.bootstrap for h in hosts if (c := net.choice(h)) and c.bootstrap
                ),
                hosts=some(net, hosts),
                host=single(hosts),
            ),
            evidence=tuple(asked(net, hosts)),
            remedy=name_line(net),
            confidence=_basis(net, hosts),
        ),
        explains=_default_name(net),
    )


def _link_local(net: Networks, docket: Docket) -> None:
    hosts: dict[str, tuple[str, str]] = {}
    for host in net.hosts:
        choice = net.choice(host)
        address = _address(net, host, choice) if choice else None
        if choice and choice.bootstrap and address and _is_link_local(address):
            hosts[host] = (choice.bootstrap, address)
    if not hosts:
        return
    met = [c for c in net.networks if set(net.meets(c)) & set(hosts)]
    broken = [c for c in met if c.outcome in BROKEN_OUTCOMES]
    unusable = net.default is not None and net.default.outcome in BROKEN_OUTCOMES
    works = not broken and not unusable
    first = next(iter(hosts))
    name, address = hosts[first]
    evidence = asked(net, tuple(hosts))
    evidence += [Evidence(basis="measured", text=f"{carrier(c)}: {c.reason}") for c in broken]
    docket.add(
        Finding(
            code="interface-link-local",
            severity="warning" if works else "broken",
            summary=f"{opening(net)} NCCL meets on {name}, whose address {address} is link-local "
            f"({listed(hosts)}, {len(hosts)} of {len(net.hosts)} hosts).",
            where=Where(
                interface=single(n for n, _ in hosts.values()),
                hosts=some(net, hosts),
                host=single(hosts),
            ),
            evidence=tuple(evidence),
            remedy=name_line(net),
            confidence=_basis(net, list(hosts)),
        ),
        explains=[] if works else [*_default_name(net), *(c.name for c in broken)],
    )


def _address(net: Networks, host: str, choice: NcclChoice) -> str | None:
    """The address NCCL listens on: its own answer, else the interface's first, IPv4 first."""
    if choice.address:
        return choice.address
    interface = net.interface(host, choice.bootstrap) if choice.bootstrap else None
    addresses = interface.addresses if interface else ()
    ordered = sorted(addresses, key=lambda address: address.family != "inet")
    return ordered[0].address if ordered else None


def _is_link_local(address: str) -> bool:
    bare = address.partition("<")[0].partition("%")[0]
    try:
        return ipaddress.ip_address(bare).is_link_local
    except ValueError:
        return False


def _basis(net: Networks, hosts: list[str]) -> Literal["asked", "predicted"]:
    choices = [net.choice(host) for host in hosts]
    return "asked" if all(c and c.basis == "asked" for c in choices) else "predicted"


def _ambiguous(net: Networks, docket: Docket) -> None:
    hosts: dict[str, tuple[str, tuple[str, ...]]] = {}
    for host in net.hosts:
        value, _ = net.setting(host)
        choice = net.choice(host)
        if not value or choice is None or value.startswith(("=", "^")):
            continue  # exact lists mean what they say; an exclusion is meant to leave several
        if len(choice.interfaces) > len([token for token in value.split(",") if token]):
            hosts[host] = (value, choice.interfaces)
    if not hosts:
        return
    value, taken = next(iter(hosts.values()))
    docket.add(
        Finding(
            code="interface-ambiguous",
            severity="warning",
            summary=f"NCCL_SOCKET_IFNAME={value} matches {len(taken)} interfaces on "
            f"{len(hosts)} of {len(net.hosts)} hosts: {listed(taken)}. NCCL meets on "
            f"{taken[0]} and offers all of them for data.",
            where=Where(hosts=some(net, hosts), host=single(hosts)),
            evidence=tuple(asked(net, tuple(hosts))),
            remedy=name_line(net),
            confidence="predicted",
        )
    )


def overridden(net: Networks, docket: Docket) -> None:
    """A file decides although nothing is exported, or says what is not in force. Last of all: it
    is a warning where the file's choice has been accused, else a remark."""
    told: dict[str, list[str]] = {}
    decides = False
    for host, facts in net.hosts.items():
        in_force = dict(facts.environment)
        origin = dict.fromkeys(facts.environment, "the environment")
        for conf in facts.nccl_conf:
            for name, value in conf.settings.items():
                if name not in in_force:
                    in_force[name], origin[name] = value, conf.path
                    text = f"{conf.path} sets {name}={value}; the environment does not"
                    decides |= name == "NCCL_SOCKET_IFNAME"
                elif in_force[name] != value:
                    text = f"{conf.path} says {name}={value}, {origin[name]} {in_force[name]!r}"
                else:
                    continue
                told.setdefault(text, []).append(host)
    if not told:
        return
    lines = [f"{text} ({listed(hosts)})" for text, hosts in told.items()]
    accused = any(finding.severity in ("degraded", "broken") for finding in docket.findings)
    docket.add(
        Finding(
            code="setting-overridden",
            severity="warning" if decides and accused else "info",
            summary=f"{len(told)} NCCL setting{'s come' if len(told) > 1 else ' comes'} from a "
            "file, or stands in one and is not in force.",
            where=Where(file=single(c.path for h in net.report.hosts for c in h.nccl_conf)),
            evidence=tuple(Evidence(basis="measured", text=line) for line in lines),
        )
    )
