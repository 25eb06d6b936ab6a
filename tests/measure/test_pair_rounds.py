"""Rounds of pairs among four real members, each with a nursery of its own, over one real store."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
import torch.distributed as dist

from bench.measure import duty, pair_rounds
from bench.measure.conductor import Conductor
from bench.measure.control import Control, StoreAddress
from bench.measure.member import Member, Seat
from bench.measure.messages import Layout, Setting
from bench.measure.nursery import Nursery
from bench.measure.pair_rounds import PairRounds, rank_of
from bench.plan.amounts import Amounts
from bench.records import HostFacts, PairFigure, PairRound, RankPlacement

HOSTS = 4
AMOUNTS = Amounts(size_bytes=1 << 20, one_s=0.01)
NAMES = tuple(f"host{at}" for at in range(HOSTS))
LO = {"GLOO_SOCKET_IFNAME": "lo"}


class Cluster:
    """Four hosts of one rank, as threads; rank 0 conducts from the test's own."""

    def __init__(self, settings: dict[str, dict[int, dict[str, str | None]]]) -> None:
        self.nurseries = [Nursery(duty.serve, f"b{rank}:nursery") for rank in range(HOSTS)]
        self.store = dist.TCPStore(
            "127.0.0.1", 0, is_master=True, wait_for_workers=False, multi_tenant=True
        )
        self.stopped = [False] * HOSTS
        self.members = [self._member(rank, settings) for rank in range(HOSTS)]
        self.threads = [
            threading.Thread(target=member.attend, daemon=True) for member in self.members[1:]
        ]
        self.conductor = Conductor(self.members[0]._control, self.members[0])
        facts = tuple(
            HostFacts(host=name, hostname=name, identity=name, ranks=(at,))
            for at, name in enumerate(NAMES)
        )
        self.rounds = PairRounds(
            self.members[0]._control, self.conductor, self.members[0], facts, "gloo"
        )

    def _member(self, rank: int, settings: dict[str, dict[int, dict[str, str | None]]]) -> Member:
        address = StoreAddress("127.0.0.1", self.store.port, "test")
        client = dist.TCPStore("127.0.0.1", self.store.port, is_master=False)
        control = Control(dist.PrefixStore("test", client), address, rank=rank, ranks=HOSTS)
        seat = Seat(rank=rank, ranks=HOSTS, local_rank=0, local_ranks=1, node=rank, nodes=HOSTS)
        member = Member(seat, control, self.nurseries[rank], lambda: self.stopped[rank])
        member._layout = Layout(
            host=NAMES[rank], leads=True, ranks=(rank,), shares_gpu=False, backend="gloo",
            settings={
                name: Setting(environment={**LO, **own.get(rank, {})})
                for name, own in settings.items()
            },
        )  # fmt: skip
        return member

    def start(self, absent: tuple[int, ...] = ()) -> None:
        for rank, thread in enumerate(self.threads, 1):
            if rank not in absent:
                thread.start()

    def run(
        self, *pairs: tuple[str, str], candidate: str = "data", repeats: int = 1
    ) -> tuple[PairFigure, ...]:
        order = PairRound(number=7, stage="screen", pairs=pairs, repeats=repeats)
        return self.rounds.run(order, candidate, AMOUNTS)

    def close(self) -> None:
        self.conductor.finish(everybody=True)
        for thread in self.threads:
            if thread.ident is not None:
                thread.join(20)
        for nursery in self.nurseries:
            nursery.close()
        # A store that is still garbage when somebody forks is collected in the child, which then
        # waits for the server's thread, which it has not.
        vars(self).clear()
        gc.collect()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """On "broken" host 3 has no such interface."""
    cluster = Cluster({"data": {}, "broken": {3: {"GLOO_SOCKET_IFNAME": "nope0"}}})
    cluster.start()
    yield cluster
    cluster.close()


ALL = (("host0", "host1"), ("host2", "host3"))


def test_all_pairs_of_a_round_are_measured_in_both_directions_over_each_connection(
    cluster: Cluster,
) -> None:
    figures = cluster.run(*ALL, repeats=2)
    assert [figure.hosts for figure in figures] == list(ALL)
    for figure in figures:
        assert (figure.outcome, figure.round, figure.size_bytes) == ("ok", 7, AMOUNTS.size_bytes)
        assert len(figure.times) == 2
        for time_ in figure.times:
            assert time_.both_s is not None and time_.latency_s is not None
            assert 0 < time_.forward_s < 1 and 0 < time_.backward_s < 1 and 0 < time_.both_s < 1
            assert 1e-6 < time_.latency_s < 0.2
    assert not cluster.rounds.lost and not cluster.rounds.interrupted


def test_rank_zero_may_sit_a_round_out(cluster: Cluster) -> None:
    (figure,) = cluster.run(("host2", "host1"))
    assert (figure.hosts, figure.outcome) == (("host2", "host1"), "ok")


def connections(pid: int) -> set[int]:
    """Local ports of a process's established connections, but for the store's."""
    try:
        found = psutil.Process(pid).net_connections("tcp")
    except psutil.Error:
        return set()
    return {c.laddr.port for c in found if c.status == psutil.CONN_ESTABLISHED}


def workers(cluster: Cluster, rank: int) -> list[int]:
    pid = cluster.nurseries[rank].pid
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(word) for word in text.split()]


def meanwhile(work: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def test_every_repetition_has_connections_of_its_own(cluster: Cluster) -> None:
    seen: list[set[int]] = []
    over = threading.Event()

    def watch() -> None:
        while not over.is_set():
            for pid in workers(cluster, 2):
                ports = connections(pid)
                if ports and (not seen or ports != seen[-1]):
                    seen.append(ports)
            time.sleep(0.001)

    watcher = meanwhile(watch)
    (figure,) = cluster.run(("host2", "host3"), repeats=4)
    over.set()
    watcher.join(5)
    assert len(figure.times) == 4
    own = set().union(*seen) - set.intersection(*seen)  # the store's stand all the time
    assert len(own) >= 4, f"four repetitions, connections {own}"


def test_a_pair_that_fails_says_why_and_the_others_are_measured(cluster: Cluster) -> None:
    good, bad = cluster.run(*ALL, candidate="broken")
    assert good.outcome == "ok" and len(good.times) == 1
    assert (bad.outcome, bad.phase, bad.times) == ("failed", "init", ())
    assert "host3" in (bad.reason or "") and "nope0" in (bad.reason or "")
    assert not cluster.rounds.lost, "its agent is well"


def worker_in(cluster: Cluster, rank: int, phase: str, within_s: float = 10.0) -> int:
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        for pid in workers(cluster, rank):
            try:
                if Path(f"/proc/{pid}/comm").read_text().strip() == f"b{rank}:{phase}":
                    return pid
            except OSError:
                continue
        time.sleep(0.001)
    raise AssertionError(f"rank {rank} was never in {phase}")


def test_a_pair_that_hangs_costs_its_deadline_and_nobody_elses_figures(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(pair_rounds._PHASE_S, "gloo", 2.0)
    stopper = meanwhile(lambda: os.kill(worker_in(cluster, 3, "midrun"), signal.SIGSTOP))
    began = time.monotonic()
    good, hung = cluster.run(*ALL, repeats=3)
    stopper.join(1)
    assert good.outcome == "ok" and len(good.times) == 3
    assert (hung.outcome, hung.phase) == ("hung", "midrun")
    assert "host" in (hung.reason or "") and hung.times == ()
    assert time.monotonic() - began < 8
    again = cluster.run(*ALL)
    assert [figure.outcome for figure in again] == ["ok", "ok"], "the next round is whole again"


def test_a_killed_worker_fails_its_pair_only(cluster: Cluster) -> None:
    killer = meanwhile(lambda: os.kill(worker_in(cluster, 1, "midrun"), signal.SIGKILL))
    killed, good = cluster.run(*ALL, repeats=3)
    killer.join(1)
    assert good.outcome == "ok"
    assert killed.outcome == "failed" and "SIGKILL" in (killed.reason or "")


def test_a_host_that_is_gone_is_absent_and_not_waited_for_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(pair_rounds._PHASE_S, "gloo", 1.0)
    monkeypatch.setattr(Conductor, "settle_s", 1.0)
    monkeypatch.setattr("bench.measure.member._BEATS_MISSED", 1)
    cluster = Cluster({"data": {}})
    cluster.start(absent=(3,))
    try:
        good, gone = cluster.run(*ALL)
        assert good.outcome == "ok"
        assert (gone.outcome, gone.reason) == ("absent", "host3 stopped answering")
        assert cluster.rounds.lost == {"host3"}
        began = time.monotonic()
        good, gone = cluster.run(("host0", "host2"), ("host1", "host3"))
        assert (good.outcome, gone.outcome) == ("ok", "absent")
        assert "earlier round" in (gone.reason or "")
        assert time.monotonic() - began < 3
    finally:
        cluster.close()


def test_rails_are_measured_at_the_same_time_and_a_missing_gpu_is_told(cluster: Cluster) -> None:
    order = PairRound(number=0, stage="rails", pairs=(ALL[0],), rails=(0, 1))
    there, missing = cluster.rounds.run(order, "data", AMOUNTS)
    assert (there.rail, there.outcome) == (0, "ok")
    assert (missing.rail, missing.outcome) == (1, "absent")
    assert missing.reason == "host0 has no rank on GPU 1"


def test_with_a_shift_each_rail_meets_another_one() -> None:
    order = PairRound(number=0, stage="rails", pairs=(ALL[0],), rails=(0, 1, 4), shift=1)
    assert [pair.rails for pair in pair_rounds._pairs(order)] == [(0, 1), (1, 4), (4, 0)]


def test_the_lowest_rank_stands_for_a_host_and_a_gpus_own_rank_for_a_rail() -> None:
    placed = tuple(
        RankPlacement(rank=8 + i, local_rank=i, gpu=gpu) for i, gpu in enumerate((3, 1, 0))
    )
    facts = HostFacts(host="h", hostname="h", identity="h", ranks=(10, 8, 9), placements=placed)
    assert rank_of(facts, None) == 8
    assert [rank_of(facts, gpu) for gpu in (0, 1, 2, 3)] == [10, 9, None, 8]
    bare = HostFacts(host="h", hostname="h", identity="h", ranks=(8, 9))
    assert [rank_of(bare, rail) for rail in (0, 1, 2)] == [8, 9, None]
