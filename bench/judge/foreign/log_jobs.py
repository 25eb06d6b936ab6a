"""One run's logs as one job: its processes, hosts, edges, events, whether it has several hosts.

In: NcclLogs that belong together (log_runs). Out: a Job that answers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property

from bench.judge.foreign import log_hosts
from bench.judge.foreign.addresses import Net, is_loopback
from bench.records import (
    LogCommunicator,
    LogEdge,
    LogEvent,
    LogMember,
    LogProcess,
    LogQuote,
    NcclLog,
)

ROLES = {"fault": 0, "retry": 1, "consequence": 2, "remark": 3}
# "connect to X returned …, retrying" of 2.24 and its older words: a connection that fails.
CONNECTION = re.compile(
    r"[Cc]onnect(?:ing)? to |Call to connect |connect to address|no route to host", re.IGNORECASE
)
VERBS = "ibv_"  # of ibv_modify_qp and its like
_PEER = re.compile(r"(?:[Cc]onnect to|peer|from) ([0-9A-Fa-f:.]{3,45}(?:%[\w.-]{1,32})?)<\d{1,5}>")


class Told:
    """One process and the file that told of it."""

    def __init__(self, log: NcclLog, process: LogProcess) -> None:
        self.log, self.process = log, process

    def quote(self, topic: str) -> LogQuote | None:
        return self.process.quotes.get(topic)

    def place(self, topic: str) -> tuple[str, int | None]:
        """File and line of the line that proves a topic; the process's first where none does."""
        quote = self.quote(topic)
        return self.log.file, quote.line if quote else self.process.line or None


class Job:
    """One run's logs."""

    def __init__(self, logs: Sequence[NcclLog]) -> None:
        self.logs = tuple(logs)
        self._ranks_hosts: dict[int, dict[int, str]] = {}  # by communicator record

    @cached_property
    def told(self) -> tuple[Told, ...]:
        return tuple(Told(log, process) for log in self.logs for process in log.processes)

    @cached_property
    def hosts(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(host for log in self.logs for host in log.hosts))

    @cached_property
    def communicators(self) -> tuple[tuple[NcclLog, LogCommunicator], ...]:
        return tuple((log, group) for log in self.logs for group in log.communicators)

    @cached_property
    def edges(self) -> tuple[tuple[NcclLog, LogEdge], ...]:
        return tuple((log, edge) for log, group in self.communicators for edge in group.edges)

    @cached_property
    def events(self) -> tuple[LogEvent, ...]:
        """Of all files, the first fault first; in time where every fault has one."""
        events = [event for log in self.logs for event in log.events]
        times = [event.time for event in events if event.role == "fault"]
        timed = bool(times) and all(times) and len({len(time or "") for time in times}) == 1
        if len(self.logs) == 1:
            return tuple(events)
        return tuple(
            sorted(events, key=lambda e: (ROLES[e.role], (e.time or "") if timed else ""))
        )

    @cached_property
    def faults(self) -> tuple[LogEvent, ...]:
        return tuple(event for event in self.events if event.role == "fault")

    @cached_property
    def members(self) -> dict[tuple[str, int], tuple[NcclLog, LogMember]]:
        """(communicator, rank) -> what all files together tell of it."""
        found: dict[tuple[str, int], tuple[NcclLog, LogMember]] = {}
        for log, group in self.communicators:
            for member in group.members:
                found.setdefault((group.id, member.rank), (log, member))
        return found

    @cached_property
    def formed(self) -> bool:
        """Whether a communicator of several ranks was initialised, by its own word."""
        return any(
            member.completed
            for _, group in self.communicators
            if (group.ranks or 2) > 1
            for member in group.members
        )

    @cached_property
    def failed_connections(self) -> tuple[LogEvent, ...]:
        """Over IP sockets: a queue pair of RDMA says nothing of where the ranks meet."""
        return tuple(
            event
            for event in self.events
            if event.role in ("fault", "retry")
            and CONNECTION.search(event.text)
            and VERBS not in event.text
        )

    @cached_property
    def shared_names(self) -> frozenset[str]:
        """Host names that stand for several machines."""
        return log_hosts.shared_names(
            [told.process for told in self.told],
            [group for _, group in self.communicators],
            self.events,
        )

    @cached_property
    def several_hosts(self) -> bool:
        """Whether the job has ranks on other hosts: by the hosts that speak, by NCCL's count of
        nodes, or because this host's ranks are too few. NCCL counts GPUs that share no memory as
        nodes of their own, so its count alone says nothing where all ranks are seen here."""
        if self.shared_names:
            return True
        if len(self.hosts) > 1:
            return not self._each_alone
        for _, group in self.communicators:
            here = len(group.members)
            if (group.nodes or 1) > 1 and (group.ranks is None or here < group.ranks):
                return True
        return any(
            edge.transport == "NET" and not self.both_here(group, edge)
            for _, group in self.communicators
            for edge in group.edges
        )

    @cached_property
    def one_host(self) -> bool:
        """Whether all ranks are proven to be on one host: by a group that is whole here, NCCL's
        count of nodes, or channels within the host. An excerpt that shows no group proves
        nothing."""
        if self.several_hosts:
            return False
        for _, group in self.communicators:
            if group.nodes == 1 or group.ranks in (1, len(group.members)):
                return True
            if any(edge.transport in ("P2P", "SHM") for edge in group.edges):
                return True
        return False

    @cached_property
    def _each_alone(self) -> bool:
        """Several runs of one host each in one file: every communicator is whole on one host."""
        if not self.members:
            return False
        hosts: dict[str, list[str]] = {}
        for (name, _), (_, member) in self.members.items():
            hosts.setdefault(name, []).append(member.host)
        sizes = {group.id: group.ranks for _, group in self.communicators}
        return all(
            len(set(found)) == 1 and sizes[name] == len(found) for name, found in hosts.items()
        )

    @cached_property
    def refused_on_loopback(self) -> bool:
        """A rank that meets on loopback and is refused has its peer on another host."""
        speakers = {(event.host, event.pid) for event in self.failed_connections}
        return any(
            told.process.bootstrap is not None
            and is_loopback(told.process.bootstrap)
            and (told.process.host, told.process.pid) in speakers
            for told in self.told
        )

    def both_here(self, group: LogCommunicator, edge: LogEdge) -> bool:
        """Whether both ends are proven to be on one machine."""
        hosts = self._hosts_of(group)
        source = hosts.get(edge.source)
        return (
            source is not None
            and source == hosts.get(edge.destination)
            and source not in self.shared_names
        )

    def _hosts_of(self, group: LogCommunicator) -> dict[int, str]:
        found = self._ranks_hosts.get(id(group))
        if found is None:
            found = {member.rank: member.host for member in group.members}
            self._ranks_hosts[id(group)] = found
        return found

    def socket_nets(self, host: str) -> tuple[Net, ...]:
        """The NET/Socket devices of a host, in NCCL's order."""
        best: tuple[Net, ...] = ()
        for told in self.told:
            if told.process.host == host:
                nets = tuple(net for net in told.process.nets if net.network == "Socket")
                nets = nets or told.process.bootstrap_candidates
                best = nets if len(nets) > len(best) else best
        return best

    def setting(self, name: str) -> tuple[str, str] | None:
        """A variable's value in the log, and a host that has it."""
        for told in self.told:
            if name in told.process.environment:
                return told.process.environment[name], told.process.host
        return None


def peer_of(event: LogEvent) -> str | None:
    """The address that a message names as the other end."""
    match = _PEER.search(event.text)
    return match[1] if match else None


def met_on(job: Job) -> list[tuple[Told, Net]]:
    """Every process that says where it meets."""
    return [(told, net) for told in job.told if (net := told.process.bootstrap) is not None]
