"""What surrounds the figures: software, variables, NCCL's choice, by hosts that have it alike.

In: the facts of all hosts. Out: distinct values, each with the hosts that have it; a thousand
equal hosts make one line, one that differs stands out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.records import HostFacts
from bench.report.text import abbreviated


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


def software(hosts: Sequence[HostFacts]) -> list[tuple[str, list[Alike]]]:
    """Versions, the ones that explain a change of behaviour first; then packages."""

    def reader(name: str) -> Callable[[HostFacts], str]:
        return lambda host: str(getattr(host.software, name) or "")

    def package(name: str) -> Callable[[HostFacts], str]:
        return lambda host: host.software.packages.get(name, "")

    names = ("torch", "nccl", "nccl_library", "cuda", "driver", "kernel", "python")
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

    def reader(name: str) -> Callable[[HostFacts], str]:
        return lambda host: host.unreadable.get(name, "")

    names = sorted({name for host in hosts for name in host.unreadable})
    return [(name, alike(hosts, reader(name))) for name in names]
