"""Virtual interfaces that NCCL takes and that lead to no other host.

In: a report's networks. Out: at most one interface-virtual, naming all of them. NCCL leaves out
only names that begin with docker, lo or virbr, so bridges, stray veths and VPNs get in.
"""

from __future__ import annotations

import re

from bench.judge.docket import Docket
from bench.judge.networks import BROKEN_OUTCOMES, Networks, interfaces_of, parts
from bench.judge.remedy import name_line
from bench.judge.words import asked, carrier, data_path, listed, opening, single, some
from bench.records import Candidate, Evidence, Finding, Interface, Where

VIRTUAL_KINDS = ("docker", "bridge", "vpn", "wifi", "virtual")
# A veth alone says nothing: a pod's eth0 is one. A name that container engines and VPNs give does.
VIRTUAL_NAMES = re.compile(
    r"(docker|br-[0-9a-f]{8,}|virbr|vnet|veth|cni|flannel|cali|podman|lxc|lxd|tun|tap|wg|tailscale"
    r"|zt|ip6tnl|sit|gre|kube)"
)


def is_virtual(net: Networks, host: str, interface: Interface) -> bool:
    """Whether an interface is of the kind that usually leads to no other host."""
    if interface.kind == "bridge":
        facts = net.hosts[host]
        members = [i for i in facts.interfaces if i.master == interface.name]
        if any(member.kind in ("physical", "bond") for member in members):
            return False  # a bridge over a port is the host's way out
    return interface.kind in VIRTUAL_KINDS or bool(VIRTUAL_NAMES.match(interface.name))


def virtual(net: Networks, docket: Docket) -> None:
    """One finding for all virtual interfaces that the default takes and that lead nowhere."""
    default, best = net.default, net.best_socket or net.best
    if not net.several_hosts or default is None or best is None:
        return  # nothing else works: a virtual interface may be the only way out
    dead: dict[str, list[str]] = {}
    for host in net.hosts:
        choice = net.choice(host)
        taken = [choice.bootstrap] if choice and choice.bootstrap else []
        for name in dict.fromkeys([*taken, *net.path(host)]):
            interface = net.interface(host, name)
            if (
                interface is not None
                and is_virtual(net, host, interface)
                and name not in interfaces_of(best, host)
                and _leads_nowhere(net, host, name)
            ):
                dead.setdefault(name, []).append(host)
    works = default.outcome == "measured"
    if not dead or (works and not _joins(net, dead)):
        return
    hosts = [h for h in net.hosts if any(h in group for group in dead.values())]
    networks = [c for c in _joins(net, dead) if c.outcome in BROKEN_OUTCOMES]
    evidence = [*asked(net, hosts), *data_path(net, hosts)]
    for c in networks:
        evidence.append(Evidence(basis="measured", text=f"{carrier(c)}: {c.reason or c.outcome}"))
    evidence.append(Evidence(basis="measured", text=f"{carrier(best)} joins all hosts"))
    names = listed(dead)
    number = "is a virtual interface that leads" if len(dead) == 1 else "are virtual and lead"
    met = net.choice(hosts[0])
    verb = "meets on" if met and met.bootstrap in dead else "offers for data"
    finding = Finding(
        code="interface-virtual",
        severity="info" if works else "broken",
        summary=f"{opening(net)} NCCL {verb} {names} on {len(hosts)} of {len(net.hosts)} hosts, "
        f"which {number} to no other host; {carrier(best)} does.",
        where=Where(
            interface=single(dead),
            candidate=networks[0].name if len(networks) == 1 else default.name,
            hosts=some(net, hosts),
        ),
        evidence=tuple(evidence),
        remedy=name_line(net),
        confidence="asked" if met and met.basis == "asked" and verb == "meets on" else "predicted",
    )
    docket.add(finding, explains=[*([] if works else [default.name]), *(c.name for c in networks)])


def _joins(net: Networks, dead: dict[str, list[str]]) -> list[Candidate]:
    """Candidates that are made of these interfaces."""
    return [
        c
        for c in net.networks
        if any(h in dead.get(n, ()) for h, names in c.interfaces.items() for n in parts(names))
    ]


def _leads_nowhere(net: Networks, host: str, name: str) -> bool:
    """No candidate that worked runs over it; one that failed does, or the default case failed."""
    over = [c for c in net.networks if name in interfaces_of(c, host)]
    if any(c.outcome == "measured" for c in over):
        return False
    if any(c.outcome in BROKEN_OUTCOMES for c in over):
        return True
    return net.default is not None and net.default.outcome in BROKEN_OUTCOMES
