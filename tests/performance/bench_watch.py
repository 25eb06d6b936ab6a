"""What `watch` costs: step time of a gloo training loop with it and without.

In one job `watch` is stopped and continued in turns (SIGSTOP, SIGCONT), and the steps of
neighbouring turns are compared: what it asks of the ranks and what it does beside them is all in
the difference, and the machine's own moods are mostly not. Then whole jobs run A B B A, each a
fresh torchrun, for what costs all the time. Printed: ratios with 95 % t-intervals; the CPU time
that the kernel counts for the threads that answer, and for watch; what one look and one list of
calls cost a rank whose recorder is full.
`./run.sh bench watch [PAIRS OF JOBS] [PAIRS OF TURNS] [RANKS]`: four minutes as it is.
"""

from __future__ import annotations

import json
import math
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from scipy.stats import t as student

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from bench.hang.watch import proc

ROOT = Path(__file__).resolve().parents[2]
GOAL = 1.01
TURN_S, WARM_S = 12.0, 6.0  # the dear question comes once in eleven seconds
JOB_S = 5.0

TRAIN = """
import json, sys, time
import torch
import torch.distributed as dist

torch.set_num_threads(1)
dist.init_process_group("gloo")
a, grads = torch.randn(384, 384), [torch.randn(64 * 1024) for _ in range(4)]
steps, end = [], time.monotonic() + float(sys.argv[2])
stop = torch.zeros(1)
while not stop.item():
    begin = time.monotonic()
    for _ in range(4):
        b = a @ a
    for grad in grads:
        dist.all_reduce(grad)
    steps.append((begin, time.monotonic() - begin))
    if len(steps) % 50 == 0:
        stop.fill_(float(time.monotonic() > end))
        dist.broadcast(stop, 0)
if dist.get_rank() == 0:
    with open(sys.argv[1], "w") as out:
        json.dump(steps, out)
"""

COST = """
import statistics, time
import torch, torch.distributed as dist
import torch._C._distributed_c10d as c
dist.init_process_group("gloo", init_method="tcp://127.0.0.1:0", rank=0, world_size=1)
x = torch.ones(8)
for _ in range(2500):
    dist.all_reduce(x)
def cost(call):
    times = []
    for _ in range(20):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)
look = cost(lambda: c._dump_fr_trace_json(False, False))
calls = cost(lambda: c._dump_fr_trace_json(True, False))
every = max(10.0, 400 * calls)
print(f"of a rank: a look {look * 1e6:.0f} us each second, "
      f"a list of 2,000 calls {calls * 1e3:.1f} ms every {every:.0f} s ({calls / every:.2%})")
"""


class Job:
    """One job, watched or not; `steps` are (begin, seconds) of rank 0."""

    def __init__(self, folder: Path, seconds: float, ranks: int, *, watched: bool) -> None:
        self._out, self._log = folder / "steps.json", folder / "log.txt"
        self._out.unlink(missing_ok=True)
        run = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
        run += ["--nproc-per-node", str(ranks), str(folder / "train.py")]
        run += [str(self._out), str(seconds)]
        if watched:
            number = len(list(folder.iterdir()))
            before = [sys.executable, "-m", "bench", "watch", "--out", f"{folder}/run-{number}"]
            run = [*before, "--", *run]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(run, cwd=ROOT, stdout=log, stderr=log, env=environment)
        self._ends = time.monotonic() + seconds + 120

    def steps(self) -> list[tuple[float, float]]:
        status = self.process.wait(timeout=max(self._ends - time.monotonic(), 1))
        assert status == 0, self._log.read_text()[-2000:]
        return [(begin, took) for begin, took in json.loads(self._out.read_text())]

    def cpu_s(self) -> float:
        """CPU seconds of its first process alone."""
        return cpu_s(Path(f"/proc/{self.process.pid}/stat"))

    def sentries_s(self) -> float:
        """CPU seconds of the threads that answer `watch` in the ranks, of the dearest one. It is
        the first thread that a rank starts, before torch."""
        told = []
        for pid in proc.children(self.process.pid):
            if "RANK" in proc.variables(pid):
                tasks = sorted(
                    Path(f"/proc/{pid}/task").iterdir(), key=lambda task: int(task.name)
                )
                told.append(cpu_s(tasks[1] / "stat"))
        return max(told)


def cpu_s(stat: Path) -> float:
    fields = stat.read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def turns(folder: Path, pairs: int, ranks: int) -> None:
    """watch works and rests in one job: off on on off …"""
    start_s = 25.0  # torch's import, on a busy machine
    seconds = start_s + WARM_S + 2 * pairs * TURN_S
    job = Job(folder, seconds, ranks, watched=True)
    end = time.monotonic() + start_s + WARM_S
    time.sleep(end - time.monotonic())
    windows: list[tuple[bool, float, float]] = []
    own_s, sentries_s = 0.0, job.sentries_s()
    for pair in range(pairs):
        for on in (False, True) if pair % 2 == 0 else (True, False):
            os.kill(job.process.pid, signal.SIGCONT if on else signal.SIGSTOP)
            begin, before = time.monotonic(), job.cpu_s()
            time.sleep(TURN_S)
            windows.append((on, begin, time.monotonic()))
            own_s += job.cpu_s() - before
    sentries_s = job.sentries_s() - sentries_s
    os.kill(job.process.pid, signal.SIGCONT)
    steps = job.steps()
    for name, middle in (("mean", statistics.mean), ("median", statistics.median)):
        told = [
            (on, middle([took for at, took in steps if begin + 0.2 <= at < end]))
            for on, begin, end in windows
        ]
        ratios = []
        for first, second in zip(told[::2], told[1::2], strict=True):
            pair_of = dict((first, second))
            ratios.append(pair_of[True] / pair_of[False])
        show(f"{name} step, watch working against resting, {pairs} pairs of turns", ratios)
    asked_s = pairs * TURN_S
    print(
        f"by the kernel's account: answering takes {sentries_s / asked_s:.2%} of a rank's time, "
        f"watch itself {own_s / asked_s:.2%} of one core"
    )


def jobs(folder: Path, pairs: int, ranks: int) -> None:
    ratios = []
    for pair in range(pairs):
        took = {}
        for watched in (False, True) if pair % 2 == 0 else (True, False):
            steps = Job(folder, JOB_S + 10, ranks, watched=watched).steps()
            took[watched] = statistics.median([each for _, each in steps[100:]])
        ratios.append(took[True] / took[False])
    show(f"median step, jobs with watch against jobs without, {pairs} pairs", ratios)


def show(what: str, ratios: list[float]) -> None:
    """Geometric mean and its 95 % interval."""
    logs = [math.log(ratio) for ratio in ratios]
    mean, half = statistics.mean(logs), math.inf
    if len(logs) > 1:
        error = statistics.stdev(logs) / math.sqrt(len(logs))
        half = float(student.ppf(0.975, len(logs) - 1)) * error
    low, high = math.exp(mean - half), math.exp(mean + half)
    print(f"{what}: {math.exp(mean):.4f} [{low:.4f}, {high:.4f}], goal {GOAL}", flush=True)


def main(pairs_of_jobs: int = 2, pairs_of_turns: int = 5, ranks: int = 2) -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "train.py").write_text(TRAIN)
        turns(folder, pairs_of_turns, ranks)
        jobs(folder, pairs_of_jobs, ranks)
    subprocess.run([sys.executable, "-c", COST], check=True, timeout=120)
    return 0


if __name__ == "__main__":
    sys.exit(main(*(int(text) for text in sys.argv[1:])))
