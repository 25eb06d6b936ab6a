"""What our timing loop costs over a bare torch.distributed loop.

    python tests/performance/bench_overhead.py

Two ranks on loopback, gloo. Blocks of ours, of the bare loop and of the bare loop once more take
turns in every order inside the same process group: between groups a loopback differs by 10-40 %.
Per size: the median over calls of the slowest rank, ours over the mean of the two bare ones, as a
median over blocks with its quartiles. The bare loop over its own repetition is what this machine
can tell: a ratio inside its interval is no difference.
"""

from __future__ import annotations

import argparse
import itertools
import math
import multiprocessing
import random
import statistics
import time
from collections.abc import Callable
from multiprocessing.connection import Connection

import tabulate
import torch
import torch.distributed as dist

from bench.measure import timing
from bench.measure.clock import CpuClock
from bench.measure.collectives import COLLECTIVES, Place
from bench.measure.stopping import Rule, Warmup
from bench.measure.worker import TorchGroup
from bench.plan.sizes import format_bytes

CALLS = 40  # in a block of either loop
ARMS = ("ours", "bare", "again")
ORDERS = list(itertools.permutations(ARMS))
Block = dict[str, float]  # arm: median seconds of a call
Row = tuple[str, int, list[Block]]


def bare(call: Callable[[], object], count: int) -> float:
    """The loop everybody writes: one clock around each call, nothing else."""
    stamps = [time.perf_counter_ns()]
    for _ in range(count):
        call()
        stamps.append(time.perf_counter_ns())
    mine = torch.tensor([b - a for a, b in itertools.pairwise(stamps)], dtype=torch.float64)
    dist.all_reduce(mine, op=dist.ReduceOp.MAX)
    # not torch's median: of an even number that is the lower of the two in the middle
    return statistics.median(mine.tolist()) * 1e-9


def rank(me: int, port: int, sizes: list[int], blocks: int, results: Connection) -> None:
    torch.set_num_threads(1)  # as our workers do
    store = dist.TCPStore("127.0.0.1", port, is_master=False)
    dist.init_process_group("gloo", store=store, rank=me, world_size=2)
    place = Place(me, 2, torch.device("cpu"), torch.float32)
    group = TorchGroup(place)
    rule = Rule(cell_s=1e6, min_iterations=CALLS, max_iterations=CALLS, half_width=1e-9)
    rows: list[Row] = []
    for name, size in itertools.product(("all_reduce", "all_gather"), sizes):
        call = COLLECTIVES[name].prepare(size, place)
        timed: list[Block] = []
        for block in range(blocks + 1):
            times: Block = {}
            for which in ORDERS[block % len(ORDERS)]:
                if which == "ours":
                    sample = timing.measure(name, call, CpuClock(), group, Warmup(1e-3), rule)
                    times[which] = statistics.median(sample.times_s)
                else:
                    for _ in range(5):
                        call.run()
                    times[which] = bare(call.run, CALLS)
            timed.append(times)
        rows.append((name, size, timed[1:]))  # the first warms up
    if me == 0:
        results.send(rows)
    dist.barrier()
    dist.destroy_process_group()


def run(sizes: list[int], blocks: int) -> list[Row]:
    """(collective, bytes, blocks) per cell."""
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    context = multiprocessing.get_context("spawn")
    receive, send = context.Pipe(duplex=False)
    ranks = [
        context.Process(target=rank, args=(me, store.port, sizes, blocks, send)) for me in range(2)
    ]
    for process in ranks:
        process.start()
    if not receive.poll(600):
        raise SystemExit("the ranks gave no figures within 10 minutes")
    rows: list[Row] = receive.recv()
    for process in ranks:
        process.join(30)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--blocks", type=int, default=40)
    arguments = parser.parse_args()
    rows = run([1 << p for p in (12, 14, 16, 18, 20)], arguments.blocks)
    table = []
    for name, size, timed in rows:
        low, middle, high = statistics.quantiles(ours(timed), n=4)
        null = statistics.median(repeated(timed))
        bare_us = statistics.median(block["bare"] for block in timed) * 1e6
        quartiles = f"{low:.3f}-{high:.3f}"
        figures = (f"{middle:.3f}", quartiles, f"{null:.3f}", f"{bare_us:.0f}")
        table.append((name, format_bytes(size), *figures))
    heads = ("collective", "size", "ours/bare", "quartiles", "bare/bare", "bare µs")
    print(tabulate.tabulate(table, heads, disable_numparse=True))
    for label, chosen, goal in (
        ("from 64 KiB up", [row[2] for row in rows if row[1] >= 65536], 1.02),
        ("below", [row[2] for row in rows if row[1] < 65536], 1.05),
    ):
        value, low, high = pooled([ours(timed) for timed in chosen])
        print(f"{label}: {value:.3f}, 95 % interval {low:.3f}-{high:.3f} (goal <= {goal})", end="")
        value, low, high = pooled([repeated(timed) for timed in chosen])
        print(f"; bare over bare: {value:.3f}, {low:.3f}-{high:.3f}")


def ours(timed: list[Block]) -> list[float]:
    """Per block: our median call over the bare loop's two, their geometric mean."""
    return [block["ours"] / math.sqrt(block["bare"] * block["again"]) for block in timed]


def repeated(timed: list[Block]) -> list[float]:
    """Per block: the bare loop over its own repetition."""
    return [block["again"] / block["bare"] for block in timed]


def pooled(cells: list[list[float]]) -> tuple[float, float, float]:
    """Geometric mean over cells of the median ratio, with its bootstrap interval over pairs."""
    draw = random.Random(1)

    def mean(chosen: list[list[float]]) -> float:
        return math.exp(statistics.fmean(math.log(statistics.median(c)) for c in chosen))

    means = sorted(mean([draw.choices(c, k=len(c)) for c in cells]) for _ in range(1000))
    return mean(cells), means[25], means[974]


if __name__ == "__main__":
    main()
