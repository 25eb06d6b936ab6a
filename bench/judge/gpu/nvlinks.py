"""NVLinks that are down.

In: NVML's state of every link, as the hosts' facts hold it, and what moved during sessions. Out:
nvlink-inactive, with host, GPU and the numbers of the links. Inactive alone proves nothing (a card
without its bridge has only inactive ones): the fabric file says how many there must be, or most
GPUs of the same model have more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.judge.docket import Docket
from bench.judge.gpu import fleet, ways
from bench.judge.gpu.fleet import Drop, Seat
from bench.judge.networks import Networks
from bench.judge.words import listed
from bench.records import Evidence, Finding, Severity, Where

TOGETHER = 0.5  # of a host's GPUs: when more are affected it is the host's fault, told once


@dataclass(frozen=True)
class Lacking:
    """A GPU with too few active links, and by whose word."""

    seat: Seat
    wanted: int
    basis: Evidence
    severity: Severity


def judge(net: Networks, docket: Docket) -> None:
    """Add nvlink-inactive for GPUs below the fabric file or most of their like, and for links that
    went down while the sweep ran."""
    lacking = _lacking(net)
    for group in _grouped(net, lacking):
        host = group[0].seat.host.host
        docket.add(_finding(net, group), explains=fleet.slowed(net, host, "p2p"))
    named = {(one.seat.host.host, one.seat.gpu.index) for one in lacking}
    for drop in fleet.dropped(net, "nvlinks_active"):
        if (drop.host, drop.gpu) not in named:
            named.add((drop.host, drop.gpu))
            docket.add(_lost(drop))


def _lacking(net: Networks) -> list[Lacking]:
    seats = [s for s in fleet.seats(net.report.hosts) if s.gpu.mig_mode is not True]
    found: dict[tuple[str, int], Lacking] = {}
    for seat in seats:
        wanted = fleet.stated(net.report.fabric, seat.gpu).nvlinks
        active = seat.gpu.nvlinks_active
        if wanted is not None and active is not None and active < wanted:
            text = f"the fabric file expects {wanted} NVLinks of each GPU"
            found[seat.host.host, seat.gpu.index] = Lacking(
                seat, wanted, Evidence(basis="expected", text=text), "degraded"
            )
    for odd in fleet.below_most(seats, lambda seat: seat.gpu.nvlinks_active):
        usual = int(odd.usual)
        text = f"{odd.votes} other {odd.seat.gpu.name or 'GPUs'} have {usual} active links"
        found.setdefault(
            (odd.seat.host.host, odd.seat.gpu.index),
            Lacking(
                odd.seat, usual, Evidence(basis="claimed", text=text), _severity(net, odd.seat)
            ),
        )
    return list(found.values())


def _severity(net: Networks, seat: Seat) -> Severity:
    """A GPU without any link beside bridged ones may be the odd one out of pairs; beside GPUs on
    a switch it is broken."""
    if seat.gpu.nvlinks_active:
        return "degraded"
    others = (s.gpu for s in fleet.seats(net.report.hosts) if s.gpu.name == seat.gpu.name)
    return "degraded" if any(ways.switched(gpu) for gpu in others) else "warning"


def _grouped(net: Networks, lacking: Sequence[Lacking]) -> list[list[Lacking]]:
    """One finding per cause: a GPU, both ends of a link without a switch, most of a host."""
    groups: list[list[Lacking]] = []
    for host, facts in net.hosts.items():
        own = [one for one in lacking if one.seat.host.host == host]
        straight = len(own) == 2 and not any(ways.switched(one.seat.gpu) for one in own)
        together = len(own) > max(1, TOGETHER * len(facts.gpus))
        groups += [own] if straight or together else [[one] for one in own]
    return groups


def _finding(net: Networks, group: Sequence[Lacking]) -> Finding:
    first = group[0]
    gpu, host = first.seat.gpu, first.seat.host
    active, down = gpu.nvlinks_active or 0, _down(first)
    links = (
        f"{_numbers(down)} {'is' if len(down) == 1 else 'are'} down, " if len(group) == 1 and down
        else ""
    )  # fmt: skip
    least = min(one.seat.gpu.nvlinks_active or 0 for one in group)
    most = max(one.seat.gpu.nvlinks_active or 0 for one in group)
    count = f"{least}" if least == most else f"{least} to {most}"
    seats = [one.seat for one in group]
    evidence = [_state(one) for one in group[:4]] + [first.basis]
    rate = ways.nvlink_gbs(gpu)
    if rate is not None and active:
        text = (
            f"NCCL counts active links only: {rate:.4g} of "
            f"{rate * first.wanted / active:.4g} GB/s for GPU {gpu.index}"
        )
        evidence.append(Evidence(basis="predicted", text=text))
    evidence += _services(host.host, net)
    return Finding(
        code="nvlink-inactive",
        severity=max((one.severity for one in group), key=("warning", "degraded").index),
        summary=f"NVLinks of {fleet.told(seats)}: {links}{count} of {first.wanted} active.",
        where=Where(
            host=host.host,
            gpu=gpu.index if len(group) == 1 else None,
            device=gpu.pci_address if len(group) == 1 else None,
            link=tuple(f"GPU{seat.gpu.index}" for seat in seats) if len(group) == 2 else (),
        ),
        evidence=tuple(evidence),
        remedy=f"nvidia-smi nvlink -s -i {gpu.index}; nvidia-smi nvlink -e -i {gpu.index}; "
        "systemctl status nvidia-fabricmanager",
        confidence="inferred",
    )


def _down(one: Lacking) -> tuple[int, ...]:
    return tuple(sorted(n for link in one.seat.gpu.nvlinks if not link.active for n in link.links))


def _numbers(links: Sequence[int]) -> str:
    return f"link{'s' if len(links) > 1 else ''} {listed(str(link) for link in links)}"


def _state(one: Lacking) -> Evidence:
    gpu = one.seat.gpu
    down = _down(one)
    text = f"NVML on {one.seat.host.host}: GPU {gpu.index}"
    text += f", {_numbers(down)} inactive" if down else ", links missing"
    errors: dict[str, int] = {}
    for link in gpu.nvlinks:
        for name, count in link.errors.items():
            errors[name] = errors.get(name, 0) + count
    if errors:
        text += "; " + ", ".join(
            f"{count} {name.removeprefix('nvlink_').replace('_', ' ')}"
            for name, count in errors.items()
        )
    if gpu.fabric is not None and gpu.fabric.state not in (None, "completed", "not supported"):
        text += f"; fabric {gpu.fabric.state}"
    return Evidence(basis="claimed", text=text)


def _services(host: str, net: Networks) -> list[Evidence]:
    """Fabric Manager, where it is known not to run."""
    return [
        Evidence(basis="claimed", text=f"{host}: Fabric Manager is {service.state}")
        for service in net.hosts[host].services
        if service.name == "fabric-manager" and service.state in ("inactive", "failed")
    ]


def _lost(drop: Drop) -> Finding:
    return Finding(
        code="nvlink-inactive",
        severity="degraded",
        summary=f"NVLinks of GPU {drop.gpu} on {drop.host} went down during the sweep: "
        f"{drop.after} of {drop.before} active.",
        where=Where(host=drop.host, gpu=drop.gpu, candidate=drop.candidate),
        evidence=(
            Evidence(
                basis="measured",
                text=f"NVML before a session of {drop.candidate}: {drop.before} active, after it: "
                f"{drop.after}",
            ),
        ),
        remedy=f"nvidia-smi nvlink -e -i {drop.gpu}; "
        "sudo journalctl -k --since -1h --grep 'NVRM: Xid'",
    )
