"""Finding slow parts on simulated fabrics: how often rightly, how fast, at what cost.

    python tests/performance/bench_locate.py                      all tables, some minutes
    python tests/performance/bench_locate.py --tables links scale
    python tests/performance/bench_locate.py --share 0.1          a tenth of the sweeps
    python tests/performance/bench_locate.py --seed 5             other fabrics

The very rounds and judge of the product, on fabrics of numbers (tests/judge/simulated_fabric.py):
2 % noise of each repetition, a slow part takes 10 % longer unless a table says otherwise. "false"
counts accused parts that are good. bench_locate_methods.py has other methods on the same fabrics,
bench_locate_labs.py virtual clusters.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tabulate

ROOT = Path(__file__).parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from bench.judge.pairs.locating import Search, locating  # noqa: E402
from bench.plan.amounts import amounts, round_s  # noqa: E402
from bench.plan.cost import gpu_hours  # noqa: E402
from bench.records import Location, PairFigure, PairRound, PairTime  # noqa: E402
from tests.judge.simulated_fabric import Fabric  # noqa: E402

SWEEPS = {4: 300, 6: 300, 8: 300, 12: 200, 16: 200, 64: 100, 256: 40, 1024: 12}
HEALTHY = {4: 300, 6: 250, 8: 250, 12: 200, 16: 200, 64: 200, 256: 80, 1024: 20}
MAPS = {6: 150, 8: 150, 16: 100, 64: 30, 128: 10}
CHOSEN: list[int] = []  # --seed: other fabrics than those that the thresholds were chosen with
Rows = Iterator[list[Any]]
LARGE, LARGE_MAP = 4096, 1024  # hosts
GPUS_PER_HOST, RATE = 8, 50e9  # bytes/s: 400 Gbit/s


class Tally:
    """What was accused, and whether rightly."""

    def __init__(self) -> None:
        self.sweeps = self.right = self.wrong = self.missed = self.rounds = self.ways = 0

    def take(self, location: Location, truth: set[frozenset[str]]) -> None:
        named = {frozenset(s.link or s.group or (str(s.host),)) for s in location.suspects}
        self.sweeps += 1
        self.right += len(named & truth)
        self.wrong += len(named - truth)
        self.missed += len(truth - named)
        self.rounds += len(location.rounds)

    def row(self, *lead: object) -> list[Any]:
        precision = self.right / max(1, self.right + self.wrong)
        recall = self.right / max(1, self.right + self.missed)
        shown = f"{self.rounds / max(1, self.sweeps):.1f}"
        return [*lead, self.sweeps, f"{precision:.4f}", f"{recall:.4f}", self.wrong, shown]


HEAD = ["sweeps", "precision", "recall", "false", "rounds"]


def draws(sweeps: int, *seed: int) -> Iterator[np.random.Generator]:
    for sweep in range(sweeps):
        yield np.random.default_rng([*CHOSEN, *seed, sweep])


def slow_hosts(hosts: int, slow: int, sweeps: int, repeats: int = 3, **fabric: Any) -> Tally:
    tally = Tally()
    for draw in draws(sweeps, hosts, slow, 4):
        chosen = [int(at) for at in draw.choice(hosts, slow, replace=False)]
        made = Fabric(
            hosts, slow=dict.fromkeys(chosen, 0.10), seed=int(draw.integers(2**31)), **fabric
        )
        location = made.located(Search(seed=int(draw.integers(2**31)), repeats=repeats))
        tally.take(location, {frozenset({f"h{at}"}) for at in chosen})
    return tally


def table_hosts(share: float) -> Rows:
    for hosts, sweeps in SWEEPS.items():
        for slow in range(1, 1 + min(3, hosts // 2)):
            yield slow_hosts(hosts, slow, round(sweeps * share)).row(hosts, slow)


def table_healthy(share: float) -> Rows:
    total = Tally()
    for hosts, sweeps in HEALTHY.items():
        tally = slow_hosts(hosts, 0, round(sweeps * share))
        total.sweeps, total.wrong = total.sweeps + tally.sweeps, total.wrong + tally.wrong
        yield [hosts, tally.sweeps, tally.wrong]
    yield ["all", total.sweeps, total.wrong]


def table_tails(share: float) -> Rows:
    """Student's t with three degrees of freedom, and connections that collide by chance."""
    for name, fabric, repeats in (
        ("t of 3 degrees", {"tails": "heavy"}, 3),
        ("1 of 10 connections halved", {"collisions": 0.1}, 5),
        ("traffic of others: 2 % a pair", {"noise": 0.005, "shared_noise": 0.02}, 3),
    ):
        for hosts in (8, 16, 64):
            for slow in (0, 2):
                tally = slow_hosts(hosts, slow, round(100 * share), repeats, **fabric)
                yield tally.row(name, hosts, slow)


def table_links(share: float) -> Rows:
    for hosts, sweeps in MAPS.items():
        for slowdown in (0.0, 0.1, 0.2):
            tally = Tally()
            for draw in draws(round(sweeps * share), hosts, round(100 * slowdown), 5):
                a, b = sorted(int(at) for at in draw.choice(hosts, 2, replace=False))
                links = {(a, b): slowdown} if slowdown else {}
                made = Fabric(hosts, links=links, seed=int(draw.integers(2**31)))
                location = made.located(Search(map_links=True, seed=int(draw.integers(2**31))))
                tally.take(location, {frozenset({f"h{a}", f"h{b}"})} if slowdown else set())
            yield tally.row(hosts, f"{slowdown:.0%}")


def table_ways(share: float) -> Rows:
    """Hosts that only send, or only receive, slowly: is the right end named?"""
    for hosts in (4, 6, 8, 16, 64):
        for fault in ("transmit", "receive"):
            right = unsaid = wrong = 0
            sweeps = round(100 * share)
            for draw in draws(sweeps, hosts, 6):
                at = int(draw.integers(hosts))
                made = Fabric(hosts, seed=int(draw.integers(2**31)), **{fault: {at: 0.10}})
                found = made.located(Search(seed=int(draw.integers(2**31)))).suspects
                told = [(s.host, s.direction) for s in found]
                right += told == [(f"h{at}", fault)]
                unsaid += told == [(f"h{at}", "both")]
                wrong += any(host != f"h{at}" or way not in (fault, "both") for host, way in told)
            yield [hosts, fault, sweeps, f"{right / sweeps:.3f}", f"{unsaid / sweeps:.3f}", wrong]


def table_scale(share: float) -> Rows:
    """Each in a process of its own, for its memory; `share` changes nothing."""
    del share
    for what in ("rounds", "map"):
        command = [sys.executable, str(Path(__file__).resolve()), "--scale", what]
        done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
        yield done.stdout.strip().split("\t")


def scale(what: str) -> None:
    """One line of the table: schedule and judgement, without what the simulator itself takes;
    wall seconds, and those of the processor, for the machine may be busy."""
    started_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    hosts = LARGE if what == "rounds" else LARGE_MAP
    rng = np.random.default_rng(9)
    slow = np.ones(hosts)
    slow[[5, 77, 1000]] = 1.1
    names = [f"h{at}" for at in range(hosts)]
    process = locating(names, Search(map_links=what == "map", repeats=3, seed=1))
    spent, busy, last, pairs, rounds = 0.0, 0.0, 0.0, 0, 0
    figures: list[PairFigure] | None = None
    while True:
        began, began_busy = time.perf_counter(), time.process_time()
        try:
            order = next(process) if figures is None else process.send(figures)
        except StopIteration as end:
            last = time.process_time() - began_busy
            spent, busy = spent + time.perf_counter() - began, busy + last
            location: Location = end.value
            break
        spent += time.perf_counter() - began
        busy += time.process_time() - began_busy
        figures = measured(order, slow, rng)
        pairs, rounds = pairs + len(figures), rounds + 1
    memory_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    each_s = round_s(amounts(RATE), backend="nccl", repeats=3, pairs=hosts // 2)
    wall_s = rounds * each_s
    hours = gpu_hours(hosts * GPUS_PER_HOST, wall_s)
    found = ", ".join(str(s.host) for s in location.suspects)
    shown = (hosts, what, rounds, f"{pairs:,}", f"{spent:.2f}", f"{busy:.2f}", f"{last:.2f}")
    told = (f"{memory_mb:.0f}", f"{started_mb:.0f}", f"{wall_s:.0f}", f"{hours:,.0f}", found)
    print(*shown, *told, sep="\t")


def measured(order: PairRound, slow: Any, rng: Any) -> list[PairFigure]:
    luck = np.exp(rng.normal(0, 0.02, (len(order.pairs), order.repeats, 2))).tolist()
    found = []
    for hosts, mine in zip(order.pairs, luck, strict=True):
        factor = max(slow[int(hosts[0][1:])], slow[int(hosts[1][1:])])
        times = tuple(PairTime(forward_s=factor * a, backward_s=factor * b) for a, b in mine)
        found.append(PairFigure(round=order.number, stage=order.stage, hosts=hosts, times=times))
    return found


TABLES: dict[str, tuple[str, list[str], Callable[[float], Rows]]] = {
    "hosts": ("Slow hosts, 10 % slower", ["hosts", "slow", *HEAD], table_hosts),
    "healthy": ("Healthy fabrics", ["hosts", "sweeps", "accused"], table_healthy),
    "tails": ("Worse noise, slow hosts 10 %", ["noise", "hosts", "slow", *HEAD], table_tails),
    "links": ("One slow link, all pairs mapped", ["hosts", "slower", *HEAD], table_links),
    "ways": (
        "One direction, 10 % slower",
        ["hosts", "slow", "sweeps", "right end", "host, no direction", "wrong"],
        table_ways,
    ),
    "scale": (
        "Schedule and judgement, three slow hosts (estimate: NCCL, 400 Gbit/s, 8 GPUs a host)",
        [
            "hosts", "what", "rounds", "pairs", "wall s", "CPU s", "of it the answer", "peak MB",
            "of it imports",
            "rounds take s", "GPU-hours", "found",
        ],
        table_scale,
    ),
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tables", nargs="+", default=list(TABLES), choices=list(TABLES))
    parser.add_argument("--share", type=float, default=1.0, help="of the sweeps")
    parser.add_argument("--seed", type=int, help="other fabrics than usually")
    parser.add_argument("--scale", choices=("rounds", "map"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.scale:
        scale(arguments.scale)
        return
    if arguments.seed is not None:
        CHOSEN.append(arguments.seed)
    for name in arguments.tables:
        title, head, rows = TABLES[name]
        began = time.monotonic()
        text = tabulate.tabulate(list(rows(arguments.share)), head)
        print(f"\n{title} ({time.monotonic() - began:.0f} s)\n\n{text}", flush=True)


if __name__ == "__main__":
    main()
