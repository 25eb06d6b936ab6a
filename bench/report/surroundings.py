"""What surrounds the figures: hardware, software, variables, NCCL's choice, who sits where.

In: the facts of all hosts. Out: distinct values, each with the hosts that have it; a thousand
equal hosts make one line, one that differs stands out. Ranks have a line each, up to a limit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.facts import gpu_groups
from bench.records import HostFacts
from bench.report import hardware_words, rank_map, units
from bench.report.text import abbreviated

RANKS_SHOWN = 64


@dataclass(frozen=True)
class Alike:
    """A value and the hosts that have it."""

    value: str
    hosts: str


def alike(hosts: Sequence[HostFacts], value: Callable[[HostFacts], str]) -> list[Alike]:
    """Distinct values in order of appearance, each with its hosts; one line where all agree."""
    groups: dict[str, list[str]] = {}
    for host in hosts:
        groups.setdefault(value(host), []).append(host.host)
    return [
        Alike(text, "all hosts" if len(groups) == 1 else abbreviated(names))
        for text, names in groups.items()
        if text
    ]


def hardware(hosts: Sequence[HostFacts]) -> list[tuple[str, list[Alike]]]:
    """Machine, GPUs, links, paths, what may stand between peers."""
    rows = [(name, alike(hosts, sentence)) for name, sentence in hardware_words.ROWS]
    rows.append(("RDMA", alike(hosts, _ports)))
    return [(name, values) for name, values in rows if values]


def _ports(host: HostFacts) -> str:
    """Ports by what they have in common: "8 × 400 Gbit/s InfiniBand ACTIVE, firmware 28.39"."""
    kinds = Counter(
        " ".join(
            part
            for part in (
                f"{units.significant(port.rate_gbit)} Gbit/s" if port.rate_gbit else "",
                port.link_layer,
                port.state,
                f"MTU {port.active_mtu}" if port.active_mtu else "",
                f"firmware {port.firmware}" if port.firmware else "",
                f"board {port.board_id}" if port.board_id else "",
            )
            if part
        )
        for port in host.rdma_ports
    )
    return "; ".join(f"{count} × {kind}" for kind, count in kinds.items())


def ranks(hosts: Sequence[HostFacts]) -> tuple[list[tuple[str, rank_map.Seat]], int]:
    """Host and seat of each rank, in rank order, and how many more there are."""
    seats = [
        (host.host, seat) for host in hosts if host.placements for seat in rank_map.seats(host)
    ]
    seats.sort(key=lambda row: int(row[1].rank))
    return seats[:RANKS_SHOWN], max(len(seats) - RANKS_SHOWN, 0)


def software(hosts: Sequence[HostFacts]) -> list[tuple[str, list[Alike]]]:
    """Versions, the ones that explain a change of behaviour first; then packages."""

    def reader(name: str) -> Callable[[HostFacts], str]:
        return lambda host: str(getattr(host.software, name) or "")

    def package(name: str) -> Callable[[HostFacts], str]:
        return lambda host: host.software.packages.get(name, "")

    names = ("torch", "nccl", "nccl_library", "cuda", "cuda_driver", "driver", "kernel", "python")
    rows = [(name.replace("_", " "), alike(hosts, reader(name))) for name in names]
    packages = sorted({name for host in hosts for name in host.software.packages})
    rows += [(name, alike(hosts, package(name))) for name in packages]
    return [(name, values) for name, values in rows if values]


def settings(hosts: Sequence[HostFacts]) -> list[tuple[str, list[Alike]]]:
    """Environment variables that were recorded."""

    def reader(name: str) -> Callable[[HostFacts], str]:
        return lambda host: host.environment.get(name, "")

    names = sorted({name for host in hosts for name in host.environment})
    return [(name, alike(hosts, reader(name))) for name in names]


def choices(hosts: Sequence[HostFacts]) -> list[Alike]:
    """What NCCL takes with the environment as it is."""
    return alike(hosts, _choice)


def _choice(host: HostFacts) -> str:
    for choice in host.nccl_choices:
        if choice.setting is None:
            taken = choice.bootstrap or "nothing that matches"
            return f"{taken} ({choice.basis}); its NET devices: {', '.join(choice.interfaces)}"
    return ""


def unreadable(hosts: Sequence[HostFacts]) -> list[tuple[str, list[Alike]]]:
    """What could not be read, and why."""

    reasons = {host.host: {**host.unreadable, **gpu_groups.refusals(host.gpus)} for host in hosts}

    def reader(name: str) -> Callable[[HostFacts], str]:
        return lambda host: reasons[host.host].get(name, "")

    names = sorted({name for told in reasons.values() for name in told})
    return [(name, alike(hosts, reader(name))) for name in names]
