"""Launcher prefixes: what is taken off, which process it names, what looks alike and stays."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.formats.prefix import NONE, Prefix, Stripper, strip
from bench.formats.source import Source

NCCL = "hostA:4289:4343 [0] NCCL INFO comm 0x7fc8e824c640 rank 0 nranks 4"
ROW = "     8388608       2097152     float     sum      -1    132.6   63.24  118.57      0"


@pytest.mark.parametrize(
    ("before", "prefix"),
    [
        ("[1,3]<stdout>:", Prefix(rank=3)),
        ("[1,3]<stderr>: ", Prefix(rank=3)),
        ("[prterun-host-1-2711@1,12]<stdout>: ", Prefix(rank=12)),
        ("[3]<stderr>:", Prefix(rank=3)),
        (
            "Mon Nov 30 10:11:12 2026[1,3]<stdout>:",
            Prefix(rank=3, time="Mon Nov 30 10:11:12 2026"),
        ),
        ("3: ", Prefix(rank=3)),
        (" 3: ", Prefix(rank=3)),
        ("[3]:", Prefix(label="3")),
        ("[learner3]:", Prefix(label="learner3")),
        ("[3] ", Prefix(rank=3)),
        ("host-3.example.org: ", Prefix(host="host-3.example.org")),
        ("10.0.0.3: ", Prefix(host="10.0.0.3")),
        ("[rank3]: ", Prefix(rank=3)),
        ("[rank3]:", Prefix(rank=3)),
        ("[default3]:", Prefix(label="default3")),
        ("[pod/train-3/main] ", Prefix(label="train-3/main")),
        ("(Worker pid=31, ip=10.0.0.3) ", Prefix(label="Worker pid=31, ip=10.0.0.3")),
        ("trainer-3  | ", Prefix(label="trainer-3")),
        ("> ", Prefix()),
        ("2026-11-30T10:11:12.123456789Z ", Prefix(time="2026-11-30T10:11:12.123456789Z")),
        ("2026-11-30 10:11:12,123 ", Prefix(time="2026-11-30 10:11:12,123")),
        ("[2026-11-30 10:11:12] ", Prefix(time="2026-11-30 10:11:12")),
        (
            "Nov 30 10:11:12 node3 python[311]: ",
            Prefix(host="node3", label="python[311]", time="Nov 30 10:11:12"),
        ),
        (
            "[pod/train-3/main] 2026-11-30T10:11:12Z [1,3]<stdout>:",
            Prefix(rank=3, label="train-3/main", time="2026-11-30T10:11:12Z"),
        ),
        ("node3: 2026-11-30 10:11:12 3: ", Prefix("node3", 3, None, "2026-11-30 10:11:12")),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
@pytest.mark.parametrize("rest", [NCCL, ROW])
def test_every_launcher_is_known(before: str, prefix: Prefix, rest: str) -> None:
    stripper = Stripper.of_lines([before + rest] * 9)
    found, stripped = stripper.strip(before + rest)
    assert found == prefix
    assert stripped.strip() == rest.strip()


@pytest.mark.parametrize(
    "lines",
    [
        [NCCL] * 9,
        [ROW] * 9,
        ["hostA:4289:4343 [0] misc/socket.cc:502 NCCL WARN Net : Call failed"] * 9,
        ["compute_environment: LOCAL_MACHINE", "num_machines: 2", "num_processes: 8"],
        ["1: lo: <LOOPBACK,UP>", "    link/loopback 00:00", "2: eth0: <UP>", "    link/ether 08"],
        ["\tGPU0\tGPU1\tCPU Affinity", "GPU0\t X \tNV12\t0-63", "GPU1\tNV12\t X \t0-63"],
        ["GPU 0: Tesla V100-SXM2-16GB (UUID: GPU-1)", "\t Link 0: 25.781 GB/s"] * 4,
        ["hca_id:\tmlx5_0", "\ttransport:\t\t\tInfiniBand (0)", "\tport:\t1"],
        ["00:01.0 PCI bridge: Intel Corporation", "\tACSCtl: SrcValid+ TransBlk-"] * 4,
        ["[    0.000000] DMAR: IOMMU enabled", "[    0.100000] iommu: Default domain"] * 4,
        ["[hostA:29250] Set MCA parameter to 0 to see all help / error messages"] * 9,
        ["Warning: a", "Warning: b", "Warning: c", "Warning: d"],
        ["NCCL_SOCKET_IFNAME=eth0", "NCCL_DEBUG=INFO"],
        ["Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB"] * 9,
    ],
    ids=lambda lines: str(lines[0])[:30],
)
def test_what_only_looks_like_a_prefix_stays(lines: list[str]) -> None:
    stripper = Stripper.of_lines(lines)
    assert stripper.layers == ()
    assert [stripper.strip(line) for line in lines] == [(NONE, line) for line in lines]


def test_ranks_of_a_mixed_output_are_told_apart() -> None:
    lines = [f"[1,{number % 4}]<stdout>:{ROW}" for number in range(40)]
    lines += ["----------------", "mpirun noticed that process rank 2 exited on signal 9."]
    stripper = Stripper.of_lines(lines)
    streams = {stripper.strip(line)[0].stream for line in lines}
    assert streams == {(None, rank, None) for rank in (0, 1, 2, 3)} | {NONE.stream}
    assert stripper.strip(lines[-1]) == (NONE, lines[-1])


def test_stdout_and_stderr_of_a_rank_are_one_stream() -> None:
    assert strip("[1,3]<stdout>:a")[0].stream == strip("[1,3]<stderr>:b")[0].stream


def test_a_traceback_of_one_rank_is_stripped_without_a_sample() -> None:
    assert strip("[rank3]: Traceback (most recent call last):") == (
        Prefix(rank=3),
        "Traceback (most recent call last):",
    )
    assert strip("3: not evident alone") == (NONE, "3: not evident alone")


def test_a_prefix_that_only_the_end_of_a_file_shows_is_found() -> None:
    text = f"{NCCL}\n" * 5000 + "[1,3]<stderr>:hostA:1:2 [0] NCCL WARN x\n" * 4
    assert Stripper.of(Source.of_text(text)).layers == ("mpirun",)


@given(st.lists(st.text(max_size=60), max_size=12), st.text(max_size=60))
def test_any_text_survives(lines: list[str], line: str) -> None:
    stripper = Stripper.of_lines(lines)
    for text in (*lines, line):
        prefix, rest = stripper.strip(text)
        assert text.endswith(rest)
        assert prefix.stream == prefix.stream


@pytest.mark.parametrize(
    "line", ["[" * 65536, "[1," + "1" * 65536, "a" * 65536 + ": ", " " * 65536, "(" + "a" * 65536]
)
def test_a_huge_line_costs_nothing(line: str) -> None:
    begun = time.process_time()
    stripper = Stripper.of_lines([line] * 100)
    for _ in range(100):
        stripper.strip(line)
    assert time.process_time() - begun < 5


@pytest.mark.parametrize(("before", "limit_s"), [("", 3), ("[1,3]<stdout>:", 8)])
def test_a_hundred_thousand_lines_are_stripped_quickly(before: str, limit_s: float) -> None:
    lines = [before + NCCL] * 100_000
    stripper = Stripper.of_lines(lines[:2000])
    begun = time.process_time()
    for line in lines:
        stripper.strip(line)
    assert time.process_time() - begun < limit_s
