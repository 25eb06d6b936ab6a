"""RDMA ports of several hosts held against each other: MTU, rate, state.

In: a Dossier. Out: mtu-mismatch, link-negotiated-down, hca-set-differs. Ports are compared under
one name and number, as hosts of one make call them alike. NCCL up to 2.19 took the smaller of both
MTUs; from 2.20.3 on it does not (nccl issue 1524, pull request 2135), so what was latent breaks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from bench.judge.docket import Docket
from bench.judge.foreign.places import place
from bench.judge.words import listed
from bench.records import Dossier, Evidence, Finding, LogEvent, PortsOf, RdmaPort, Severity, Where

# What a message larger than the receiver's MTU looks like in NCCL's log.
_BREAKAGE = (
    "local access violation", "IBV_WC_LOC_LEN_ERR", "local length error", "status=1 ",
    "with error 1,", "status 1 ", "transport retry counter exceeded",
)  # fmt: skip
SHOWN = 4

Seats = Mapping[str, tuple[PortsOf, RdmaPort]]
"""Host -> its port, of one name and number."""


def judge(dossier: Dossier, docket: Docket) -> None:
    """Per port name, over all hosts."""
    for seats in _alike(dossier.ports):
        active = {host: seat for host, seat in seats.items() if seat[1].state in (None, "ACTIVE")}
        for finding in (_mtu(active, dossier), _rate(active), _state(seats, active)):
            if finding is not None:
                docket.add(finding)
    for ports in dossier.ports:
        for finding in _inside(ports):
            docket.add(finding)


def _alike(ports: Sequence[PortsOf]) -> list[dict[str, tuple[PortsOf, RdmaPort]]]:
    found: dict[tuple[str, int], dict[str, tuple[PortsOf, RdmaPort]]] = {}
    for each in ports:
        for port in each.ports:
            found.setdefault((port.device, port.port), {}).setdefault(each.host, (each, port))
    return [seats for seats in found.values() if len(seats) > 1]


def _mtu(seats: Seats, dossier: Dossier) -> Finding | None:
    mtus = {h: port.active_mtu for h, (_, port) in seats.items() if port.active_mtu is not None}
    if len(set(mtus.values())) < 2:
        return None
    wanted = max(mtus.values())
    low = [host for host, mtu in mtus.items() if mtu < wanted]
    first, port = seats[low[0]]
    broken = _breakage(dossier)
    named = f"{port.device} port {port.port}"
    told = listed(f"{host} {mtu}" for host, mtu in mtus.items())
    severity: Severity = "broken" if broken else "degraded"
    return Finding(
        code="mtu-mismatch",
        severity=severity,
        summary=f"The active MTU of {named} differs between hosts: {told}. RDMA does not adapt: "
        "NCCL up to 2.19 took the smaller of both, from 2.20.3 on it does not, and large "
        "messages fail.",
        where=Where(
            hosts=tuple(mtus),
            host=low[0] if len(low) == 1 else None,
            device=port.device,
            file=first.file,
            line=first.line,
        ),
        evidence=(
            *(
                Evidence(
                    basis="claimed",
                    text=f"{place(seats[host][0].file)}: {host} active_mtu {mtu}"
                    + (f" of {seats[host][1].max_mtu}" if seats[host][1].max_mtu else ""),
                )
                for host, mtu in list(mtus.items())[:SHOWN]
            ),
            *(
                Evidence(
                    basis="asked", text=f"{place(event.file, event.line)}: {event.text[:160]}"
                )
                for event in broken[:2]
            ),
        ),
        remedy=_same_mtu(low, port, wanted),
        confidence="asked" if broken else "inferred",
    )


def _breakage(dossier: Dossier) -> list[LogEvent]:
    return [
        event
        for log in dossier.logs
        for event in log.events
        if any(sign in event.text for sign in _BREAKAGE)
    ]


def _same_mtu(low: Sequence[str], port: RdmaPort, wanted: int) -> str:
    """RoCE takes its MTU from the interface, less headers; InfiniBand from the subnet manager."""
    if port.link_layer == "InfiniBand":
        return (
            f"set MTU {wanted} for the partition in the subnet manager (mtu= in partitions.conf)"
        )
    name = port.interface or "INTERFACE"
    return (
        f"on {listed(low)}: sudo ip link set dev {name} mtu {wanted + 104}   # RoCE then uses "
        f"{wanted}; the same on all hosts and switch ports"
    )


def _rate(seats: Seats) -> Finding | None:
    rates = {h: port.rate_gbit for h, (_, port) in seats.items() if port.rate_gbit}
    if len(rates) < 3 or len(set(rates.values())) < 2:
        return None  # of two hosts either may be the odd one
    usual, votes = Counter(rates.values()).most_common(1)[0]
    low = [host for host, rate in rates.items() if rate < usual]
    if not low or votes * 2 <= len(rates):
        return None
    first, port = seats[low[0]]
    return _slow_port(first, port, low, usual, f"{votes} other hosts")


def _where(ports: PortsOf, port: RdmaPort, hosts: Sequence[str]) -> Where:
    return Where(
        host=hosts[0] if len(hosts) == 1 else None,
        hosts=tuple(hosts) if len(hosts) > 1 else (),
        device=port.device,
        file=ports.file,
        line=ports.line,
    )


def _slow_port(
    ports: PortsOf, port: RdmaPort, hosts: Sequence[str], usual: float, whom: str
) -> Finding:
    return Finding(
        code="link-negotiated-down",
        severity="degraded",
        summary=f"{port.device} port {port.port} on {listed(hosts)} runs at "
        f"{port.rate_gbit:g} Gbit/s where {whom} have {usual:g}.",
        where=_where(ports, port, hosts),
        evidence=(
            Evidence(
                basis="claimed", text=f"{place(ports.file)}: {port.device} {port.rate_gbit:g} Gb/s"
            ),
        ),
        remedy=f"mlxlink -d {port.device} -m   # cable, transceiver, switch port",
        confidence="inferred",
    )


def _inside(ports: PortsOf) -> Iterator[Finding]:
    """A port of the same board as most, at a lower rate than they."""
    boards: dict[str, list[RdmaPort]] = {}
    for port in ports.ports:
        if port.board_id and port.rate_gbit and port.state == "ACTIVE":
            boards.setdefault(f"{port.board_id}/{port.link_layer}", []).append(port)
    for group in boards.values():
        usual, votes = Counter(p.rate_gbit for p in group if p.rate_gbit).most_common(1)[0]
        if votes < 3 or votes * 2 <= len(group):
            continue
        for port in group:
            if port.rate_gbit and port.rate_gbit < usual:
                yield _slow_port(ports, port, [ports.host], usual, f"{votes} others of its board")


def _state(seats: Seats, active: Seats) -> Finding | None:
    down = [host for host, (_, port) in seats.items() if port.state not in (None, "ACTIVE")]
    if not down or len(active) <= len(down):
        return None  # most hosts leave this port unused
    first, port = seats[down[0]]
    return Finding(
        code="hca-set-differs",
        severity="degraded",
        summary=f"{port.device} port {port.port} is {port.state} on {listed(down)} and active on "
        f"{listed(active)}: NCCL leaves it out there, and channels on it have no partner.",
        where=_where(first, port, down),
        evidence=(
            Evidence(
                basis="claimed",
                text=f"{place(first.file)}: {port.device} {port.state}"
                + (f", {port.physical_state}" if port.physical_state else ""),
            ),
        ),
        remedy=f"on {listed(down)}: ibstat {port.device}; mlxlink -d {port.device}",
        confidence="inferred",
    )
