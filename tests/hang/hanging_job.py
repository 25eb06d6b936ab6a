"""A training loop that dies or hangs as asked, under torchrun over gloo.

`hanging_job.py CASE OUT` trains nothing: three all_reduces and a broadcast a step. gloo never
dumps by itself, so a thread writes a Flight Recorder dump of its rank every half second, and when
torchrun ends the rank: the main thread sits in a collective then, where no signal handler of
Python's runs.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

ODD = 1
STEPS, FAULT_STEP = 12, 6
TIMEOUT_S, DUMP_EVERY_S = 5.0, 0.5
BUCKETS = (1024, 2048, 512)
BATCH = 2 << 20  # elements: 8 MiB, more than a small /dev/shm holds
log = logging.getLogger("train")


class Batches(torch.utils.data.IterableDataset[torch.Tensor]):
    """Batches that a worker hands over through /dev/shm; the worker of `killed` shoots itself."""

    def __init__(self, case: str) -> None:
        self.case = case

    def __iter__(self) -> Iterator[torch.Tensor]:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})  # a worker ends as any
        for number in range(STEPS):
            if self.case == "dataloader" and number == FAULT_STEP:
                os.kill(os.getpid(), signal.SIGKILL)
            yield torch.zeros(BATCH if self.case == "shm" else 16)


class Recorder(threading.Thread):
    """Writes the rank's dump now and then, and a last one at SIGTERM, which it takes for all."""

    def __init__(self, folder: Path, rank: int) -> None:
        super().__init__(daemon=True)
        self.file, self.over = folder / f"rank_{rank}", False

    def dump(self) -> None:
        from torch._C import _distributed_c10d as c10d

        written = self.file.with_name(f".{self.file.name}.{threading.get_ident()}")
        written.write_bytes(c10d._dump_fr_trace())
        written.rename(self.file)

    def run(self) -> None:
        while not self.over:
            told = signal.sigtimedwait({signal.SIGTERM}, DUMP_EVERY_S)
            self.dump()
            if told is not None:
                signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
                os.kill(os.getpid(), signal.SIGTERM)
                return


def batches(case: str, rank: int) -> Iterator[torch.Tensor]:
    odd = rank == ODD
    if odd and case in ("dataloader", "shm"):
        yield from torch.utils.data.DataLoader(Batches(case), batch_size=None, num_workers=1)
        return
    steps = STEPS - 4 if odd and case == "uneven" else STEPS
    yield from (torch.zeros(16) for _ in range(steps))


def fault(case: str) -> None:
    """What happens to the odd rank in the middle of its epoch."""
    if case == "oom":
        raise torch.OutOfMemoryError(
            "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total capacity of "
            "79.10 GiB of which 1.20 GiB is free."
        )
    if case == "killed":
        time.sleep(1)  # its last dump
        os.kill(os.getpid(), signal.SIGKILL)
    if case == "stopped":
        time.sleep(1)
        os.kill(os.getpid(), signal.SIGSTOP)


def step(case: str, odd: bool, pairs: tuple[dist.ProcessGroup, dist.ProcessGroup] | None) -> None:
    """The collectives of a step; `odd`: it is the odd rank's faulty step."""
    for size in BUCKETS:
        if odd and case == "shape" and size == BUCKETS[1]:
            size += 64
        kind = torch.float64 if odd and case == "dtype" and size == BUCKETS[1] else torch.float32
        if odd and case == "order" and size == BUCKETS[1]:
            dist.broadcast(torch.zeros(8), 0)
        dist.all_reduce(torch.ones(size, dtype=kind))
    dist.broadcast(torch.zeros(8), 0)
    if pairs is not None:
        for group in reversed(pairs) if odd else pairs:
            dist.all_reduce(torch.ones(256), group=group)


def train(case: str, rank: int) -> None:
    pairs = None
    if case == "inversion":
        world = list(range(dist.get_world_size()))
        limit = timedelta(seconds=TIMEOUT_S)
        pairs = dist.new_group(world, timeout=limit), dist.new_group(world, timeout=limit)
    for number, _ in enumerate(batches(case, rank), 1):
        odd = rank == ODD and number == FAULT_STEP
        if odd:
            fault(case)
        step(case, odd, pairs)
        log.info("rank=%d step=%d/%d loss=%.3f", rank, number, STEPS, 1 / number)
        time.sleep(0.1)
    log.info("rank=%d epoch 1 finished", rank)
    if case == "uneven" and rank == ODD:
        time.sleep(2 * TIMEOUT_S)  # writes its checkpoint


def main(case: str, out: Path) -> None:
    rank = int(os.environ["RANK"])
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # for the threads of gloo as well
    logging.basicConfig(
        level=logging.INFO, stream=sys.stdout, format="%(asctime)s %(levelname)s %(message)s"
    )
    if case == "interface" and rank == ODD:
        os.environ["GLOO_SOCKET_IFNAME"] = "ens99"
    log.info("rank=%d world_size=%s", rank, os.environ["WORLD_SIZE"])
    dist.init_process_group("gloo", timeout=timedelta(seconds=TIMEOUT_S))
    dist.all_reduce(torch.ones(1))
    folder = out / "dumps"
    folder.mkdir(exist_ok=True)
    recorder = Recorder(folder, rank)
    recorder.dump()  # the first takes a second, to find names for the stacks
    dist.barrier()
    recorder.start()
    try:
        train(case, rank)
    except BaseException:
        recorder.dump()
        raise
    recorder.over = True
    recorder.join()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
