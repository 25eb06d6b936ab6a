"""Prints how long `diagnose` takes for the logs of 64 ranks, beside grep in the same run.

    python tests/performance/bench_rank_logs.py [RANKS [MIB [RUNS]]]
    python tests/performance/bench_rank_logs.py --adapt DIR     one JSON line: rank, kind, line

The logs are made here: everybody trains, one rank runs out of memory and its traceback is in its
log; 600 s later all others print a time-out and its noise. Another rank has caught the same error
an hour before, and ordinary lines hold the word "timeout". Once with equal clocks, once with every
second host 30 s ahead. `grep -c -E` of twelve patterns and the diagnosis take turns, with a warm
page cache; the diagnosis is the whole command, interpreter start and verdict included.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RANKS, MIB, RUNS, FAULT, HOST = 64, 32, 5, 17, 8
TARGET_RATIO, TARGET_MIB = 3.0, 300
PATTERNS = (
    "OutOfMemoryError|Watchdog caught collective operation timeout|failed or timed out"
    "|ncclSystemError|ncclRemoteError|ncclInternalError|NCCL error in"
    "|unhandled (cuda|system) error|Connection (closed|reset) by peer|Timed out waiting [0-9]+ms"
    "|CUDA error: (device-side assert|an illegal memory access|uncorrectable ECC)|NVRM: Xid"
    "|DataLoader (worker|timed out)|DistStoreError|DistNetworkError"
)
BEGIN_S, HOURS = 36_000.0, 6


def clock(seconds: float) -> str:
    whole = int(seconds) % 86400
    return f"{whole // 3600:02d}:{whole // 60 % 60:02d}:{whole % 60:02d}"


def ordinary(rank: int, size: int, ahead_s: float) -> list[str]:
    rng = random.Random(rank)
    lines: list[str] = []
    written = step = 0
    every_s = HOURS * 3600 / (size / 131)
    while written < size:
        when = BEGIN_S + len(lines) * every_s + ahead_s
        kind = len(lines) % 40
        if kind == 7:
            line = (
                f"host{rank // HOST}:{4000 + rank}:{5100 + rank} [{rank % 8}] NCCL INFO Channel "
                f"{step % 16:02d}/0 : {rank}[{rank % 8}] -> {(rank + 1) % 64}[0] [send] via NET/IB"
            )
        elif kind == 23:
            line = (
                f"[rank{rank}]:[W1130 {clock(when)}.000000001 reducer.cpp:1431] Warning: "
                "find_unused_parameters=True was specified, no timeout applies"
            )
        else:
            step += 1
            line = (
                f"2026-11-30 {clock(when)},{int(when * 1000) % 1000:03d} INFO train rank={rank} "
                f"step={step} loss={2 + rng.random():.4f} lr=3.00e-04 gnorm={rng.random():.3f} "
                f"tok/s={41000 + step % 977} mem={61.2 + step % 7 / 10:.1f}GiB io_timeout=30"
            )
        lines.append(line)
        written += len(line) + 1
    return lines


def fault(rank: int, when: float) -> Iterator[str]:
    yield f"[rank{rank}]: Traceback (most recent call last):"
    yield f'[rank{rank}]:   File "train.py", line 220, in main'
    yield f"[rank{rank}]:     loss.backward()"
    yield f"[rank{rank}]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
    yield f"2026-11-30 {clock(when + 1)},000 ERROR train rank={rank} leaving"


def time_out(rank: int, when: float) -> Iterator[str]:
    head = f"[rank{rank}]:[E1130 {clock(when)}.500000000 ProcessGroupNCCL.cpp:685] "
    yield (
        f"{head}[Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=48211,"
        " OpType=ALLREDUCE, NumelIn=16384, NumelOut=16384, Timeout(ms)=600000) ran for 600040 "
        "milliseconds before timing out."
    )
    yield (
        f"{head}[PG ID 0 PG GUID 0(default_pg) Rank {rank}]  failure detected by watchdog at work "
        "sequence id: 48211 PG status: last enqueued work: 48211, last completed work: 48210"
    )
    yield f"{head}Some NCCL operations have failed or timed out."
    yield f"{head}[c10d] recvValue failed: got 0 bytes. Connection was likely closed."


def make(folder: Path, ranks: int, mib: int, skew_s: float) -> dict[str, object]:
    end, decoy, truth = BEGIN_S + HOURS * 3600, (FAULT + 11) % ranks, 0
    for rank in range(ranks):
        ahead = skew_s if rank // HOST % 2 else 0.0
        lines = ordinary(rank, (mib << 20) - 2500, ahead)
        if rank == decoy:
            lines.insert(
                len(lines) * 5 // 6,
                f"2026-11-30 {clock(end - 3600 + ahead)},000 WARNING train rank={rank} caught "
                "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 512.00 MiB; "
                "emptied cache, retrying step (recovered)",
            )
        if rank == FAULT % ranks:
            truth = len(lines) + 4
            lines += fault(rank, end + ahead)
        else:
            lines += time_out(rank, end + 600 + rank * 0.003 + ahead)
        (folder / f"rank_{rank}.log").write_text("\n".join(lines) + "\n")
    return {"rank": FAULT % ranks, "kind": "oom", "line": truth}


def answer(diagnosis: dict[str, list[dict[str, dict[str, object]]]]) -> dict[str, object]:
    """What the first finding says, in three words."""
    first = (diagnosis["findings"] or [{}])[0]
    where = first.get("where", {})
    return {"rank": where.get("rank"), "kind": first.get("kind"), "line": where.get("line")}


def timed(command: list[str], sink: Path) -> tuple[float, float]:
    """Wall seconds and peak MiB."""
    env = dict(os.environ, LC_ALL="C")
    with sink.open("wb") as out:  # to /dev/null grep would stop at the first hit
        begun = time.perf_counter()
        child = subprocess.Popen(command, stdout=out, cwd=ROOT, env=env)
        _, status, used = os.wait4(child.pid, 0)
        took = time.perf_counter() - begun
        child.returncode = os.waitstatus_to_exitcode(status)
    return took, used.ru_maxrss / 1024


def compare(folder: Path, truth: dict[str, object], runs: int) -> bool:
    files = sorted(str(path) for path in folder.glob("*.log"))
    size = sum(Path(file).stat().st_size for file in files)
    sink = folder.parent / "answer.json"
    searched, diagnosed, peaks = [], [], []
    for _ in range(runs + 1):
        searched.append(timed(["grep", "-c", "-E", PATTERNS, *files], sink)[0])
        took, peak = timed(
            [sys.executable, "-m", "bench", "diagnose", "--json", str(folder)], sink
        )
        diagnosed.append(took)
        peaks.append(peak)
    told = answer(json.loads(sink.read_text()))
    grep_s, own_s = statistics.median(searched[1:]), statistics.median(diagnosed[1:])
    ratio = own_s / grep_s
    print(f"  {len(files)} logs, {size / 1e9:.2f} GB, {runs} runs")
    print(f"  grep -c -E {grep_s:6.2f} s [{min(searched[1:]):.2f}, {max(searched[1:]):.2f}]")
    print(f"  diagnose   {own_s:6.2f} s [{min(diagnosed[1:]):.2f}, {max(diagnosed[1:]):.2f}]")
    print(
        f"  ratio {ratio:.2f} (at most {TARGET_RATIO:g}), peak {max(peaks):.0f} MiB "
        f"(at most {TARGET_MIB})"
    )
    print(f"  told {told}, truth {truth}: {'right' if told == truth else 'WRONG'}")
    return told == truth and ratio <= TARGET_RATIO and max(peaks) <= TARGET_MIB


def main(argv: list[str]) -> int:
    if argv[:1] == ["--adapt"]:
        command = [sys.executable, "-m", "bench", "diagnose", "--json", argv[1]]
        done = subprocess.run(command, capture_output=True, cwd=ROOT, check=True)
        print(json.dumps(answer(json.loads(done.stdout))))
        return 0
    ranks, mib, runs = (*(int(word) for word in argv), *(RANKS, MIB, RUNS)[len(argv) :])
    good = True
    for skew_s in (0.0, 30.0):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name) / "logs"
            folder.mkdir()
            print(f"every second host {skew_s:g} s ahead")
            good &= compare(folder, make(folder, ranks, mib, skew_s), runs)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
