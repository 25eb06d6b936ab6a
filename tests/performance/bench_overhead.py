"""What our timing loop costs over a bare torch.distributed loop.

    python tests/performance/bench_overhead.py

Two ranks on loopback, gloo. Blocks of both loops alternate inside the same process group: between
groups a loopback differs by 10-40 %. Per size: the median over calls of the slowest rank, ours
over the bare loop, as a median over pairs of blocks with its quartiles.
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
Row = tuple[str, int, list[float], float]


def bare(call: Callable[[], object], count: int) -> float:
    """The loop everybody writes: one clock around each call, nothing else."""
    stamps = [time.perf_counter_ns()]
    for _ in range(count):
        call()
        stamps.append(time.perf_counter_ns())
    mine = torch.tensor([b - a for a, b in itertools.pairwise(stamps)], dtype=torch.float64)
    dist.all_reduce(mine, op=dist.ReduceOp.MAX)
    return float(mine.median()) * 1e-9


def rank(me: int, port: int, sizes: list[int], blocks: int, results: Connection) -> None:
    store = dist.TCPStore("127.0.0.1", port, is_master=False)
    dist.init_process_group("gloo", store=store, rank=me, world_size=2)
    place = Place(me, 2, torch.device("cpu"), torch.float32)
    group = TorchGroup(place)
    rule = Rule(cell_s=1e6, min_iterations=CALLS, max_iterations=CALLS, half_width=1e-9)
    rows: list[Row] = []
    for name, size in itertools.product(("all_reduce", "all_gather"), sizes):
        call = COLLECTIVES[name].prepare(size, place)
        ratios, bares = [], []
        for block in range(blocks + 1):
            times = {}
            for which in ("ours", "bare") if block % 2 else ("bare", "ours"):
                if which == "bare":
                    for _ in range(5):
                        call.run()
                    times[which] = bare(call.run, CALLS)
                else:
                    sample = timing.measure(name, call, CpuClock(), group, Warmup(1e-3), rule)
                    times[which] = statistics.median(sample.times_s)
            if block:  # the first pair warms up
                ratios.append(times["ours"] / times["bare"])
                bares.append(times["bare"])
        rows.append((name, size, ratios, statistics.median(bares) * 1e6))
    if me == 0:
        results.send(rows)
    dist.barrier()
    dist.destroy_process_group()


def run(sizes: list[int], blocks: int) -> list[Row]:
    """(collective, bytes, ratio of each pair of blocks, bare µs) per cell."""
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
    for name, size, ratios, bare_us in rows:
        low, middle, high = statistics.quantiles(ratios, n=4)
        quartiles = f"{low:.3f}-{high:.3f}"
        table.append((name, format_bytes(size), f"{middle:.3f}", quartiles, f"{bare_us:.0f}"))
    print(tabulate.tabulate(table, ("collective", "size", "ours/bare", "quartiles", "bare µs")))
    for label, chosen, goal in (
        ("from 64 KiB up", [row[2] for row in rows if row[1] >= 65536], 1.02),
        ("below", [row[2] for row in rows if row[1] < 65536], 1.05),
    ):
        value, low, high = pooled(chosen)
        print(f"{label}: {value:.3f}, 95 % interval {low:.3f}-{high:.3f} (goal <= {goal})")


def pooled(cells: list[list[float]]) -> tuple[float, float, float]:
    """Geometric mean over cells of the median ratio, with its bootstrap interval over pairs."""
    draw = random.Random(1)

    def mean(chosen: list[list[float]]) -> float:
        return math.exp(statistics.fmean(math.log(statistics.median(c)) for c in chosen))

    means = sorted(mean([draw.choices(c, k=len(c)) for c in cells]) for _ in range(1000))
    return mean(cells), means[25], means[974]


if __name__ == "__main__":
    main()
