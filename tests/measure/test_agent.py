"""Real forked workers over a real store: what an agent makes of one that does well or badly."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import torch.distributed as dist

from bench.measure import process, worker
from bench.measure.agent import Agent, CaseEnd, Deadlines
from bench.measure.control import Control, StoreAddress
from bench.measure.nursery import Nursery
from bench.measure.worker import Ladder, Request
from bench.records import PlanSettings

RANKS = 2
QUICK = Deadlines(rendezvous=4.0, init=4.0, first=4.0, midrun=4.0, end=4.0)
PLAN = PlanSettings(name="test", cell_s=0.02, max_iterations=10)


class Pair:
    """Two agents of one sweep, each in a thread with a nursery of its own."""

    def __init__(self) -> None:
        self.nurseries = [Nursery(worker.serve) for _ in range(RANKS)]
        self.store = dist.TCPStore(
            "127.0.0.1", 0, is_master=True, wait_for_workers=False, multi_tenant=True
        )
        self.case = 0

    def run(self, *, environment: dict[str, str | None] | None = None, sizes=(4096, 65536),
            absent: tuple[int, ...] = (), deadlines: Deadlines = QUICK, during=None,
            stop=lambda: False) -> list[CaseEnd | None]:  # fmt: skip
        self.case += 1
        ends: list[CaseEnd | None] = [None] * RANKS

        def play(rank: int) -> None:
            address = StoreAddress("127.0.0.1", self.store.port, f"test/{self.case}")
            client = dist.TCPStore("127.0.0.1", self.store.port, is_master=False)
            control = Control(
                dist.PrefixStore(address.prefix, client), address, rank=rank, ranks=RANKS
            )
            request = Request(
                rank=rank, ranks=RANKS, global_rank=rank, local_rank=rank, backend="gloo",
                environment={"GLOO_SOCKET_IFNAME": "lo"} if environment is None else environment,
                store_host="127.0.0.1", store_port=self.store.port,
                prefix=f"{address.prefix}/group", settings=PLAN,
                ladders=(Ladder("all_reduce", sizes), Ladder("all_gather", sizes)),
            )  # fmt: skip
            ends[rank] = Agent(control, self.nurseries[rank], f"host{rank}").run(
                0, request, deadlines, stop
            )

        threads = [
            threading.Thread(target=play, args=(rank,))
            for rank in range(RANKS) if rank not in absent
        ]  # fmt: skip
        for thread in threads:
            thread.start()
        if during is not None:
            during(self)
        for thread in threads:
            thread.join(30)
            assert not thread.is_alive(), "an agent never waits longer than its deadlines"
        return ends

    def worker_pid(self, rank: int, phase: str, within_s: float = 10.0) -> int:
        """The process that names itself after this rank and phase."""
        end = time.monotonic() + within_s
        while time.monotonic() < end:
            for pid in children(self.nurseries[rank].pid):
                if name(pid) == f"b{rank}:{phase}":
                    return pid
            time.sleep(0.001)
        raise AssertionError(f"rank {rank} never entered {phase}")


def children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(word) for word in text.split()]


def name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    pair = Pair()
    yield pair
    for nursery in pair.nurseries:
        nursery.close()


def test_a_healthy_pair_measures_all_cells_and_only_group_rank_zero_tells_them(pair: Pair) -> None:
    first, second = pair.run()
    assert first is not None and second is not None
    assert [end.rank.outcome for end in (first, second)] == ["ok", "ok"]
    assert [(s.collective, s.size_bytes) for s in first.samples] == [
        ("all_reduce", 4096), ("all_reduce", 65536), ("all_gather", 4096), ("all_gather", 65536),
    ]  # fmt: skip
    assert second.samples == ()
    for sample in first.samples:
        assert sample.wrong == 0
        assert 3 <= len(sample.times_s) <= 10
        assert all(
            low <= high for low, high in zip(sample.times_min_s, sample.times_s, strict=True)
        )
    assert first.group_s is not None and 0 < first.group_s < 5


def test_a_worker_starts_in_milliseconds_once_the_nursery_is_warm(pair: Pair) -> None:
    ends = pair.run()
    starts = [end.rank.start_s for end in ends if end is not None]
    assert all(start is not None and start < 1.0 for start in starts), starts


def test_an_interface_that_does_not_exist_is_a_failure_with_the_backends_words(pair: Pair) -> None:
    ends = pair.run(environment={"GLOO_SOCKET_IFNAME": "nope0"})
    assert [end and end.rank.outcome for end in ends] == ["failed", "failed"]
    assert "nope0" in (ends[0].rank.error or "")
    assert ends[0].rank.phase == "init"


def test_a_peer_that_never_comes_is_a_hang_in_rendezvous(pair: Pair) -> None:
    started = time.monotonic()
    (end, _) = pair.run(absent=(1,))
    assert end is not None
    assert (end.rank.outcome, end.rank.phase) == ("hung", "rendezvous")
    assert time.monotonic() - started < QUICK.rendezvous + 3
    assert "in meet" in (end.rank.stacks or "")  # the Python stack names the place


def test_a_killed_worker_is_told_from_the_peer_that_lost_it(pair: Pair) -> None:
    def kill(pair: Pair) -> None:
        os.kill(pair.worker_pid(1, "midrun"), signal.SIGKILL)

    first, second = pair.run(sizes=tuple(4096 + 16 * i for i in range(500)), during=kill)
    assert second is not None and first is not None
    assert (second.rank.outcome, second.rank.signal) == ("died", signal.SIGKILL)
    assert second.rank.error == "killed by SIGKILL"
    assert first.rank.outcome in ("failed", "aborted")
    assert first.samples, "what was measured before the death is kept"


def test_a_stopped_worker_is_seen_as_stopped(pair: Pair) -> None:
    def stop(pair: Pair) -> None:
        os.kill(pair.worker_pid(0, "midrun"), signal.SIGSTOP)

    ends = pair.run(sizes=tuple(4096 + 16 * i for i in range(500)), during=stop)
    assert ends[0] is not None and ends[1] is not None
    assert ends[0].rank.outcome in ("hung", "aborted")
    assert ends[0].rank.state == "T"
    assert ends[1].rank.outcome in ("hung", "aborted", "failed")  # or it saw the other one ended
    assert ends[1].rank.state != "T"


def test_being_told_to_stop_ends_the_case_at_once(pair: Pair) -> None:
    started = time.monotonic()
    ends = pair.run(sizes=(1 << 24,) * 50, stop=lambda: time.monotonic() - started > 1.0)
    assert {end.rank.outcome for end in ends if end is not None} == {"aborted"}
    assert time.monotonic() - started < 4.0


def test_after_all_this_the_next_case_is_healthy_and_no_worker_is_left(pair: Pair) -> None:
    ends = pair.run()
    assert [end and end.rank.outcome for end in ends] == ["ok", "ok"]
    assert [children(nursery.pid) for nursery in pair.nurseries] == [[], []]


def test_workers_die_with_their_agent() -> None:
    read, write = os.pipe()
    agent = os.fork()
    if agent == 0:
        nursery = Nursery(lambda message, pipe: time.sleep(60))
        child = nursery.spawn({})
        os.write(write, f"{nursery.pid} {child.pid}\n".encode())
        time.sleep(60)
        os._exit(0)
    pids = [int(word) for word in os.read(read, 100).split()]
    os.kill(agent, signal.SIGKILL)
    os.waitpid(agent, 0)
    end = time.monotonic() + 5
    while time.monotonic() < end and any(process.state(pid) not in (None, "Z") for pid in pids):
        time.sleep(0.01)
    assert [process.state(pid) in (None, "Z") for pid in pids] == [True, True]


def test_a_dead_nursery_is_a_failure_of_its_rank_and_not_of_the_agent() -> None:
    pair = Pair()
    os.kill(pair.nurseries[1].pid, signal.SIGKILL)
    os.waitpid(pair.nurseries[1].pid, 0)
    started = time.monotonic()
    first, second = pair.run()
    assert first is not None and second is not None
    assert second.rank.outcome == "failed" and "fork" in (second.rank.error or "")
    assert first.rank.outcome == "aborted"
    assert time.monotonic() - started < QUICK.rendezvous
    pair.nurseries[0].close()


def test_a_worker_that_ends_at_once_keeps_its_status() -> None:
    nursery = Nursery(lambda message, pipe: os.kill(os.getpid(), signal.SIGKILL))
    for _ in range(50):
        worker = nursery.spawn({})
        end = time.monotonic() + 5
        while nursery.reap(worker, 0.05) is None and time.monotonic() < end:
            pass
        assert worker.status is not None and os.WTERMSIG(worker.status) == signal.SIGKILL
        worker.close()
    nursery.close()


def test_deadlines_grow_with_the_number_of_ranks() -> None:
    few, many = (Deadlines.scaled(ranks=n, backend="gloo") for n in (4, 4096))
    assert all(a < b for a, b in zip(msgspec.structs.astuple(few), msgspec.structs.astuple(many),
                                     strict=True))  # fmt: skip
    assert few.init <= 7.0
