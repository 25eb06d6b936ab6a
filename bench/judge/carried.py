"""What carried a candidate's bytes on a host: interfaces and RDMA ports, each byte once.

In: a host's facts, byte counters, what a candidate's samples moved. Out: bytes by carrier, under
the names that candidates use. Interface counters never see RDMA, and NCCL meets over an interface
whatever carries its data: the bytes of that meeting are no data.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from bench.records import HostFacts, Interface, Session

# Of what lies on another interface (a VLAN) the lower one counts the same bytes with more headers,
# 5 to 10 % more where segments were merged in between; it carries bytes of its own beyond that.
OWN_SHARE = 0.2
# A host receives half of what a collective moves, at least, in all but rooted ones.
LEAST_OF_MOVED = 0.25
RECEIVED = "port_rcv_bytes"


def beneath(facts: HostFacts | None, names: Collection[str]) -> set[str]:
    """These interfaces and all that they lie on."""
    known = _by_name(facts)
    found: set[str] = set()
    open_ends = set(names)
    while open_ends:
        found |= open_ends
        lower = (_lower(known, name) for name in open_ends)
        open_ends = {name for name in lower if name is not None} - found
    return found


def by_interface(facts: HostFacts | None, counted: Mapping[str, int]) -> dict[str, int]:
    """Bytes of each interface. Loopback and members of a bond or bridge that was counted are left
    out; an interface below another (a VLAN's parent) has what is its own."""
    known = _by_name(facts)
    above: Counter[str] = Counter()
    for name, count in counted.items():
        lower = _lower(known, name)
        if lower is not None:
            above[lower] += count
    kept = {}
    for name, count in counted.items():
        interface = known.get(name)
        if interface is not None and (interface.kind == "loopback" or interface.master in counted):
            continue
        own = count - above[name]
        if not above[name] or own > OWN_SHARE * count:
            kept[name] = own
    return kept


def _by_name(facts: HostFacts | None) -> dict[str, Interface]:
    return {interface.name: interface for interface in facts.interfaces} if facts else {}


def _lower(known: Mapping[str, Interface], name: str) -> str | None:
    """The interface that `name` lies on: the kernel's word, else what a VLAN's usual name says."""
    interface = known.get(name)
    if interface is not None and interface.lower is not None:
        return interface.lower
    return name.rpartition(".")[0] or None


def beside_sockets(
    facts: HostFacts | None,
    interfaces: Mapping[str, int],
    ports: Mapping[str, int],
    moved: int,
) -> dict[str, int]:
    """Bytes of a host whose data should leave the sockets behind, by what can have carried it.

    RDMA ports, or interfaces that received as much as data must have; empty where neither did:
    then nothing tells.
    """
    least = LEAST_OF_MOVED * moved
    found = dict(ports) if sum(ports.values()) >= least else {}
    if moved and sum(interfaces.values()) >= least:
        # Some drivers count RDMA at the port's own interface as well.
        twice = {p.interface for p in facts.rdma_ports if _called(facts, p.device, p.port) in found
                 } if facts else set()  # fmt: skip
        found |= {name: count for name, count in interfaces.items() if name not in twice}
    return found


def port_names(facts: HostFacts | None, told: Iterable[str]) -> tuple[str, ...]:
    """ "mlx5_0:1" as candidates call it: "mlx5_0" where the device has no other port."""
    names = []
    for name in told:
        device, _, port = name.rpartition(":")
        names.append(_called(facts, device, int(port)) if device and port.isdigit() else name)
    return tuple(names)


def _called(facts: HostFacts | None, device: str, port: int) -> str:
    ports = [p for p in facts.rdma_ports if p.device == device] if facts else []
    return f"{device}:{port}" if len(ports) > 1 else device


def port_bytes(
    hosts: Mapping[str, HostFacts], sessions: Iterable[Session]
) -> dict[tuple[str, str], Counter[str]]:
    """(candidate, host) -> bytes that each RDMA port received in all its sessions."""
    found: dict[tuple[str, str], Counter[str]] = {}
    for session in sessions:
        for evidence in session.hosts:
            ports = found.setdefault((session.case.candidate, evidence.host), Counter())
            for port, counts in evidence.rdma.items():
                if counts.get(RECEIVED):
                    (name,) = port_names(hosts.get(evidence.host), (port,))
                    ports[name] += counts[RECEIVED]
    return found


def moved_bytes(sessions: Iterable[Session]) -> Counter[str]:
    """Candidate -> size times calls of its samples that were timed, of all sessions."""
    found: Counter[str] = Counter()
    for session in sessions:
        for sample in session.samples:
            calls = len(sample.times_s) * sample.calls_per_time
            found[session.case.candidate] += sample.size_bytes * calls
    return found
