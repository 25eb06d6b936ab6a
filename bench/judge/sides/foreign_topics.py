"""What surrounds a measurement according to foreign files: tables, logs, ports, versions.

In: the Dossier of one side. Out: Topics. A table's header and NCCL's log tell little of a host; a
version that only stands in a file's name is taken from there and called inferred.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePath

from bench.judge.sides.topics import single
from bench.records import CollectiveTable, Dossier, LogCommunicator, NcclLog, Topic

# "driver_535.183.06.txt", "nccl-2.20.5", "before_nccl218_channels.log": digits without dots are
# NCCL's own short form, one digit and two.
_IN_NAMES = (
    ("driver", re.compile(r"driver[-_ ]?v?(\d{3}(?:\.\d{1,4}){1,2})", re.IGNORECASE)),
    ("NCCL", re.compile(r"nccl[-_ ]?v?(\d\.\d{1,2}(?:\.\d{1,2})?)(?!\.?\d)", re.IGNORECASE)),
    ("NCCL", re.compile(r"nccl[-_ ]?v?([12]\d{2})(?!\d)", re.IGNORECASE)),
    ("CUDA", re.compile(r"cuda[-_ ]?v?(\d{1,2}\.\d{1,2})(?!\d)", re.IGNORECASE)),
)
# Lines of the table's header that say what was measured, not what it ran on.
SETTINGS = {"minBytes", "maxBytes", "step", "nThread", "nGpus", "iters", "warmup iters"}
MOST_NETS = 16


def of_dossier(dossier: Dossier) -> tuple[Topic, ...]:
    """One Topic a thing; those of which nothing is known are left out."""
    found = [
        *_versions(dossier),
        *_tables(dossier.tables),
        *_logs(dossier.logs),
        *_variables(dossier),
        *_ports(dossier),
        *_trees(dossier),
    ]
    return tuple(topic for topic in found if topic.values)


def _versions(dossier: Dossier) -> Iterator[Topic]:
    """Each of driver, NCCL, CUDA and torch, from whoever tells it; else from the files' names."""
    tables, logs, software = dossier.tables, dossier.logs, dossier.software
    processes = [process for log in logs for process in log.processes]
    told: dict[str, list[str | None]] = {
        "driver": [s.software.driver for s in software],
        "NCCL": [
            *(t.nccl_version for t in tables),
            *(version for log in logs for version in log.versions),
            *(s.software.nccl for s in software),
        ],
        "torch": [s.software.torch for s in software],
        "CUDA": [*(t.cuda_version for t in tables), *(s.software.cuda for s in software)],
        "CUDA driver": [p.cuda_driver for p in processes],
        "kernel": [s.software.kernel for s in software],
        "nccl-tests": [t.tests_version for t in tables],
    }
    named = _named([file.file for file in dossier.files])
    for name, values in told.items():
        if any(values):
            yield single(name, values)
        elif name in named:
            yield Topic(name=name, values={"": (named[name],)}, basis="inferred")


def _named(files: Sequence[str]) -> dict[str, str]:
    """Versions in the names of files and of the folder they lie in."""
    found: dict[str, str] = {}
    for file in files:
        for text in PurePath(file).parts[-2:][::-1]:
            for name, pattern in _IN_NAMES:
                match = pattern.search(text)
                if match:
                    version = match[1]
                    if "." not in version and name == "NCCL":
                        version = f"{version[0]}.{int(version[1:])}"
                    found.setdefault(name, version)
    return found


def _tables(tables: Sequence[CollectiveTable]) -> Iterator[Topic]:
    devices = [device for table in tables for device in table.devices]
    yield single("GPUs", [_unique(device.name for device in devices)])
    yield single("hosts", [_unique(h for t in tables for h in t.hosts)], "circumstance")
    yield single("flavour", [table.flavour for table in tables])
    names = sorted({name for table in tables for name in table.settings})
    for name in names:
        kind = "setting" if name in SETTINGS else "factor"
        yield single(name, [table.settings.get(name) for table in tables], kind)  # type: ignore[arg-type]
    for name in sorted({name for table in tables for name in table.environment}):
        yield single(name, [table.environment.get(name, "unset") for table in tables])


def _unique(values: Iterator[str | None]) -> str | None:
    return ", ".join(dict.fromkeys(value for value in values if value)) or None


def _logs(logs: Sequence[NcclLog]) -> Iterator[Topic]:
    processes = [process for log in logs for process in log.processes]
    groups = [group for log in logs for group in log.communicators]
    yield single("network", [process.network for process in processes])
    yield single("net plugin", [p.plugin for p in processes if p.plugin_outcome == "used"])
    yield single("NCCL meets on", [p.bootstrap.name for p in processes if p.bootstrap])
    nets = sorted({net.name for process in processes for net in process.nets})
    yield single("network devices", [", ".join(nets[:MOST_NETS])])
    yield single("channels", [str(count) for group in groups if (count := channels_of(group))])
    yield single("ring orders", [_orders(group) for group in groups])
    yield single("carriers", [", ".join(sorted(group.carriers)) for group in groups])
    yield single("GPUDirect RDMA", [str(g.gdr) for g in groups if g.gdr is not None])
    yield single("NVLS", ["on" for group in groups if group.nvls])
    yield single("PXN", [str(group.pxn) for group in groups if group.pxn is not None])
    tuning = [tuned for group in groups for tuned in group.tuning]
    tuning += [tuned for log in logs for tuned in log.tuning]
    chosen: dict[str, dict[str, None]] = {}
    for tuned in tuning:
        name = f"choice for {tuned.collective} of {tuned.size_bytes} bytes"
        chosen.setdefault(name, {})[f"{tuned.algorithm} {tuned.protocol}"] = None
    for name, words in chosen.items():
        yield single(name, words)
    environment: dict[str, dict[str, None]] = {}
    for process in processes:
        for name, value in process.environment.items():
            environment.setdefault(name, {})[value] = None
    for name, words in sorted(environment.items()):
        yield single(name, words)


def channels_of(group: LogCommunicator) -> int:
    return group.ring_channels or len(group.rings)


def _orders(group: LogCommunicator) -> str | None:
    if not group.rings:
        return None
    orders = len(set(group.rings.values()))
    return f"{orders} among {channels_of(group)} channels" if orders > 1 else "all alike"


def _variables(dossier: Dossier) -> Iterator[Topic]:
    names = sorted({name for each in dossier.variables for name in each.variables})
    for name in names:
        yield single(name, [each.variables.get(name, "unset") for each in dossier.variables])


def _ports(dossier: Dossier) -> Iterator[Topic]:
    """By device and port, not by host: before and after the hosts may be called otherwise."""
    words = (
        ("RDMA MTU", "active_mtu"), ("RDMA rate", "rate_gbit"), ("RDMA state", "state"),
        ("NIC firmware", "firmware"), ("link layer", "link_layer"),
    )  # fmt: skip
    for name, field in words:
        values: dict[str, tuple[str, ...]] = {}
        for own in dossier.ports:
            told = [
                f"{port.device}:{port.port} {getattr(port, field)}"
                for port in own.ports
                if getattr(port, field) is not None
            ]
            if told:
                values[own.host] = (", ".join(told),)
        if values:
            yield Topic(name=name, values=values, basis="claimed")


def _trees(dossier: Dossier) -> Iterator[Topic]:
    trees = dossier.trees
    yield single("CPU in NCCL's topology", [f"{t.vendor} {t.model}" for t in trees if t.model])
    yield single("GPUs in NCCL's topology", [str(len(t.gpus)) for t in trees if t.gpus])
    yield single(
        "NICs in NCCL's topology",
        [_unique(net.name for net in tree.nets) for tree in trees],
    )
