"""Reports made by hand: every number in them is invented, every shape is real."""

from __future__ import annotations

import dataclasses
import math

import msgspec
import pytest

from bench.records import (
    Address,
    Candidate,
    Case,
    CostLine,
    Evidence,
    Fabric,
    FabricNetwork,
    Finding,
    HostEvidence,
    HostFacts,
    Interface,
    InterfaceCounters,
    Interval,
    NcclChoice,
    Piece,
    Plan,
    PlanSettings,
    Point,
    PreflightPair,
    RankOutcome,
    Recommendation,
    Report,
    Sample,
    Session,
    Software,
    Where,
)

SIZES = tuple(4096 * 2**step for step in range(11))
RUN = "2026-11-30T10-44-14Z"


def made_host(
    name: str, number: int, *, interfaces: tuple[str, ...] = ("mgmt0", "data0")
) -> HostFacts:
    return HostFacts(
        host=name,
        hostname=name,
        identity=f"boot-{number}",
        node_rank=number,
        ranks=(number,),
        cores=2,
        interfaces=tuple(
            Interface(
                name=interface,
                kind="veth",
                index=at + 2,
                addresses=(
                    Address(
                        family="inet",
                        address=f"10.{at + 1}.{number // 250}.{number % 250 + 1}",
                        prefix_length=16,
                    ),
                ),
                mtu=1500,
                up=True,
                running=True,
                speed_mbit=10000,
            )
            for at, interface in enumerate(interfaces)
        ),
        software=Software(python="3.11.9", torch="2.13.0", nccl="2.32.3", kernel="6.8.0"),
        environment={"OMP_NUM_THREADS": "1"},
        nccl_choices=(
            NcclChoice(
                basis="asked",
                bootstrap=interfaces[0],
                interfaces=interfaces,
                code=0,
                nccl_version="2.32.3",
            ),
        ),
        unreadable={"rdma": "no /sys/class/infiniband here"},
    )


def made_line(
    candidate: str,
    collective: str,
    busbw_gbs: float,
    latency_s: float,
    *,
    ranks: int = 4,
    expected_gbs: float | None = None,
    width: float = 0.003,
) -> CostLine:
    factor = 2 * (ranks - 1) / ranks if collective == "all_reduce" else (ranks - 1) / ranks
    bandwidth = busbw_gbs / factor * 1e9
    points = []
    slower_s = (
        SIZES[4] / bandwidth * (1 / 0.9 - 1)
    )  # below the switch: less latency, less bandwidth
    for size in SIZES:
        time_s = latency_s + size / bandwidth / 0.9
        if size > SIZES[4]:
            time_s = latency_s + slower_s + size / bandwidth
        time_s *= 1 + 0.01 * math.sin(size)
        points.append(
            Point(
                size_bytes=size,
                time_s=time_s,
                low_s=time_s * (1 - width),
                high_s=time_s * (1 + width),
                iterations=30,
                sessions=3,
                algbw_gbs=size / time_s / 1e9,
                busbw_gbs=size / time_s / 1e9 * factor,
                noisy=size < 65536,
            )
        )
    return CostLine(
        candidate=candidate,
        collective=collective,
        ranks=ranks,
        latency_s=Interval(value=latency_s, low=latency_s * 0.99, high=latency_s * 1.01),
        bandwidth_bytes_per_s=Interval(
            value=bandwidth, low=bandwidth * (1 - width), high=bandwidth * (1 + width)
        ),
        busbw_gbs=Interval(
            value=busbw_gbs, low=busbw_gbs * (1 - width), high=busbw_gbs * (1 + width)
        ),
        pieces=(
            Piece(
                from_bytes=SIZES[0],
                to_bytes=SIZES[4],
                latency_s=latency_s,
                bandwidth_bytes_per_s=bandwidth * 0.9,
            ),
            Piece(
                from_bytes=SIZES[4],
                to_bytes=SIZES[-1],
                latency_s=latency_s + slower_s,
                bandwidth_bytes_per_s=bandwidth,
            ),
        ),
        points=tuple(points),
        held_out_error=0.008,
        expected_busbw_gbs=expected_gbs,
        expected_basis=None if expected_gbs is None else "expected",
    )


def made_sessions(
    candidates: tuple[str, ...], hosts: tuple[HostFacts, ...]
) -> tuple[Session, ...]:
    sessions = []
    for number, (session, candidate) in enumerate(
        (session, candidate) for session in range(3) for candidate in candidates
    ):
        sessions.append(
            Session(
                case=Case(number=number, candidate=candidate, session=session),
                outcome="measured",
                phase="end",
                samples=tuple(
                    Sample(collective=name, size_bytes=size, times_s=(0.0011,) * 30)
                    for name in ("all_reduce", "all_gather")
                    for size in SIZES
                ),
                ranks=tuple(
                    RankOutcome(rank=at, host=host.host, outcome="ok", phase="end", start_s=0.07)
                    for at, host in enumerate(hosts)
                ),
                hosts=tuple(
                    HostEvidence(
                        host=host.host,
                        interfaces={"data0": InterfaceCounters(rx_bytes=10**8, tx_bytes=10**8)},
                        nccl_log=("host1:71:71 [0] NCCL INFO Bootstrap: Using mgmt0:10.1.0.1<0>",),
                    )
                    for host in hosts
                ),
                started_at=1.8e9,
                duration_s=2.5,
            )
        )
    return tuple(sessions)


def made_plan(candidates: tuple[str, ...], hosts: int, *, ranks: int | None = None) -> Plan:
    pairs = [(session, name) for session in range(3) for name in candidates]
    return Plan(
        settings=PlanSettings(name="quick"),
        ranks=ranks or hosts,
        hosts=hosts,
        seed=4711,
        sizes_bytes=SIZES,
        cases=tuple(
            Case(number=number, candidate=name, session=session)
            for number, (session, name) in enumerate(pairs)
        ),
        estimate_s=38.0,
    )


def made_candidates(hosts: tuple[HostFacts, ...]) -> tuple[Candidate, ...]:
    def everywhere(interface: str) -> dict[str, str]:
        return {host.host: interface for host in hosts}

    return (
        Candidate(
            name="data",
            kind="network",
            interfaces=everywhere("data0"),
            subnet="10.2.0.0/24",
            outcome="measured",
            carried={h.host: {"data0": 987_654_321, "mgmt0": 123_456} for h in hosts},
        ),
        Candidate(
            name="mgmt",
            kind="network",
            interfaces=everywhere("mgmt0"),
            subnet="10.1.0.0/24",
            outcome="measured",
            carried={h.host: {"mgmt0": 887_654_321, "data0": 0} for h in hosts},
        ),
        Candidate(
            name="docker",
            kind="network",
            interfaces=everywhere("docker0"),
            outcome="unreachable",
            reason="172.17.0.1 is every host's own address",
        ),
        Candidate(
            name="(default)",
            kind="default",
            interfaces=everywhere("mgmt0+data0"),
            devices=2,
            outcome="measured",
            choice_basis="asked",
            carried={h.host: {"mgmt0": 450_000_000, "data0": 450_000_000} for h in hosts},
        ),
    )


def made_misselected() -> Report:
    hosts = tuple(made_host(f"host{number + 1}", number) for number in range(4))
    expected = 0.0603
    lines = []
    for collective in ("all_reduce", "all_gather"):
        lines += [
            made_line("data", collective, 0.0597, 0.00061, expected_gbs=expected),
            made_line("mgmt", collective, 0.0119, 0.00074, width=0.002),
            made_line(
                "(default)", collective, 0.0122, 0.00072, expected_gbs=expected, width=0.004
            ),
        ]
    return Report(
        run=RUN,
        verdict="misconfigured",
        duration_s=41.2,
        labels={"ticket": "OPS-1234"},
        fabric=Fabric(name="lab", network=(FabricNetwork(name="data", interfaces=("data0",)),)),
        hosts=hosts,
        plan=made_plan(("data", "mgmt", "docker", "(default)"), 4),
        candidates=made_candidates(hosts),
        preflight=(
            PreflightPair(candidate="data", source="host1", destination="host2", outcome="ok"),
            PreflightPair(
                candidate="docker",
                source="host1",
                destination="host2",
                outcome="wrong-host",
                address="172.17.0.1",
                detail="answered by host1 itself",
            ),
        ),
        sessions=made_sessions(("data", "mgmt", "(default)"), hosts),
        lines=tuple(lines),
        findings=(
            Finding(
                code="interface-unreachable",
                severity="info",
                where=Where(candidate="docker", interface="docker0"),
                summary="docker0 has the same address on every host and reaches none of them.",
            ),
            Finding(
                code="interface-misselected",
                severity="degraded",
                where=Where(interface="mgmt0", candidate="(default)"),
                summary=(
                    "With nothing set NCCL meets on mgmt0 and spreads its channels over mgmt0 "
                    "and data0, which claim the same speed; the slower sets the pace. data0 "
                    "alone is 4.9 times faster (95 % interval 4.8-5.0) and is what your fabric "
                    "calls data."
                ),
                evidence=(
                    Evidence(
                        basis="asked",
                        text='NCCL 2.32.3 on host1: "Bootstrap: Using mgmt0:10.1.0.1<0>"',
                    ),
                    Evidence(
                        basis="predicted",
                        text="data path mgmt0, data0: equal claims of 10 Gbit/s share channels",
                    ),
                    Evidence(
                        basis="measured",
                        text="with data0 alone, data0 carried 99.9 % of the bytes",
                    ),
                ),
                remedy="export NCCL_SOCKET_IFNAME='=data0'",
                confidence="asked",
            ),
        ),
        recommendation=Recommendation(environment={"NCCL_SOCKET_IFNAME": "=data0"}),
    )


def made_healthy() -> Report:
    report = made_misselected()
    keep = ("data", "(default)")
    return msgspec.structs.replace(
        report,
        verdict="healthy",
        plan=made_plan(keep, 4),
        findings=(),
        recommendation=Recommendation(),
        candidates=tuple(
            msgspec.structs.replace(c, interfaces={h.host: "data0" for h in report.hosts})
            for c in report.candidates
            if c.name in keep
        ),
        lines=tuple(
            made_line(name, collective, 0.0597, 0.00061, expected_gbs=0.0603)
            for collective in ("all_reduce", "all_gather")
            for name in keep
        ),
    )


def made_hung() -> Report:
    report = made_misselected()
    stack = "train.py:141 train_step\nmodel.py:77 forward\n" * 400
    hung = Session(
        case=Case(number=3, candidate="mgmt", session=1),
        outcome="hung",
        phase="midrun",
        reason="rank 2 (host3) stopped answering in all_reduce of 256 KiB",
        ranks=(
            RankOutcome(rank=0, host="host1", outcome="aborted", phase="midrun"),
            RankOutcome(
                rank=2,
                host="host3",
                outcome="hung",
                phase="midrun",
                cell="all_reduce 256 KiB",
                state="T",
                progress_s=9.5,
                stacks=stack,
                log_tail="\x1b[2JNCCL WARN something\n" * 2000,
            ),
        ),
    )
    return msgspec.structs.replace(
        report,
        verdict="broken",
        complete=False,
        missing=("2 of 3 sessions of mgmt: the sweep stopped trying it after rank 2 hung.",),
        sessions=(*report.sessions, hung),
        candidates=tuple(
            msgspec.structs.replace(c, outcome="hung", reason=hung.reason, carried={})
            if c.name == "mgmt"
            else c
            for c in report.candidates
        ),
        lines=tuple(line for line in report.lines if line.candidate != "mgmt"),
        findings=(
            Finding(
                code="hang-midrun",
                severity="broken",
                where=Where(host="host3", rank=2, candidate="mgmt", collective="all_reduce"),
                summary=(
                    "Rank 2 (host3) stopped moving in all_reduce of 256 KiB on mgmt; its process "
                    "is in state T (stopped by a signal), 9.5 s after its last call."
                ),
                evidence=(
                    Evidence(basis="measured", text="ranks 0, 1, 3 waited in the same call"),
                    Evidence(
                        basis="measured", text="its stack: train.py:141 train_step → model.py:77"
                    ),
                ),
                remedy="Look at host3: kill -CONT the process, or find out who stopped it.",
            ),
            Finding(
                code="not-determinable",
                severity="info",
                where=Where(candidate="mgmt"),
                summary="Whether mgmt is slow cannot be said: it has one session.",
                confidence="inferred",
            ),
            Finding(
                code="unsettled",
                severity="warning",
                where=Where(candidate="data", collective="all_gather", size_bytes=4096),
                summary="all_gather of 4 KiB on data did not settle: ±4 % after 30 calls.",
            ),
        ),
        recommendation=Recommendation(),
    )


def made_unreachable() -> Report:
    """Nothing could be measured at all."""
    hosts = (made_host("host1", 0), made_host("host2", 1))
    return Report(
        run=RUN,
        verdict="broken",
        duration_s=9.4,
        complete=False,
        missing=("Nothing was measured: no candidate connects host1 and host2.",),
        hosts=hosts,
        plan=made_plan(("data", "(default)"), 2),
        candidates=(
            Candidate(
                name="data",
                kind="network",
                interfaces={"host1": "data0", "host2": "data0"},
                outcome="unreachable",
                reason="host1 → host2 10.2.0.2: no answer in 2 s (a firewall, or no link)",
            ),
            Candidate(
                name="(default)",
                kind="default",
                interfaces={"host1": "mgmt0", "host2": "mgmt0"},
                outcome="unreachable",
            ),
        ),
        findings=(
            Finding(
                code="interface-unreachable",
                severity="broken",
                where=Where(candidate="(default)", link=("host1", "host2")),
                summary="NCCL chose mgmt0, over which host1 does not reach host2.",
                evidence=(Evidence(basis="asked", text="Bootstrap: Using mgmt0:10.1.0.1<0>"),),
            ),
        ),
    )


def made_thousand() -> Report:
    names = tuple(f"node{number:04d}" for number in range(1000))
    hosts = tuple(
        msgspec.structs.replace(
            made_host(name, at, interfaces=("mgmt0", "ens1f0np0" if at % 2 else "enp65s0f0np0")),
            ranks=tuple(range(at * 8, at * 8 + 8)),
        )
        for at, name in enumerate(names)
    )
    interfaces = {host.host: host.interfaces[1].name for host in hosts}
    candidates = (
        Candidate(
            name="10.2.0.0/16",
            kind="network",
            interfaces=interfaces,
            outcome="measured",
            carried={host: {name: 10**12} for host, name in interfaces.items()},
        ),
        Candidate(name="(default)", kind="default", interfaces=interfaces, outcome="measured"),
    )
    findings = tuple(
        Finding(
            code="interface-no-match",
            severity="broken",
            where=Where(host=name),
            summary=f"NCCL_SOCKET_IFNAME matches nothing on {name}.",
        )
        for name in names[:300]
    )
    slow = Finding(
        code="mtu-mismatch",
        severity="degraded",
        where=Where(hosts=names[:16]),
        summary="16 hosts have MTU 1500 where the others have 9000.",
        remedy="ip link set ens1f0np0 mtu 9000",
    )
    return Report(
        run=RUN,
        verdict="broken",
        duration_s=3725,
        hosts=hosts,
        plan=made_plan(("10.2.0.0/16", "(default)"), 1000, ranks=8000),
        candidates=candidates,
        lines=(
            made_line("10.2.0.0/16", "all_reduce", 362.0, 28.1e-6, ranks=8000),
            made_line("(default)", "all_reduce", 328.0, 28.3e-6, ranks=8000),
        ),
        findings=(slow, *findings),
        recommendation=Recommendation(
            per_host={
                host: {"NCCL_SOCKET_IFNAME": f"={name}"} for host, name in interfaces.items()
            }
        ),
    )


def made_hostile() -> Report:
    """Names that would run as script, move a cursor, turn a line round or end a quote."""
    names = (
        "<script>alert(1)</script>",
        "\x1b[2J\x1b]0;owned\x07evil",
        "a'; touch /tmp/owned; '",
        "\u202egnp.exe\u202c|`id`*_[x](javascript:alert(1))",
        "主机一-very-long-host-name-" + "x" * 200,
    )
    hosts = tuple(
        made_host(name, at, interfaces=("mgmt0", "<b>0")) for at, name in enumerate(names)
    )
    nasty = "<img src=x onerror=alert(2)>"
    candidates = tuple(
        Candidate(
            name=name,
            kind="network",
            interfaces=dict.fromkeys(names, "<b>0"),
            outcome=outcome,
            reason="\x1b[31mred\nsecond line </script><script>alert(3)</script>",
            carried={host: {"<b>0": 5, nasty: 7} for host in names},
        )
        for name, outcome in ((nasty, "measured"), ("</script><script>alert(4)", "unreachable"))
    )
    finding = Finding(
        code="interface-differs",
        severity="degraded",
        where=Where(hosts=names, file="/etc/<i>nccl.conf"),
        summary="Hosts " + ", ".join(names) + " chose different networks.",
        evidence=tuple(
            Evidence(basis="measured", text=f"{name} took\r\nsomething") for name in names
        ),
        remedy="export NCCL_SOCKET_IFNAME='="
        + ",".join(f"enp{n}s0f0np0" for n in range(12))
        + "'",
    )
    return Report(
        run="</title><script>alert(5)</script>",
        verdict="degraded",
        hosts=hosts,
        labels={"<u>": "\x1b[1m"},
        plan=made_plan((nasty,), 5),
        candidates=candidates,
        lines=(made_line(nasty, "all_reduce", 12.3, 1e-5, expected_gbs=12.5),),
        findings=(finding,),
        missing=("\x1b[5m<marquee>",),
        recommendation=Recommendation(
            environment={"NCCL_DEBUG": "it's $(touch /tmp/owned) `id` \\"},
            per_host={name: {"NCCL_SOCKET_IFNAME": f"={at}'"} for at, name in enumerate(names)},
        ),
    )


@dataclasses.dataclass(frozen=True)
class Made:
    """The reports by name."""

    healthy: Report
    misselected: Report
    hung: Report
    unreachable: Report
    thousand: Report
    hostile: Report

    def items(self) -> list[tuple[str, Report]]:
        return [(field.name, getattr(self, field.name)) for field in dataclasses.fields(self)]


@pytest.fixture(scope="session")
def made() -> Made:
    return Made(
        healthy=made_healthy(),
        misselected=made_misselected(),
        hung=made_hung(),
        unreachable=made_unreachable(),
        thousand=made_thousand(),
        hostile=made_hostile(),
    )
