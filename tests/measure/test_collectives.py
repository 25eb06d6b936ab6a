"""Every collective of the table, for real: two or three gloo processes check the values."""

from __future__ import annotations

import functools
import math
import multiprocessing
import random
from multiprocessing.connection import Connection

import pytest
import torch
import torch.distributed as dist

from bench.measure import collectives
from bench.measure.collectives import COLLECTIVES, DTYPES, Place, differing, summand, total
from bench.model import busbw


def _rank(rank: int, ranks: int, port: int, results: Connection) -> None:
    store = dist.TCPStore("127.0.0.1", port, is_master=False)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=ranks)
    found: dict[str, tuple[int, int, int]] = {}
    for name, collective in COLLECTIVES.items():
        for dtype in DTYPES if name in ("all_reduce", "reduce_scatter") else ("float32",):
            place = Place(rank, ranks, torch.device("cpu"), DTYPES[dtype])
            call = collective.prepare(4096, place)
            call.refill()
            call.run()
            right = call.wrong()
            call.refill()
            empty = call.wrong()
            call.run()
            again = call.wrong()
            found[f"{name} {dtype}"] = (right + again, empty, call.size_bytes)
    dist.barrier()
    dist.destroy_process_group()
    results.send(found)


@pytest.fixture(scope="module", params=[2, 3])
def found(request: pytest.FixtureRequest) -> list[dict[str, tuple[int, int, int]]]:
    ranks = request.param
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    context = multiprocessing.get_context("spawn")
    pipes = [context.Pipe(duplex=False) for _ in range(ranks)]
    processes = [
        context.Process(target=_rank, args=(r, ranks, store.port, pipes[r][1]), daemon=True)
        for r in range(ranks)
    ]
    for process in processes:
        process.start()
    answers = []
    for receive, _ in pipes:
        assert receive.poll(60), "a rank gave no answer within a minute"
        answers.append(receive.recv())
    for process in processes:
        process.join(10)
    return answers


def test_every_collective_gives_the_right_values_twice(
    found: list[dict[str, tuple[int, int, int]]],
) -> None:
    wrong = {k: v[0] for answer in found for k, v in answer.items() if v[0]}
    assert wrong == {}


def test_the_check_sees_a_buffer_that_was_refilled_but_not_communicated(
    found: list[dict[str, tuple[int, int, int]]],
) -> None:
    blind = [k for k, v in found[1].items() if v[1] == 0 and not k.startswith("barrier")]
    assert blind == []


def test_sizes_are_the_total_buffer_as_nccl_tests_counts_them(
    found: list[dict[str, tuple[int, int, int]]],
) -> None:
    ranks = len(found)
    assert found[0]["all_reduce float32"][2] == 4096
    assert found[0]["all_gather float32"][2] == 4096 // ranks // 16 * 16 * ranks
    assert found[0]["barrier float32"][2] == 0


def test_every_collective_has_a_busbw_factor() -> None:
    assert {name: busbw.factor(name, 4) for name in COLLECTIVES}["all_reduce"] == 1.5


@pytest.mark.parametrize("name", sorted(DTYPES))
@pytest.mark.parametrize("ranks", [2, 3, 8, 63, 64, 128, 1024])
def test_sums_over_any_number_of_ranks_are_exact_in_whatever_order(name: str, ranks: int) -> None:
    dtype = DTYPES[name]
    parts = [torch.tensor([summand(rank, dtype)], dtype=dtype) for rank in range(ranks)]
    shuffled = random.Random(1).sample(parts, ranks)
    chain = functools.reduce(torch.add, shuffled)
    tree = shuffled
    while len(tree) > 1:
        tree = [functools.reduce(torch.add, tree[k : k + 2]) for k in range(0, len(tree), 2)]
    expected = sum(summand(rank, dtype) for rank in range(ranks))
    assert int(chain.item()) == int(tree[0].item()) == total(ranks, dtype) == expected
    assert differing(chain, [total(ranks, dtype)]) == 0


@pytest.mark.parametrize("name", sorted(DTYPES))
def test_every_rank_of_a_few_dozen_shows_in_a_sum(name: str) -> None:
    dtype = DTYPES[name]
    assert all(summand(rank, dtype) > 0 for rank in range(63))
    for rank in range(63):
        without = torch.tensor([total(63, dtype) - summand(rank, dtype)], dtype=dtype)
        assert differing(without, [total(63, dtype)]) == 1


def test_a_wrong_element_is_counted_wherever_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collectives, "_CHECKED_AT_ONCE", 64)
    values = [1, 2, 3]
    tensor = torch.tensor(values, dtype=torch.float16).repeat_interleave(101)
    assert differing(tensor, values) == 0
    for index in (0, 20, 21, 100, 101, 302):
        tensor[index] = math.nan
    assert differing(tensor, values) == 6
    assert differing(torch.full((1000,), 5, dtype=torch.uint8), [5]) == 0
    assert differing(torch.full((1000,), 5, dtype=torch.uint8), [4]) == 1000
