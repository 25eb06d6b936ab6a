"""All that is known of this host before anything is measured, and one label per host.

In: this machine. Out: `HostFacts`; what a container, missing rights or missing hardware hides is
in `unreadable` with the reason. `gather` takes about 0.3 s where NVML starts at once, never raises
for a missing thing and sends nothing on the network.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from pathlib import Path

import msgspec

from bench.facts import (
    data_path,
    errors,
    gpus,
    interfaces,
    libraries,
    nccl,
    nccl_conf,
    placement,
    rdma,
    routes,
    software,
    sysfs,
)
from bench.facts.nvml import NvmlReader
from bench.records import HostFacts, RankPlacement

PROC = Path("/proc")


def gather(
    *,
    hostname: str | None = None,
    node_rank: int = 0,
    ranks: Sequence[int] = (),
    local_ranks: Sequence[int] = (),
    ask_nccl: bool = True,
    nvml: NvmlReader | None = None,
) -> HostFacts:
    """Facts of this host. `ranks` are the global ranks to stand for, `local_ranks` likewise.

    A CPU mask is known for the calling process only, so a placement is recorded when it stands
    for one rank; the merger unites the ranks of a host.
    """
    name = printable(hostname if hostname is not None else socket.gethostname())
    found_interfaces, unreadable = interfaces.read()
    ports, more = rdma.read()
    unreadable |= more
    found_gpus, more = gpus.read(nvml)
    unreadable |= more
    conf, more = nccl_conf.read()
    unreadable |= more
    counters = errors.collect(ports, found_gpus)
    if software.driver() is not None:
        xids, more = errors.xid()
        counters |= xids
        unreadable |= more
    library = libraries.find_nccl() if ask_nccl else None
    choice = nccl.choose(None, found_interfaces, library=library, asking=ask_nccl)
    if ask_nccl and library is None:
        unreadable["nccl"] = "no libnccl found: NCCL's choice is predicted, not asked"
    elif ask_nccl and choice.basis == "predicted":
        unreadable["nccl"] = choice.line or "libnccl gave no answer"
    version = choice.nccl_version
    settings = nccl_conf.effective(os.environ, conf)
    plugin = libraries.find_plugin({**settings, **_loader_path()})
    boot = sysfs.text(PROC / "sys/kernel/random/boot_id")
    namespace = _network_namespace()
    if boot is None or namespace is None:
        unreadable["identity"] = "no boot id or network namespace in /proc: told apart by name"
    return HostFacts(
        host=name,
        hostname=name,
        identity=f"{boot or name}/{namespace or name}",
        node_rank=node_rank,
        ranks=tuple(ranks),
        boot_id=boot,
        cores=os.cpu_count() or 0,
        interfaces=found_interfaces,
        routes=routes.defaults(),
        rdma_ports=ports,
        gpus=found_gpus,
        software=software.read(nccl=version, nccl_library=str(library) if library else None),
        environment=software.environment(),
        nccl_conf=conf,
        nccl_choices=(choice,),
        data_path=data_path.predict(
            found_interfaces,
            rdma_ports=ports,
            settings=settings,
            plugin=str(plugin) if plugin else None,
            rdma_missing=libraries.verbs_missing() if ports else None,
            version=version,
        ),
        congestion_control=sysfs.text(PROC / "sys/net/ipv4/tcp_congestion_control"),
        placements=_placements(ranks, local_ranks),
        mapped_libraries=libraries.mapped(),
        error_counters=counters,
        unreadable=unreadable,
    )


def _loader_path() -> dict[str, str]:
    path = os.environ.get("LD_LIBRARY_PATH")
    return {"LD_LIBRARY_PATH": path} if path else {}


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
