"""Jobs built from data, printed as each version of NCCL prints them, mixed, and read back."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

from hypothesis import given, settings
from hypothesis import strategies as st

from bench.formats.nccl_log import read
from bench.formats.nccl_log.collectives import ALGORITHMS, PROTOCOLS
from bench.formats.source import Source
from bench.records import BadInput


def _load(name: str) -> ModuleType:
    """A module beside this one that is no test; tests/ is no package."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


printer = _load("nccl_log_printer")
Job, jobs, printed = printer.Job, printer.jobs, printer.printed


@settings(max_examples=100, deadline=None)
@given(jobs())
def test_what_every_version_prints_is_read_back(job: Job) -> None:
    log = read(Source.of_text(printed(job)))
    assert log.nccl_lines == log.lines
    assert set(log.hosts) == {rank.host for rank in job.ranks}
    for rank in job.ranks:
        told = next(p for p in log.processes if (p.host, p.pid) == (rank.host, rank.pid))
        name, where = job.sockets[0]
        assert (told.bootstrap.name, told.bootstrap.address) == (name, where)
        assert told.environment == job.settings
        assert told.network == (job.network if job.version >= (2, 6) else None)
        if job.network == "Socket":
            nets = [(n.index, n.name, n.address) for n in told.nets]
            assert nets == [(i, n, w) for i, (n, w) in enumerate(job.sockets)]
        else:
            rdma = [n for n in told.nets if n.network == "IB"]
            assert [(n.index, n.name, n.port, n.link_layer) for n in rdma] == [
                (i, *device) for i, device in enumerate(job.devices)
            ]
        assert told.ranks == (rank.index,)
    (group,) = log.communicators
    assert [m.rank for m in group.members] == [rank.index for rank in job.ranks]
    assert all(m.completed for m in group.members)
    assert group.named == (job.version >= (2, 16))
    if group.named:
        assert group.id == job.comm_id
    assert edges_read(group) == edges_put(job)


def edges_read(group) -> set[tuple]:
    return {
        (e.channel, e.source, e.destination, e.direction, e.transport, e.network, e.device,
         e.gdr, e.proxy_rank, e.told_by)
        for e in group.edges
    }  # fmt: skip


def edges_put(job: Job) -> set[tuple]:
    put = set()
    for channel, source, target, kind, detail in job.edges:
        if kind != "NET":
            put.add((channel, source, target, None, kind, None, None, None, None, source))
            continue
        gdr = None if job.network == "Socket" else detail["gdr"]
        proxy = detail["proxy"] if job.version >= (2, 12) else None
        for way, teller in (("send", source), ("receive", target)):
            put.add((channel, source, target, way, "NET", job.network, detail["device"], gdr,
                     proxy, teller))  # fmt: skip
    return put


@settings(max_examples=30, deadline=None)
@given(jobs())
def test_every_choice_of_algorithm_is_read_back_once_with_its_count(job: Job) -> None:
    log = read(Source.of_text(printed(job) + printed(job)))
    (group,) = log.communicators
    read_back = {
        (c.collective, c.size_bytes, c.algorithm, c.protocol, c.channels) for c in group.tuning
    }
    named, counted = job.version >= (2, 21), job.version >= (2, 24)
    assert read_back == {
        (name if named else "", size, ALGORITHMS[a], PROTOCOLS[p], last + 1 if counted else None)
        for name, size, a, p, last in job.tuning
    }
    assert all(choice.count % 2 == 0 for choice in group.tuning)


@settings(max_examples=120, deadline=None)
@given(jobs(), st.data())
def test_a_torn_log_never_crashes_and_tells_only_what_is_in_it(job: Job, data) -> None:
    raw = printed(job).encode()
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(raw)))
        length = data.draw(st.integers(0, 60))
        raw = raw[:at] + data.draw(st.binary(max_size=20)) + raw[at + length :]
    if not re.search(rb"NCCL (INFO|WARN|ATTN) ", raw):
        return
    try:
        log = read(Source.of_text(raw))
    except BadInput:
        return
    assert log.lines >= log.nccl_lines - raw.count(b"NCCL")
    for group in log.communicators:
        assert sum(group.carriers.values()) == len(group.edges) + group.edges_left_out


def test_lines_of_two_communicators_of_a_process_are_kept_apart_by_rank_and_gpu() -> None:
    """Two hosts of two GPUs; the world and, per GPU number, a pair of hosts; connected late."""
    lines, late = [], []
    for host in range(2):
        for gpu in range(2):
            rank, pid = 2 * host + gpu, 100 + 10 * host + gpu
            head = f"h{host}:{pid}:{pid} [{gpu}] NCCL INFO "
            for name, place, size, comm in (
                ("0xaa", rank, 4, f"0x1{rank}"), (f"0xb{gpu}", host, 2, f"0x2{rank}"),
            ):  # fmt: skip
                own = f"ncclCommInitRankConfig comm {comm} rank {place} nranks {size} cudaDev "
                own += f"{gpu} nvmlDev {gpu} busId {gpu + 1}000 commId {name} - Init "
                lines += [head + own + "START", head + own + "COMPLETE"]
            right = (rank + 1) % 4
            via = "P2P/CUMEM" if right // 2 == host else "NET/IB/0/GDRDMA"
            way = "" if via[0] == "P" else "[send] "
            late.append(
                f"h{host}:{pid}:{pid + 5} [{gpu}] NCCL INFO Channel 00/0 : {rank}[{gpu}] -> "
                f"{right}[{right % 2}] {way}via {via}"
            )
            late.append(
                f"h{host}:{pid}:{pid + 6} [{gpu}] NCCL INFO Channel 00/0 : {host}[{gpu}] -> "
                f"{1 - host}[{gpu}] [send] via NET/IB/{gpu}/GDRDMA"
            )
    log = read(Source.of_text("\n".join(lines + late) + "\n"))
    told = {
        g.id: sorted((e.source, e.destination, e.host) for e in g.edges) for g in log.communicators
    }
    assert told == {
        "0xaa": [(0, 1, "h0"), (1, 2, "h0"), (2, 3, "h1"), (3, 0, "h1")],
        "0xb0": [(0, 1, "h0"), (1, 0, "h1")],
        "0xb1": [(0, 1, "h0"), (1, 0, "h1")],
    }


def test_devices_of_2_3_stand_one_a_line() -> None:
    lead = "node1:101:101 [0] NCCL INFO "
    text = "".join(
        f"{lead}{words}\n"
        for words in (
            "NET : Using interface eth0:10.0.0.1<0>",
            "NET/IB : Using interface ib0 for sideband communication",
            "NET/IB: [1] mlx4_0:1/IB ",
            "NET/IB: [1] mlx4_0:2/RoCE ",
            "NET/IB: [3] mlx5_0:1/IB ",
            "Using internal Network IB",
            "NET/IB : GPU Direct RDMA Disabled for GPU 0 / HCA mlx5_0 (no module or not …)",
            "NET/IB: Dev 0 Port 1 qpn 1234 mtu 5 LID 7",
        )
    )
    (process,) = read(Source.of_text(text)).processes
    devices = [net for net in process.nets if net.network == "IB"]
    assert [(net.index, net.name, net.port) for net in devices] == [
        (0, "mlx4_0", 1),
        (1, "mlx4_0", 2),
        (2, "mlx5_0", 1),
    ]
    assert (process.rdma, process.network) == (True, "IB")
    assert process.oob is not None
    assert (process.oob.name, process.bootstrap.name) == ("ib0", "eth0")
    assert process.gdr_devices == {"mlx5_0": False}
    assert process.quotes["rdma"].line == 3


def test_an_interface_for_sideband_says_nothing_of_devices() -> None:
    text = "n:1:1 [0] NCCL INFO NET/IB : Using interface ib0 for sideband communication\n"
    (process,) = read(Source.of_text(text)).processes
    assert (process.rdma, process.nets) == (None, ())
