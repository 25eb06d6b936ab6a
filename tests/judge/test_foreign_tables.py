"""Answers to tables: public ones as their sources say, and faults put into healthy ones."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.formats import nccl_tests
from bench.formats.source import Source
from bench.judge.catalogue import CATALOGUE
from bench.judge.docket import Docket
from bench.judge.foreign import tables
from bench.records import (
    CollectiveTable,
    CostLine,
    Dossier,
    Fabric,
    FabricBusbw,
    FabricGpus,
    FabricNetwork,
    Finding,
    LogProcess,
    NcclLog,
    TableAnswer,
    TableDevice,
    TableRow,
    TableTime,
)

DATA = Path(__file__).resolve().parents[1] / "data" / "nccl_tests"
SERIOUS = ("degraded", "broken")


@cache
def read(name: str) -> tuple[CollectiveTable, ...]:
    return nccl_tests.read(Source.open(DATA / name))


@cache
def lines_of(name: str) -> tuple[CostLine, ...]:
    return tables.lines(Dossier(tables=read(name)))


def judge(
    *those: CollectiveTable, fabric: Fabric | None = None, **more: object
) -> tuple[tuple[TableAnswer, ...], tuple[Finding, ...]]:
    docket = Docket()
    # Lines take the most time: public tables' are fitted once, the others need none.
    public = {table.file for table in those} - {"t"}
    fitted = lines_of(Path(public.pop()).name) if public else ()
    answers = tables.judge(Dossier(tables=those, **more), docket, fabric, fitted)
    assert len(answers) == len(those)
    assert all(finding.code in CATALOGUE for finding in docket.findings)
    return answers, docket.findings


def serious(findings: tuple[Finding, ...]) -> list[Finding]:
    return [finding for finding in findings if finding.severity in SERIOUS]


def devices(name: str, hosts: int, per_host: int) -> tuple[TableDevice, ...]:
    return tuple(
        TableDevice(
            rank=host * per_host + gpu,
            host=f"host{host}",
            pid=1000 + host * per_host + gpu,
            device=gpu,
            bus_id=f"0000:{16 + 8 * gpu:02x}:00",
            name=name,
        )
        for host in range(hosts)
        for gpu in range(per_host)
    )


def made(
    plateau_gbs: float,
    *,
    gpu: str = "NVIDIA H100 80GB HBM3",
    hosts: int = 2,
    per_host: int = 8,
    last: int = 33,
    collective: str = "all_reduce",
    shape: dict[int, float] | None = None,
    **more: object,
) -> CollectiveTable:
    """A healthy curve that levels off at `plateau_gbs`; `shape` slows sizes (powers of two)."""
    ranks = hosts * per_host
    share = 2 * (ranks - 1) / ranks if collective == "all_reduce" else (ranks - 1) / ranks
    rows = []
    for power in range(10, last + 1):
        size = 2**power
        time_s = 25e-6 + size * share / (plateau_gbs * 1e9)
        time_s *= (shape or {}).get(power, 1.0)
        algbw = size / time_s / 1e9
        half = TableTime(
            time_s=time_s, algbw_gbs=algbw, busbw_gbs=round(algbw * share, 2), wrong=0
        )
        rows.append(
            TableRow(
                size_bytes=size,
                count=size // 4,
                dtype="float",
                out_of_place=half,
                in_place=half,
                line=power,
            )
        )
    listed = devices(gpu, hosts, per_host)
    values = {
        "file": "t",
        "line": 1,
        "last_line": 99,
        "collective": collective,
        "program": f"{collective}_perf",
        "ranks": ranks,
        "ranks_basis": "listed",
        "hosts": tuple(f"host{host}" for host in range(hosts)),
        "devices": listed,
        "rows": tuple(rows),
    }
    return CollectiveTable(**{**values, **more})


# Public tables, as their sources answer them.

HEALTHY = [
    ("h100-2-hosts-all_reduce.txt", ["DGX/HGX H100"]),
    ("h100-8-and-2-hosts-all_reduce.txt", ["DGX/HGX H100", "DGX/HGX H100"]),
    ("a100-all_reduce-old-columns.log", ["DGX/HGX A100"]),
    ("a100-all_gather-old-columns.log", ["DGX/HGX A100"]),
    ("a100-reduce-old-columns.log", ["DGX/HGX A100"]),
    ("gb200-nvl72.txt", ["GB200 NVL72"]),
]


@pytest.mark.parametrize(("name", "systems"), HEALTHY)
def test_healthy_tables_are_called_normal_with_the_share_reached(
    name: str, systems: list[str]
) -> None:
    answers, findings = judge(*read(name))
    assert not findings
    assert [answer.system for answer in answers] == systems
    for answer in answers:
        assert answer.notes[0].startswith("normal: ")
        assert 0.95 < answer.share < 1.05
        assert not answer.reasons


@pytest.mark.parametrize(
    "name", ["rtx5090-2-ranks-one-gpu.log", "h100-nvl-switch-at-650k.txt", "mi250x-all_reduce.txt"]
)
def test_without_an_expectation_only_the_shape_is_judged(name: str) -> None:
    (answer,), findings = judge(*read(name))
    assert answer.expected_busbw_gbs is None
    assert answer.share is None
    assert answer.notes[0].startswith("no expectation known: ")
    assert not serious(findings)


def test_ranks_that_share_a_gpu_are_named_as_the_reason_for_no_expectation() -> None:
    (answer,), _ = judge(*read("rtx5090-2-ranks-one-gpu.log"))
    assert "share [0000:02:00] of hostA" in answer.notes[0]


def test_two_hosts_may_exceed_the_wire_and_are_told_why() -> None:
    (answer,), findings = judge(*read("h100-2-hosts-all_reduce.txt"))
    assert not findings
    (note,) = [note for note in answer.notes if "exceeds" in note]
    assert "rightly" in note
    assert "400 GB/s of 8 × 400 Gbit/s" in note


def test_an_average_over_all_rows_is_said_to_mislead() -> None:
    (answer,), _ = judge(*read("h100-2-hosts-all_reduce.txt"))
    assert answer.average_busbw_gbs == 139.56
    (note,) = [note for note in answer.notes if "misleads" in note]
    assert "8 bytes to 17179869184 bytes (16 GiB)" in note


def test_one_off_rows_are_notes_with_both_times() -> None:
    (answer,), _ = judge(*read("h100-2-hosts-all_reduce.txt"))
    (note,) = [note for note in answer.notes if note.startswith("one-off")]
    assert "8 bytes out-of-place 68.52 µs against 24.7 µs" in note
    assert "256 bytes out-of-place 94.4 µs against 25.9 µs" in note
    assert any("small messages take about 24.9" in note for note in answer.notes)


def test_two_jobs_in_one_file_are_no_before_and_after() -> None:
    (first, second), findings = judge(*read("h100-8-and-2-hosts-all_reduce.txt"))
    assert (first.ranks, first.hosts, second.ranks, second.hosts) == (64, 8, 16, 2)
    (note,) = [note for note in second.notes if "no before and after" in note]
    assert "64 ranks on 8 hosts there, 16 ranks on 2 hosts here" in note
    (row,) = [note for note in first.notes if note.startswith("one-off")]
    assert (
        "8388608 bytes (8 MiB) out-of-place 1272 µs against 321.4 µs in-place (4.0 times)" in row
    )
    assert any("1073741824 bytes (1 GiB)" in note and "5 %" in note for note in first.notes)
    assert not findings


def test_a_third_of_what_such_hosts_reach_is_below_expectation_with_reasons_to_check() -> None:
    (answer,), findings = judge(*read("h100-2-hosts-slow-srun-labels.txt"))
    (finding,) = serious(findings)
    assert finding.code == "below-expectation"
    assert answer.share == pytest.approx(0.33, abs=0.01)
    assert len(answer.reasons) >= 4
    assert all("Check: " in reason for reason in answer.reasons)
    assert "3 of 8 ports" in answer.reasons[0]
    assert any("GPUDirect" in reason for reason in answer.reasons[:3])
    assert any("7-14 % lower from 536870912 bytes" in note for note in answer.notes)
    assert any("not checked (N/A)" in note for note in answer.notes)


def test_a_hole_is_found_with_its_sizes_and_leaves_the_plateau_alone() -> None:
    (answer,), findings = judge(*read("mi250x-all_gather-hole.txt"))
    (finding,) = serious(findings)
    assert (finding.code, finding.kind) == ("bandwidth-collapse", "hole")
    assert (finding.where.from_bytes, finding.where.to_bytes) == (2**21, 2**23)
    assert finding.where.collective == "all_gather"
    assert "24-66 times as long" in finding.summary
    assert answer.plateau_busbw_gbs == pytest.approx(92.5, abs=0.3)
    assert answer.peak_busbw_gbs == 92.74


def test_a_dip_is_a_warning_at_its_size() -> None:
    _, findings = judge(*read("mi250x-all_reduce.txt"))
    (finding,) = findings
    assert (finding.code, finding.severity) == ("bandwidth-collapse", "warning")
    assert finding.where.size_bytes == 2**23


def test_a_collapse_to_the_end_names_the_first_bad_size_and_what_was_lost() -> None:
    (answer,), findings = judge(*read("tcp-100g-collapse.txt"))
    (finding,) = serious(findings)
    assert (finding.code, finding.kind) == ("bandwidth-collapse", "collapse")
    assert finding.where.from_bytes == 33554432
    assert "5.21 GB/s at 16777216 bytes" in finding.summary
    assert answer.peak_busbw_gbs == 5.21
    assert any("not a line" in note for note in answer.notes)


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("h100-nvl-switch-at-650k.txt", 500_000, 600_000),
        ("h100-nvl-switch-at-1050k.txt", 700_000, 1_000_000),
    ],
)
def test_a_switch_that_comes_too_late_is_a_warning_for_the_sizes_before_it(
    name: str, low: int, high: int
) -> None:
    _, (finding,) = judge(*read(name))
    assert (finding.severity, finding.kind) == ("warning", "late-switch")
    assert (finding.where.from_bytes, finding.where.to_bytes) == (low, high)
    assert "-i 100000" in finding.remedy


def test_a_tail_tells_that_rows_are_missing_and_a_program_that_printed_nothing() -> None:
    (answer,), (finding,) = judge(*read("2080ti-tail-then-nothing.txt"))
    assert answer.collective == "all_gather"
    assert 21 <= answer.plateau_busbw_gbs <= 22
    (note,) = [note for note in answer.notes if note.startswith("the printed average")]
    assert "6.6972" in note
    assert "12.74" in note
    assert (finding.code, finding.severity, finding.kind) == (
        "not-determinable",
        "warning",
        "hang",
    )
    assert finding.summary.startswith("broadcast_perf was started after this table")


def test_two_programs_of_one_rank_are_no_two_node_run() -> None:
    answers, (finding,) = judge(*read("built-without-mpi.txt"))
    assert finding.code == "launcher-world-size"
    assert finding.where.hosts == ("hostB", "hostA")
    assert finding.where.ranks == (0, 0)
    assert "make MPI=1 MPI_HOME=" in finding.remedy
    assert all(answer.plateau_busbw_gbs is None for answer in answers)


def test_one_rank_has_no_busbw_and_that_is_no_fault() -> None:
    (answer,), findings = judge(*read("one-rank.txt"))
    assert not findings
    assert answer.average_busbw_gbs == 0
    assert "0 by definition" in answer.notes[0]


# Faults put into a healthy table, and what is none.


def test_wrong_elements_are_a_broken_result_with_the_first_bad_size() -> None:
    table = made(467)
    bad = msgspec.structs.replace(table.rows[14].out_of_place, wrong=512)
    rows = [
        msgspec.structs.replace(row, out_of_place=bad) if at in (14, 15) else row
        for at, row in enumerate(table.rows)
    ]
    _, findings = judge(msgspec.structs.replace(table, rows=tuple(rows), out_of_bounds=1024))
    (finding,) = serious(findings)
    assert (finding.code, finding.severity) == ("wrong-result", "broken")
    assert (finding.where.from_bytes, finding.where.to_bytes) == (2**24, 2**25)
    assert "1,024 wrong elements" in finding.summary
    assert any("FAILED" in evidence.text for evidence in finding.evidence)


def test_out_of_bounds_alone_is_wrong_too() -> None:
    _, findings = judge(made(467, out_of_bounds=3))
    assert [finding.code for finding in findings] == ["wrong-result"]


@pytest.mark.parametrize(("error", "found"), [(5e-7, False), (1e-3, False), (3.0, True)])
def test_old_tables_tell_wrong_data_by_the_size_of_the_error(error: float, found: bool) -> None:
    table = made(467)
    half = msgspec.structs.replace(table.rows[3].in_place, wrong=None, error=error)
    rows = tuple(msgspec.structs.replace(row, in_place=half) for row in table.rows[:4])
    table = msgspec.structs.replace(table, rows=(*rows, *table.rows[4:]))
    _, findings = judge(table)
    assert ("wrong-result" in [finding.code for finding in findings]) is found
    _, findings = judge(msgspec.structs.replace(table, out_of_bounds=0))
    assert not findings, "the program itself said OK"


def test_a_failure_of_the_program_is_told_with_its_words() -> None:
    table = made(467, complete=False, failure="Test NCCL failure: unhandled system error")
    _, findings = judge(table)
    assert [finding.code for finding in findings] == ["measurement-failed"]
    assert "unhandled system error" in findings[0].evidence[0].text


def test_a_table_without_its_end_is_noted_and_not_accused() -> None:
    (answer,), findings = judge(made(467, complete=False))
    assert not findings
    assert any(note.startswith("cut off after 8589934592 bytes") for note in answer.notes)


def test_devices_and_no_row_may_be_a_hang_and_are_said_to_decide_nothing() -> None:
    (answer,), (finding,) = judge(made(467, rows=(), complete=False))
    assert (finding.code, finding.severity, finding.kind) == ("not-determinable", "info", "hang")
    assert answer.plateau_busbw_gbs is None


def test_single_rank_tables_of_several_hosts_are_one_launch_gone_wrong() -> None:
    alone = [
        CollectiveTable(
            file="t",
            line=at,
            last_line=at + 9,
            ranks=1,
            ranks_basis="listed",
            hosts=(f"host{at}",),
            devices=(TableDevice(rank=0, host=f"host{at}", pid=at, device=0),),
        )
        for at in range(3)
    ]
    _, (finding,) = judge(*alone)
    assert finding.code == "launcher-world-size"
    assert finding.summary.startswith("3 independent runs of a single rank on host0, host1")


def test_the_same_single_rank_test_run_again_is_no_launch_gone_wrong() -> None:
    alone = CollectiveTable(
        file="t",
        line=1,
        last_line=9,
        ranks=1,
        ranks_basis="listed",
        hosts=("host0",),
        devices=(TableDevice(rank=0, host="host0", pid=7, device=0),),
    )
    again = msgspec.structs.replace(alone, line=20)
    _, findings = judge(alone, again)
    assert not findings


def test_whole_hosts_that_ran_apart_are_warned_of_and_still_judged() -> None:
    apart = made(467, hosts=1, runs=2)
    (answer,), findings = judge(apart)
    assert [(finding.code, finding.severity) for finding in findings] == [
        ("launcher-world-size", "warning")
    ]
    assert answer.plateau_busbw_gbs == pytest.approx(467, rel=0.01)


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("mpirun -np 16 -H a,b ./all_reduce_perf -b 8 -e 8G", False),
        ("mpirun -np 32 -H a,b ./all_reduce_perf -b 8 -e 8G", True),
        ("mpirun --host a,b ./all_reduce_perf -b 8 -n 100", False),
        ("./all_reduce_perf -b 8 -e 8G -n 200 -g 8", False),
        ("srun --ntasks=32 -c 12 ./all_reduce_perf", True),
        ("srun -n 16 ./all_reduce_perf -n 100", False),
    ],
)
def test_fewer_ranks_than_processes_started_are_a_miscount(command: str, found: bool) -> None:
    _, findings = judge(made(467, command=command))
    assert ("launcher-world-size" in [finding.code for finding in findings]) is found


@pytest.mark.parametrize("plateau_gbs", [467, 455, 400])
def test_within_the_tolerance_of_a_public_number_nothing_is_found(plateau_gbs: float) -> None:
    _, findings = judge(made(plateau_gbs))
    assert not findings


def test_somewhat_below_a_public_number_is_a_warning_and_far_below_is_degraded() -> None:
    _, (some,) = judge(made(340))
    assert (some.code, some.severity) == ("below-expectation", "warning")
    _, (far,) = judge(made(120))
    assert (far.code, far.severity) == ("below-expectation", "degraded")


def test_an_eighth_of_the_ports_is_named_first_where_the_figure_fits_it() -> None:
    (answer,), _ = judge(made(46))
    assert answer.reasons[0].startswith("as much as 1 of 8 ports of 400 Gbit/s")


def test_a_figure_of_sockets_names_sockets_first() -> None:
    (answer,), _ = judge(made(8))
    assert answer.reasons[0].startswith("TCP sockets instead of RDMA")


def test_inside_a_host_a_ring_names_nvls_first_and_pcie_names_pcie() -> None:
    (ring,), (finding,) = judge(made(360, hosts=1))
    assert ring.reasons[0].startswith("NVLink SHARP (NVLS) is off")
    assert finding.severity == "warning"
    (pcie,), (finding,) = judge(made(45, hosts=1))
    assert pcie.reasons[0].startswith("PCIe carries it instead of NVLink")
    assert finding.severity == "degraded"


def test_one_cause_is_one_finding_where_the_curve_collapses() -> None:
    slow = dict.fromkeys(range(28, 34), 5.0)
    (answer,), findings = judge(made(467, shape=slow))
    assert [finding.code for finding in serious(findings)] == ["bandwidth-collapse"]
    assert "see bandwidth-collapse" in answer.notes[0]


def test_a_table_that_ends_while_busbw_rises_accuses_nobody() -> None:
    (answer,), findings = judge(made(467, last=24))
    assert not findings
    assert answer.notes[0].startswith("not held against it")


@pytest.mark.parametrize("name", ["NCCL_ALGO=Tree", "NCCL_P2P_DISABLE=1", "NCCL_NVLS_ENABLE=0"])
def test_a_forced_setting_is_the_first_reason_and_no_finding(name: str) -> None:
    (answer,), findings = judge(made(120, command=f"mpirun -np 16 -x {name} ./all_reduce_perf"))
    assert not findings
    assert answer.reasons[0].startswith(name)


def test_a_ring_forced_over_two_hosts_is_held_against_the_ports() -> None:
    """Maintainers ask for it: 46-48 GB/s a port of 400 Gbit/s is what they want to see."""
    ring = "mpirun -np 16 -x NCCL_ALGO=RING ./all_reduce_perf"
    (answer,), findings = judge(made(375, command=ring))
    assert not findings
    assert answer.notes[0].startswith("normal: ")
    assert "99.5 % of the 376.6 GB/s of a ring over 400 GB/s" in answer.notes[0]
    (answer,), (finding,) = judge(made(150, command=ring))
    assert (finding.code, finding.severity) == ("below-expectation", "warning")
    assert answer.reasons[0].startswith("as much as 3 of 8 ports")


def test_what_a_ring_would_give_names_the_ring_first() -> None:
    (answer,), _ = judge(made(350))
    assert answer.reasons[0].startswith("Ring instead of NVLSTree")


@pytest.mark.parametrize(
    "proof",
    [
        {"command": "mpirun -np 16 -x NCCL_IB_DISABLE=1 ./all_reduce_perf"},
        {"environment": {"NCCL_NET": "Socket"}},
    ],
)
def test_a_run_over_sockets_is_held_against_no_rdma_number(proof: dict[str, object]) -> None:
    (answer,), findings = judge(made(8, **proof))
    assert not findings
    assert answer.expected_busbw_gbs is None


def test_nccls_own_word_for_sockets_in_the_same_file_counts() -> None:
    process = LogProcess(host="host0", pid=1, network="Socket")
    (answer,), findings = judge(made(8), logs=(NcclLog(file="t", processes=(process,)),))
    assert not findings
    assert "Using network Socket" in answer.notes[0]


def test_more_than_any_known_system_is_said_and_not_accused() -> None:
    (answer,), findings = judge(made(370, collective="all_gather"))
    assert not findings
    assert answer.notes[0].startswith("more than known")
    assert any("of what DGX/HGX H100 has: 400 GB/s" in note for note in answer.notes)


A100 = "NVIDIA A100-SXM4-40GB"


@pytest.mark.parametrize(
    ("plateau_gbs", "words"),
    [
        (185, "normal: "),  # eight HDR ports, by what many such hosts reach
        (57, "normal: "),  # four ports of 100 Gbit/s, as one cloud has them
        (300, "more than known"),
    ],
)
def test_hosts_of_one_gpu_and_several_clouds_are_not_mistaken(
    plateau_gbs: float, words: str
) -> None:
    (answer,), findings = judge(made(plateau_gbs, gpu=A100))
    assert not findings
    assert answer.notes[0].startswith(words)


@pytest.mark.parametrize(("plateau_gbs", "severity"), [(20, "degraded"), (90, "warning")])
def test_far_below_all_systems_is_degraded_and_between_them_a_warning(
    plateau_gbs: float, severity: str
) -> None:
    _, (finding,) = judge(made(plateau_gbs, gpu=A100))
    assert (finding.code, finding.severity) == ("below-expectation", severity)


@pytest.mark.parametrize(
    ("plateau_gbs", "rate"), [(11.7, 100), (24.1, 200), (1.17, 10), (2.9, 25)]
)
def test_one_rank_a_host_is_told_the_port_that_its_figure_would_fill(
    plateau_gbs: float, rate: int
) -> None:
    (answer,), findings = judge(made(plateau_gbs, gpu="NVIDIA A40", per_host=1))
    assert not findings
    assert any(f"of one port of {rate} Gbit/s" in note for note in answer.notes)


def test_unknown_gpus_and_few_ranks_have_no_expectation() -> None:
    for table in (made(3, gpu="Tesla K80"), made(3, per_host=1), made(20, collective="hypercube")):
        (answer,), findings = judge(table)
        assert not findings
        assert answer.expected_busbw_gbs is None


OWN = Fabric(
    name="ours",
    gpus=FabricGpus(model=("H100 80GB HBM3",), per_host=8),
    busbw=(FabricBusbw(collective="all_reduce", hosts=2, busbw_gbs=200.0, tolerance=0.05),),
)


def test_the_users_own_file_decides_alone() -> None:
    (answer,), findings = judge(made(196), fabric=OWN)
    assert not findings
    assert answer.share == pytest.approx(0.98, abs=0.01)
    _, (finding,) = judge(made(180), fabric=OWN)
    assert (finding.code, finding.severity) == ("below-expectation", "degraded")
    assert any(evidence.basis == "expected" for evidence in finding.evidence)


def test_rates_in_the_users_file_stand_for_a_ring() -> None:
    rates = Fabric(
        name="ours",
        network=(FabricNetwork(name="data", rate_gbps=100, ports_per_host=1),),
    )
    (answer,), findings = judge(made(11.2, gpu="Tesla V100-SXM2-16GB"), fabric=rates)
    assert not findings
    assert answer.expected_busbw_gbs == pytest.approx(11.77, abs=0.05)
    _, (finding,) = judge(made(5, gpu="Tesla V100-SXM2-16GB"), fabric=rates)
    assert (finding.code, finding.severity) == ("below-expectation", "degraded")


def test_answers_survive_json() -> None:
    answers, findings = judge(*read("h100-2-hosts-slow-srun-labels.txt"))
    for record in (*answers, *findings):
        assert msgspec.json.decode(msgspec.json.encode(record), type=type(record)) == record


numbers = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True), st.floats(1e-9, 1e3), st.just(0.0)
)
halves = st.one_of(
    st.none(),
    st.builds(
        TableTime,
        time_s=numbers,
        algbw_gbs=numbers,
        busbw_gbs=numbers,
        wrong=st.one_of(st.none(), st.integers(0, 2**40)),
        error=st.one_of(st.none(), numbers),
    ),
)
rows = st.builds(
    TableRow,
    size_bytes=st.integers(0, 2**50),
    count=st.integers(0, 2**48),
    dtype=st.just("float"),
    out_of_place=halves,
    in_place=halves,
    line=st.integers(0, 99),
)


@settings(max_examples=150, deadline=None)
@given(
    given_rows=st.lists(rows, max_size=12),
    ranks=st.one_of(st.none(), st.integers(1, 128)),
    runs=st.integers(1, 3),
    collective=st.sampled_from([None, "all_reduce", "send_recv", "hypercube", "gather"]),
    names=st.lists(st.sampled_from(["NVIDIA H100 80GB HBM3", "", "GB200"]), max_size=9),
)
def test_no_table_whatever_its_numbers_raises(given_rows, ranks, runs, collective, names) -> None:
    table = CollectiveTable(
        file="t",
        line=1,
        last_line=9,
        rows=tuple(given_rows),
        ranks=ranks,
        ranks_basis="listed" if ranks else None,
        runs=runs,
        collective=collective,
        hosts=("a",) if names else (),
        devices=tuple(
            TableDevice(rank=at, host="a", device=at, name=name) for at, name in enumerate(names)
        ),
    )
    with np.errstate(all="ignore"):
        judge(table, table)
