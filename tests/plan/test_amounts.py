"""How much a pair moves, and whether the cost that is told before is that of what is asked for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.judge.pairs.locating import Search, locating
from bench.plan.amounts import (
    LEAST_BYTES,
    MAPPED_HOSTS,
    MOST_BYTES,
    MOST_TRANSFER_S,
    SHARE,
    affordable,
    amounts,
    round_s,
    rounds_ahead,
    screen_s,
)
from bench.records import PairRound
from tests.judge.simulated_fabric import Fabric


@given(st.floats(1e3, 1e12))
def test_a_good_pairs_transfer_is_long_enough_to_time_and_no_longer(rate: float) -> None:
    moved = amounts(rate)
    assert moved.size_bytes & (moved.size_bytes - 1) == 0, "a power of two"
    assert moved.one_s == pytest.approx(moved.size_bytes / rate)
    if LEAST_BYTES < moved.size_bytes < MOST_BYTES:
        assert MOST_TRANSFER_S / 2 < moved.one_s <= MOST_TRANSFER_S
    assert LEAST_BYTES <= moved.size_bytes <= MOST_BYTES


def test_a_ring_that_a_slow_host_drags_does_not_make_the_good_pairs_too_short_to_time() -> None:
    dragged = amounts(15e6, hoped=60e6)  # a host at a quarter
    assert dragged.size_bytes == amounts(60e6).size_bytes == 2 << 20
    assert dragged.one_s == pytest.approx((2 << 20) / 15e6), "but time is kept for slow ones"
    far = amounts(1e6, hoped=60e6)  # hoped in vain: everything is slow
    assert far.size_bytes <= 4 * MOST_TRANSFER_S * 1e6
    assert amounts(None).size_bytes == amounts(125e6).size_bytes
    assert amounts(None, hoped=12e6).size_bytes == amounts(12e6).size_bytes


def rounds_asked(hosts: int, search: Search) -> list[PairRound]:
    fabric, asked = Fabric(hosts=hosts, noise=0.002, seed=1), []
    process = locating(fabric.names, search)
    try:
        order = next(process)
        while True:
            asked.append(order)
            order = process.send(fabric.run(order))
    except StopIteration:
        return asked


@pytest.mark.parametrize("hosts", [*range(3, 18), 64, 65])
def test_the_search_asks_for_as_many_rounds_as_are_told_before(hosts: int) -> None:
    asked = rounds_asked(hosts, Search())
    assert len(asked) == rounds_ahead(hosts, everybody=False)
    if hosts < 18:
        every = rounds_asked(hosts, Search(map_links=True))
        # what the screen has had may leave a round of the map empty
        assert rounds_ahead(hosts, everybody=True) - 2 <= len(every)
        assert len(every) <= rounds_ahead(hosts, everybody=True)
        assert len({frozenset(p) for r in every for p in r.pairs}) == hosts * (hosts - 1) / 2


@pytest.mark.parametrize("backend", ["gloo", "nccl"])
@pytest.mark.parametrize("hosts", [3, 4, 8, 16, 17, 512])
@pytest.mark.parametrize("limit_s", [60.0, 1800.0])
def test_what_runs_in_every_sweep_stays_within_its_share_or_is_the_least_there_is(
    hosts: int, limit_s: float, backend: str
) -> None:
    moved = amounts(12e6)
    repeats, everybody = affordable(moved, backend=backend, hosts=hosts, limit_s=limit_s)
    rounds = rounds_ahead(hosts, everybody=everybody)
    cost_s = rounds * round_s(moved, backend=backend, repeats=repeats, pairs=hosts // 2)
    assert 1 <= repeats <= 3
    assert cost_s <= SHARE * limit_s or (repeats, everybody) == (1, False)
    assert not everybody or hosts <= MAPPED_HOSTS


def test_eight_hosts_at_100_mbit_are_mapped_within_a_tenth_of_the_quick_minute() -> None:
    repeats, everybody = affordable(amounts(12e6), backend="gloo", hosts=8, limit_s=60)
    assert everybody and repeats >= 1
    assert 0 < screen_s("gloo", hosts=8, limit_s=60) <= 6


def test_two_hosts_are_one_pair_and_cost_nothing() -> None:
    assert screen_s("gloo", hosts=2, limit_s=60) == 0
