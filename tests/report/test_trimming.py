"""report.json stays small, and what is left out of it never reads as a measured zero."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from bench.facts.rdma import ERROR_COUNTERS, HARDWARE_COUNTERS
from bench.plan.rounds import factorisation
from bench.records import (
    Candidate,
    HostEvidence,
    HostFacts,
    InterfaceCounters,
    Interval,
    Location,
    PairFigure,
    PairRound,
    PairTime,
    RankOutcome,
    RankPlacement,
    Report,
    Session,
    Suspect,
)
from bench.report import stored, trimming

QUIET = dict.fromkeys(ERROR_COUNTERS + HARDWARE_COUNTERS[:19], 0)
MATRIX = "\n".join("GPU0\t" + "NV18\t" * 18 + "0-47,96-143\t0\t\tN/A" for _ in range(18))


def hgx_host(real: HostFacts, made: HostFacts, number: int) -> HostFacts:
    """A fake host of eight GPUs and eight RDMA ports, with ranks and interfaces."""
    return msgspec.structs.replace(
        real, host=f"node{number}", hostname=f"node{number}", node_rank=number,
        ranks=tuple(range(8 * number, 8 * number + 8)), interfaces=made.interfaces * 3,
        software=made.software, environment=made.environment, nccl_choices=made.nccl_choices,
        tool_outputs={"nvidia-smi topo -m": MATRIX},
        rdma_ports=tuple(
            msgspec.structs.replace(port, counters={**port.counters, **QUIET})
            for port in real.rdma_ports
        ),
        placements=tuple(
            RankPlacement(
                rank=8 * number + i, local_rank=i, cpus="0-47,96-143", numa_nodes=(i // 4,), gpu=i
            )
            for i in range(8)
        ),
    )  # fmt: skip


def evidence(host: str, **more: Any) -> HostEvidence:
    data = dict.fromkeys(("port_xmit_data", "port_rcv_data"), 123_456_789)
    return HostEvidence(
        host=host,
        interfaces={f"ens{i}f0np0": InterfaceCounters(rx_bytes=10**8 + i) for i in range(6)},
        tcp_segments_out=1000, tcp_retransmits=0,
        rdma={f"mlx5_{i}:1": data for i in range(8)},
        gpu_clocks_mhz={"gpu0-7.sm": (1980, 1980)},
        unreadable={"xid": "/dev/kmsg: Operation not permitted"},
        nccl_log=tuple(f"{host}:71:71 [0] NCCL INFO Channel {n:02d}/0 : 0[0]" for n in range(60)),
        **more,
    )  # fmt: skip


@pytest.fixture(scope="module")
def large(gpu_hosts: dict[str, HostFacts], made: Any) -> Report:
    """Four hosts of eight GPUs, 24 candidates (networks, rails, three paths a host) with three
    sessions each, two collectives, eleven sizes: the quick plan where nothing was cut."""
    pattern = made.misselected
    hosts = tuple(hgx_host(gpu_hosts["healthy"], pattern.hosts[0], n) for n in range(4))
    names = [f"candidate-{n}" for n in range(24)]
    session = pattern.sessions[0]
    sessions = tuple(
        msgspec.structs.replace(
            session,
            case=msgspec.structs.replace(session.case, candidate=name, number=3 * n + turn),
            ranks=tuple(
                RankOutcome(rank=r, host=f"node{r // 8}", outcome="ok", phase="end", start_s=0.07)
                for r in range(32)
            ),
            hosts=tuple(evidence(host.host) for host in hosts),
        )
        for turn in range(3)
        for n, name in enumerate(names)
    )
    lines = [line for line in pattern.lines if line.collective in ("all_reduce", "all_gather")][:2]
    return msgspec.structs.replace(
        pattern, hosts=hosts, sessions=sessions,
        candidates=tuple(
            Candidate(
                name=name, kind="network", outcome="measured",
                interfaces={host.host: "ens1f0np0" for host in hosts},
                carried={host.host: {"ens1f0np0": 10**9, "mlx5_0:1": 10**9} for host in hosts},
            )
            for name in names
        ),
        lines=tuple(
            msgspec.structs.replace(line, candidate=name) for name in names for line in lines
        ),
    )  # fmt: skip


def test_four_hosts_of_eight_gpus_stay_below_300_kb(large: Report) -> None:
    content = stored.encode(large)
    assert len(content) <= 300_000
    again = msgspec.json.decode(content, type=Report)
    assert len(again.hosts) == 4 and len(again.hosts[3].gpus) == 8
    assert again.hosts[3].gpus[7].serial == large.hosts[3].gpus[7].serial
    assert again.hosts[2].gpu_pairs == large.hosts[2].gpu_pairs
    assert again.hosts[2].pci_devices == large.hosts[2].pci_devices
    assert [len(line.points) for line in again.lines] == [11] * 48
    assert len(again.sessions) == 72


def test_rounding_is_finer_than_any_measurement(large: Report) -> None:
    again = msgspec.json.decode(stored.encode(large), type=Report)
    for before, after in zip(large.lines, again.lines, strict=True):
        for old, new in zip(before.points, after.points, strict=True):
            assert new.time_s == pytest.approx(old.time_s, rel=1e-5)
            assert new.size_bytes == old.size_bytes
        assert after.points[0].noisy == before.points[0].noisy


def test_what_others_read_of_the_file_stands_there_in_its_shortest_form_too(
    large: Report,
) -> None:
    content = json.loads(stored.encode(large))
    assert content["candidates"][0]["default_choice"] is False
    point = content["lines"][0]["points"][0]
    assert {"size_bytes", "time_s", "low_s", "high_s", "algbw_gbs", "busbw_gbs"} <= set(point)
    assert content["hosts"][0]["gpus"][0]["nvlinks_active"] == 18


def test_equal_tables_stand_once(large: Report) -> None:
    texts = [h.tool_outputs["nvidia-smi topo -m"] for h in stored.trimmed(large).hosts]
    assert texts == [MATRIX, *["as on node0"] * 3]


def ill(session: Session, **changes: Any) -> Session:
    first = msgspec.structs.replace(session.hosts[0], **changes)
    return msgspec.structs.replace(session, hosts=(first, *session.hosts[1:]))


@pytest.mark.parametrize(
    "moved",
    [
        {"error_counters": {"xid79@0000:17:00": 1}},
        {"throttled_s": {"gpu0.power": 1.5}},
        {"changed": {"gpu0.nvlinks_active": (18, 16)}},
        {"tcp_retransmits": 40},
        {"rdma": {"mlx5_0:1": {"port_xmit_data": 7, "out_of_sequence": 3}}},
        {"throttle_reasons": ("gpu0: hardware slowdown",)},
    ],
)
def test_what_moved_is_kept_at_every_level(large: Report, moved: dict[str, Any]) -> None:
    report = msgspec.structs.replace(large, sessions=(ill(large.sessions[-1], **moved),) * 2)
    for trim in trimming.TRIMS:
        for session in trimming.trimmed(report, trim).sessions:
            kept = next(host for host in session.hosts if host.host == "node0")
            ((name, value),) = moved.items()
            told = getattr(kept, name)
            if name == "rdma":
                assert told["mlx5_0:1"]["out_of_sequence"] == 3
            else:
                assert told == value


def test_a_session_that_went_wrong_keeps_its_ranks_and_bytes(large: Report) -> None:
    hung = msgspec.structs.replace(large.sessions[5], outcome="hung")
    report = msgspec.structs.replace(large, sessions=(*large.sessions[:5], hung))
    last = trimming.trimmed(report, trimming.TRIMS[-1]).sessions[-1]
    assert len(last.ranks) == 32
    assert last.hosts[0].interfaces and last.hosts[0].rdma["mlx5_0:1"]["port_xmit_data"]


def test_a_report_without_defaults_is_read_as_the_whole_one(made: Any) -> None:
    for name in ("healthy", "misselected", "hung", "unreachable"):
        report = trimming.trimmed(getattr(made, name))
        again = msgspec.json.decode(stored._dense(report), type=Report)
        rounded = msgspec.json.decode(
            json.dumps(rounded_floats(stored.plain(report))), type=Report
        )
        assert again == rounded


def test_when_a_session_began_is_kept_to_the_millisecond(made: Any) -> None:
    times = (1764499454.123456, 1764499999.9996)
    sessions = tuple(
        msgspec.structs.replace(made.healthy.sessions[0], started_at=time) for time in times
    )
    report = msgspec.structs.replace(made.healthy, sessions=sessions)
    again = msgspec.json.decode(stored._dense(report), type=Report)
    assert [s.started_at for s in again.sessions] == [1764499454.123, 1764500000.0]


def rounded_floats(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {
            key: round(item, 3) if key == "started_at" else rounded_floats(item)
            for key, item in value.items()
        }
    return [rounded_floats(item) for item in value] if isinstance(value, list) else value


# -------------------------------------------------------------------------------------- pairs


def mapped(hosts: int) -> Location:
    """Every pair of so many hosts, three repetitions each; the last host is slow."""
    names = tuple(f"node{n:04d}" for n in range(hosts))
    one = PairTime(forward_s=0.0351234567, backward_s=0.03512345, both_s=0.0342, latency_s=6.1e-5)
    figures = tuple(
        PairFigure(
            round=number, stage="map", hosts=(names[a], names[b]), size_bytes=2**21,
            times=(one,) * 3,
        )
        for number, pairs in enumerate(factorisation(hosts))
        for a, b in pairs
    )  # fmt: skip
    rounds = tuple(
        PairRound(
            number=number, stage="map", repeats=3,
            pairs=tuple(f.hosts for f in figures[number * (hosts // 2):][: hosts // 2]),
        )
        for number in range(hosts - 1)
    )  # fmt: skip
    slow = Suspect(
        host=names[-1], slowdown=Interval(value=2.0, low=2.0, high=2.0),
        deciding=tuple(f.hosts for f in figures if names[-1] in f.hosts),
    )  # fmt: skip
    return Location(
        hosts=names, candidate="data", size_bytes=2**21, rounds=rounds, figures=figures,
        reference_s=0.035, suspects=(slow,),
    )  # fmt: skip


def test_a_map_of_few_hosts_is_kept_whole() -> None:
    location = mapped(16)
    short = trimming.trimmed(Report(run="r", verdict="healthy", location=location))
    assert short.location == location


def test_a_map_of_many_hosts_keeps_what_decided_and_says_how_much_it_keeps() -> None:
    location = mapped(128)
    report = Report(
        run="r", verdict="degraded", location=location,
        hosts=tuple(
            HostFacts(host=name, hostname=name, identity=name) for name in location.hosts
        ),
    )  # fmt: skip
    content = stored.encode(report)
    assert len(content) <= stored.BUDGET_BYTES + stored.BUDGET_BYTES_PER_HOST * 124
    kept = msgspec.json.decode(content, type=Report).location
    assert kept is not None and kept.suspects == location.suspects
    assert {f.hosts for f in kept.figures} >= set(location.suspects[0].deciding)
    assert len(kept.figures) < len(location.figures)
    assert kept.notes[-1].endswith("of 8,128 pairs are listed")
    numbers = [figure.round for figure in kept.figures]
    assert numbers == sorted(numbers)


def test_pairs_that_hung_are_never_left_out() -> None:
    location = mapped(128)
    hung = msgspec.structs.replace(
        location.figures[-1], outcome="hung", times=(), reason="no progress in init"
    )
    location = msgspec.structs.replace(location, figures=(*location.figures[:-1], hung))
    report = Report(run="r", verdict="broken", location=location)
    for trim in trimming.TRIMS:
        short = trimming.trimmed(report, trim).location
        assert short is not None and hung in short.figures
