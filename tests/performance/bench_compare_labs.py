"""`bench compare` on real measurements: nothing changed between the sides, or one rate lowered.

    python tests/performance/bench_compare_labs.py [--runs N] [--lowered 5 10] [--keep DIR]

Two hosts on two networks; each run is a lab built anew and swept for five sessions. A against A
are consecutive runs, so N runs make N - 1 comparisons: none may alarm. Then as many runs with the
data network's rate lowered, each held against a run before: it must be found, on that network and
no other, with the fitted bandwidth's ratio within 1.5 % of the rates'. Wants a machine that does
nothing else; the lab's kernel, TCP and torchrun are real, its rates are not a fabric's.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
RATE_MBIT, OTHER_MBIT = 200, 80
LAB = """hosts = 2
[[network]]
name = "data"
interface = "data0"
subnet = "10.2.0.0/24"
rate_mbit = {rate}

[[network]]
name = "mgmt"
interface = "mgmt0"
subnet = "10.1.0.0/24"
rate_mbit = {other}
"""
# Both sides go up to the same size: a ladder that ends at its plateau ends where noise lets it.
PLAN = """name = "two-sides"
collectives = ["all_reduce"]
min_bytes = "8K"
max_bytes = "2M"
sessions = 5
early_stop = false
budget_s = 180.0
"""
WITHIN = 0.015


def measured(place: Path, name: str, rate_mbit: float) -> Path:
    lab, out = place / f"{name}.toml", place / name
    if (out / "report.json").exists():
        return out  # kept by an earlier call with --keep
    lab.write_text(LAB.format(rate=rate_mbit, other=OTHER_MBIT))
    plan = place / "plan.toml"
    plan.write_text(PLAN)
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "bench", "lab", "run", str(lab), "--out", str(out), "--",
         "--plan", str(plan), "--locate", "never", "--quiet"],
        cwd=ROOT, capture_output=True, text=True, timeout=400, check=False,
    )  # fmt: skip
    if not (out / "report.json").exists():
        raise SystemExit(done.stdout + done.stderr)
    print(f"  {name}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    return out


def compared(before: Path, after: Path) -> tuple[int, dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-m", "bench", "compare", str(before), str(after), "--json"],
        cwd=ROOT, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    if done.returncode not in (0, 1):
        raise SystemExit(done.stderr)
    return done.returncode, json.loads(done.stdout)


def named(result: dict[str, Any], code: str) -> set[str]:
    return {f["where"].get("candidate", "") for f in result["findings"] if f["code"] == code}


def line(result: dict[str, Any], candidate: str) -> dict[str, Any]:
    return next(one for one in result["lines"] if one["candidate"] == candidate)


def ratio(result: dict[str, Any]) -> float:
    return 1 + line(result, "data0")["busbw_gbs"]["change"]["value"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=21)
    parser.add_argument("--lowered", type=float, nargs="*", default=[5.0, 10.0])
    parser.add_argument("--each", type=int, default=5, help="runs of every lowered rate")
    parser.add_argument("--keep", type=Path, help="keep the runs there, and go on with them")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        place = given.keep or Path(name)
        place.mkdir(parents=True, exist_ok=True)
        same = [measured(place, f"same-{i}", RATE_MBIT) for i in range(given.runs)]
        alarms, equal = 0, 0
        for one, other in itertools.pairwise(same):
            status, result = compared(one, other)
            moved = named(result, "regressed") | named(result, "improved")
            alarms += bool(moved)
            gates = [(one["candidate"], gate) for one in result["lines"] for gate in one["gates"]]
            large = [gate for _, gate in gates if gate["sizes"] == "large"]
            equal += all(gate["verdict"] == "equivalent" for gate in large)
            told = ", ".join(
                f"{name} {g['sizes']} {100 * g['whole']['time_s']['change']['value']:+.1f} %"
                for name, g in gates
            )
            print(f"same   exit {status}  {result['verdict']:12}  data {ratio(result):.4f}"
                  f"  {sorted(moved) or ''}  {told}", flush=True)  # fmt: skip
        print(f"A against A: {alarms} alarms in {len(same) - 1}; large sizes all equivalent in "
              f"{equal}", flush=True)  # fmt: skip
        for percent in given.lowered:
            truth = 1 - percent / 100
            runs = [measured(place, f"lowered-{percent:g}-{i}", RATE_MBIT * truth)
                    for i in range(given.each)]  # fmt: skip
            found = near = 0
            for one, other in zip(same, runs, strict=False):
                status, result = compared(one, other)
                moved = named(result, "regressed")
                right = "data0" in moved and "mgmt0" not in moved and status == 1
                close = abs(ratio(result) / truth - 1) <= WITHIN
                found, near = found + right, near + close
                print(f"-{percent:g} %   exit {status}  {sorted(moved)}  data "
                      f"{ratio(result):.4f} of {truth:g}", flush=True)  # fmt: skip
            print(f"-{percent:g} %: found {found} of {len(runs)}, ratio within 1.5 % in {near}",
                  flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
