"""Reports made by hand for the judge: small clusters whose truth is known.

`make_scene` gives a Scene: hosts with interfaces on networks, what NCCL would choose on each, and
what was measured. Numbers are invented, shapes are those of a sweep.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import pytest

from bench.judge.catalogue import CATALOGUE
from bench.judge.verdict import judge
from bench.plan.gpu_paths import gpu_paths
from bench.records import (
    SEVERITIES,
    Address,
    Candidate,
    Case,
    CopyCheck,
    CopyFigure,
    CostLine,
    DataPath,
    Fabric,
    FabricNetwork,
    Finding,
    HostEvidence,
    HostFacts,
    Interface,
    Interval,
    NcclChoice,
    NcclConf,
    Plan,
    PlanSettings,
    Point,
    PreflightPair,
    RankOutcome,
    RankPlacement,
    Report,
    Session,
    Software,
)

DEFAULT = "(default)"
PAYLOAD = 1448 / 1514
SIZES = (64 * 1024, 256 * 1024, 1024 * 1024, 4096 * 1024)


def busbw_of(rate_mbit: float) -> float:
    """GB/s of payload of a shaped link."""
    return rate_mbit / 8000 * PAYLOAD


class Scene:
    """A cluster under judgement; every method returns the scene."""

    def __init__(
        self,
        networks: dict[str, float],
        *,
        hosts: int = 4,
        names: dict[str, Sequence[str]] | None = None,
        kinds: dict[str, str] | None = None,
        backend: str = "gloo",
    ) -> None:
        self.names = [f"host{n + 1}" for n in range(hosts)]
        self.backend = backend
        self.rates = networks
        self.interfaces = {
            network: dict(
                zip(self.names, (names or {}).get(network) or [f"{network}0"] * hosts, strict=True)
            )
            for network in networks
        }
        self.candidates: dict[str, Candidate] = {}
        self.lines: list[CostLine] = []
        self.pairs: list[PreflightPair] = []
        self.sessions: list[Session] = []
        self.the_fabric: Fabric | None = None
        self.hosts = {
            host: HostFacts(
                host=host,
                hostname=host,
                identity=f"boot-{host}",
                boot_id=f"boot-{host}",
                node_rank=number,
                ranks=(number,),
                cores=8,
                software=Software(nccl="2.32.3"),
                interfaces=(
                    Interface(name="lo", kind="loopback", index=1, mtu=65536, up=True,
                              running=True, addresses=(_address("127.0.0.1", 8),)),
                    *(
                        Interface(
                            name=self.interfaces[network][host],
                            kind=(kinds or {}).get(network, "veth"),  # type: ignore[arg-type]
                            index=at + 2,
                            mtu=1500,
                            up=True,
                            running=True,
                            speed_mbit=10000,
                            addresses=(_address(f"10.{at + 1}.0.{number + 1}", 24),),
                        )
                        for at, network in enumerate(networks)
                    ),
                ),
            )
            for number, host in enumerate(self.names)
        }  # fmt: skip
        for network in networks:
            self.candidates[network] = Candidate(
                name=network,
                kind="network",
                interfaces=dict(self.interfaces[network]),
                addresses={
                    host: next(
                        i.addresses[0].address
                        for i in facts.interfaces
                        if i.name == self.interfaces[network][host]
                    )
                    for host, facts in self.hosts.items()
                },
                environment={"NCCL_NET": "Socket"},
                outcome="skipped",
            )

    # ------------------------------------------------------------------------- facts

    def facts(self, host: str, **changes: object) -> Scene:
        self.hosts[host] = msgspec.structs.replace(self.hosts[host], **changes)
        return self

    def everywhere(self, **changes: object) -> Scene:
        for host in self.names:
            self.facts(host, **changes)
        return self

    def interface(self, host: str, name: str, **changes: object) -> Scene:
        return self.facts(
            host,
            interfaces=tuple(
                msgspec.structs.replace(i, **changes) if i.name == name else i
                for i in self.hosts[host].interfaces
            ),
        )

    def chooses(
        self,
        *networks: str,
        hosts: Sequence[str] = (),
        basis: str = "asked",
        path: Sequence[str] | None = None,
        transport: str = "socket",
    ) -> Scene:
        """NCCL meets on the first network and spreads data over `path` (default: all of them)."""
        for host in hosts or self.names:
            taken = tuple(self.interfaces.get(n, {}).get(host, n) for n in networks)
            over = taken if path is None else tuple(
                self.interfaces.get(n, {}).get(host, n) for n in path
            )  # fmt: skip
            address = next(
                (i.addresses[0].address for i in self.hosts[host].interfaces
                 if taken and i.name == taken[0] and i.addresses), None,
            )  # fmt: skip
            choice = NcclChoice(
                basis=basis,  # type: ignore[arg-type]
                bootstrap=taken[0] if taken else None,
                address=address,
                interfaces=taken,
                code=0 if taken else 5,
                line=f"Bootstrap: Using {taken[0]}:{address}<0>" if taken else None,
                nccl_version="2.32.3",
            )
            self.facts(
                host,
                nccl_choices=(choice,),
                data_path=DataPath(transport=transport, interfaces=over, why="by its rules"),  # type: ignore[arg-type]
            )
        shown = {
            host: "+".join(facts.data_path.interfaces)
            for host, facts in self.hosts.items()
            if facts.data_path
        }
        old = self.candidates.get(DEFAULT)
        self.candidates[DEFAULT] = Candidate(
            name=DEFAULT, kind="default", interfaces=shown,
            outcome=old.outcome if old else "skipped",
        )  # fmt: skip
        return self

    def sets(self, value: str, *, hosts: Sequence[str] = (), conf: str | None = None) -> Scene:
        for host in hosts or self.names:
            settings = {"NCCL_SOCKET_IFNAME": value}
            if conf is None:
                self.facts(host, environment=settings)
            else:
                self.facts(host, nccl_conf=(NcclConf(path=conf, settings=settings),))
        return self

    def expects(self, *roles: tuple[str, str, float | None], **changes: object) -> Scene:
        """A fabric file: (network, role, Gbit/s)."""
        networks = tuple(
            FabricNetwork(
                name=name,
                role=role,  # type: ignore[arg-type]
                interfaces=tuple(sorted(set(self.interfaces[name].values()))),
                rate_gbps=rate,
            )
            for name, role, rate in roles
        )
        self.the_fabric = Fabric(name="lab", network=networks, **changes)  # type: ignore[arg-type]
        return self

    # ------------------------------------------------------------------------- results

    def outcome(self, name: str, outcome: str, reason: str | None = None, **more: object) -> Scene:
        self.candidates[name] = msgspec.structs.replace(
            self.candidates[name], outcome=outcome, reason=reason, **more
        )
        return self

    def measured(self, name: str, gbs: float, *, spread: float = 0.003, **points: object) -> Scene:
        """Both collectives at `gbs` of bus bandwidth, ± `spread`; own bytes on own interface."""
        candidate = self.candidates[name]
        carried = {
            host: dict.fromkeys(names.split("+"), 10**8) | {"lo": 10**7}
            for host, names in candidate.interfaces.items()
        }
        self.outcome(name, "measured", carried=carried)
        for collective in ("all_reduce", "all_gather"):
            made = [
                Point(
                    size_bytes=size,
                    time_s=size / gbs / 1e9,
                    low_s=size / gbs / 1e9 * (1 - spread),
                    high_s=size / gbs / 1e9 * (1 + spread),
                    iterations=10,
                    sessions=3,
                    algbw_gbs=gbs / 1.5,
                    busbw_gbs=gbs,
                )
                for size in SIZES
            ]
            made[-1] = msgspec.structs.replace(made[-1], **points)
            self.lines.append(
                CostLine(
                    candidate=name,
                    collective=collective,
                    ranks=len(self.names),
                    latency_s=Interval(value=6e-4, low=5e-4, high=7e-4),
                    busbw_gbs=Interval(value=gbs, low=gbs * (1 - spread), high=gbs * (1 + spread)),
                    points=tuple(made),
                )
            )
        return self

    def all_measured(self) -> Scene:
        """Every network at its rate; the default as gloo has it, interfaces taking turns."""
        for network, rate in self.rates.items():
            if rate:
                self.measured(network, busbw_of(rate))
        default = self.candidates.get(DEFAULT)
        if default is not None:
            first = next(iter(default.interfaces.values())).split("+")
            rates = [
                self.rates[n] for n in self.rates if self.interfaces[n][self.names[0]] in first
            ]
            if rates:
                self.measured(DEFAULT, busbw_of(len(rates) / sum(1 / rate for rate in rates)))
        return self

    def probes(
        self, network: str, bad: Callable[[str, str], str | None] = lambda a, b: None
    ) -> Scene:
        """All directed pairs on a network; `bad` gives the outcome of those that fail."""
        candidate = self.candidates[network]
        for source in self.names:
            for destination in self.names:
                if source != destination:
                    self.pairs.append(
                        PreflightPair(
                            candidate=network,
                            source=source,
                            destination=destination,
                            outcome=bad(source, destination) or "ok",  # type: ignore[arg-type]
                            address=candidate.addresses[destination],
                            egress=candidate.interfaces[source],
                        )
                    )
        return self

    def session(
        self,
        name: str,
        outcome: str = "measured",
        *,
        ranks: Sequence[RankOutcome] = (),
        hosts: Sequence[HostEvidence] = (),
        number: int = 0,
        reason: str | None = None,
    ) -> Scene:
        self.sessions.append(
            Session(
                case=Case(number=len(self.sessions), candidate=name, session=number),
                outcome=outcome,  # type: ignore[arg-type]
                ranks=tuple(ranks),
                hosts=tuple(hosts),
                reason=reason,
                duration_s=6.1,
            )
        )
        return self

    def ended(self, default: tuple[str, str], **of_rank: dict[str, object]) -> list[RankOutcome]:
        """All ranks with (outcome, phase) `default`, but those given as r2={...}."""
        ranks = []
        for rank, host in enumerate(self.names):
            own = of_rank.get(f"r{rank}", {})
            fields = {"outcome": default[0], "phase": default[1], **own}
            ranks.append(RankOutcome(rank=rank, host=host, **fields))  # type: ignore[arg-type]
        return ranks

    def report(self, **changes: object) -> Report:
        report = Report(
            run="2026-11-30T10-44-14Z",
            verdict="inconclusive",
            backend=self.backend,  # type: ignore[arg-type]
            fabric=self.the_fabric,
            hosts=tuple(self.hosts.values()),
            plan=Plan(settings=PlanSettings(name="quick"), ranks=len(self.names),
                      hosts=len(self.names)),
            candidates=tuple(self.candidates.values()),
            preflight=tuple(self.pairs),
            sessions=tuple(self.sessions),
            lines=tuple(self.lines),
        )  # fmt: skip
        return msgspec.structs.replace(report, **changes)


def _address(address: str, prefix_length: int) -> Address:
    return Address(family="inet", address=address, prefix_length=prefix_length)


@pytest.fixture
def make_scene() -> type[Scene]:
    return Scene


@pytest.fixture
def misselected() -> Scene:
    """Four hosts; NCCL meets on mgmt0 and shares with data0; the fabric wants data0."""
    scene = Scene({"mgmt": 100, "data": 500}).chooses("mgmt", "data")
    return scene.expects(("data", "data", 0.5)).all_measured()


@pytest.fixture
def healthy() -> Scene:
    """Four hosts; NCCL takes data0 alone."""
    scene = Scene({"mgmt": 100, "data": 500}).chooses("data")
    return scene.expects(("data", "data", 0.5)).all_measured()


# ------------------------------------------------------------------------------------- GPUs


class GpuScene:
    """Hosts with GPUs under judgement, a rank on each GPU, and what NCCL and copies told."""

    def __init__(self, *hosts: HostFacts, fabric: Fabric | None = None) -> None:
        self.fabric = fabric
        self.hosts: list[HostFacts] = []
        for facts in hosts:
            first = sum(len(host.ranks) for host in self.hosts)
            ranks = tuple(first + n for n in range(len(facts.gpus) or 1))
            placements = tuple(
                RankPlacement(rank=rank, local_rank=n, gpu=gpu.index)
                for n, (rank, gpu) in enumerate(zip(ranks, facts.gpus, strict=False))
            )
            self.hosts.append(msgspec.structs.replace(facts, ranks=ranks, placements=placements))
        paths = gpu_paths(self.hosts)
        self.candidates = {c.name: c for c in paths}
        self.candidates[DEFAULT] = Candidate(name=DEFAULT, kind="default")
        self.lines: list[CostLine] = []
        self.sessions: list[Session] = []
        self.checks: dict[str, CopyCheck] = {}

    def facts(self, host: int = 0, **changes: object) -> GpuScene:
        self.hosts[host] = msgspec.structs.replace(self.hosts[host], **changes)
        return self

    def gpu(self, index: int, host: int = 0, **changes: object) -> GpuScene:
        gpus = tuple(
            msgspec.structs.replace(gpu, **changes) if gpu.index == index else gpu
            for gpu in self.hosts[host].gpus
        )
        return self.facts(host, gpus=gpus)

    def every_gpu(self, **changes: object) -> GpuScene:
        for host, facts in enumerate(self.hosts):
            for gpu in facts.gpus:
                self.gpu(gpu.index, host, **changes)
        return self

    def pairs(self, host: int = 0, **changes: object) -> GpuScene:
        return self.facts(
            host,
            gpu_pairs=tuple(
                msgspec.structs.replace(pair, **changes) for pair in self.hosts[host].gpu_pairs
            ),
        )

    def pair(self, a: int, b: int, host: int = 0, **changes: object) -> GpuScene:
        return self.facts(
            host,
            gpu_pairs=tuple(
                msgspec.structs.replace(pair, **changes) if pair.gpus == (a, b) else pair
                for pair in self.hosts[host].gpu_pairs
            ),
        )

    def without_candidates(self) -> GpuScene:
        self.candidates = {}
        return self

    def measured(self, name: str, gbs: float, *, spread: float = 0.01) -> GpuScene:
        """A fitted line of `gbs` in all_reduce, with a session."""
        self.candidates[name] = msgspec.structs.replace(self.candidates[name], outcome="measured")
        self.lines.append(
            CostLine(
                candidate=name,
                collective="all_reduce",
                ranks=8,
                busbw_gbs=Interval(value=gbs, low=gbs * (1 - spread), high=gbs * (1 + spread)),
                points=(
                    Point(size_bytes=2**22, time_s=1e-3, low_s=1e-3, high_s=1e-3, iterations=9,
                          sessions=3, algbw_gbs=gbs, busbw_gbs=gbs),
                ),
            )
        )  # fmt: skip
        return self.session(name)

    def session(
        self, name: str, outcome: str = "measured", ranks: Sequence[RankOutcome] = (),
        evidence: Sequence[HostEvidence] = (),
    ) -> GpuScene:  # fmt: skip
        self.candidates[name] = msgspec.structs.replace(self.candidates[name], outcome=outcome)
        self.sessions.append(
            Session(
                case=Case(number=len(self.sessions), candidate=name, session=0),
                outcome=outcome,  # type: ignore[arg-type]
                ranks=tuple(ranks),
                hosts=tuple(evidence),
            )
        )
        return self

    def log(self, name: str, *lines: str, host: int = 0, gbs: float | None = None) -> GpuScene:
        """What NCCL said on a host in a candidate's session."""
        prefix = f"{self.hosts[host].host}:71:72 [0] NCCL INFO "
        told = tuple(prefix + line for line in lines)
        if gbs is not None:
            self.measured(name, gbs)
        self.session(name, evidence=[HostEvidence(host=self.hosts[host].host, nccl_log=told)])
        return self

    def copies(self, rates: dict[int, float], host: int = 0, **changes: object) -> GpuScene:
        """Copies both ways of these GPUs (index -> GB/s)."""
        made = [
            CopyFigure(
                host=self.hosts[host].host,
                way=way,  # type: ignore[arg-type]
                device=gpu,
                gpu=gpu,
                size_bytes=2**26,
                copies=20,
                bandwidth_gbs=rate,
                least_gbs=rate * 0.98,
                most_gbs=rate * 1.01,
                **changes,  # type: ignore[arg-type]
            )
            for gpu, rate in rates.items()
            for way in ("to-device", "from-device")
        ]
        return self.check(*made, host=host)

    def between(
        self, pairs: dict[tuple[int, int], float], host: int = 0, **changes: object
    ) -> GpuScene:
        """Copies from one GPU to another."""
        made = [
            CopyFigure(
                host=self.hosts[host].host, way="to-peer", device=a, gpu=a, peer_device=b, peer=b,
                size_bytes=2**26, copies=20, bandwidth_gbs=rate, least_gbs=rate, most_gbs=rate,
                **changes,  # type: ignore[arg-type]
            )
            for (a, b), rate in pairs.items()
        ]  # fmt: skip
        return self.check(*made, host=host)

    def check(self, *figures: CopyFigure, host: int = 0, stuck: tuple[int, ...] = ()) -> GpuScene:
        name = self.hosts[host].host
        before = self.checks.get(name, CopyCheck(host=name))
        self.checks[name] = msgspec.structs.replace(
            before, figures=(*before.figures, *figures), stuck=stuck or before.stuck
        )
        return self

    def report(self) -> Report:
        return Report(
            run="2026-11-30T10-44-14Z",
            verdict="inconclusive",
            backend="nccl",
            fabric=self.fabric,
            hosts=tuple(self.hosts),
            plan=Plan(
                settings=PlanSettings(name="quick"), backend="nccl", hosts=len(self.hosts),
                ranks=sum(len(host.ranks) for host in self.hosts),
            ),
            candidates=tuple(self.candidates.values()),
            copies=tuple(self.checks.values()),
            sessions=tuple(self.sessions),
            lines=tuple(self.lines),
        )  # fmt: skip

    def findings(self, *, at_least: str = "info") -> list[Finding]:
        """Those of the room "GPU path", and wrong results; notes of other rooms aside."""
        room = {code for code, entry in CATALOGUE.items() if entry.room == "GPU path"}
        least = SEVERITIES.index(at_least)  # type: ignore[arg-type]
        return [
            finding
            for finding in judge(self.report()).findings
            if finding.code in {*room, "gdr-disabled", "wrong-result"}
            and SEVERITIES.index(finding.severity) >= least
        ]


@pytest.fixture(scope="session")  # a class: nothing of it is shared
def gpu_scene() -> type[GpuScene]:
    return GpuScene
