"""What RDMA a job has at hand and does not use: plugins, ports, devices that are closed to it.

In: a Job, one of its processes whose data sockets carry, and the dossier. Out: a Reason, the words
and the lines that prove them. A plugin that nobody asked for and that finds no device is the
weakest: one vendor's images load theirs on every host.
"""

from __future__ import annotations

from bench.judge.foreign import addresses
from bench.judge.foreign.log_jobs import Job, Told
from bench.judge.foreign.log_words import event_line, line_of
from bench.judge.words import listed
from bench.records import Dossier, Evidence, LogEvent

# Names of GPUs whose systems are sold with a fast port beside each: NVLink boards and their like.
WITH_RDMA = ("SXM", "HBM3", "H200", "B200", "B300", "GB200", "MI250X", "MI300", "MI325", "H20")
MAYBE = "hosts of"
NOT_OPENED, CLOSED = "Unable to open device", "cannot be opened"
IPOIB = "InfiniBand ports used as IP interfaces"
NO_DEVICE = "found no device: none is there, or the container lacks /dev/infiniband"
# Plugins of networks that NET/IB does not look for: that it finds none says nothing of them.
NOT_VERBS = ("ofi", "libfabric", "fastrak")

Reason = tuple[str, tuple[Evidence, ...]]


def at_hand(job: Job, told: Told, dossier: Dossier) -> Reason | None:
    """What was there and is not used, with the line that says so."""
    process = told.process
    name = process.plugin or "the network plugin"
    if process.plugin_outcome == "failed":
        return f"the plugin {name} was loaded but failed", line_of(told, "plugin-failed", "plugin")
    if process.plugin_outcome == "not-found" and process.plugin_wanted:
        return f"the plugin that is asked for, {name}, was not found", line_of(told, "plugin")
    if process.plugin_outcome == "loaded" and not _sees_no_device(told):
        return f"the plugin {name} was loaded but is not used", line_of(told, "plugin", "network")
    nets = job.socket_nets(process.host)
    fast = [net.name for net in nets if addresses.is_slingshot(net.name)]
    if fast:
        lacking = process.plugin_outcome == "not-found"
        library = f" ({process.plugin} was not found)" if lacking else ""
        return (
            f"{listed(fast)} are Slingshot ports, which need the libfabric plugin{library}",
            line_of(told, "plugin"),
        )
    infiniband = [net.name for net in nets if addresses.is_ipoib(net.name)]
    if infiniband and process.rdma is not True:
        return f"{listed(infiniband)} {'are' if len(infiniband) > 1 else 'is one of'} {IPOIB}", ()
    if process.rdma is True:
        return "NET/IB found RDMA devices", line_of(told, "rdma")
    wanted = process.environment.get("NCCL_IB_HCA")
    if wanted and process.rdma is False:
        return f"NCCL_IB_HCA={wanted} leaves no RDMA device", line_of(told, "no-rdma")
    shut = _not_opened(job, told)
    if shut:
        return f"{shut.text.rpartition(' ')[2]} {CLOSED}", (event_line(shut),)
    active = _ports(dossier, process.host)
    if active:
        return f"{listed(active)} are active RDMA ports", ()
    names = _fast_gpus(dossier, job)
    if names and process.rdma is False:
        return f"{MAYBE} {listed(names)} usually do, and NET/IB found no device", ()
    users = [t for t in job.told if t.process.network not in (None, "Socket")]
    if users:
        other = users[0]
        who = f"{other.process.host} uses {other.process.network}"
        return f"{who} in the same job", line_of(other, "network")
    return None


def _sees_no_device(told: Told) -> bool:
    """A plugin over verbs that nobody asked for, on a host without a verbs device."""
    process = told.process
    other = any(word in (process.plugin or "").lower() for word in NOT_VERBS)
    none = told.quote("no-rdma")
    return (
        process.rdma is False
        and none is not None
        and "No device found" in none.text
        and not process.plugin_wanted
        and not other
    )


def without_device(_job: Job, told: Told, _dossier: Dossier) -> Reason | None:
    """Where nothing else says that RDMA is at hand: a plugin is loaded and has nothing to use."""
    if told.process.plugin_outcome != "loaded" or not _sees_no_device(told):
        return None
    name = told.process.plugin or "the network plugin"
    return f"the plugin {name} was loaded and {NO_DEVICE}", line_of(told, "plugin", "no-rdma")


def _not_opened(job: Job, told: Told) -> LogEvent | None:
    """A device that the driver lists and the process may not use, as in a container."""
    own = (told.process.host or None, told.process.pid or None)
    return next(
        (e for e in job.events if NOT_OPENED in e.text and (e.host, e.pid) == own),
        None,
    )


def _fast_gpus(dossier: Dossier, job: Job) -> list[str]:
    """GPUs of a table in the same file that come in systems with an RDMA port for each."""
    files = {log.file for log in job.logs}
    names = dict.fromkeys(
        device.name
        for table in dossier.tables
        if table.file in files and len(table.hosts) > 1
        for device in table.devices
        if device.name
    )
    return [name for name in names if any(word in name for word in WITH_RDMA)]


def _ports(dossier: Dossier, host: str) -> list[str]:
    """Active RDMA ports of this host, or of the only host whose ports are at hand."""
    own = [ports for ports in dossier.ports if ports.host == host]
    for ports in own or (dossier.ports if len(dossier.ports) == 1 else ()):
        return [f"{p.device}:{p.port}" for p in ports.ports if p.state in ("ACTIVE", None)]
    return []
