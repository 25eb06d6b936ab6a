"""What NCCL logs show, one sentence each: version, where it meets, what carries the data.

In: a Dossier. Out: sentences without judgement, hosts that say the same told together. NCCL's own
log is the witness: "asked" in the words of this project.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import PurePath

from bench.judge.words import listed
from bench.records import Dossier, LogCommunicator, LogProcess, NcclLog

SHOWN = 4  # communicators told by themselves
LOGS_SHOWN = 32  # a job has a log per rank: beyond, they are read and judged, not told
# Of the lines "MNNVL busId … fabric UUID … cliqueId … state … healthMask …", what names a domain;
# NVML's GpuFabricState 3 is "completed".
MNNVL = {"uuid": "fabric", "cliqueId": "clique", "state": "state"}
COMPLETE = "3"
LOOPBACK = "lo"
PLUGINS = {
    "used": "is used",
    "not-found": "was not found, no fault: NCCL's own networks count",
    "failed": "was loaded, but failed",
    "loaded": "was loaded",
}


def sentences(dossier: Dossier) -> Iterator[str]:
    """Per log: versions, bootstrap, network, plugin, then each communicator."""
    several = len(dossier.logs) > 1
    for log in dossier.logs[:LOGS_SHOWN]:
        file = f"{PurePath(log.file).name}: " if several else ""
        for sentence in _log(log):
            yield f"{file}{sentence}"
    if len(dossier.logs) > LOGS_SHOWN:
        yield f"{len(dossier.logs) - LOGS_SHOWN:,} more logs"


def _log(log: NcclLog) -> Iterator[str]:
    if log.versions:
        yield f"{log.flavour.upper()} {listed(log.versions)}"
    yield from _by_host(log.processes, _bootstrap)
    yield from _by_host(log.processes, _network)
    yield from _by_host(log.processes, _plugin)
    yield from _fabric(log)
    told = Counter(filter(None, map(_communicator, log.communicators)))
    for words, number in list(told.items())[:SHOWN]:
        yield f"{number} communicators of {words}" if number > 1 else words
    if len(told) > SHOWN:
        yield f"{sum(list(told.values())[SHOWN:]):,} more communicators"


def _by_host(
    processes: Iterable[LogProcess], words: Callable[[LogProcess], str | None]
) -> Iterator[str]:
    """The same words of several hosts are one sentence; what another process of the host says
    more fully is none."""
    told: dict[str, list[str]] = {}
    alone = len({process.host for process in processes}) == 1
    for process in processes:
        said = words(process)
        if said:
            told.setdefault(said, []).append(process.host)
    for said, where in told.items():
        fuller = (told[other] for other in told if other.startswith(f"{said}; "))
        if any(set(where) <= set(hosts) for hosts in fuller):
            continue
        yield said if alone else f"{said} on {listed(sorted(where))}"


def _bootstrap(process: LogProcess) -> str | None:
    met = process.bootstrap
    if met is None:
        return None
    only = " (right within one host only)" if met.name == LOOPBACK else ""
    return f"NCCL meets (bootstrap) on {met.name}{only}"


def _network(process: LogProcess) -> str | None:
    names = [net.name for net in process.nets if _is_of(net.network, process.network)]
    if process.network is None:
        return f"NCCL's networks: {listed(names)}" if names else None
    devices = f"; its devices: {listed(names)}" if names else ""
    return f"NCCL took the network {process.network}{devices}"


def _is_of(network: str, used: str | None) -> bool:
    """Sockets are listed beside RDMA devices; once a network is chosen only its own count."""
    return used is None or network.lower() == used.lower()


def _plugin(process: LogProcess) -> str | None:
    if process.plugin is None or process.plugin_outcome is None:
        return None
    return f"network plugin {process.plugin} {PLUGINS[process.plugin_outcome]}"


def _fabric(log: NcclLog) -> Iterator[str]:
    """Multi-node NVLink: one fabric and clique for all GPUs, or several."""
    told = [process.fabric for process in log.processes if process.fabric]
    words = []
    for key, name in MNNVL.items():
        values = list(dict.fromkeys(fabric[key] for fabric in told if key in fabric))
        if values:
            words.append(f"{name}{'' if len(values) == 1 else 's'} {listed(values)}")
    if words:
        complete = all(fabric.get("state") == COMPLETE for fabric in told)
        state = ", registration complete" if complete else ""
        yield f"multi-node NVLink (MNNVL): {', '.join(words)}{state}"


def _communicator(communicator: LogCommunicator) -> str:
    ranks = communicator.ranks or len(communicator.members)
    hosts = {member.host for member in communicator.members}
    if not ranks:
        return ""
    words = [f"{ranks} rank{'s' * (ranks > 1)}"]
    if communicator.nodes:
        words.append(f"{communicator.nodes} node{'s' * (communicator.nodes > 1)} (NCCL's count)")
    elif hosts:
        words.append(f"{len(hosts)} host{'s' * (len(hosts) > 1)} in the log")
    done = sum(member.completed for member in communicator.members)
    started = sum(member.started for member in communicator.members)
    if started or done:
        words.append(f"{done} of {max(started, done)} initialised")
    if communicator.nvls:
        words.append("NVLS (NVLink SHARP)")
    carriers = _carriers(communicator)
    return ", ".join(words) + (f": {carriers}" if carriers else "")


def _carriers(communicator: LogCommunicator) -> str:
    """ "NET/IB (32, GDRDMA), P2P/CUMEM (112)": edges by what carries them."""
    counts: Counter[str] = Counter()
    for carrier, number in communicator.carriers.items():
        parts = carrier.split("/")
        device = len(parts) > 2 and parts[0] == "NET"
        counts["/".join([*parts[:2], *parts[3:]] if device else parts)] += number
    return ", ".join(f"{carrier} ({number:,})" for carrier, number in counts.most_common(SHOWN))
