"""Two machines of one host name: what is between them is a network, and no path of a host."""

from __future__ import annotations

import pytest

from bench.formats.nccl_log import read
from bench.formats.source import Source
from bench.judge.foreign.log_jobs import Job
from bench.records import Reading
from tests.judge.evidence import judged_from

MATRIX = "".join(
    "\t".join([f"GPU{i}", *("X" if i == j else "NV18" for j in range(8)), "\n"]) for i in range(8)
)
MATRIX = "\t" + "\t".join(f"GPU{i}" for i in range(8)) + "\n" + MATRIX
TABLE = (
    "# nThread 1 nGpus 8 minBytes 8 maxBytes 128 step: 2(factor) warmup iters: 5 iters: 20 "
    "agg iters: 1 validation: 1 graph: 0\n# Using devices\n"
)
TABLE += "".join(
    f"#  Rank {rank:2d} Group  0 Pid  {rank // 8 + 1}11 on  ubuntu device  {rank % 8} "
    f"[0x{rank % 8}0] NVIDIA H100 80GB HBM3\n"
    for rank in range(16)
)


def log(
    addresses: tuple[str, str] = ("192.168.1.10", "192.168.1.14"),
    *,
    buses: str = "{at}000",
    nodes: str = "",
    each: int = 8,
    iface: str = "ibs85f0",
) -> str:
    """Two processes called "ubuntu", with `each` GPUs: the ring crosses by sockets twice."""
    lines = []
    for machine, address in enumerate(addresses):
        head = f"ubuntu:{machine + 1}11:{machine + 1}11"
        lines.append(f"{head} [0] NCCL INFO Bootstrap : Using {iface}:{address}<0>")
        lines.append(f"{head} [0] NCCL INFO NET/Socket : Using [0]{iface}:{address}<0>")
        lines.append(f"{head} [0] NCCL INFO Using network Socket")
    ranks = 2 * each
    for rank in range(ranks):
        pid, at = rank // each + 1, rank % each
        comm = (
            f"ncclCommInitAll comm 0x{rank} rank {rank} nranks {ranks} cudaDev {at} nvmlDev {at} "
            f"busId {buses.format(at=at, rank=rank)} commId 0x77"
        )
        lines.append(f"ubuntu:{pid}11:{pid}2{at} [{at}] NCCL INFO {comm} - Init START")
        if nodes:
            lines.append(
                f"ubuntu:{pid}11:{pid}2{at} [{at}] NCCL INFO comm 0x{rank} rank {rank} nRanks "
                f"{ranks} nNodes {nodes} localRanks 8 localRank {at} MNNVL 0"
            )
        after = (rank + 1) % ranks
        via = "P2P/CUMEM" if after // each == rank // each else "[send] via NET/Socket/0"
        via = via if via.startswith("[") else f"via {via}"
        lines.append(
            f"ubuntu:{pid}11:{pid}2{at} [{at}] NCCL INFO Channel 00/0 : {rank}[{at}] -> "
            f"{after}[{after % each}] {via}"
        )
        lines.append(f"ubuntu:{pid}11:{pid}2{at} [{at}] NCCL INFO {comm} - Init COMPLETE")
    return "\n".join(lines) + "\n"


def job(text: str) -> Job:
    return Job([read(Source.of_text(text, file="log.txt"))])


def judged(*texts: str) -> Reading:
    return judged_from(*(Source.of_text(text, f"file{at}.txt") for at, text in enumerate(texts)))


def codes(reading: Reading) -> set[str]:
    return {finding.code for finding in reading.findings}


def test_two_addresses_on_one_interface_are_two_machines() -> None:
    seen = job(log(buses="{rank}000"))
    assert seen.shared_names == {"ubuntu"}
    assert seen.several_hosts
    assert not seen.one_host


@pytest.mark.parametrize("with_it", [MATRIX, TABLE])
def test_sockets_between_machines_of_one_name_are_no_path_of_a_host(with_it: str) -> None:
    alone = judged(log())
    assert "gpu-path-unexpected" not in codes(alone)
    assert "gpu-path-unexpected" not in codes(judged(log(), with_it))
    assert "gpu-path-unexpected" not in codes(judged(with_it + log()))


def test_one_gpu_each_is_no_host_that_talks_to_itself_over_the_network() -> None:
    assert "gpu-path-unexpected" not in codes(judged(log(each=1)))
    assert "gpu-path-unexpected" in codes(judged(log(("10.0.0.1", "10.0.0.1"), each=1,
                                                     buses="{rank}000")))  # fmt: skip


def test_ranks_on_one_bus_are_on_two_machines_where_nccl_let_them() -> None:
    same = ("10.0.0.1", "10.0.0.1")  # redacted, perhaps
    assert job(log(same)).several_hosts
    assert not job(log(same, buses="{rank}000")).several_hosts  # GPUs of their own
    assert job(log(same, buses="{rank}000")).one_host
    refused = "ubuntu:111:120 [0] init.cc:1 NCCL WARN Duplicate GPU detected : rank 0 and rank 8 "
    assert not job(log(same) + refused + "both on CUDA device 0\n").several_hosts
    begun = "\n".join(line for line in log(same).splitlines() if "START" in line)
    assert not job(begun + "\n").several_hosts  # NCCL has not compared the GPUs yet


def test_several_ranks_a_gpu_by_choice_are_one_machine() -> None:
    wish = "ubuntu:111:111 [0] NCCL INFO NCCL_MULTI_RANK_GPU_ENABLE set by environment to 1.\n"
    assert not job(wish + log(("10.0.0.1", "10.0.0.1"))).several_hosts


def test_nccl_s_own_count_of_nodes_is_believed() -> None:
    assert job(log(nodes="1")).shared_names == frozenset()
    assert job(log(nodes="2")).several_hosts


def test_other_runs_of_one_machine_are_not_compared() -> None:
    """Its address changed between two runs that follow each other in one file."""
    second = log(("10.0.0.9", "10.0.0.9"), buses="{rank}000").replace("0x77", "0x78")
    second = second.replace(":111:", ":311:").replace(":211:", ":411:")
    assert job(log(("10.0.0.1", "10.0.0.1"), buses="{rank}000") + second).shared_names == set()


def test_an_ipv6_address_beside_an_ipv4_one_is_the_same_machine() -> None:
    assert job(log(("10.0.0.1", "fd00::1"), buses="{rank}000")).shared_names == frozenset()


def test_loopback_of_machines_of_one_name_is_judged() -> None:
    failed = (
        "ubuntu:211:211 [0] misc/socket.cc:484 NCCL WARN socketStartConnect: Connect to "
        "127.0.0.1<4455> failed : Software caused connection abort\n"
    )
    text = log(("127.0.0.1", "127.0.0.1"), iface="lo", nodes="2") + failed
    assert "interface-loopback" in codes(judged(text))


def test_who_gets_no_answer_is_told_by_its_own_address() -> None:
    lines = log(buses="{rank}000").splitlines(keepends=True)
    text = "".join(line for line in lines if "COMPLETE" not in line and "Channel" not in line)
    text += (
        "ubuntu:211:211 [0] misc/socket.cc:484 NCCL WARN socketStartConnect: Connect to "
        "192.168.1.10<4455> failed : Connection timed out\n"
    )
    (found,) = [f for f in judged(text).findings if f.code == "interface-unreachable"]
    assert "192.168.1.14" in found.summary
    assert "no answer from 192.168.1.10" in found.summary
