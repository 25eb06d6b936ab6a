"""Prints what a diagnosis of Flight Recorder dumps costs, beside torchfrtrace on the same dumps.

    python tests/performance/bench_flight.py [RANKSxENTRIES …] [--runs N] [--alone RANKSxENTRIES]
        [--variants RANKSxENTRIES]

Dumps are made here: groups of eight beside the default group, rings full, one rank (in the middle
of the world) that never makes the last call. Sizes by default 16x2000 64x2000 256x2000, and
1024x2000 without torchfrtrace, which would need about 150 s and 4 GiB. Wall time and peak memory
are those of the process and, for ours, of all its processes added up; runs alternate. A size is
right when exactly the odd rank is named. First comes a table of variants (nobody odd; a call left
out, of another size, or no dump at all, by a middle rank, rank 0 or the one listed first), each
with the files as torch names them and renamed so that the odd rank's comes first; torchfrtrace
reads the former.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SITE = "/env/lib/python3.12/site-packages/torch/distributed"
GROUP, OVERWRITTEN = 8, 6000
OPERATIONS = (  # name, elements in and out by size of the group, call chain
    (
        "_all_gather_base",
        lambda n, w: (n, n * w),
        ("all_gather_into_tensor", "wrapper", "unshard"),
    ),
    ("_reduce_scatter_base", lambda n, w: (n * w, n), ("reduce_scatter_tensor", "post_backward")),
    ("all_reduce", lambda n, w: (n, n), ("all_reduce", "wrapper", "clip_grad_norm_", "step")),
)
STACKS = [
    [
        {"name": name, "line": 100 + at, "filename": f"{SITE}/{name}.py"}
        for at, name in enumerate(c)
    ]
    for _, _, c in OPERATIONS
]
TIME_SHARE, MEMORY_SHARE = 0.2, 0.5  # of torchfrtrace's, at 256 x 2000
LARGE_S, LARGE_GIB = 10.0, 2.0  # at 1024 x 2000 on two cores


VARIANTS = ("healthy", "missing", "missing0", "size", "size0", "sizefirst", "nofile")
AS_TORCH, ODD_FIRST = "rank_{rank}", "{order}_trace_rank_{rank}.bin"


def make(
    folder: Path, ranks: int, entries: int, variant: str = "missing", name: str = AS_TORCH
) -> int:
    """Writes the dumps; returns the odd rank. A 0 at the variant's end: it is rank 0."""
    folder.mkdir(parents=True)
    odd, total = 0 if variant.endswith("0") else ranks // 2, OVERWRITTEN + entries
    kind = variant.rstrip("0").removesuffix("first")
    if variant.endswith("first"):  # what the folder lists first is torchfrtrace's reference
        for rank in range(ranks):
            (folder / AS_TORCH.format(rank=rank)).touch()
        odd = int(next(os.walk(folder))[2][0].rpartition("_")[2])
        for rank in range(ranks if name != AS_TORCH else 0):
            (folder / AS_TORCH.format(rank=rank)).unlink()
    everyone = str(list(range(ranks)))
    for rank in range(ranks):
        if rank == odd and kind == "nofile":
            continue
        low = rank // GROUP * GROUP
        members = list(range(low, min(low + GROUP, ranks)))
        small = (str(1 + rank // GROUP), f"tp_{rank // GROUP}")
        issued = total - (rank == odd and kind == "missing")
        seqs, rows = {"0": 0, small[0]: 0}, []
        for at in range(issued):
            last = at == total - 1
            group = ("0", "default_pg") if last or at % 3 != 1 else small
            seqs[group[0]] += 1
            if at >= issued - entries:
                call = 2 if last else at % 3
                size = ranks if group[0] == "0" else len(members)
                elements = 8 if last and rank == odd and kind == "size" else at % 7
                waits = last and variant != "healthy"
                rows.append(entry(at, seqs[group[0]], group, call, elements, size, waits))
        dump = {
            "version": "2.10",
            "pg_config": {
                "0": {"name": "0", "desc": "default_pg", "ranks": everyone},
                small[0]: {"name": small[0], "desc": small[1], "ranks": str(members)},
            },
            "comm_lib_version": "2.29.3",
            "pg_status": {},
            "entries": rows,
            "nccl_comm_state": {},
        }
        file = name.format(rank=rank, order=(rank - odd) % ranks + 10_000)
        (folder / file).write_bytes(pickle.dumps(dump, protocol=2))
    return odd


def entry(
    record: int, seq: int, group: tuple[str, str], kind: int, size: int, world: int, last: bool
) -> dict[str, object]:
    name, shape, _ = OPERATIONS[kind]
    sent, received = shape(4096 * (1 + size), world)
    when = 1_796_035_646_000_000_000 + record * 3_000_000
    return {
        "frames": STACKS[kind], "record_id": record, "pg_id": 0 if group[0] == "0" else 1,
        "process_group": group, "thread_name": "python3", "thread_id": "140566134946688",
        "collective_seq_id": seq, "p2p_seq_id": 0, "op_id": seq, "profiling_name": "nccl:" + name,
        "time_created_ns": when, "input_sizes": [[sent]], "input_dtypes": ["BFloat16"],
        "output_sizes": [[received]], "output_dtypes": ["BFloat16"],
        "state": "scheduled" if last else "completed",
        "time_discovered_started_ns": None if last else when + 40_000,
        "time_discovered_completed_ns": None if last else when + 900_000,
        "retired": not last, "timeout_ms": 600_000, "is_p2p": False,
    }  # fmt: skip


def family_mib(pid: int) -> float:
    """Resident memory of a process and its children, private and shared pages alike."""
    pids = [pid]
    try:
        pids += map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
    except (OSError, ValueError):
        pass
    total = 0
    for each in pids:
        try:
            total += int(Path(f"/proc/{each}/statm").read_text().split()[1])
        except (OSError, ValueError, IndexError):
            continue
    return total * os.sysconf("SC_PAGE_SIZE") / 2**20


def timed(command: list[str]) -> tuple[str, float, float, float]:
    """Output, wall seconds, CPU seconds, peak MiB of all its processes together."""
    with tempfile.TemporaryFile() as sink:
        begun = time.perf_counter()
        child = subprocess.Popen(command, stdout=sink, stderr=sink, cwd=ROOT)
        peak, over = [0.0], threading.Event()

        def watch() -> None:
            while not over.wait(0.02):
                peak[0] = max(peak[0], family_mib(child.pid))

        watcher = threading.Thread(target=watch)
        watcher.start()
        _, status, use = os.wait4(child.pid, 0)
        wall = time.perf_counter() - begun
        child.returncode = os.waitstatus_to_exitcode(status)
        over.set()
        watcher.join()
        sink.seek(0)
        text = sink.read().decode(errors="replace")
    return text, wall, use.ru_utime + use.ru_stime, max(peak[0], use.ru_maxrss / 1024)


def ours(folder: Path) -> tuple[set[int], float, float, float]:
    text, *cost = timed([sys.executable, "-m", "bench", "diagnose", str(folder), "--json"])
    return set(json.loads(text.splitlines()[-1])["ranks"]), *cost


def theirs(folder: Path) -> tuple[set[int], float, float, float]:
    module = "torch.distributed.flight_recorder.fr_trace"
    text, *cost = timed([sys.executable, "-m", module, str(folder), "-p", "rank_"])
    found = re.findall(r"missing ranks: \{([^}]*)\}|Culprit rank (\d+);", text)
    return {int(n) for pair in found for n in re.findall(r"\d+", " ".join(pair))}, *cost


def told(name: str, runs: list[tuple[set[int], float, float, float]], odd: int) -> str:
    walls, cpus = [run[1] for run in runs], [run[2] for run in runs]
    right = all(run[0] == {odd} for run in runs)
    return (
        f"  {name:13s} {statistics.median(walls):7.2f} s [{min(walls):.2f}, {max(walls):.2f}]"
        f"  cpu {statistics.median(cpus):6.2f} s  peak {max(run[3] for run in runs):6.0f} MiB"
        f"  {'right' if right else 'WRONG'}"
    )


def variants(size: str) -> bool:
    """A row per variant and way to name the files; whether ours is right in all."""
    ranks, entries = map(int, size.split("x"))
    print(f"variants of {size}: who is named")
    good = True
    for variant in VARIANTS:
        for name in (AS_TORCH, ODD_FIRST):
            with tempfile.TemporaryDirectory(prefix="bench-flight-") as base:
                odd = make(Path(base) / "dumps", ranks, entries, variant, name)
                truth = set() if variant == "healthy" else {odd}
                mine = ours(Path(base) / "dumps")[0]
                other = verdict(theirs(Path(base) / "dumps")[0], truth) if name == AS_TORCH else ""
            good &= mine == truth
            how = "renamed" if name == ODD_FIRST else ""
            beside = f"  torchfrtrace {other}" if other else ""
            print(f"  {variant:9s} {how:8s} diagnose {verdict(mine, truth)}{beside}", flush=True)
    return good


def verdict(named: set[int], truth: set[int]) -> str:
    if named == truth:
        return "right"
    return f"WRONG: {len(named)} ranks" if named else "silent"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("sizes", nargs="*", default=["16x2000", "64x2000", "256x2000"])
    parser.add_argument("--alone", nargs="*", default=["1024x2000"], help="without torchfrtrace")
    parser.add_argument("--variants", default="16x500", help="a size; '' for no such table")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    if options.variants:
        variants(options.variants)
    plan = [(size, True) for size in options.sizes] + [(size, False) for size in options.alone]
    for size, beside in plan:
        ranks, entries = map(int, size.split("x"))
        base = Path(tempfile.mkdtemp(prefix="bench-flight-"))
        try:
            odd = make(base / "dumps", ranks, entries)
            files = list((base / "dumps").iterdir())
            mib = sum(path.stat().st_size for path in files) / 2**20
            load = os.getloadavg()[0]
            print(f"{ranks} x {entries}: {mib:.0f} MiB, load {load:.1f}", flush=True)
            mine, other = [], []
            for run in range(options.runs):
                mine.append(ours(base / "dumps"))
                if beside and (run == 0 or ranks < 200):
                    other.append(theirs(base / "dumps"))
            print(told("diagnose", mine, odd))
            wall = statistics.median(run[1] for run in mine)
            peak = max(run[3] for run in mine)
            if other:
                print(told("torchfrtrace", other, odd))
                time_share = wall / statistics.median(run[1] for run in other)
                memory_share = peak / max(run[3] for run in other)
                good = time_share <= TIME_SHARE and memory_share <= MEMORY_SHARE
                print(
                    f"  ratio         {time_share:.2f} of its time, {memory_share:.2f} of its "
                    f"memory{'' if ranks < 256 else ': ok' if good else ': TOO MUCH'}"
                )
            elif ranks >= 1024:
                good = wall <= LARGE_S and peak <= LARGE_GIB * 1024
                verdict = "ok" if good else "TOO MUCH"
                print(f"  at most {LARGE_S:.0f} s, {LARGE_GIB:.0f} GiB: {verdict}")
        finally:
            shutil.rmtree(base)


if __name__ == "__main__":
    main()
