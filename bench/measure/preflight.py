"""Who reaches whom on which network, before any group is formed.

In: the peers to call (rank 0 makes the list from what listeners published). Out: PreflightPairs.
Callers connect unbound, as NCCL and gloo do, so the kernel's route decides and is recorded. A
small hello must come from the right host (docker0's 172.17.0.1 leads to oneself); then 32 KiB go
both ways at once, because a switch port with a smaller MTU passes all that is small. Healthy peers
take milliseconds, silent ones 2 s, black holes 4 s; one wave of calls ends within 13 s whatever
the network does.
"""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence

import msgspec
import psutil

from bench.measure import descriptors
from bench.measure.call import ATTEMPTS_S, Call
from bench.measure.echo import Listener
from bench.records import Candidate, PreflightPair

ALL_PAIRS_HOSTS = 64  # above, each host calls a few: traffic stays O(hosts)
NEXT_HOSTS = 2  # of these few, the ring neighbours that collectives use most ...
RANDOM_HOSTS = 3  # ... and distances drawn by the seed, the same for all: nobody is called by many
MOST_CALLS = 256  # at a time, and three attempts each within a quarter of the descriptors
MOST_BULKS = 16  # large exchanges that move at a time, so that a slow link is not swamped
_TICK_S = 0.02


class Peer(msgspec.Struct, frozen=True, kw_only=True):
    """One call to make: a host's address on one candidate. `port` None: it does not listen there.
    `also` are other hosts that call this address theirs."""

    host: str
    candidate: str
    address: str
    port: int | None
    identity: str
    also: tuple[str, ...] = ()


def peers_of(
    candidates: Sequence[Candidate],
    ports: Mapping[str, Mapping[str, int]],
    identities: Mapping[str, str],
    *,
    seed: int = 0,
) -> dict[str, tuple[Peer, ...]]:
    """Whom each host is to call: host -> peers, on every socket network that is planned.

    `ports` maps host to address to port, as listeners published them. Up to 64 hosts call each
    other, more call five others each.
    """
    calls: dict[str, list[Peer]] = defaultdict(list)
    for candidate in candidates:
        if (candidate.kind, candidate.transport, candidate.outcome) != (
            "network", "socket", "planned",
        ):  # fmt: skip
            continue
        hosts = list(candidate.addresses)
        if any(_needs_scope(address) for address in candidate.addresses.values()):
            continue
        owners: dict[str, list[str]] = defaultdict(list)
        for host, address in candidate.addresses.items():
            owners[address].append(host)
        for i, host in enumerate(hosts):
            for step in _steps(len(hosts), seed):
                other = hosts[(i + step) % len(hosts)]
                address = candidate.addresses[other]
                calls[host].append(
                    Peer(
                        host=other,
                        candidate=candidate.name,
                        address=address,
                        port=ports.get(other, {}).get(address),
                        identity=identities[other],
                        also=tuple(h for h in owners[address] if h != other)[:3],
                    )
                )
    return {host: tuple(mine) for host, mine in calls.items()}


def _needs_scope(address: str) -> bool:
    """fe80:: means another place on every interface, and listeners leave it out."""
    return address.lower().startswith("fe8")


def _steps(hosts: int, seed: int) -> Sequence[int]:
    if hosts <= ALL_PAIRS_HOSTS:
        return range(1, hosts)
    far = random.Random(seed).sample(range(NEXT_HOSTS + 1, hosts), RANDOM_HOSTS)
    return (*range(1, NEXT_HOSTS + 1), *far)


def probe(me: str, peers: Sequence[Peer], *, deadline_s: float = 2.0) -> tuple[PreflightPair, ...]:
    """Call all peers at once and say what became of each, in their order.

    A peer has `deadline_s` to accept and to name itself, then the large exchange must not stand
    still for 1.5 s. More than 256 peers (fewer where descriptors are few) are called in waves.
    Needs this host's own Listener open only for the others.
    """
    most = max(1, min(MOST_CALLS, descriptors.limit() // 4 // len(ATTEMPTS_S)))
    waiting = [Call(me, peer) for peer in peers]
    calls, active = list(waiting), set[Call]()
    try:
        while waiting or active:
            now = time.monotonic()
            while waiting and len(active) < most:
                call = waiting.pop(0)
                call.begin(now, deadline_s)
                active.add(call)
            moving = sum(call.moves(now) for call in active)
            for call in active:
                if call.ready and moving < MOST_BULKS:
                    call.exchange(now)
                    moving += 1
            Call.wait(active, _TICK_S)
            active = {call for call in active if not call.look(time.monotonic())}
    finally:
        for call in calls:
            call.close()
    owners = _owners()
    return tuple(call.pair(owners) for call in calls)


def _owners() -> dict[str, str]:
    """This host's addresses and the interfaces that have them; empty where the kernel has no
    descriptor left to tell."""
    try:
        cards = psutil.net_if_addrs()
    except OSError:
        return {}
    return {
        address.address.partition("%")[0]: name
        for name, addresses in cards.items()
        for address in addresses
    }


__all__ = ["Listener", "Peer", "peers_of", "probe"]
