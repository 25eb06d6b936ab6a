"""Real training steps against what `cost` says of them, in the lab over gloo.

    ./run.sh bench cost --params 1 10 50 --hosts 2 4 --rates 100 400

Per cell: a sweep of the lab measures its lines; then one rank on each host takes real steps of
DDP, FSDP2 (resharding and not) and ZeroRedundancyOptimizer with torch 2.13. Counts and sizes must
be exact (as called, and as the Flight Recorder saw them), bytes sent within 3 % of what data0
counted (a virtual interface counts segments of up to 64 KiB, one header each), communication time,
each collective alone, within 15 % in the median. Needs the lab.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tabulate

from bench.commands import fabric_lines
from bench.lab import checks, running
from bench.model.strategies import outcome
from bench.model.strategies.measured import MeasuredLine
from bench.records import Model, ModelUnit, StrategyCost, TrainingJob, Weight

ROOT = Path(__file__).parents[2]
STEP = Path(__file__).with_name("training_step.py")
SIZES = {1: (256, 14), 10: (1024, 8), 50: (2048, 10)}  # millions of parameters: hidden, blocks
STEPS = 3  # measured of a smaller model; their median counts
LARGE = 50  # a step takes half a minute at 100 Mbit/s
FAST = 200  # Mbit/s; below, the largest model takes the lab for itself
STRATEGIES = {"ddp": "DDP", "zero1": "ZeRO-1", "fsdp": "ZeRO-3", "fsdp-keep": "ZeRO-2"}
LAB = """
hosts = {hosts}

[[network]]
name = "mgmt"
interface = "mgmt0"
rate_mbit = 1000

[[network]]
name = "data"
interface = "data0"
rate_mbit = {rate}
"""
PLAN = """
name = "cost"
collectives = ["all_reduce", "all_gather", "reduce_scatter", "broadcast"]
min_bytes = "4K"
max_bytes = "8M"
sessions = {sessions}
cell_s = 0.15
budget_s = 150
"""
Told = dict[str, Any]


def model(hidden: int, blocks: int) -> Model:
    """The Net of training_step.py."""

    def layer(name: str) -> tuple[Weight, ...]:
        return (
            Weight(name=name, shape=(hidden, hidden)),
            Weight(name=f"{name}.bias", shape=(hidden,)),
        )

    root = ModelUnit(name="root", root=True, weights=(*layer("embedding"), *layer("head")))
    block = ModelUnit(name="block", count=blocks, weights=layer("block"))
    return Model(name="net", units=(root, block), basis="config", layers=blocks)


@contextlib.contextmanager
def alone(file: str) -> Iterator[None]:
    """One lab at a time where several people share a machine."""
    if not file:
        yield
        return
    with Path(file).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def sweep(folder: Path, hosts: int, rate: int, sessions: int) -> tuple[MeasuredLine, ...]:
    """The lines of data0 in this lab."""
    (folder / "lab.toml").write_text(LAB.format(hosts=hosts, rate=rate))
    (folder / "plan.toml").write_text(PLAN.format(sessions=sessions))
    command = [
        sys.executable, "-m", "bench", "lab", "run", str(folder / "lab.toml"), "--out",
        str(folder / "run"), "--", "--plan", str(folder / "plan.toml"), "--interface", "data0",
        "--locate", "never", "--quiet",
    ]  # fmt: skip
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=400, check=False
    )
    if done.returncode != 0:
        raise SystemExit(done.stdout + done.stderr)
    return fabric_lines.gather([str(folder / "run")], "data0").chosen


def steps(folder: Path, hosts: int, rate: int, millions: int, which: list[str]) -> list[Told]:
    """What rank 0 tells of each strategy's step."""
    (folder / "lab.toml").write_text(LAB.format(hosts=hosts, rate=rate))
    lab = checks.load(folder / "lab.toml")
    hidden, blocks = SIZES[millions]
    with running.open_lab(lab, needed=[ROOT]) as ground:
        address = ground.lab.network_named("mgmt").address_of(1).partition("/")[0]
        started = [
            ground.start(
                host,
                [
                    sys.executable, str(STEP), *which, "--rank", str(rank), "--ranks", str(hosts),
                    "--steps", str(1 if millions >= LARGE else STEPS),
                    "--store", f"{address}:29777",
                    "--hidden", str(hidden), "--blocks", str(blocks),
                ],
                environment={**os.environ, "TORCH_FR_BUFFER_SIZE": "2000"},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
            for rank, host in enumerate(ground.hosts)
        ]  # fmt: skip
        try:
            output = [process.communicate(timeout=580)[0].decode() for process in started]
        finally:
            for process in started:
                process.kill()
    if any(process.returncode for process in started):
        raise SystemExit("\n".join(output))
    return [json.loads(line) for line in output[0].splitlines() if line.startswith("{")]


def predicted(
    hosts: int, millions: int, lines: tuple[MeasuredLine, ...], which: str
) -> StrategyCost:
    """The row of `cost` for this step."""
    job = TrainingJob(
        model=model(*SIZES[millions]),
        ranks=hosts,
        hosts=hosts,
        precision="fp32",
        optimizer="sgd",
        framework="torch",
        backend="gloo",
    )
    rows, _ = outcome.costs(job, lines)
    return next(row for row in rows if row.strategy == STRATEGIES[which.removesuffix("-plain")])


def counts(row: StrategyCost, *, gloo: bool) -> dict[str, int]:
    """By collective; as gloo's recorder names them, a reduce_scatter is an all_reduce."""
    found: Counter[str] = Counter()
    for use in row.collectives:
        name = use.collective
        found["all_reduce" if gloo and name == "reduce_scatter" else name] += use.count
    return dict(found)


def payload(row: StrategyCost) -> dict[str, int]:
    """Bytes of all calls, by collective."""
    found: Counter[str] = Counter()
    for use in row.collectives:
        found[use.collective] += round(use.count * use.size_bytes)
    return dict(found)


def compared(row: StrategyCost, told: Told) -> list[Any]:
    """Counts exact?, bytes predicted over counted, seconds predicted and measured, their ratio."""
    plain = told["strategy"].endswith("-plain")
    exact = told["recorded"] == counts(row, gloo=True)
    if not plain:
        exact = exact and told["counts"] == counts(row, gloo=False)
        exact = exact and told["payload"] == payload(row)
    assert row.communication_s is not None
    foretold, took = row.communication_s.value, told["seconds"]
    return [exact, row.sent_bytes / told["sent"], foretold, took, foretold / took]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--params", type=int, nargs="+", default=[1, 10, 50], choices=SIZES)
    parser.add_argument("--hosts", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--rates", type=int, nargs="+", default=[400, 100])
    parser.add_argument("--sessions", type=int, default=2)
    parser.add_argument("--lock", default="", help="a file that labs here take turns by")
    arguments = parser.parse_args()
    rows: list[list[Any]] = []
    for rate in arguments.rates:
        large = [each for each in arguments.params if each >= LARGE and rate < FAST]
        small = [each for each in arguments.params if each not in large] or large
        large = [each for each in large if each not in small]
        for hosts in arguments.hosts:
            with alone(arguments.lock), tempfile.TemporaryDirectory() as name:
                lines = sweep(Path(name), hosts, rate, arguments.sessions)
                for millions in small:
                    rows += cell(Path(name), hosts, rate, millions, lines)
            for millions in large:
                time.sleep(1)  # others may take the lab
                with alone(arguments.lock), tempfile.TemporaryDirectory() as name:
                    rows += cell(Path(name), hosts, rate, millions, lines)
    show(rows)


def cell(
    folder: Path, hosts: int, rate: int, millions: int, lines: tuple[MeasuredLine, ...]
) -> list[list[Any]]:
    """A row per strategy."""
    which = [*STRATEGIES, *(["ddp-plain"] if millions < LARGE else [])]
    made = []
    for told in steps(folder, hosts, rate, millions, which):
        row = predicted(hosts, millions, lines, told["strategy"])
        made.append([rate, hosts, f"{millions} M", told["strategy"], *compared(row, told)])
        print(*made[-1], told["counts"] or told["recorded"], flush=True)
    return made


def show(rows: list[list[Any]]) -> None:
    heads = ("Mbit/s", "hosts", "params", "strategy", "counts exact", "bytes / counted",
             "predicted s", "measured s", "ratio")  # fmt: skip
    print(tabulate.tabulate(rows, heads, floatfmt=".3f"))
    timed = [row[-1] for row in rows if row[-1] == row[-1]]
    bytes_off = max(abs(row[5] - 1) for row in rows)
    print(f"counts exact: {sum(row[4] for row in rows)} of {len(rows)}")
    print(f"bytes: at most {bytes_off:.1%} off (goal 3 %)")
    off = statistics.median(abs(ratio - 1) for ratio in timed)
    print(f"time: median {off:.1%} off (goal 15 %), {min(timed):.2f} to {max(timed):.2f}")
    print(f"load {Path('/proc/loadavg').read_text().strip()}")


if __name__ == "__main__":
    main()
