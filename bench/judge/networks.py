"""A report, indexed the way the judge asks: who was chosen, who was expected, who worked.

In: a Report with hosts, candidates, preflight and lines. Out: `Networks`, which answers questions
about one candidate or host without judging. The default's own path is what was measured to carry
bytes where that is known, else what NCCL's rules predict (they are kept apart by `basis`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from bench.judge import carried, expected
from bench.judge.ratio import busbw, faster
from bench.records import (
    Candidate,
    CostLine,
    FabricNetwork,
    HostFacts,
    Interface,
    Interval,
    NcclChoice,
    PreflightPair,
    Report,
)

OTHER_TRANSPORTS = ("rdma", "plugin")
BROKEN_OUTCOMES = ("unreachable", "hung", "failed")
# A carrier moves at least this share of a session's bytes. Control traffic of our own is 0.05 % of
# a 100 Mbit/s network; two interfaces that share channels evenly carry half each, eight an eighth.
CARRIER_SHARE = 0.05


@dataclass(frozen=True)
class Networks:
    """Questions about one report."""

    report: Report

    @cached_property
    def hosts(self) -> dict[str, HostFacts]:
        return {facts.host: facts for facts in self.report.hosts}

    @property
    def several_hosts(self) -> bool:
        return len(self.report.hosts) > 1

    @cached_property
    def default(self) -> Candidate | None:
        return next((c for c in self.report.candidates if c.kind == "default"), None)

    @cached_property
    def networks(self) -> tuple[Candidate, ...]:
        return tuple(c for c in self.report.candidates if c.kind == "network")

    @cached_property
    def collectives(self) -> tuple[str, ...]:
        """Collectives that have lines, in the plan's order, so the first is the headline."""
        planned = self.report.plan.settings.collectives if self.report.plan else ()
        seen = dict.fromkeys((*planned, *(line.collective for line in self.report.lines)))
        return tuple(name for name in seen if any(x.collective == name for x in self.report.lines))

    @cached_property
    def _lines(self) -> dict[tuple[str, str], CostLine]:
        return {(line.candidate, line.collective): line for line in self.report.lines}

    def line(self, candidate: Candidate, collective: str) -> CostLine | None:
        return self._lines.get((candidate.name, collective))

    def speed(self, candidate: Candidate, collective: str) -> Interval | None:
        """busbw in 1e9 bytes/s at large sizes, None where it was not measured."""
        line = self.line(candidate, collective)
        return busbw(line) if line else None

    def ratio(self, fast: Candidate, slow: Candidate, collective: str) -> Interval | None:
        """How many times faster `fast` is at large sizes; None where either was not measured."""
        a, b = self.line(fast, collective), self.line(slow, collective)
        return faster(a, b) if a and b else None

    # ------------------------------------------------------------------ what NCCL would do

    def choice(self, host: str) -> NcclChoice | None:
        """NCCL's choice with the environment as it is."""
        facts = self.hosts.get(host)
        choices = facts.nccl_choices if facts else ()
        return next((choice for choice in choices if choice.setting is None), None)

    def setting(self, host: str) -> tuple[str | None, str | None]:
        """The value of NCCL_SOCKET_IFNAME in force on a host, and where it comes from."""
        facts = self.hosts[host]
        value = facts.environment.get("NCCL_SOCKET_IFNAME")
        if value is not None:
            return value, "environment"
        for conf in facts.nccl_conf:
            if "NCCL_SOCKET_IFNAME" in conf.settings:
                return conf.settings["NCCL_SOCKET_IFNAME"], conf.path
        return None, None

    def predicted(self, host: str) -> tuple[str, ...]:
        """Interfaces that carry a host's data with the environment as it is, by NCCL's rules."""
        facts = self.hosts.get(host)
        told = facts.data_path if facts else None
        if told is not None and told.transport in OTHER_TRANSPORTS:
            return carried.port_names(facts, told.interfaces)
        if told is not None and told.interfaces:
            return told.interfaces
        if self.default and host in self.default.interfaces:
            return parts(self.default.interfaces[host])
        return ()

    def basis(self, host: str) -> Literal["measured", "predicted"]:
        """Whether `path` is "measured": bytes of the default case's data were counted over NCCL.
        Over gloo that case runs on the predicted interfaces: that it used them shows only that
        gloo does as it is told."""
        return "measured" if self._measured_paths.get(host) else "predicted"

    @cached_property
    def _measured_paths(self) -> dict[str, tuple[str, ...]]:
        default = self.default
        if default is None or self.report.backend != "nccl":
            return {}
        shares = {host: self.shares(default, host) for host in self.hosts}
        return {
            host: tuple(name for name, share in own.items() if share >= CARRIER_SHARE)
            for host, own in shares.items()
        }

    def path(self, host: str) -> tuple[str, ...]:
        """Interfaces, or RDMA ports by the names that candidates use, that carry a host's data in
        the default case, on the basis `basis`."""
        return self._measured_paths.get(host) or self.predicted(host)

    def meets(self, candidate: Candidate) -> tuple[str, ...]:
        """Hosts whose NCCL holds its bootstrap on this candidate."""
        found = []
        for host, name in candidate.interfaces.items():
            choice = self.choice(host)
            if choice and choice.bootstrap in parts(name):
                found.append(host)
        return tuple(found)

    def carries(self, candidate: Candidate) -> tuple[str, ...]:
        """Hosts whose default data path includes this candidate's interface or port."""
        return tuple(
            host
            for host, name in candidate.interfaces.items()
            if set(parts(name)) & set(self.path(host))
        )

    def chosen(self, candidate: Candidate) -> bool:
        """Whether the default case needs this network, for meeting or for data."""
        return bool(self.meets(candidate) or self.carries(candidate))

    def needed(self, candidate: Candidate) -> bool:
        """Whether jobs depend on it: NCCL takes it, or the operator means it for data."""
        return self.chosen(candidate) or candidate in self.data_networks

    def bears(self, candidate: Candidate) -> bool:
        """Whether its speed is that of jobs: their data goes over it, or the operator means it
        for data. Where NCCL only meets, slowness harms nobody."""
        return bool(self.carries(candidate)) or candidate in self.data_networks

    def matters(self, candidate: Candidate) -> bool:
        """Whether slowness there is worth waking someone: it bears data, or is the best there is
        where no fabric file says what each network is for."""
        unknown = self.report.fabric is None and candidate is self.best
        return self.bears(candidate) or unknown

    @cached_property
    def other_transport(self) -> str | None:
        """The kind, rdma or plugin, where NCCL's data leaves the sockets behind on some host."""
        for facts in self.report.hosts:
            if facts.data_path and facts.data_path.transport in OTHER_TRANSPORTS:
                return facts.data_path.transport
        return None

    # ------------------------------------------------------------------ what was expected

    def expected(self, candidate: Candidate) -> FabricNetwork | None:
        return expected.network_of(candidate, self.report.fabric)

    @cached_property
    def data_networks(self) -> tuple[Candidate, ...]:
        """Candidates that the fabric file calls data; empty without a fabric file."""
        matched = [(c, self.expected(c)) for c in self.networks]
        return tuple(c for c, network in matched if network and network.role == "data")

    @cached_property
    def best(self) -> Candidate | None:
        """The fastest measured network that joins all hosts; of the fabric's data networks where
        one of them works: a storage network may be faster and still is not NCCL's."""
        return self._fastest(self.networks)

    @cached_property
    def best_socket(self) -> Candidate | None:
        """The best of those that NCCL can meet on: what settings of a socket name are about."""
        return self._fastest([c for c in self.networks if c.transport == "socket"])

    def _fastest(self, networks: Sequence[Candidate]) -> Candidate | None:
        whole = [c for c in networks if c.outcome == "measured" and self.joins_all(c)]
        data = [c for c in whole if c in self.data_networks]
        speeds = [(self._headline(c), -at, c) for at, c in enumerate(data or whole)]
        return max(speeds, key=lambda entry: entry[:2])[2] if speeds else None

    def joins_all(self, candidate: Candidate) -> bool:
        return not candidate.ranks and set(self.hosts) <= set(candidate.interfaces)

    def _headline(self, candidate: Candidate) -> float:
        for collective in self.collectives:
            speed = self.speed(candidate, collective)
            if speed is not None:
                return speed.value
        return 0.0

    # ------------------------------------------------------------------ what was seen

    def pairs(self, candidate: Candidate) -> tuple[PreflightPair, ...]:
        return tuple(p for p in self.report.preflight if p.candidate == candidate.name)

    def interface(self, host: str, name: str) -> Interface | None:
        facts = self.hosts.get(host)
        return next((i for i in facts.interfaces if i.name == name), None) if facts else None

    def members(self, candidate: Candidate) -> list[tuple[str, Interface]]:
        """(host, interface) of a candidate, as far as the facts know them."""
        found = []
        for host, names in candidate.interfaces.items():
            for name in parts(names):
                interface = self.interface(host, name)
                if interface is not None:
                    found.append((host, interface))
        return found

    def shares(self, candidate: Candidate, host: str) -> dict[str, float]:
        """Share of the bytes of a candidate's sessions that each interface of a host carried, and
        each RDMA port where data leaves the sockets. Empty where nothing tells."""
        facts = self.hosts.get(host)
        kept = carried.by_interface(facts, candidate.carried.get(host, {}))
        path = facts.data_path if facts and candidate.kind == "default" else None
        if (path.transport if path else candidate.transport) in OTHER_TRANSPORTS:
            ports = self._port_bytes.get((candidate.name, host), Counter())
            kept = carried.beside_sockets(facts, kept, ports, self._moved_bytes[candidate.name])
        total = sum(kept.values())
        return {name: count / total for name, count in kept.items()} if total else {}

    @cached_property
    def _port_bytes(self) -> dict[tuple[str, str], Counter[str]]:
        return carried.port_bytes(self.hosts, self.report.sessions)

    @cached_property
    def _moved_bytes(self) -> Counter[str]:
        return carried.moved_bytes(self.report.sessions)


def parts(names: str) -> tuple[str, ...]:
    """The interfaces of "mgmt0+data0"."""
    return tuple(name for name in names.split("+") if name)


def interfaces_of(candidate: Candidate, host: str) -> set[str]:
    """The interfaces that a candidate uses on a host."""
    return set(parts(candidate.interfaces.get(host, "")))
