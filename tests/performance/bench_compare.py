"""Prints how often `bench compare` is wrong, how small a change it finds, how fast it is.

    python tests/performance/bench_compare.py [--sets N] [--only errors|speed|scorer]
                                              [--scorer FILE]

Sessions are simulated: 4 collectives x 21 sizes (1 KiB to 1 GiB), a session's shift of CV 1 %, of
whose variance 80 % is shared by the sizes of a collective, per call noise of CV 3 %, 30 calls. The
fixed 5 % rule, Mann-Whitney on pooled calls and SuperBench's rule stand beside it on the same
sessions. Then two
reports of 1,024 hosts and 10 candidates through the whole command. `--scorer` is a program that
writes such sessions and asks an adapter (compare_adapter.py) about each pair of files.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import math
import resource
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import msgspec
import numpy as np
from scipy import stats

from bench import cli
from bench.model.comparison import compare
from bench.model.one_offs import calmed
from bench.model.repeated_curves import Curves
from bench.records import (
    Candidate,
    Case,
    CostLine,
    Gpu,
    HostFacts,
    Interface,
    Plan,
    PlanSettings,
    Point,
    RankOutcome,
    RdmaPort,
    Report,
    Sample,
    Session,
    Software,
)
from bench.report.stored import Header, encode, plain

SIZES = np.array([1 << p for p in range(10, 31)], float)
CALLS, SESSION_CV, CALL_CV, SHARED = 30, 0.01, 0.03, 0.8
MOVED = ("regressed", "improved")
SUPERBENCH_VARIANCE = 0.05


def side(rng, sessions, *, percent=0.0, local=None, lines=4, tail=None, uneven=False):
    """ln of call times (lines, sizes, sessions, calls); `percent` slows all sizes of line 0."""
    draw = rng.standard_normal if tail is None else lambda s: rng.standard_t(3, s) / math.sqrt(3)
    shift = SESSION_CV * (
        math.sqrt(SHARED) * draw((lines, 1, sessions))
        + math.sqrt(1 - SHARED) * draw((lines, 21, sessions))
    )
    noise = CALL_CV * rng.standard_normal((lines, 21, sessions, CALLS))
    y = shift[..., None] + noise
    if uneven:  # small sizes five times as noisy, lines by up to a factor of four
        y *= np.where(SIZES < 65536, 5, 1)[:, None, None]
        y *= np.exp(rng.uniform(-0.7, 0.7, lines))[:, None, None, None]
    y[0] += math.log1p(percent / 100)
    if local is not None:
        first, last, factor = local
        y[0, first:last] += math.log(factor)
    return y


def judged(before, after):
    rows = [np.median(y, -1) for y in (before, after)]
    return compare(
        [
            Curves(SIZES, calmed(a.T, SIZES)[0], calmed(b.T, SIZES)[0])
            for a, b in zip(*rows, strict=True)
        ]
    )


def verdicts(lines):
    return [{gate.verdict for gate in line.gates} for line in lines]


def fixed(before, after):
    """One session a side, more than 5 % slower at any size."""
    a, b = (np.exp(y[:, :, 0]).mean(-1) for y in (before, after))
    return (b / a > 1.05).any(1)


def pooled(before, after):
    a, b = (y.reshape(-1, y.shape[2] * y.shape[3]) for y in (before, after))
    p = stats.mannwhitneyu(b, a, axis=1, method="asymptotic").pvalue
    slower = np.median(b, 1) > np.median(a, 1)
    return ((p < 0.05) & slower).reshape(before.shape[0], -1).any(1)


def superbench(before, after, *, enough=0.5):
    """SuperBench's rule (its analyzer's `variance`, above 5 %) where a session plays the part of a
    node: means over calls against the mean of all sessions before, in `enough` of those after."""
    a, b = (np.exp(y).mean(-1) for y in (before, after))
    over = b / a.mean(-1, keepdims=True) - 1 > SUPERBENCH_VARIANCE
    return (over.sum(-1) >= max(1, enough * b.shape[-1])).any(1)


def share(count, of):
    """ "0.045 ±0.014": with the standard error of a share."""
    p = count / of
    return f"{p:.3f} ±{math.sqrt(max(p * (1 - p), 1 / of) / of):.3f}"


def errors(sets):
    print(f"{sets} comparisons a row; k sessions a side")
    print("\nany alarm of A against A (4 lines), and other rules on the same sessions")
    for name, k, how in (
        ("k 3", 3, {}), ("k 5", 5, {}), ("k 10", 10, {}), ("k 5, heavy tails", 5, {"tail": "t3"}),
        ("k 5, uneven noise", 5, {"uneven": True}), ("k 3, uneven noise", 3, {"uneven": True}),
        ("k 5, uneven, 20 lines", 5, {"uneven": True, "lines": 20}),
    ):  # fmt: skip
        rng = np.random.default_rng([1, k, len(name)])
        alarms = equal = five = mann = super_ = 0
        for _ in range(sets):
            before, after = side(rng, k, **how), side(rng, k, **how)
            found = verdicts(judged(before, after))
            alarms += any(v & set(MOVED) for v in found)
            equal += all(v == {"equivalent"} for v in found)
            five += fixed(before, after).any()
            mann += pooled(before, after).any()
            super_ += superbench(before, after, enough=0).any()
        print(f"  {name:24} {share(alarms, sets)}   all equivalent {equal / sets:.2f}   fixed 5 % "
              f"{five / sets:.2f}   pooled {mann / sets:.2f}   SuperBench {super_ / sets:.2f}",
              flush=True)  # fmt: skip
    print("\na change of one line's sizes: found, and exactly right (that line and no other)")
    for k in (3, 5, 10):
        for percent in (2, 3, 5):
            rng = np.random.default_rng([2, k, percent])
            hit = right = five = mann = half = once = 0
            for _ in range(sets):
                before, after = side(rng, k), side(rng, k, percent=percent)
                found = ["regressed" in v for v in verdicts(judged(before, after))]
                hit += found[0]
                right += found == [True, False, False, False]
                one, other = fixed(before, after), pooled(before, after)
                five += one[0] and not one[1:].any()
                mann += other[0] and not other[1:].any()
                half += superbench(before, after)[0]
                once += superbench(before, after, enough=0)[0]
            print(f"  k {k:2}, {percent} %   found {share(hit, sets)}   exactly right "
                  f"{right / sets:.2f}; fixed 5 % {five / sets:.2f}, pooled {mann / sets:.2f}; "
                  f"SuperBench finds {half / sets:.2f}, by any session {once / sets:.2f}",
                  flush=True)  # fmt: skip
    print("\na change confined to neighbouring sizes: found, and exactly those sizes named")
    for k, local in ((3, (10, 12, 2.0)), (5, (10, 12, 2.0)), (5, (5, 7, 2.0)), (5, (8, 12, 1.1)),
                     (5, (19, 21, 1.2))):  # fmt: skip
        rng = np.random.default_rng([3, k, *map(int, local)])
        hit = named = 0
        for _ in range(sets):
            line = judged(side(rng, k), side(rng, k, local=local))[0]
            moved = {at for at, flag in enumerate(line.moved) if flag}
            wanted = set(range(local[0], local[1]))
            hit += any(gate.verdict == "regressed" for gate in line.gates) and wanted <= moved
            named += moved == wanted
        print(f"  k {k}, {local[1] - local[0]} sizes x {local[2]}   found {share(hit, sets)}"
              f"   exactly {named / sets:.2f}", flush=True)  # fmt: skip


# ------------------------------------------------------------------------------------------ speed


def host(number, driver):
    return HostFacts(
        host=f"host{number}", hostname=f"host{number}", identity=f"{number}", node_rank=number,
        ranks=tuple(range(8 * number, 8 * number + 8)), boot_id=f"boot-{driver}-{number}",
        cores=96,
        interfaces=tuple(
            Interface(name=f"ens{i}", kind="physical", index=i, mtu=9000, up=True,
                      speed_mbit=400_000)
            for i in range(10)
        ),
        gpus=tuple(
            Gpu(index=i, name="NVIDIA H100 80GB HBM3", vbios="96.00.74", nvlinks_active=18,
                pcie_max_generation=5, pcie_width=16)
            for i in range(8)
        ),
        rdma_ports=tuple(
            RdmaPort(device=f"mlx5_{i}", port=1, state="ACTIVE", rate_gbit=400.0, active_mtu=4096,
                     firmware="28.39.1002")
            for i in range(8)
        ),
        software=Software(torch="2.13.0", nccl="2.32.3", driver=driver, kernel="6.8.0",
                          packages={"numpy": "2.2.0"}),
        environment={f"NCCL_SETTING_{i}": "1" for i in range(12)},
    )  # fmt: skip


def large_run(folder, driver, slower, hosts, candidates):
    """A finished run's folder, three sessions of every candidate."""
    rng = np.random.default_rng(len(driver) + int(slower * 1000))
    names = [f"net{i}" for i in range(candidates)]
    collectives = ("all_reduce", "all_gather")
    facts = tuple(host(i, driver) for i in range(hosts))
    sizes = [int(size) for size in SIZES]
    plan = Plan(settings=PlanSettings(name="large", collectives=collectives, sessions=3),
                ranks=8 * hosts, hosts=hosts, sizes_bytes=tuple(sizes))  # fmt: skip
    planned = tuple(Candidate(name=name, kind="network") for name in names)
    header = Header(run=folder.name, hosts=facts, plan=plan, candidates=planned)
    ranks = tuple(
        RankOutcome(rank=r, host=f"host{r // 8}", outcome="ok") for r in range(8 * hosts)
    )
    lines, sessions = [], []
    for at, name in enumerate(names):
        for k in range(3):
            samples = [
                Sample(collective=c, size_bytes=n,
                       times_s=tuple(float(t) for t in time_of(n, slower if at == 0 else 1.0)
                                     * np.exp(0.01 * rng.standard_normal(30))))
                for c in collectives for n in sizes
            ]  # fmt: skip
            sessions.append(Session(case=Case(number=3 * at + k, candidate=name, session=k),
                                    outcome="measured", samples=tuple(samples), ranks=ranks,
                                    started_at=float(60 * (3 * at + k))))  # fmt: skip
        for c in collectives:
            points = tuple(
                Point(size_bytes=n, time_s=float(time_of(n)), low_s=float(time_of(n)) * 0.99,
                      high_s=float(time_of(n)) * 1.01, iterations=90, sessions=3, algbw_gbs=1.0,
                      busbw_gbs=1.0)
                for n in sizes
            )  # fmt: skip
            lines.append(CostLine(candidate=name, collective=c, ranks=8 * hosts, points=points))
    report = Report(run=folder.name, verdict="healthy", hosts=facts, plan=plan, backend="nccl",
                    candidates=tuple(Candidate(name=n, kind="network", outcome="measured")
                                     for n in names), lines=tuple(lines))  # fmt: skip
    folder.mkdir(parents=True)
    (folder / "report.json").write_bytes(encode(report))
    with (folder / "samples.jsonl").open("wb") as stream:
        for record in (header, *sessions):
            stream.write(msgspec.json.encode(plain(record)) + b"\n")


def time_of(size, slower=1.0):
    return slower * (20e-6 + size / 200e9)


def speed(hosts=1024, candidates=10):
    with tempfile.TemporaryDirectory() as place:
        folders = [Path(place) / name for name in ("before", "after")]
        large_run(folders[0], "550.54.15", 1.0, hosts, candidates)
        large_run(folders[1], "570.86.10", 1.06, hosts, candidates)
        weights = [sum(f.stat().st_size for f in one.iterdir()) / 2**20 for one in folders]
        began, cpu = time.perf_counter(), time.process_time()
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            status = cli.main(["compare", *map(str, folders)], stdout=out)
        taken, cpu = time.perf_counter() - began, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"two runs of {hosts:,} hosts, {candidates} candidates ({weights[0]:.0f} MiB each): "
          f"{taken:.2f} s ({cpu:.2f} s of a core), exit {status}, this process at most "
          f"{peak:.0f} MiB")  # fmt: skip
    return taken


def scored(scorer, sets):
    adapter = Path(__file__).with_name("compare_adapter.py")
    command = shlex.join([sys.executable, str(adapter), "{a}", "{b}"])
    with tempfile.TemporaryDirectory() as place:
        for change in (0, 3):
            folder = str(Path(place) / f"change{change}")
            write = ["write", folder, "--sessions", "5", "--change", str(change)]
            subprocess.run([sys.executable, scorer, *write, "--sets", str(sets), "--seed",
                            str(11 + change)], check=True)  # fmt: skip
            for more in ([], ["--command", command]):
                print(f"change {change} %", flush=True)
                subprocess.run([sys.executable, scorer, "score", folder, *more], check=True)
            found = [superbench(*both, enough=enough)
                     for both in map(written, sorted(Path(folder).glob("set_*")))
                     for enough in (0.5, 0)]  # fmt: skip
            for name, own in (("half the sessions", found[::2]), ("any session", found[1::2])):
                any_, first = (np.mean([f.any() for f in own]), np.mean([f[0] for f in own]))
                print(f"SuperBench, {name:17}  any alarm {any_:.3f}  all_reduce {first:.3f}  "
                      f"(n {len(own)})", flush=True)  # fmt: skip


def written(folder):
    """Both sides of a written set, as logs (collectives, sizes, sessions, calls)."""
    for name in ("a", "b"):
        cells = json.loads((folder / f"{name}.json").read_text())["cells"]
        y = np.log(np.array([cell["sessions"] for cell in cells]))
        yield y.reshape(len({cell["collective"] for cell in cells}), -1, *y.shape[1:])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", type=int, default=400)
    parser.add_argument("--only", choices=("errors", "speed", "scorer"))
    parser.add_argument("--scorer", help="such as regress_power.py")
    given = parser.parse_args()
    if given.only in (None, "speed"):
        speed()
    if given.only in (None, "errors"):
        errors(given.sets)
    if given.scorer:
        scored(given.scorer, given.sets)


if __name__ == "__main__":
    main()
