"""Our rounds beside other ways to find slow hosts, on the same simulated fabrics.

    python tests/performance/bench_locate_methods.py
    python tests/performance/bench_locate_methods.py --sweeps 20

DLRover's two rounds (rdzv_manager.py): neighbours are paired, then the slowest with the fastest;
each host keeps its better time and is accused above 2 times the median (its own rule), or above
1.05 times. Bisection (a runbook's): halves are timed, the slower one is halved again; it always
names one host, also of a healthy fabric. All measure the same fabrics, each pair with one
repetition; ours asks for more where pairs scatter too much. "exact" are sweeps that accuse all
slow hosts and nobody else; "false" accused good hosts a sweep; "times" how often a host was
measured, all rounds and repetitions counted.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tabulate

ROOT = Path(__file__).parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from bench.judge.pairs.locating import Search  # noqa: E402
from bench.judge.pairs.values import typical  # noqa: E402
from bench.records import PairFigure, PairRound  # noqa: E402
from tests.judge.simulated_fabric import Fabric, located  # noqa: E402

REPEATS = 1
FAULTS = ((0, 0.0), (1, 0.10), (3, 0.10), (1, 0.50), (1, 1.50))  # how many, how much slower
FABRICS: tuple[tuple[str, tuple[int, ...], dict[str, Any]], ...] = (
    ("2 %", (16, 64, 128), {"noise": 0.02}),
    ("5 %", (64,), {"noise": 0.05}),
    ("2 %, heavy tails", (64,), {"noise": 0.02, "tails": "heavy"}),
)
Found = tuple[set[int], int]  # who is accused, after how many measurements of a host
Method = Callable[[Fabric, int], Found]


def ours(fabric: Fabric, seed: int) -> Found:
    counted = Counted(fabric)
    location = located(fabric.names, Search(repeats=REPEATS, seed=seed), counted)
    return {int(str(s.host)[1:]) for s in location.suspects if s.host}, counted.times


class Counted:
    """A fabric that counts what it is asked, rounds that were thrown away too."""

    def __init__(self, fabric: Fabric) -> None:
        self._fabric, self.times = fabric, 0

    def run(self, order: PairRound) -> list[PairFigure]:
        self.times += order.repeats
        return self._fabric.run(order)


def timed(fabric: Fabric, pairs: Sequence[tuple[int, int]]) -> dict[int, float]:
    """Seconds of each host's pair."""
    names = tuple((f"h{a}", f"h{b}") for a, b in pairs)
    order = PairRound(number=0, stage="screen", pairs=names, repeats=REPEATS)
    took = [typical(time.forward_s for time in figure.times) for figure in fabric.run(order)]
    return {host: s for pair, s in zip(pairs, took, strict=True) for host in pair}


def two_rounds(ratio: float) -> Method:
    def method(fabric: Fabric, seed: int) -> Found:
        order = np.random.default_rng(seed).permutation(fabric.hosts).tolist()
        first = timed(fabric, list(zip(order[::2], order[1::2], strict=True)))
        ranked = sorted(first, key=first.__getitem__)
        half = len(ranked) // 2
        again = timed(fabric, list(zip(ranked[:half], ranked[half:][::-1], strict=True)))
        best = {host: min(first[host], again[host]) for host in first}
        bar = ratio * statistics.median(best.values())
        return {host for host, seconds in best.items() if seconds > bar}, 2 * REPEATS

    return method


def bisection(fabric: Fabric, seed: int) -> Found:
    """A group takes as long as its slowest host, with the noise of one measurement."""
    draw = np.random.default_rng(seed)
    left = draw.permutation(fabric.hosts).tolist()
    rounds = 0
    while len(left) > 1:
        halves = left[: len(left) // 2], left[len(left) // 2 :]
        took = [
            (1 + max(fabric.slow.get(host, 0.0) for host in half))
            * float(np.exp(fabric._draws(fabric.noise, 1)[0]))
            for half in halves
        ]
        left = halves[0] if took[0] > took[1] else halves[1]
        rounds += 1
    return set(left), rounds


METHODS: dict[str, Method] = {
    "ours": ours,
    "two rounds, 2 × median": two_rounds(2.0),
    "two rounds, 1.05 × median": two_rounds(1.05),
    "bisection": bisection,
}


def row(
    noise: str, kind: dict[str, Any], hosts: int, count: int, slowdown: float, name: str,
    sweeps: int,
) -> list[object]:  # fmt: skip
    exact = right = wrong = rounds = 0
    for sweep in range(sweeps):
        draw = np.random.default_rng([hosts, count, round(100 * slowdown), sweep])
        slow = {int(at) for at in draw.choice(hosts, count, replace=False)}
        fabric = Fabric(
            hosts, slow=dict.fromkeys(slow, slowdown), seed=int(draw.integers(2**31)), **kind
        )
        found, took = METHODS[name](fabric, int(draw.integers(2**31)))
        exact += found == slow
        right += len(found & slow)
        wrong += len(found - slow)
        rounds += took
    recall = right / (count * sweeps) if count else math.nan
    lead = [noise, hosts, count, f"{slowdown:.0%}" if count else "-", name]
    shown = "-" if count == 0 else f"{recall:.3f}"
    return [*lead, f"{exact / sweeps:.3f}", shown, f"{wrong / sweeps:.3f}", rounds / sweeps]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sweeps", type=int, default=200)
    sweeps = parser.parse_args().sweeps
    rows = [
        row(noise, kind, hosts, count, slowdown, name, sweeps)
        for noise, sizes, kind in FABRICS
        for hosts in sizes
        for count, slowdown in FAULTS
        for name in METHODS
    ]
    heads = ["noise", "hosts", "slow", "by", "method", "exact", "recall", "false", "times"]
    print(tabulate.tabulate(rows, heads, floatfmt=".1f", disable_numparse=[0, 5, 6, 7]))
    print(f"{sweeps} sweeps a line")


if __name__ == "__main__":
    main()
