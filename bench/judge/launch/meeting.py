"""Where ranks meet: what each host found at MASTER_ADDR and MASTER_PORT.

In: a Meeting a host, and facts where they are at hand. Out: rendezvous-unreachable and
rendezvous-address. Silence is told as silence: whether a firewall dropped the packets or nobody is
there is decided only by the neighbour that answered below, or not at all.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

from bench.facts import readiness
from bench.judge.docket import Docket
from bench.judge.words import listed
from bench.records import Evidence, Finding, HostFacts, Interface, Meeting, Where

UNREACHABLE = ("unresolved", "no-route", "no-answer", "stranger", "silent", "refused")
ODD_KINDS = {"docker": "a container bridge", "vpn": "a VPN", "wifi": "Wi-Fi"}


def judge(
    found: Sequence[Meeting],
    hosts: Sequence[HostFacts],
    docket: Docket,
    *,
    several: bool,
    waiting: bool,
    rank: int | None = None,
) -> None:
    """`several`: the job is to span hosts. `waiting`: rank 0 is known to hold its store open by
    now, so that a refusal is a fault; before, nobody listening is as it has to be. `rank`: of
    the process that looked, where rank 0 has to open the store itself."""
    for outcome in UNREACHABLE:
        some = [one for one in found if one.outcome == outcome and not one.own]
        if some and (outcome != "refused" or waiting):
            docket.add(_unreachable(some))
    for one in found:
        if one.own and one.outcome in ("taken", "stranger", "silent"):
            docket.add(_taken(one))
        elif one.own and one.outcome == "store" and not waiting:
            docket.add(_held(one))
    if rank is not None:
        _elsewhere(found[0], rank, docket)
    _loopback(found, docket, several)
    _address(found, hosts, docket)


def _place(one: Meeting) -> str:
    return f"{one.host}:{one.port}"


def _unreachable(some: Sequence[Meeting]) -> Finding:
    one = some[0]
    seers = listed(each.seen_from for each in some)
    summary = {
        "unresolved": f"{one.host} has no address on {seers}.",
        "no-route": f"{seers} cannot send to {_place(one)}.",
        "no-answer": f"Nothing comes back from {_place(one)} to {seers}.",
        "stranger": f"What listens at {_place(one)} is no store of torch, as {seers} found.",
        "silent": f"What listens at {_place(one)} accepts {seers} and does not answer.",
        "refused": f"Nobody listens at {_place(one)}, as {seers} found.",
    }[one.outcome]
    return Finding(
        code="rendezvous-unreachable",
        kind=one.outcome,
        severity="broken",
        summary=summary,
        where=Where(hosts=tuple(each.seen_from for each in some), interface=one.interface),
        evidence=(*_evidence(one), *_below(one)),
        remedy=_remedy(one),
    )


def _evidence(one: Meeting) -> tuple[Evidence, ...]:
    way = f" by {one.interface}" if one.interface else ""
    led = f"{one.host} is {', '.join(one.addresses)} on {one.seen_from}{way}"
    proof = [Evidence(basis="measured", text=led)] if one.addresses else []
    if one.detail:
        proof.append(Evidence(basis="measured", text=f"{one.seen_from}: {one.detail}"))
    return tuple(proof)


def _below(one: Meeting) -> tuple[Evidence, ...]:
    """What the layer below says of a silence, on a network that both are on."""
    if one.outcome not in ("no-answer", "no-route") or one.neighbour is None:
        return ()
    if one.neighbour == "present":
        text = "its Ethernet address answers: the host is up, and a firewall eats or refuses this"
    else:
        text = "nobody on that network has this address: the host is down, or it is the wrong one"
    return (Evidence(basis="measured", text=text),)


def _remedy(one: Meeting) -> str | None:
    address = one.addresses[0] if one.addresses else one.host
    if one.outcome == "unresolved":
        return f"getent ahosts {one.host}   # or pass rank 0's address instead of its name"
    if one.outcome in ("no-answer", "no-route"):
        return f"ip route get {address}; sudo iptables -S; sudo nft list ruleset   # on both hosts"
    return f"ss -tlnp 'sport = :{one.port}'   # on {one.host}: who listens there"


def _taken(one: Meeting) -> Finding:
    return Finding(
        code="rendezvous-unreachable",
        kind="taken",
        severity="broken",
        summary=f"Rank 0 cannot open port {one.port} on {one.seen_from}: another program has it.",
        where=Where(host=one.seen_from),
        evidence=_evidence(one),
        remedy=f"ss -tlnp 'sport = :{one.port}'   # who has it; or choose another port",
    )


def _held(one: Meeting) -> Finding:
    return Finding(
        code="rendezvous-unreachable",
        kind="held",
        severity="warning",
        summary=f"A store of torch listens at {_place(one)} on {one.seen_from} already: another "
        "job's, or one that was left over; a new job would fail to open it or join the wrong one.",
        where=Where(host=one.seen_from),
        evidence=_evidence(one),
        remedy=f"ss -tlnp 'sport = :{one.port}'   # whose it is",
    )


def _elsewhere(one: Meeting, rank: int, docket: Docket) -> None:
    """The address is somebody's, but not rank 0's."""
    if not one.addresses or one.own == (rank == 0) or one.outcome == "store":
        return
    if any(map(readiness.is_loopback, one.addresses)):
        return  # told as that
    whose = "is not this host's" if rank == 0 else f"is this host's, whose rank is {rank}"
    docket.add(
        Finding(
            code="rendezvous-address",
            kind="elsewhere",
            severity="broken",
            summary=f"{one.host} {whose}: ranks meet at rank 0, so it has to be an address of "
            "the host that has rank 0.",
            where=Where(host=one.seen_from, rank=rank, interface=one.interface),
            evidence=_evidence(one),
            remedy="hostname -I   # on rank 0's host",
        )
    )


def _loopback(found: Sequence[Meeting], docket: Docket, several: bool) -> None:
    """A name that leads every host to itself: /etc/hosts and its 127.0.1.1."""
    trapped = [one for one in found if any(map(readiness.is_loopback, one.addresses))]
    if not trapped:
        return
    one = trapped[0]
    literal = one.host == one.addresses[0] or one.host == "localhost"
    if literal and not several:
        return  # as it was meant
    docket.add(
        Finding(
            code="rendezvous-address",
            kind="loopback",
            severity="broken" if several else "info",
            summary=f"{one.host} leads {listed(each.seen_from for each in trapped)} to "
            f"{one.addresses[0]}, which is each host itself: "
            + (
                "the other hosts would wait for a rank 0 that never comes."
                if several
                else "good for a job on this host alone, and for no other."
            ),
            where=Where(hosts=tuple(each.seen_from for each in trapped)),
            evidence=_evidence(one),
            remedy=None
            if literal
            else f"getent ahosts {one.host}   # and take it off the 127.0.1.1 line of /etc/hosts",
        )
    )


def _address(found: Sequence[Meeting], hosts: Sequence[HostFacts], docket: Docket) -> None:
    """An address that works and is still not where a cluster wants to meet."""
    for one in found:
        owner = next((card for f in hosts for card in f.interfaces if _has(card, one)), None)
        card = owner if one.own else None
        if card is not None and card.kind in ODD_KINDS:
            docket.add(_odd(one, card.name, ODD_KINDS[card.kind]))
            return
        public = next((a for a in one.addresses if _is_public(a)), None)
        if public is not None:
            docket.add(
                Finding(
                    code="rendezvous-address",
                    kind="public",
                    severity="warning",
                    summary=f"Ranks would meet at {public}, a public address: the store has no "
                    "password, and the way there may lead out of the cluster.",
                    where=Where(host=one.seen_from, interface=one.interface),
                    evidence=_evidence(one),
                    remedy=None,
                )
            )
            return


def _odd(one: Meeting, name: str, what: str) -> Finding:
    return Finding(
        code="rendezvous-address",
        kind="virtual",
        severity="warning",
        summary=f"{one.host} is the address of {name} on {one.seen_from}, {what}: other hosts "
        "reach it only where that is meant to join them.",
        where=Where(host=one.seen_from, interface=name),
        evidence=_evidence(one),
    )


def _has(card: Interface, one: Meeting) -> bool:
    return any(address.address in one.addresses for address in card.addresses)


def _is_public(address: str) -> bool:
    try:
        return ipaddress.ip_address(address.partition("%")[0]).is_global
    except ValueError:
        return False
