"""Prints how long a year of nights takes to be judged, and how much memory.

    python tests/performance/bench_history.py [--hosts 1024]

365 nights in a folder, the last three 9 % slower: of 4 hosts, then of many, each judged by the
real command once with nothing known (every report is read) and once as on any other night (what
earlier nights were is in .nights.jsonl). The goal is 5 s and 500 MB on an idle machine; CPU
seconds are printed beside the wall's, for a machine that is not.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import made_nights as made

from bench.records import Location, PairFigure, PairTime, Report
from bench.report import stored

ROOT = Path(__file__).resolve().parents[2]
NIGHTS, LATE, SEED = 365, 3, 12


def located(report: Report, rng: np.random.Generator) -> Report:
    """With three rounds of pairs, so that every host has its place in the fleet."""
    names = [facts.host for facts in report.hosts]
    figures = []
    for number in range(3):
        order = rng.permutation(len(names)).tolist()
        for one, other in zip(order[::2], order[1::2], strict=False):
            time_s = 1e-3 * float(np.exp(0.01 * rng.standard_normal()))
            figures.append(
                PairFigure(
                    round=number, stage="screen", hosts=(names[one], names[other]),
                    size_bytes=2**21, times=(PairTime(forward_s=time_s, backward_s=time_s),),
                )
            )  # fmt: skip
    where = Location(hosts=tuple(names), figures=tuple(figures), threshold=0.05)
    return msgspec.structs.replace(report, location=where)


def year(folder: Path, hosts: int) -> str:
    rng = np.random.default_rng(SEED)
    names = [f"node{number:04d}" for number in range(hosts)]
    slow = {(c, k, "large"): 0.086 for c in ("data", "(default)") for k in made.COLLECTIVES}
    for night in range(NIGHTS):
        late = night >= NIGHTS - LATE
        report = made.report(night, made.noisy(rng, slow if late else {}), hosts=names)
        made.keep(folder, located(report, rng))
    return report.run


def judged(folder: Path, run: str) -> tuple[float, float, float]:
    """Wall seconds, CPU seconds and MiB of one `bench nightly --judge`."""
    command = [sys.executable, "-m", "bench", "nightly", "--judge", str(folder / run), "--json"]
    began = time.monotonic()
    child = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.DEVNULL, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    _, status, usage = os.wait4(child.pid, 0)
    assert os.waitstatus_to_exitcode(status) == 1, "the last three nights are an alarm"
    spent = usage.ru_utime + usage.ru_stime
    return time.monotonic() - began, spent, usage.ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=1024)
    given = parser.parse_args()
    for hosts in (4, given.hosts):
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place) / "history"
            run = year(folder, hosts)
            size = sum((f / stored.REPORT_NAME).stat().st_size for f in folder.iterdir())
            print(f"{NIGHTS} nights of {hosts} hosts, {size / 2**20:.0f} MiB of reports")
            for what in ("nothing known", "as on any other night"):
                wall_s, cpu_s, peak = judged(folder, run)
                print(f"  {what}: {wall_s:.1f} s ({cpu_s:.1f} s of CPU), {peak:.0f} MiB")
            index = (folder / ".nights.jsonl").stat().st_size
            print(f"  .nights.jsonl: {index / 2**20:.1f} MiB")


if __name__ == "__main__":
    main()
