"""Virtual clusters with one thing slow, or nothing: is it named, and how long does that take?

    python tests/performance/bench_locate_labs.py                      6 and 8 hosts, 3 runs each
    python tests/performance/bench_locate_labs.py --runs 10
    python tests/performance/bench_locate_labs.py --hosts 6 --faults link none --runs 1
    python tests/performance/bench_locate_labs.py --keep wrong    keeps the folders of wrong runs

Each run is a whole `lab run` with a short sweep (one collective, one session) on a network of
100 Mbit/s, without a fabric file: nothing but the pairs can tell who is slow. Right means that
the findings accuse exactly what was made slow, in the direction in which it was, and nothing else.
"run s" is the wall time of `lab run` (namespaces, torchrun and imports on every host, sweep, page,
tear-down), "locate s" the rounds of pairs alone, "estimated s" what was printed before they began.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tabulate

ROOT = Path(__file__).parents[2]
RATE_MBIT = 100
NETWORK = """
[[network]]
name = "data"
interface = "data0"
subnet = "10.2.0.0/24"
rate_mbit = {rate}
"""
FAULT = '\n[[fault]]\nkind = "rate"\nnetwork = "data"\nrate_mbit = {rate}\n'
SHORT = ("--sessions", "1", "--collective", "all_reduce", "--minbytes", "64K", "--maxbytes", "1M")
PAIR_CODES = {"host-slow", "rail-slow", "link-degraded", "latency-degraded", "below-expectation"}


@dataclass(frozen=True)
class Trouble:
    """Faults of a lab as lines of TOML, and (code, who, direction) of the right answer."""

    faults: tuple[str, ...]
    answer: frozenset[tuple[str, str, str]] = field(default_factory=frozenset)


def troubles(hosts: int) -> dict[str, Trouble]:
    """By name; the numbers differ with the number of hosts, so that not always one is guilty."""
    one, other = hosts // 2, hosts - 1
    return {
        "host": Trouble((f"host = {one}",), frozenset({("host-slow", f"host{one}", "both")})),
        "link": Trouble(
            (f"host = {one}\npeer = {other}",),
            frozenset({("link-degraded", f"host{one}-host{other}", "both")}),
        ),
        "transmit": Trouble(
            (f'host = {other}\ndirection = "transmit"',),
            frozenset({("host-slow", f"host{other}", "transmit")}),
        ),
        "two": Trouble(
            (f"host = {one}", f"host = {other}"),
            frozenset({("host-slow", f"host{h}", "both") for h in (one, other)}),
        ),
        "none": Trouble(()),
    }


def lab(hosts: int, trouble: Trouble) -> str:
    """The lab's file."""
    text = f"hosts = {hosts}\n" + NETWORK.format(rate=RATE_MBIT)
    return text + "".join(FAULT.format(rate=RATE_MBIT / 2) + f + "\n" for f in trouble.faults)


def found(report: dict[str, Any]) -> frozenset[tuple[str, str, str]]:
    """What the report accuses; direction from the suspect behind the finding."""
    ways = {}
    for suspect in report["location"]["suspects"] if report["location"] else ():
        who = suspect["host"] or "-".join(sorted(suspect["link"] or ()))
        ways[who] = suspect["direction"]
    accused = set()
    for finding in report["findings"]:
        if finding["code"] in PAIR_CODES or finding["severity"] in ("degraded", "broken"):
            where = finding["where"]
            who = where.get("host") or "-".join(sorted(where.get("link", ()))) or "?"
            accused.add((finding["code"], who, ways.get(who, "?")))
    return frozenset(accused)


def run(text: str, folder: Path) -> tuple[float, float | None, float | None, dict[str, Any]]:
    """Wall seconds of the run, of the rounds, as estimated; and the report."""
    file, out = folder / "lab.toml", folder / "run"
    file.write_text(text)
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "bench", "lab", "run", str(file), "--out", str(out), "--", *SHORT],
        cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    wall_s = time.monotonic() - began
    if done.returncode != 0:
        raise SystemExit(done.stdout + done.stderr)
    rounds = [json.loads(line) for line in (out / "samples.jsonl").read_text().splitlines()]
    took = [one["duration_s"] for one in rounds if "pair_round" in one]
    ahead = re.search(r"about (?:(\d+) min )?(\d+(?:\.\d+)?) s", done.stdout.split("locate ")[-1])
    estimate = float(ahead[2]) + 60 * float(ahead[1] or 0) if ahead else None
    report = json.loads((out / "report.json").read_text())
    return wall_s, sum(took) if took else None, estimate, report


def row(hosts: int, name: str, runs: int, keep: Path | None) -> tuple[list[Any], int]:
    """One line of the table, and how many runs were right."""
    trouble = troubles(hosts)[name]
    walls, locates, estimates, right, wrong = [], [], [], 0, []
    for _ in range(runs):
        with tempfile.TemporaryDirectory() as folder:
            wall_s, locate_s, estimate_s, report = run(lab(hosts, trouble), Path(folder))
            if keep is not None and found(report) != trouble.answer:
                shutil.copytree(folder, keep / f"{hosts}-{name}-{time.time():.0f}")
        walls.append(wall_s)
        locates.append(locate_s or 0.0)
        estimates.append(estimate_s or 0.0)
        answer = found(report)
        right += answer == trouble.answer
        if answer != trouble.answer:
            wrong.append(", ".join(" ".join(one) for one in sorted(answer)) or "nothing")
    line = [
        hosts, name, f"{right} of {runs}", f"{statistics.median(walls):.0f}", f"{max(walls):.0f}",
        f"{statistics.median(locates):.1f}", f"{statistics.median(estimates):.0f}",
        "; ".join(wrong) or "-",
    ]  # fmt: skip
    return line, right


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--hosts", type=int, nargs="+", default=[6, 8])
    names = list(troubles(6))
    parser.add_argument("--faults", nargs="+", default=names, choices=names)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--keep", type=Path, help="folder for the runs whose answer is wrong")
    arguments = parser.parse_args()
    rows, right = [], 0
    for hosts in arguments.hosts:
        for name in arguments.faults:
            line, good = row(hosts, name, arguments.runs, arguments.keep)
            rows.append(line)
            right += good
            print(*line, flush=True)
    headers = (
        "hosts", "slow", "right", "run s", "worst", "locate s", "estimated s", "wrong answers"
    )  # fmt: skip
    print(tabulate.tabulate(rows, headers))
    total = len(rows) * arguments.runs
    print(f"{right} of {total} right; load {Path('/proc/loadavg').read_text().strip()}")


if __name__ == "__main__":
    main()
