"""The shipped labs end to end: verdict and codes against what each lab says it shows, and seconds.

    python tests/performance/bench_labs.py                      every shipped lab once
    python tests/performance/bench_labs.py --labs healthy --runs 10

Wall seconds are whole-process figures from the start of `lab run` to its end (lab, torchrun,
imports, sweep, page, tear-down). "settled" is how long after the sweep's start (imports not
counted) the last case that failed or hung had ended; "start" is the median over all sessions but
the first of how long a worker took from the request to its first words.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import tabulate

ROOT = Path(__file__).parents[2]
LABS = ROOT / "configs" / "labs"


def run(lab: Path, out: Path) -> tuple[float, dict[str, Any]]:
    """(wall seconds, report) of one lab."""
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "bench", "lab", "run", str(lab), "--out", str(out)],
        cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise SystemExit(done.stdout + done.stderr)
    return time.monotonic() - began, json.loads((out / "report.json").read_text())


def expected(lab: Path) -> set[str]:
    """The codes that the lab's own comment promises."""
    found = re.search(r"^# expect: *(.*)$", lab.read_text(), re.M)
    return set(re.findall(r"[a-z]+(?:-[a-z]+)+", found[1])) if found else set()


def row(lab: Path) -> list[Any]:
    with tempfile.TemporaryDirectory() as name:
        wall_s, report = run(lab, Path(name) / "run")
        size_kb = (Path(name) / "run" / "report.json").stat().st_size / 1000
    serious = {f["code"] for f in report["findings"] if f["severity"] in ("degraded", "broken")}
    sessions = report["sessions"]
    zero = min((s["started_at"] for s in sessions), default=0.0)
    settled = max(
        (s["started_at"] + s["duration_s"] - zero for s in sessions if s["outcome"] != "measured"),
        default=None,
    )
    starts = [r["start_s"] for s in sessions[1:] for r in s["ranks"] if r["start_s"] is not None]
    return [
        lab.stem,
        report["verdict"],
        ", ".join(sorted(serious)) or "-",
        "yes" if serious == expected(lab) else "NO",
        f"{wall_s:.0f}",
        f"{report['duration_s']:.0f}",
        "-" if settled is None else f"{settled:.1f}",
        f"{statistics.median(starts) * 1e3:.0f}" if starts else "-",
        f"{size_kb:.0f}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser()
    names = sorted(path.stem for path in LABS.glob("*.toml"))
    parser.add_argument("--labs", nargs="+", default=names, choices=names)
    parser.add_argument("--runs", type=int, default=1)
    arguments = parser.parse_args()
    rows = []
    for name in arguments.labs:
        for _ in range(arguments.runs):
            rows.append(row(LABS / f"{name}.toml"))
            print(*rows[-1], flush=True)
    headers = (
        "lab", "verdict", "degraded or worse", "as promised", "wall s", "sweep s",
        "failures settled s", "worker start ms", "report KB",
    )  # fmt: skip
    print(tabulate.tabulate(rows, headers))
    right = sum(row[3] == "yes" for row in rows)
    print(f"{right} of {len(rows)} as promised; load {Path('/proc/loadavg').read_text().strip()}")


if __name__ == "__main__":
    main()
