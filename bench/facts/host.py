"""All that is known of this host before anything is measured, and one label per host.

In: this machine. Out: `HostFacts`; what a container, missing rights or missing hardware hides is
in `unreadable` with the reason. `gather` takes about 0.3 s where NVML starts at once, under 15 s
where it never answers; it never raises for a missing thing and sends nothing on the network.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from pathlib import Path

import msgspec

from bench.facts import (
    data_path,
    hardware,
    interfaces,
    libraries,
    nccl,
    nccl_conf,
    placement,
    readiness,
    routes,
    software,
    sysfs,
)
from bench.facts.nvml import NvmlReader
from bench.records import HostFacts, RankPlacement, Software

PROC = Path("/proc")


def gather(
    *,
    hostname: str | None = None,
    node_rank: int = 0,
    ranks: Sequence[int] = (),
    local_ranks: Sequence[int] = (),
    ask_nccl: bool = True,
    nvml: NvmlReader | None = None,
    root: Path = Path("/"),
) -> HostFacts:
    """Facts of this host. `ranks` are the global ranks to stand for, `local_ranks` likewise.

    A CPU mask is known for the calling process only, so a placement is recorded when it stands
    for one rank; the merger unites the ranks of a host. `root` is where a test's /sys lies.
    """
    name = printable(hostname) if hostname is not None else own_name()
    found_interfaces, unreadable = interfaces.read()
    parts = hardware.read(nvml, found_interfaces, root=root)
    unreadable |= parts.unreadable
    conf, more = nccl_conf.read()
    unreadable |= more
    library = libraries.find_nccl() if ask_nccl else None
    choice = nccl.choose(None, found_interfaces, library=library, asking=ask_nccl)
    if ask_nccl and library is None:
        unreadable["nccl"] = "no libnccl found: NCCL's choice is predicted, not asked"
    elif ask_nccl and choice.basis == "predicted":
        unreadable["nccl"] = choice.line or "libnccl gave no answer"
    version = choice.nccl_version
    settings = nccl_conf.effective(os.environ, conf)
    no_verbs = libraries.verbs_missing() if parts.rdma_ports else None
    if no_verbs is not None:
        unreadable["rdma.verbs"] = no_verbs
    plugin = libraries.find_plugin({**settings, **_loader_path()})
    ready, more = readiness.read()
    unreadable |= more
    boot = _boot_id()
    if boot is None or _network_namespace() is None:
        unreadable["identity"] = "no boot id or network namespace in /proc: told apart by name"
    return HostFacts(
        host=name,
        hostname=name,
        identity=identity(name),
        node_rank=node_rank,
        ranks=tuple(ranks),
        boot_id=boot,
        cores=os.cpu_count() or 0,
        interfaces=found_interfaces,
        routes=routes.defaults(),
        rdma_ports=parts.rdma_ports,
        gpus=parts.gpus,
        gpu_pairs=parts.gpu_pairs,
        pci_devices=parts.pci_devices,
        iommu=parts.iommu,
        machine=parts.machine,
        services=parts.services,
        kernel_words=parts.kernel_words,
        kernel_modules=parts.kernel_modules,
        tool_outputs=parts.tool_outputs,
        software=_software(version, library, parts),
        environment=software.environment(),
        nccl_conf=conf,
        nccl_choices=(choice,),
        data_path=data_path.predict(
            found_interfaces,
            rdma_ports=parts.rdma_ports,
            settings=settings,
            plugin=str(plugin) if plugin else None,
            rdma_missing=no_verbs,
            version=version,
        ),
        readiness=ready,
        congestion_control=sysfs.text(PROC / "sys/net/ipv4/tcp_congestion_control"),
        placements=_placements(ranks, local_ranks),
        mapped_libraries=libraries.mapped(),
        error_counters=parts.error_counters,
        unreadable=unreadable,
    )


def _software(version: str | None, library: Path | None, parts: hardware.Hardware) -> Software:
    """The driver's version is NVML's where /proc is another's (a container)."""
    found = software.read(nccl=version, nccl_library=str(library) if library else None)
    return msgspec.structs.replace(
        found, driver=found.driver or parts.driver, cuda_driver=parts.cuda_driver
    )


def _loader_path() -> dict[str, str]:
    path = os.environ.get("LD_LIBRARY_PATH")
    return {"LD_LIBRARY_PATH": path} if path else {}


def own_name() -> str:
    """The name that this host gives itself."""
    return printable(socket.gethostname())


def identity(name: str) -> str:
    """What tells hosts apart when names do not: the kernel's boot and the network namespace."""
    return f"{_boot_id() or name}/{_network_namespace() or name}"


def _boot_id() -> str | None:
    return sysfs.text(PROC / "sys/kernel/random/boot_id")


def _network_namespace() -> str | None:
    """Inode number of this process's network namespace: what tells two containers apart."""
    try:
        return str((PROC / "self/ns/net").stat().st_ino)
    except OSError:
        return None


def _placements(ranks: Sequence[int], local_ranks: Sequence[int]) -> tuple[RankPlacement, ...]:
    if len(ranks) != 1:
        return ()
    return (placement.read(ranks[0], local_ranks[0] if local_ranks else 0),)


def printable(name: str) -> str:
    """A host name as it may stand in a table: what does not print becomes "?"."""
    shown = "".join(letter if letter.isprintable() else "?" for letter in name.strip())
    return shown or "(no name)"


def label_hosts(hosts: Sequence[HostFacts]) -> tuple[HostFacts, ...]:
    """One record per host, in node-rank order, each with a `host` label of its own.

    Records of one identity (boot id and network namespace) are one host with all their ranks.
    The second host of a name becomes "name#2".
    """
    by_identity: dict[str, list[HostFacts]] = {}
    for facts in sorted(hosts, key=_order):
        by_identity.setdefault(facts.identity, []).append(facts)
    labelled = []
    taken = {printable(facts.hostname) for facts in hosts}
    seen: set[str] = set()
    for same in by_identity.values():
        merged = _merge(same)
        label = name = printable(merged.hostname)
        number = 1
        while label in seen or (number > 1 and label in taken):
            number += 1
            label = f"{name}#{number}"
        seen.add(label)
        labelled.append(msgspec.structs.replace(merged, host=label))
    return tuple(labelled)


def _order(facts: HostFacts) -> tuple[int, int]:
    return facts.node_rank, min(facts.ranks, default=0)


def _merge(same: Sequence[HostFacts]) -> HostFacts:
    """The first record of a host, with the ranks, placements and libraries of all."""
    first = same[0]
    gpus_by_uuid = {gpu.uuid or str(gpu.index): gpu for facts in same for gpu in facts.gpus}
    return msgspec.structs.replace(
        first,
        ranks=tuple(sorted({rank for facts in same for rank in facts.ranks})),
        placements=tuple(
            sorted((p for facts in same for p in facts.placements), key=lambda p: p.rank)
        ),
        gpus=tuple(sorted(gpus_by_uuid.values(), key=lambda gpu: gpu.index)),
        mapped_libraries=tuple(sorted({m for facts in same for m in facts.mapped_libraries})),
        unreadable={k: v for facts in reversed(same) for k, v in facts.unreadable.items()},
    )
