"""Prints how right and how fast the cost line is, beside the alternatives it replaces.

    python tests/performance/bench_costline.py

Truth: four curves of NCCL's shape, 1 KiB to 1 GiB, 2 % noise, 20 sweeps each; held-out sizes are
half-steps. Alternatives: one ordinary least-squares line, one relative-error line, and the same
exact piecewise fit through scipy's optimiser (for the time).
"""

from __future__ import annotations

import itertools
import math
import sys
import time
from pathlib import Path

import numpy as np
from scipy.optimize import least_squares

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.model.costline import fit
from bench.model.pieces import SOFT, fit_rows
from bench.model.prediction import in_switch, predict
from bench.plan.sizes import held_out
from bench.records import Point

SIZES = 2 ** np.arange(10, 31)
HALVES = np.array(held_out(SIZES.tolist()))
NOISE, SWEEPS, SEED = 0.02, 20, 3
SHAPES = {
    "three protocols": [(12e-6, 3e9), (18e-6, 12e9), (45e-6, 45e9)],
    "two protocols": [(10e-6, 4e9), (40e-6, 90e9)],
    "wide": [(8e-6, 1.5e9), (22e-6, 20e9), (120e-6, 340e9)],
    "one protocol": [(30e-6, 20e9)],
}


def cheapest(sizes, protocols):
    return np.min([latency + sizes / rate for latency, rate in protocols], axis=0)


def points_of(times):
    return [
        Point(
            size_bytes=int(size), time_s=float(t), low_s=float(t * 0.99), high_s=float(t * 1.01),
            iterations=30, sessions=3, algbw_gbs=0.0, busbw_gbs=0.0,
        )
        for size, t in zip(SIZES, times, strict=True)
    ]  # fmt: skip


def percent(errors):
    errors = np.abs(np.concatenate(errors)) * 100
    return "/".join(f"{np.percentile(errors, q):5.1f}" for q in (50, 95, 100))


def with_scipy(times):
    """What the fit of all pieces costs through scipy's optimiser, one piece at a time."""
    start = time.perf_counter()
    for i, j in itertools.combinations(range(len(SIZES) + 1), 2):
        if j - i < 3:
            continue
        n, t = SIZES[i:j], times[i:j]
        guess = np.log([t.min() * 0.9, max((t[-1] - t[0]) / (n[-1] - n[0]), 1e-15)])
        least_squares(
            lambda p, n=n, t=t: np.log((np.exp(p[0]) + np.exp(p[1]) * n) / t),
            guess, loss="soft_l1", f_scale=SOFT,
        )  # fmt: skip
    return time.perf_counter() - start


def accuracy(rng):
    print("error against truth, %: median/p95/max")
    print(f"{'':16}  pieces  {'at the sizes':17}  {'half-steps':17}  {'in switches':17}"
          f"  {'one OLS line':17}  one relative line")  # fmt: skip
    for name, protocols in SHAPES.items():
        truth, between = cheapest(SIZES, protocols), cheapest(HALVES, protocols)
        right = 0
        grid, half, switch, ordinary, relative = ([] for _ in range(5))
        for _ in range(SWEEPS):
            times = truth * np.exp(rng.normal(0, NOISE, SIZES.size))
            line = fit("x", "all_reduce", 2, points_of(times))
            right += len(line.pieces) == len(protocols)
            grid.append(np.array([predict(line, size) for size in SIZES]) / truth - 1)
            errors = np.array([predict(line, size) for size in HALVES]) / between - 1
            beside = np.array([in_switch(line, size) for size in HALVES])
            half.append(errors[~beside])
            switch.append(errors[beside])
            design = np.stack([np.ones(SIZES.size), SIZES], axis=1)
            latency, per_byte = np.linalg.lstsq(design, times, rcond=None)[0]
            ordinary.append((latency + per_byte * SIZES) / truth - 1)
            (one,), _ = fit_rows(SIZES.astype(float), times[None], np.ones((1, SIZES.size)))
            relative.append((one[0] + one[1] * SIZES) / truth - 1)
        beside_switch = percent(switch) if any(len(e) for e in switch) else f"{'-':17}"
        print(f"{name:16}  {right:2}/{SWEEPS}   {percent(grid)}  {percent(half)}  {beside_switch}"
              f"  {percent(ordinary)}  {percent(relative)}")  # fmt: skip


def speed(rng):
    truth = cheapest(SIZES, SHAPES["three protocols"])
    print("\nseconds a line, 21 sizes (median of 10)")
    for sessions in (0, 3, 5, 6, 10, 20):
        taken = []
        for _ in range(10):
            rows = truth * np.exp(rng.normal(0, NOISE, (max(sessions, 1), SIZES.size)))
            medians = [dict(zip(SIZES.tolist(), row, strict=True)) for row in rows.tolist()]
            points = points_of(np.median(rows, axis=0))
            start = time.perf_counter()
            fit("x", "all_reduce", 2, points, medians[:sessions])
            taken.append(time.perf_counter() - start)
        print(f"  {sessions:2} sessions  {np.median(taken):.4f}")
    times = truth * np.exp(rng.normal(0, NOISE, SIZES.size))
    start = time.perf_counter()
    fit("x", "all_reduce", 2, points_of(times))
    ours = time.perf_counter() - start
    theirs = with_scipy(times)
    print(f"  all pieces through scipy take {theirs:.2f} s, {theirs / ours:.0f} times as long")


def coverage(rng):
    """How often the 95 % interval of the bandwidth covers, and how wide it is."""
    truth = 0.7e-3 + SIZES[2:11] / 8e6
    print("\nbandwidth's 95 % interval, one straight line of 9 sizes, 300 sweeps")
    for sessions, between, within in itertools.product((3, 6), (0.001, 0.01), (0.003, 0.02)):
        covered, widths = 0, []
        for _ in range(300):
            offsets = rng.normal(0, between, (sessions, 1))
            rows = truth * np.exp(offsets + rng.normal(0, within, (sessions, truth.size)))
            medians = [dict(zip(SIZES[2:11].tolist(), row, strict=True)) for row in rows.tolist()]
            half = max(within, between) * (2.5 if sessions == 3 else 1.0)
            points = [
                Point(
                    size_bytes=int(size), time_s=float(t), low_s=float(t * math.exp(-half)),
                    high_s=float(t * math.exp(half)), iterations=90, sessions=sessions,
                    algbw_gbs=0.0, busbw_gbs=0.0,
                )
                for size, t in zip(SIZES[2:11], np.median(rows, axis=0), strict=True)
            ]  # fmt: skip
            bandwidth = fit("x", "all_reduce", 2, points, medians).bandwidth_bytes_per_s
            covered += bandwidth.low <= 8e6 <= bandwidth.high
            widths.append((bandwidth.high - bandwidth.low) / 2 / bandwidth.value)
        print(f"  {sessions} sessions, CV between {between:.1%} within {within:.1%}:"
              f"  covers {covered / 300:.1%}, half-width {np.median(widths):.2%}")  # fmt: skip


if __name__ == "__main__":
    generator = np.random.default_rng(SEED)
    accuracy(generator)
    speed(generator)
    coverage(generator)
