"""One rank of a real training step, with every collective counted, timed alone, and weighed.

    python training_step.py STRATEGY --rank R --ranks N --store HOST:PORT --hidden H --blocks L

DDP (with or without ZeroRedundancyOptimizer) or FSDP2 over gloo on the interface `data0`. Around
each collective all ranks meet on `mgmt0` first, so that none waits for another's computation; the
slowest rank's time counts. Rank 0 prints one line of JSON: counts as called and as the Flight
Recorder saw them, bytes by data0's counters, seconds.
"""

# No deferred annotations: DDP looks at the type of a hook's argument.
import argparse
import ctypes
import json
import math
import os
import statistics
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch._C._distributed_c10d import _dump_fr_trace_json
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

STRATEGIES = ("ddp", "ddp-plain", "zero1", "fsdp", "fsdp-keep", "hybrid")
CALLS = {"all_gather_single": "all_gather", "reduce_scatter_single": "reduce_scatter",
         "all_reduce": "all_reduce", "broadcast": "broadcast"}  # fmt: skip


# The kernel gives a fresh buffer its pages where it is first written: 50 ms for 16 MiB on a
# virtual machine, which a GPU's caching allocator does not cost. So buffers are touched before the
# clock starts, and malloc keeps what is freed (mallopt: no mmap, no trimming).
PAGE_NUMBERS = 1024  # of 4 bytes
M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4


class Net(nn.Module):
    """Linear layers: an embedding of sorts, blocks, a head."""

    def __init__(self, hidden: int, blocks: int) -> None:
        super().__init__()
        self.embedding = nn.Linear(hidden, hidden)
        self.blocks = nn.ModuleList(nn.Linear(hidden, hidden) for _ in range(blocks))
        self.head = nn.Linear(hidden, hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.embedding(x)
        for block in self.blocks:
            x = block(x).relu()
        return self.head(x)


class Done:
    """What a collective that is over hands back where a Work was asked for."""

    def wait(self) -> None:
        return


class Counted:
    """torch.distributed's collectives, each called alone, timed and counted."""

    def __init__(self, control: dist.ProcessGroup) -> None:
        self.control = control
        self.warming_up = False
        self.counts: Counter[str] = Counter()
        self.payload: Counter[str] = Counter()
        self.times_s: list[float] = []
        self.real = {name: getattr(dist, name) for name in CALLS}
        for name in CALLS:
            setattr(dist, name, self._wrapped(name))

    def reset(self) -> None:
        self.counts.clear()
        self.payload.clear()
        self.times_s.clear()

    def _wrapped(self, name: str) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            if kwargs.get("group") is self.control:
                return self.real[name](*args, **kwargs)
            asynchronous = kwargs.pop("async_op", False)
            tensors = [t for t in (*args, *kwargs.values()) if isinstance(t, torch.Tensor)]
            for tensor in tensors:
                with torch.no_grad():
                    tensor.view(-1)[::PAGE_NUMBERS].add_(0)
            self.counts[CALLS[name]] += 1
            self.payload[CALLS[name]] += max(t.numel() * t.element_size() for t in tensors)
            self.barrier()
            begun = time.perf_counter()
            self.real[name](*args, **kwargs)
            self.times_s.append(time.perf_counter() - begun)
            return Done() if asynchronous else None

        return call

    def barrier(self) -> None:
        self.real["all_reduce"](torch.zeros(1), group=self.control)

    def hook(self, state: object, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        buffer = bucket.buffer()
        if not self.warming_up:
            dist.all_reduce(buffer)
        done: torch.futures.Future[torch.Tensor] = torch.futures.Future()
        done.set_result(buffer.div_(dist.get_world_size()))
        return done

    def seconds(self) -> float:
        """The sum over collectives of the slowest rank's time."""
        times = torch.tensor(self.times_s, dtype=torch.float64)
        self.real["all_reduce"](times, op=dist.ReduceOp.MAX, group=self.control)
        return float(times.sum())


def entries() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(_dump_fr_trace_json()).get("entries", [])
    return found


def recorded(before: int) -> dict[str, int]:
    """The recorder's calls on the first group (`data0`); control groups have other names."""
    return Counter(
        entry["profiling_name"].partition(":")[2]
        for entry in entries()
        if entry["record_id"] > before and entry["process_group"][0] == "0"
    )


def sent_bytes(interface: str) -> int:
    for line in Path("/proc/self/net/dev").read_text().splitlines():
        name, _, numbers = line.partition(":")
        if name.strip() == interface:
            return int(numbers.split()[8])
    raise SystemExit(f"no interface {interface}")


def built(strategy: str, counted: Counted | None, hidden: int, blocks: int) -> Any:
    """The model and its optimizer."""
    torch.manual_seed(1)
    net = Net(hidden, blocks)
    if strategy == "hybrid":  # as if two ranks shared a host
        pairs = (dist.get_world_size() // 2, 2)
        mesh = init_device_mesh("cpu", pairs, mesh_dim_names=("replicate", "shard"))
        for block in net.blocks:
            fully_shard(block, mesh=mesh)
        fully_shard(net, mesh=mesh)
        return net, torch.optim.SGD(net.parameters(), lr=1e-3)
    if strategy.startswith("fsdp"):
        keep = strategy == "fsdp-keep"
        for block in net.blocks:
            fully_shard(block, reshard_after_forward=not keep)
        fully_shard(net, reshard_after_forward=False if keep else None)
        return net, torch.optim.SGD(net.parameters(), lr=1e-3)
    model = DistributedDataParallel(net, init_sync=False)
    if counted is not None:
        model.register_comm_hook(None, counted.hook)
    if strategy == "zero1":
        optimizer: Any = ZeroRedundancyOptimizer(
            model.parameters(), torch.optim.SGD, parameters_as_bucket_view=True, lr=1e-3
        )
        return model, optimizer
    return model, torch.optim.SGD(model.parameters(), lr=1e-3)


def train(model: Any, optimizer: Any, counted: Counted, hidden: int, *, update: bool) -> None:
    """One step, on data that is the same everywhere."""
    optimizer.zero_grad()
    model(torch.ones(2, hidden)).sum().backward()
    if update:
        optimizer.step()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("strategy", choices=STRATEGIES, nargs="+")
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--store", required=True)
    parser.add_argument("--hidden", type=int, required=True)
    parser.add_argument("--blocks", type=int, required=True)
    parser.add_argument("--steps", type=int, default=1, help="measured, after warming up")
    parser.add_argument("--data", default="data0")
    parser.add_argument("--control", default="mgmt0")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")  # torch announces renamed calls
    torch.set_num_threads(1)
    library = ctypes.CDLL(None)
    library.mallopt(M_MMAP_MAX, 0)
    library.mallopt(M_TRIM_THRESHOLD, 2**31 - 1)
    host, _, port = arguments.store.rpartition(":")
    store = dist.TCPStore(host, int(port), arguments.ranks, arguments.rank == 0)
    os.environ["GLOO_SOCKET_IFNAME"] = arguments.data
    dist.init_process_group("gloo", store=store, rank=arguments.rank, world_size=arguments.ranks)
    dist.barrier()
    os.environ["GLOO_SOCKET_IFNAME"] = arguments.control
    control = dist.new_group(backend="gloo")
    assert isinstance(control, dist.ProcessGroup)
    counted = Counted(control)
    for strategy in arguments.strategy:
        plain = strategy == "ddp-plain"
        model, optimizer = built(
            strategy, None if plain else counted, arguments.hidden, arguments.blocks
        )
        # DDP makes its buckets anew after the first step, and agrees on them in the second.
        for _ in range(2 if strategy in ("ddp", "ddp-plain", "zero1") else 0):
            counted.warming_up = not plain
            train(model, optimizer, counted, arguments.hidden, update=plain)
        counted.warming_up = False
        times_s, sent = [], []
        for _ in range(arguments.steps):
            counted.reset()
            seen = max((entry["record_id"] for entry in entries()), default=-1)
            counted.barrier()
            before = sent_bytes(arguments.data)
            counted.barrier()
            train(model, optimizer, counted, arguments.hidden, update=True)
            counted.barrier()
            time.sleep(0.05)  # acknowledgements on their way
            sent.append(float(sent_bytes(arguments.data) - before))
            times_s.append(counted.seconds() if not plain else math.nan)
        everybody = torch.tensor([statistics.median(sent)])
        counted.real["all_reduce"](everybody, group=control)
        told = {
            "strategy": strategy,
            "counts": dict(counted.counts),
            "payload": dict(counted.payload),
            "recorded": recorded(seen),
            "seconds": statistics.median(times_s),
            "sent": float(everybody) / arguments.ranks,
        }
        if arguments.rank == 0:
            print(json.dumps(told), flush=True)
        del model, optimizer
    counted.barrier()
    os._exit(0)  # gloo's own goodbye waits for the slowest


if __name__ == "__main__":
    main()
