"""Facts of hosts that stand beside launch files: what `facts --json` prints, or a run's report.

In: the file. Out: a HostLine for each host, with the addresses of its interfaces and its GPUs, so
that a launch's address can be held against whose it is. Loopback addresses are nobody's.
"""

from __future__ import annotations

import msgspec

from bench.formats.source import Source
from bench.records import BadInput, HostFacts, HostLine

KIND = "host facts"

_SIGNS = ('"boot_id"', '"interfaces"', '"identity"')


class _Report(msgspec.Struct):
    """The part of a report.json that is read."""

    hosts: list[HostFacts] = []


def likeness(head: str, name: str) -> float:
    """1 where the first keys are those of a host's facts, or of a report."""
    start = head.lstrip()
    if not start.startswith(("{", "[")):
        return 0.0
    if all(sign in head for sign in _SIGNS):
        return 1.0
    report = '"schema"' in head and '"run"' in head and '"verdict"' in head
    return 1.0 if report and '"dossier"' not in head else 0.0


def read(source: Source) -> tuple[HostLine, ...]:
    """All hosts of the file; BadInput where it holds none."""
    hosts = _decoded(source.bytes_())
    if not hosts:
        raise BadInput("holds no facts of a host", file=source.file)
    return tuple(_line(host, source.file, at) for at, host in enumerate(hosts, 1))


def _decoded(raw: bytes) -> list[HostFacts]:
    """One host, a list of them, or a report's."""
    try:
        if raw.lstrip()[:1] == b"[":
            return msgspec.json.decode(raw, type=list[HostFacts])
        if b'"hosts"' in raw:
            return msgspec.json.decode(raw, type=_Report).hosts
        return [msgspec.json.decode(raw, type=HostFacts)]
    except (msgspec.DecodeError, RecursionError):
        return []


def _line(host: HostFacts, file: str, at: int) -> HostLine:
    """`line` counts the hosts of the file: JSON has no lines that a person looks up."""
    addresses = [
        each.address
        for interface in host.interfaces
        if interface.kind != "loopback"
        for each in interface.addresses
    ]
    return HostLine(
        file=file,
        line=at,
        host=host.hostname or host.host,
        addresses=tuple(dict.fromkeys(addresses)),
        gpus=len(host.gpus) or None,
    )
