"""How exact the fitted line is where the truth is known: shaped links in the lab.

    python tests/performance/bench_accuracy.py --rates 50 100 200 400 --hosts 2 4 --runs 3

Per cell: fitted all_reduce busbw over the link's payload rate (rate x 1448/1514 at MTU 1500), the
width of its 95 % interval, in how many runs that interval covers the median of the other runs (the
truth with the lab's own bias), and the median error of the line at half-steps that it never saw.
Needs root or a user namespace; a run takes 20-30 s.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import tabulate

PAYLOAD = 1448 / 1514
ROOT = Path(__file__).parents[2]
LAB = """
hosts = {hosts}

[[network]]
name = "data"
interface = "data0"
rate_mbit = {rate}
"""
PLAN = """
name = "accuracy"
collectives = ["all_reduce"]
min_bytes = "4K"
max_bytes = "8M"
sessions = 3
cell_s = 0.3
held_out = true
budget_s = 120
"""


def run(rate: int, hosts: int) -> dict[str, Any]:
    """One sweep of a lab with one network; the line of that network."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "lab.toml").write_text(LAB.format(hosts=hosts, rate=rate))
        (folder / "plan.toml").write_text(PLAN)
        command = [
            sys.executable, "-m", "bench", "lab", "run", str(folder / "lab.toml"), "--out",
            str(folder / "run"), "--", "--plan", str(folder / "plan.toml"), "--interface", "data0",
        ]  # fmt: skip
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=400, check=False
        )
        if done.returncode != 0:
            raise SystemExit(done.stdout + done.stderr)
        report = json.loads((folder / "run" / "report.json").read_text())
    lines: list[dict[str, Any]] = report["lines"]
    return next(line for line in lines if line["candidate"] == "data0")


def row(rate: int, hosts: int, runs: int) -> list[Any]:
    """One cell of the table."""
    lines = [run(rate, hosts) for _ in range(runs)]
    truth = rate * 1e6 / 8 * PAYLOAD / 1e9
    values = [line["busbw_gbs"]["value"] / truth for line in lines]
    widths = [
        (line["busbw_gbs"]["high"] - line["busbw_gbs"]["low"]) / 2 / line["busbw_gbs"]["value"]
        for line in lines
    ]
    covered = 0
    for i, line in enumerate(lines):
        others = [v for j, v in enumerate(values) if j != i] or [values[i]]
        middle = statistics.median(others) * truth
        covered += line["busbw_gbs"]["low"] <= middle <= line["busbw_gbs"]["high"]
    held = [line["held_out_error"] for line in lines if line["held_out_error"] is not None]
    return [
        rate, hosts, f"{min(values):.1%} … {max(values):.1%}",
        f"±{statistics.median(widths):.1%}", f"{covered} of {runs}",
        f"{statistics.median(held):.1%}" if held else "-",
        "yes" if all(abs(value - 1) <= 0.03 for value in values) else "NO",
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rates", type=int, nargs="+", default=[50, 100, 200, 400])
    parser.add_argument("--hosts", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    rows = []
    for hosts in arguments.hosts:
        for rate in arguments.rates:
            rows.append(row(rate, hosts, arguments.runs))
            print(*rows[-1], flush=True)
    headers = (
        "Mbit/s", "hosts", "busbw of payload", "interval", "covers the other runs",
        "half-steps above 64 KiB", "within 3 %",
    )  # fmt: skip
    print(tabulate.tabulate(rows, headers))
    print(f"load {Path('/proc/loadavg').read_text().strip()}")


if __name__ == "__main__":
    main()
