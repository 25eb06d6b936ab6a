"""One line about what a file of one format holds: "all_reduce, 16 ranks on 2 hosts, 32 sizes".

In: the records that a format's module gave for one file. Out: a phrase; nothing in it is a
judgement, and what a file does not say is left out of it.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.records import (
    CollectiveTable,
    KernelHints,
    NcclLog,
    NvlinkStatus,
    PciBridge,
    PeerMatrix,
    PlainFigure,
    PortsOf,
    Record,
    SoftwareOf,
    StartFailure,
    TopologyMatrix,
    TopologyTree,
    Variables,
)

SHOWN = 3  # tables or names told by themselves; beyond, they are counted


def of(records: Sequence[Record]) -> str:
    """The phrase for the records of one file and one format."""
    told = list(dict.fromkeys(_phrase(record) for record in records[: SHOWN + 1]))
    first = records[0]
    if isinstance(first, PciBridge | PlainFigure | NvlinkStatus | StartFailure):
        return _of_many(first, records)
    if len(records) > SHOWN:
        return f"{len(records)} of them, the first {told[0]}"
    return "; ".join(told)


def count(number: int, noun: str) -> str:
    """ "1 rank", "16 ranks"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _of_many(first: Record, records: Sequence[Record]) -> str:
    if isinstance(first, PciBridge):
        own = [record for record in records if isinstance(record, PciBridge)]
        listed = sum(bool(device.control) for device in own)
        acs = f", {listed} with ACS" if listed else ""
        return f"{count(len(own), 'PCI device')}{acs}"
    if isinstance(first, NvlinkStatus):
        gpus = [record for record in records if isinstance(record, NvlinkStatus)]
        links = sum(len(gpu.links) for gpu in gpus)
        return f"{count(len(gpus), 'GPU')}, {count(links, 'NVLink')}"
    if isinstance(first, StartFailure):
        return count(len(records), "failure")
    return count(len(records), "figure")


def _phrase(record: Record) -> str:
    if isinstance(record, CollectiveTable):
        return _table(record)
    if isinstance(record, NcclLog):
        return _log(record)
    if isinstance(record, TopologyMatrix):
        nics = f", {count(len(record.nics), 'NIC')}" if record.nics else ""
        return f"{count(len(record.gpus), 'GPU')}{nics}"
    if isinstance(record, TopologyTree):
        nets = ", ".join(net.name for net in record.nets[:SHOWN])
        more = f" and {len(record.nets) - SHOWN} more" if len(record.nets) > SHOWN else ""
        cpu = " ".join(word for word in (record.arch, record.vendor) if word)
        gpus = count(len(record.gpus), "GPU")
        return ", ".join(word for word in (gpus, f"{nets}{more}", cpu) if word)
    if isinstance(record, PeerMatrix):
        names = ", ".join(dict.fromkeys(record.names))
        return count(record.gpus, "GPU") + (f" ({names})" if names else "")
    return _other(record)


def _other(record: Record) -> str:
    if isinstance(record, Variables):
        number = len(record.variables) or len(record.forwarded)
        of = f" of {record.host}" if record.host else ""
        launcher = f", started by {record.launcher.split()[0]}" if record.launcher else ""
        return f"{count(number, 'variable')}{of}{launcher}"
    if isinstance(record, PortsOf):
        return f"{count(len(record.ports), 'RDMA port')} of {record.host}"
    if isinstance(record, SoftwareOf):
        versions = record.software
        told = (("torch", versions.torch), ("CUDA", versions.cuda), ("NCCL", versions.nccl))
        return ", ".join(f"{name} {value}" for name, value in told if value) or "versions"
    if isinstance(record, KernelHints):
        return "kernel command line" if record.command_line else "the kernel's IOMMU lines"
    return type(record).__name__


def _table(table: CollectiveTable) -> str:
    words = [table.collective or "a collective that nothing names"]
    if table.ranks:
        least = "at least " if 0 < len(table.devices) < table.ranks else ""
        on = f" on {least}{count(len(table.hosts), 'host')}" if table.hosts else ""
        words.append(count(table.ranks, "rank") + on)
    words.append(count(len({row.size_bytes for row in table.rows}), "size"))
    if table.nccl_version:
        words.append(f"{table.flavour.upper()} {table.nccl_version}")
    return ", ".join(words)


def _log(log: NcclLog) -> str:
    words = []
    ranks = max((c.ranks or len(c.members) for c in log.communicators), default=0)
    if ranks:
        words.append(count(ranks, "rank"))
    if log.hosts:
        words.append(count(len(log.hosts), "host"))
    words += [f"{log.flavour.upper()} {', '.join(log.versions[:SHOWN])}"] if log.versions else []
    words.append(count(log.nccl_lines, "line"))
    if log.events_left_out:
        words.append(f"{count(log.events_left_out, 'warning')} not kept")
    return ", ".join(words)
