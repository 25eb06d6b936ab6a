"""The copy check: on CPU tensors with a stand-in for CUDA, and for real where there is a GPU."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist

from bench.facts.nvml import NvmlRefused
from bench.measure import copies, copy_check, duty
from bench.measure.conductor import Conductor
from bench.measure.control import Control, StoreAddress
from bench.measure.copies import CudaCopier, LinkStates, Step, check, steps
from bench.measure.member import Member, Seat
from bench.measure.messages import Layout
from bench.measure.nursery import Nursery
from bench.records import CopyFigure

SIZE = 1 << 20


class CpuLane:
    """Stands in for CudaLane: real copies between CPU tensors, at a pace that the test chooses."""

    def __init__(self, step: Step, size_bytes: int, pace_gbs: float, corrupt: bool) -> None:
        self.step, self.size_bytes, self.pace_gbs, self.corrupt = (
            step, size_bytes, pace_gbs, corrupt
        )  # fmt: skip
        self.source = torch.arange(size_bytes // 4, dtype=torch.int32)
        self.destination = torch.zeros_like(self.source)
        self.timed: list[int] = []
        self.started = 0

    def times_s(self, copies: int) -> list[float]:
        self.timed.append(copies)
        self.destination.copy_(self.source)
        # one copy of each batch is held up: a mean would show it, a median does not
        once = self.size_bytes / self.pace_gbs / 1e9
        return [once * (9 if i == 1 else 1) for i in range(copies)]

    def start(self, copies: int) -> None:
        self.started += copies

    def wrong(self) -> int:
        if self.corrupt:
            self.destination[7] = -1
        return int((self.destination != self.source).sum())


class CpuCopier:
    """Stands in for CUDA on a machine without it."""

    def __init__(self, count: int, pace: Callable[[Step], float] = lambda step: 25.0) -> None:
        self.count, self.pace = count, pace
        self.lanes: list[CpuLane] = []
        self.refuses: set[Step] = set()
        self.corrupts: set[Step] = set()

    def devices(self) -> int:
        return self.count

    def uuid(self, device: int) -> str | None:
        return f"0000-{device}"

    def direct(self, device: int, peer: int) -> bool | None:
        return (device, peer) != (1, 0)

    def lane(self, step: Step, size_bytes: int) -> CpuLane:
        if step in self.refuses:
            raise torch.OutOfMemoryError("CUDA out of memory.\nTried to allocate 64 MiB")
        lane = CpuLane(step, size_bytes, self.pace(step), step in self.corrupts)
        self.lanes.append(lane)
        return lane


class Nvml:
    """A fake NvmlReader whose GPUs stand in the reverse of CUDA's order."""

    def __init__(self, count: int, **items: Any) -> None:
        self.count, self.items = count, items

    def open(self) -> int:
        return self.count

    def value(self, index: int, item: str) -> Any:
        if item == "uuid":
            return f"GPU-0000-{self.count - 1 - index}"
        if item not in self.items:
            raise NvmlRefused("Not Supported")
        return self.items[item]

    def close(self) -> None: ...


def figures(copier: CpuCopier, links: LinkStates | None = None) -> list[CopyFigure]:
    found = list(check(copier, links or LinkStates(Nvml(copier.count)), "h", size_bytes=SIZE))
    assert all(isinstance(one, CopyFigure) for one in found), found
    return found  # type: ignore[return-value]


@pytest.mark.parametrize(("devices", "peers"), [(0, 0), (1, 0), (2, 2), (3, 6), (8, 16)])
def test_every_link_is_copied_over_both_ways_and_every_neighbour_reached(
    devices: int, peers: int
) -> None:
    found = steps(devices)
    assert len(found) == len(set(found)) == 2 * devices + peers
    assert {s.device for s in found if s.way == "to-device"} == set(range(devices))
    across = {(s.device, s.peer) for s in found if s.way == "to-peer"}
    assert all((b, a) in across for a, b in across) and all(a != b for a, b in across)


def test_the_figure_is_the_median_and_names_nvmls_gpus() -> None:
    found = figures(CpuCopier(2), LinkStates(Nvml(2, pcie_generation=4, pcie_width=8)))
    assert [f.bandwidth_gbs for f in found] == [25.0] * 6
    assert all(f.least_gbs == pytest.approx(25 / 9, rel=1e-3) for f in found)
    assert [(f.way, f.gpu) for f in found[:4]] == [
        ("to-device", 1), ("from-device", 1), ("to-device", 0), ("from-device", 0),
    ]  # fmt: skip
    assert all((f.pcie_generation, f.pcie_width) == (4, 8) for f in found[:4])
    assert [(f.gpu, f.peer, f.direct) for f in found[4:]] == [(1, 0, True), (0, 1, False)]
    assert all(f.copies == copies.COPIES and f.wrong == 0 for f in found)


def test_the_link_is_read_while_copies_are_under_way() -> None:
    copier = CpuCopier(1)
    seen: list[int] = []

    class Watching(Nvml):
        def value(self, index: int, item: str) -> Any:
            if item == "pcie_width":
                seen.append(copier.lanes[-1].started)
            return super().value(index, item)

    figures(copier, LinkStates(Watching(1, pcie_generation=5, pcie_width=16)))
    assert len(seen) == 2 and all(seen)
    longest_s = copier.lanes[0].started * SIZE / 25e9
    assert longest_s > 0.04, "NVML takes a millisecond or two; the copies outlast it"


def test_a_slow_link_gets_fewer_copies_but_never_fewer_than_five() -> None:
    copier = CpuCopier(1, pace=lambda step: 0.01 if step.way == "to-device" else 0.000_5)
    slow, slower = figures(copier)
    assert (slow.copies, slower.copies) == (9, 5)


def test_what_cuda_refuses_is_a_sentence_and_the_rest_goes_on() -> None:
    copier = CpuCopier(2)
    copier.refuses = {Step("to-device", 1)}
    found = list(check(copier, LinkStates(Nvml(2)), "node1", size_bytes=SIZE))
    (told,) = [one for one in found if isinstance(one, str)]
    assert told == (
        "host to device 1 on node1 could not be copied: CUDA out of memory. Tried to allocate "
        "64 MiB"
    )
    assert len(found) == 6


def test_elements_that_arrive_wrong_are_counted() -> None:
    copier = CpuCopier(2)
    copier.corrupts = {Step("to-peer", 0, 1)}
    assert [f.wrong for f in figures(copier)] == [0, 0, 0, 0, 1, 0]


def test_pinned_memory_is_made_beside_the_gpu_and_the_process_comes_home() -> None:
    before = os.sched_getaffinity(0)
    cpu = min(before)
    where: list[set[int]] = []

    class Noting(CpuCopier):
        def lane(self, step: Step, size_bytes: int) -> CpuLane:
            where.append(os.sched_getaffinity(0))
            return super().lane(step, size_bytes)

    found = figures(Noting(1), LinkStates(Nvml(1, cpu_affinity=str(cpu))))
    assert where == [{cpu}, {cpu}] and [f.near for f in found] == [True, True]
    assert os.sched_getaffinity(0) == before
    beyond = str(max(before) + 4096)
    assert [f.near for f in figures(CpuCopier(1), LinkStates(Nvml(1, cpu_affinity=beyond)))] == [
        False, False,
    ]  # fmt: skip
    assert [f.near for f in figures(CpuCopier(1))] == [None, None]


def test_without_nvml_the_figures_still_come() -> None:
    class Absent(Nvml):
        def open(self) -> int:
            raise NvmlRefused("no driver")

    (to, _) = figures(CpuCopier(1), LinkStates(Absent(1)))
    assert (to.gpu, to.device, to.pcie_width) == (None, 0, None)


# ------------------------------------------------------------------------- from outside


def talk(message: dict[str, Any], pipe: int) -> None:
    """A worker that says what the test wrote down for it, then waits."""
    for line in message["copies"]["host"].split(";"):
        if line == "end":
            return
        os.write(pipe, line.encode() + b"\n")
    time.sleep(60)


FIGURE = (
    '{"figure": {"host": "h", "way": "to-device", "device": 0, "size_bytes": 1, "copies": 5, '
    '"bandwidth_gbs": 25.0, "least_gbs": 24.0, "most_gbs": 26.0}}'
)
STEP = '{"step": "device 0 to device 1", "gpus": [4, 5]}'


def outcome(script: str, **patience: float) -> tuple[Any, float]:
    nursery = Nursery(talk)
    try:
        began = time.monotonic()
        given = {"start_s": 0.5, "step_s": 0.4, **patience}
        return copy_check.run(nursery, script, **given), time.monotonic() - began
    finally:
        nursery.close()


def test_a_copy_that_never_ends_is_named_and_what_came_before_is_kept() -> None:
    found, took_s = outcome(f"{FIGURE};{STEP}")
    assert [f.bandwidth_gbs for f in found.figures] == [25.0]
    assert found.stuck == (4, 5)
    assert "device 0 to device 1" in (found.trouble or "") and "no answer" in (found.trouble or "")
    assert took_s < 4


def test_a_driver_that_does_not_start_and_a_worker_that_dies_are_told_apart() -> None:
    silent, _ = outcome("{}")
    assert silent.stuck == () and silent.figures == ()
    dead, _ = outcome(f"{FIGURE};{STEP};end")
    assert "its worker ended" in (dead.trouble or "") and dead.stuck == ()


def test_a_check_that_ends_well_says_nothing_else() -> None:
    found, _ = outcome(f'{FIGURE};{{"done": true}}')
    assert (found.trouble, found.stuck, len(found.figures)) == (None, (), 1)


def test_the_worker_that_is_really_forked_copies_what_cuda_has_and_ends() -> None:
    nursery = Nursery(duty.serve)
    try:
        found = copy_check.run(nursery, "h", start_s=20.0)
    finally:
        nursery.close()
    assert found.stuck == () and found.trouble is None
    assert bool(found.figures) == torch.cuda.is_available()


# ------------------------------------------------------------------- among all ranks


def test_hosts_copy_when_rank_0_orders_it_and_go_on_afterwards() -> None:
    """Two hosts of two ranks: their leading ranks copy, the others wait for what comes next."""
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    address = StoreAddress("127.0.0.1", store.port, "test")
    nurseries = [Nursery(talk_well) for _ in range(4)]

    def member(rank: int) -> Member:
        client = dist.TCPStore("127.0.0.1", store.port, is_master=False)
        control = Control(dist.PrefixStore("test", client), address, rank=rank, ranks=4)
        seat = Seat(
            rank=rank, ranks=4, local_rank=rank % 2, local_ranks=2, node=rank // 2, nodes=2
        )
        return Member(seat, control, nurseries[rank], lambda: False)

    members = [member(rank) for rank in range(4)]
    conductor = Conductor(members[0]._control, members[0])
    layouts = {
        node: Layout(
            host=f"host{node}", leads=True, ranks=(2 * node, 2 * node + 1), shares_gpu=False,
            backend="nccl", settings={},
        )
        for node in (0, 1)
    }  # fmt: skip
    conductor.lay_out(layouts)
    ends: list[str | None] = ["not yet"] * 4

    def attend(rank: int) -> None:
        members[rank].learn()
        ends[rank] = members[rank].attend()

    threads = [threading.Thread(target=attend, args=(rank,)) for rank in (1, 2, 3)]
    try:
        for thread in threads:
            thread.start()
        members[0].learn()
        checks = conductor.copies()
        conductor.finish(everybody=True)
        for thread in threads:
            thread.join(20)
    finally:
        for nursery in nurseries:
            nursery.close()
    assert [(c.host, len(c.figures), c.trouble) for c in checks] == [
        ("host0", 1, None), ("host1", 1, None),
    ]  # fmt: skip
    assert ends[1:] == [None] * 3


def talk_well(message: dict[str, Any], pipe: int) -> None:
    os.write(pipe, f'{FIGURE}\n{{"done": true}}\n'.encode())


@pytest.mark.gpu
def test_copies_of_real_gpus_are_real() -> None:
    found = list(check(CudaCopier(), LinkStates(), "h"))
    assert len(found) == len(steps(torch.cuda.device_count()))
    for figure in found:
        assert isinstance(figure, CopyFigure), figure
        assert figure.wrong == 0 and figure.gpu is not None
        assert 0.5 < figure.least_gbs <= figure.bandwidth_gbs <= figure.most_gbs < 5000
        if figure.way != "to-peer":
            assert figure.pcie_generation and figure.pcie_width
