"""What hosts call themselves: names that lead to themselves, to nothing, or to two hosts.

In: facts of the hosts of a job. Out: host-name. gloo, and torchrun where it publishes MASTER_ADDR,
take the address of the host's own name, so that a 127.0.1.1 in /etc/hosts stops the other hosts.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.facts import readiness
from bench.judge.docket import Docket
from bench.judge.words import listed
from bench.records import Evidence, Finding, HostFacts, Where

GLOO = "GLOO_SOCKET_IFNAME"


def judge(hosts: Sequence[HostFacts], docket: Docket, *, several: bool) -> None:
    """`several`: the job is to span hosts; on one host alone a loopback name is in order."""
    if several:
        _loopback(hosts, docket)
    _unresolved(hosts, docket, several)
    _twice(hosts, docket)


def _loopback(hosts: Sequence[HostFacts], docket: Docket) -> None:
    trapped = [
        h
        for h in hosts
        if h.readiness and any(map(readiness.is_loopback, h.readiness.name_addresses[:1]))
    ]
    if not trapped:
        return
    unset = [h for h in trapped if not h.environment.get(GLOO)]
    proof = tuple(
        Evidence(basis="measured", text=f"{h.hostname} is {h.readiness.name_addresses[0]} there")
        for h in trapped[:3]
        if h.readiness
    )
    docket.add(
        Finding(
            code="host-name",
            kind="loopback",
            severity="warning" if unset else "info",
            summary=f"The own name of {listed(h.host for h in trapped)} leads to loopback: gloo "
            "groups, and torchrun's MASTER_ADDR where it is left to c10d, would be given an "
            "address that no other host can reach.",
            where=Where(hosts=tuple(h.host for h in trapped)),
            evidence=proof,
            remedy='getent hosts "$(hostname)"   # not on the 127.0.1.1 line of /etc/hosts',
        )
    )


def _unresolved(hosts: Sequence[HostFacts], docket: Docket, several: bool) -> None:
    lost = [h for h in hosts if h.readiness and h.readiness.name_trouble]
    if not lost:
        return
    docket.add(
        Finding(
            code="host-name",
            kind="unresolved",
            severity="warning" if several else "info",
            summary=f"The own name of {listed(h.host for h in lost)} has no address: gloo takes "
            "the address of that name unless GLOO_SOCKET_IFNAME is set.",
            where=Where(hosts=tuple(h.host for h in lost)),
            evidence=tuple(
                Evidence(basis="measured", text=f"{h.hostname}: {h.readiness.name_trouble}")
                for h in lost[:3]
                if h.readiness
            ),
            remedy='getent hosts "$(hostname)"',
        )
    )


def _twice(hosts: Sequence[HostFacts], docket: Docket) -> None:
    owners: dict[str, list[str]] = {}
    for host in hosts:
        owners.setdefault(host.hostname, []).append(host.host)
    for name, labels in owners.items():
        if len(labels) > 1:
            docket.add(
                Finding(
                    code="host-name",
                    kind="twice",
                    severity="warning",
                    summary=f"{len(labels)} hosts call themselves {name}: logs and reports cannot "
                    "be told apart by name, and an address looked up by name is one host's only.",
                    where=Where(hosts=tuple(labels)),
                    evidence=(
                        Evidence(basis="measured", text=f"told apart as {listed(labels)} by boot"),
                    ),
                )
            )
