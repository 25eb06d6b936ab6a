"""Hosts that have no working interface in a network which the others use.

In: a report's networks. Out: interface-unreachable, from the facts alone: what is down or missing
was never probed.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.judge import expected
from bench.judge.docket import Docket
from bench.judge.networks import Networks
from bench.judge.words import listed, single
from bench.records import Candidate, Evidence, Finding, Interface, Where

SHOWN = 4


def judge(net: Networks, docket: Docket) -> None:
    """Hosts without a working interface in a network that the operator or the other hosts use.

    Heard first: that NCCL finds nothing there, or something else, is a consequence."""
    if not net.several_hosts:
        return
    fabric = net.report.fabric
    for network in fabric.network if fabric else ():
        if network.role != "data":
            continue
        states = {}
        for host, facts in net.hosts.items():
            found = expected.interfaces_of(network, facts)
            if not facts.rdma_ports and not any(usable(i) for i in found):
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
        down = {h: f"{i.name} is {_state(i)}" for h, i in net.members(candidate) if not usable(i)}
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
    lines = lines[:SHOWN]
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
        explains=[
            *(c.name for c in over),
            *([net.default.name] if net.default and not works else []),
        ],
    )


def usable(interface: Interface) -> bool:
    return interface.up and interface.running and bool(interface.addresses)


def _state(interface: Interface) -> str:
    if not interface.up:
        return "down"
    return "without an address" if interface.running else "without carrier"
