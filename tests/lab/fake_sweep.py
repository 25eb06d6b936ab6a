"""Stands in for bench/sweep.py under a real torchrun: `--label do=...` says what it does.

all-reduce  gloo over the interface that --label interface=NAME names; rank 0 writes the sum
status      rank 0 leaves the status that --label status=N names
wait        until SIGTERM; rank 0 then leaves "stopped" and status 0
crash       rank 0 ends without a status
phases      a worker per rank walks through the phases; agents write how it ended
"""

from __future__ import annotations

import ctypes
import itertools
import os
import signal
import sys
import time
from pathlib import Path

PR_SET_NAME = 15


def set_name(name: str) -> None:
    ctypes.CDLL(None).prctl(PR_SET_NAME, name.encode()[:15], 0, 0, 0)


def options(argv: list[str]) -> dict[str, str]:
    """--label K=V and --out, as the real sweep takes them."""
    found = {}
    for name, value in itertools.pairwise(argv):
        if name == "--label":
            key, _, text = value.partition("=")
            found[key] = text
        elif name == "--out":
            found["out"] = value
    return found


def all_reduce(interface: str, out: Path, rank: int) -> None:
    import torch
    import torch.distributed as dist

    os.environ["GLOO_SOCKET_IFNAME"] = interface
    dist.init_process_group("gloo")
    numbers = torch.full((1 << 16,), float(rank + 1))
    dist.all_reduce(numbers)
    if rank == 0:
        (out / "sum").write_text(str(float(numbers[0])))
        (out / "status").write_text("0\n")
    dist.barrier()
    dist.destroy_process_group()


def wait(out: Path, rank: int) -> None:
    def stop(number: int, frame: object) -> None:
        if rank == 0:
            (out / "stopped").write_text(signal.Signals(number).name)
            (out / "status").write_text("0\n")
        sys.exit(0)

    signal.signal(signal.SIGTERM, stop)
    (out / f"waiting.{rank}").touch()
    time.sleep(60)


def phases(out: Path, rank: int) -> None:
    worker = os.fork()
    if worker == 0:
        for phase in ("rendezvous", "init", "first", "midrun", "end"):
            set_name(f"b{rank}:{phase}")
            time.sleep(0.2)
        os._exit(0)
    deadline = time.monotonic() + 3
    ended, status = 0, 0
    while not ended and time.monotonic() < deadline:
        ended, status = os.waitpid(worker, os.WNOHANG)
        time.sleep(0.02)
    state = Path(f"/proc/{worker}/stat").read_text().split()[2] if not ended else "ended"
    (out / f"worker.{rank}").write_text(f"{state} {status}")
    if not ended:
        os.kill(worker, signal.SIGKILL)
    if rank == 0:
        (out / "status").write_text("0\n")


def main() -> int:
    asked = options(sys.argv[1:])
    out, rank = Path(asked["out"]), int(os.environ["RANK"])
    set_name(f"b{rank}:agent")
    if rank == 0:
        print("rank 0 speaks", flush=True)
        print("rank 0 complains", file=sys.stderr, flush=True)
    (out / f"environment.{rank}").write_text("\n".join(f"{k}={v}" for k, v in os.environ.items()))
    Path(os.environ["TMPDIR"], "left-behind").touch()
    job = asked.get("do", "status")
    if job == "all-reduce":
        all_reduce(asked["interface"], out, rank)
    elif job == "wait":
        wait(out, rank)
    elif job == "crash":
        time.sleep(0.2)
        return 3 if rank == 0 else 0
    elif job == "phases":
        phases(out, rank)
    elif rank == 0:
        (out / "status").write_text(asked["status"] + "\n")
        return int(asked["status"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
