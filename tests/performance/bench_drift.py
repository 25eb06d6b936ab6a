"""Prints how soon nightly drift is told, and how often nothing is taken for it.

    python tests/performance/bench_drift.py [--series 400] [--fabrics 20]

60 nights of one series, CV 1 %, a step at night 40, judged every night from night 20 on: normal
noise, Student's t with 3 degrees of freedom, first-order autoregression of 0.5. A report within
two nights of the step is the detection, every other one a false alarm. Beside ours stand figures
of Apache Otava 0.8.0, printed, not run here: the same rule on 40 series, measured 2026-11-30.

Then whole fabrics of 8 series, each night judged by the job's own judge with all its gates: alarms
are findings that fail a night and that the night before had not.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import drift_adapter
import made_nights as made

from bench.judge.history import drift as judge
from bench.judge.history.drift import Past
from bench.judge.history.nights import night_of

NIGHTS, STEP_AT, FIRST, CV, SEED = 60, 40, 20, 0.01, 77
NOISES, STEPS = ("normal", "t3", "AR 0.5"), (0, 3, 5)
# False alarms per series-night / found by night 3, by night 5 (p 1e-4, >= 2 %, 3 nights after).
OTAVA = {
    ("normal", 0): "0.0006", ("normal", 3): "0.0006 / .68 .95", ("normal", 5): "0 / 1 1",
    ("t3", 0): "0.0018", ("t3", 3): "0 / .90 .95", ("t3", 5): "0.0006 / .95 1",
    ("AR 0.5", 0): "0.0024", ("AR 0.5", 3): "0.0055 / .65 .80", ("AR 0.5", 5): "0.0043 / .97 .97",
}  # fmt: skip


def noise(kind: str, rng: np.random.Generator, n: int) -> np.ndarray:
    if kind == "normal":
        return rng.standard_normal(n)
    if kind == "t3":
        return rng.standard_t(3, n) / math.sqrt(3)
    e = rng.standard_normal(n + 50) * math.sqrt(0.75)
    for i in range(1, e.size):
        e[i] += 0.5 * e[i - 1]
    return e[50:]


def scored(kind: str, step: int, series: int) -> tuple[float, int, dict[int, float], float]:
    false, told, seconds = 0, 0, 0.0
    by = dict.fromkeys((1, 3, 5, 7), 0)
    for number in range(series):
        rng = np.random.default_rng([SEED, NOISES.index(kind), step, number])
        logs = CV * noise(kind, rng, NIGHTS)
        logs[STEP_AT:] += math.log1p(-step / 100)
        values = (400 * np.exp(logs)).tolist()
        began = time.perf_counter()
        reports = drift_adapter.reports(values)
        seconds += time.perf_counter() - began
        delay = None
        for seen, change in reports:
            if step and abs(change - STEP_AT) <= 2:
                delay = seen - STEP_AT if delay is None else delay
            else:
                false += 1
        told += bool(step) and any(STEP_AT < seen <= STEP_AT + 5 for seen, _ in reports)
        for night in by:
            by[night] += delay is not None and delay <= night
    watched = series * (NIGHTS - FIRST + 1)
    shares = {night: count / series for night, count in by.items()}
    return false / watched, told, shares, seconds / (series * NIGHTS)


def detection(series: int) -> None:
    print(f"{series} series a row; false alarms are per series-night watched\n")
    print("| noise | step % | false alarms | 8 series, 2 months | by night 1 | 3 | 5 | 7 "
          "| told by 5, any place | Otava 0.8.0, printed |")  # fmt: skip
    print("|---|---|---|---|---|---|---|---|---|---|")
    for kind in NOISES:
        for step in STEPS:
            rate, told, by, each_s = scored(kind, step, series)
            found = " | ".join(f"{by[n]:.3f}" if step else "" for n in by)
            any_place = f"{told / series:.3f}" if step else ""
            alarms = rate * 8 * NIGHTS
            print(f"| {kind} | {step} | {rate:.4f} | {alarms:.2f} | {found} | {any_place} "
                  f"| {OTAVA[kind, step]} |", flush=True)  # fmt: skip
    print(f"\n{each_s * 1e6:.0f} µs a series-night (the last row)")


def fabric(kind: str, number: int, step: int = 0) -> tuple[int, int | None]:
    """How many nights without a cause were alarms, and the night (1: the first) on which the step
    at night 40, of the large sizes of both ways, was one."""
    rng = np.random.default_rng([SEED, 1, NOISES.index(kind), step, number])
    keys = [
        (candidate, collective, part)
        for candidate in ("data", "(default)")
        for collective in made.COLLECTIVES
        for part in ("small", "large")
    ]
    logs = {key: CV * noise(kind, rng, NIGHTS) for key in keys}
    for key in keys:
        if key[2] == "large":
            logs[key][STEP_AT:] -= math.log1p(-step / 100)
    reports = [made.report(n, {key: logs[key][n] for key in keys}) for n in range(NIGHTS)]
    nights = [night_of(report) for report in reports]
    false, told_on, before = 0, None, None
    was: set[str | None] = set()
    for n in range(1, NIGHTS):
        before = judge.judge(
            Past(
                report=reports[n], nights=nights[: n + 1], baseline=reports[0].run,
                lines=reports[0].lines, before=before,
            )
        )  # fmt: skip
        now = {f.where.candidate for f in before.findings if f.severity == "degraded"}
        if now - was:
            if step and n >= STEP_AT:
                told_on = told_on or n - STEP_AT + 1
            else:
                false += 1
        was = now
    return false, told_on


def fabrics(count: int) -> None:
    print(f"\n{count} fabrics of 8 series a row, {NIGHTS} nights, judged every night\n")
    print(
        "| noise | false alarms in 2 months: mean, most | 5 % told by night 3 | 3 % by night 5 |"
    )
    print("|---|---|---|---|", flush=True)
    for kind in NOISES:
        quiet = [fabric(kind, number)[0] for number in range(count)]
        shares = [
            sum((fabric(kind, number, step)[1] or 99) <= by for number in range(count)) / count
            for step, by in ((5, 3), (3, 5))
        ]
        print(f"| {kind} | {np.mean(quiet):.2f}, {max(quiet)} | {shares[0]:.2f} "
              f"| {shares[1]:.2f} |", flush=True)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--series", type=int, default=400)
    parser.add_argument("--fabrics", type=int, default=20)
    given = parser.parse_args()
    detection(given.series)
    fabrics(given.fabrics)


if __name__ == "__main__":
    main()
