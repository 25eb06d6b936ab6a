"""Host names that stand for several machines: every image of a cloud may be called "ubuntu".

In: the processes, communicators and events of one job. Out: the names that its own lines prove to
be shared. Only ranks of one communicator are compared, as runs of different days may follow each
other in a file. A name that nothing speaks against is taken for one host.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from bench.judge.foreign import addresses
from bench.records import LogCommunicator, LogEvent, LogMember, LogNet, LogProcess

DUPLICATE = ("Duplicate GPU detected", "using the same GPU")
# With this one GPU has several ranks by the user's choice.
SEVERAL_A_GPU = "NCCL_MULTI_RANK_GPU_ENABLE"

Places = dict[tuple[str, int], str]


def shared_names(
    processes: Sequence[LogProcess],
    communicators: Sequence[LogCommunicator],
    events: Sequence[LogEvent],
) -> frozenset[str]:
    """Names under which two machines speak, by their addresses or by their GPUs' buses."""
    places = {(process.host, process.pid): _places(process) for process in processes}
    groups: dict[str, list[LogCommunicator]] = {}
    for group in communicators:
        groups.setdefault(group.id, []).append(group)
    if not groups:
        return frozenset(_by_address(places.items()))
    alone = _several_a_gpu(processes, events)
    found: set[str] = set()
    for parts in groups.values():
        if any(part.nodes == 1 for part in parts):
            continue
        members = [member for part in parts for member in part.members if member.host]
        ids = dict.fromkeys((member.host, member.pid) for member in members)
        found |= _by_address((one, places[one]) for one in ids if one in places)
        if _ran(parts) and not alone:
            found |= _by_bus(members)
    return frozenset(found)


def _places(process: LogProcess) -> Places:
    """Interface and IP version -> the address, the first where several are told."""
    firsts: Places = {}
    for net in _nets(process):
        address = addresses.address(net)
        if address is not None:
            firsts.setdefault((net.name, address.version), str(address))
    return firsts


def _by_address(processes: Iterable[tuple[tuple[str, int], Places]]) -> set[str]:
    """Names whose processes have different addresses of one family on one interface: NCCL takes
    the first address of each, which is the same for all processes of a machine."""
    seen: dict[tuple[str, str, int], str] = {}
    found = set()
    for (host, _), places in processes:
        for (name, version), address in places.items():
            if host and seen.setdefault((host, name, version), address) != address:
                found.add(host)
    return found


def _nets(process: LogProcess) -> Iterator[LogNet]:
    met = (net for net in (process.bootstrap, process.oob) if net is not None)
    sockets = (net for net in process.nets if net.network == "Socket")
    return chain(met, process.bootstrap_candidates, sockets)


def _ran(parts: Iterable[LogCommunicator]) -> bool:
    """Whether it came past the point at which NCCL refuses two ranks on one GPU."""
    return any(part.edges or any(m.completed for m in part.members) for part in parts)


def _several_a_gpu(processes: Iterable[LogProcess], events: Iterable[LogEvent]) -> bool:
    """Whether ranks may share a GPU; RCCL numbers the partitions of one as it likes."""
    return any(words in event.text for event in events for words in DUPLICATE) or any(
        process.flavour == "rccl" or process.environment.get(SEVERAL_A_GPU, "0") != "0"
        for process in processes
    )


def _by_bus(members: Iterable[LogMember]) -> set[str]:
    """Names under which different ranks have a GPU on the same bus; by NVML's number where no bus
    is told. CUDA's own number is 0 in every process that sees one GPU only."""
    seen: dict[tuple[str, str], set[int]] = {}
    for member in members:
        gpu = member.bus_id
        if gpu is None and member.nvml_device is not None:
            gpu = f"NVML {member.nvml_device}"
        if gpu is not None:
            seen.setdefault((member.host, gpu), set()).add(member.rank)
    return {host for (host, _), ranks in seen.items() if len(ranks) > 1}
