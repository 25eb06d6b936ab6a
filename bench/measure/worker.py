"""The worker: one rank of one session. Forms the group, runs its cells, says how far it is.

It is forked by the nursery with nothing initialised, sets the candidate's environment, and passes
through the phases rendezvous, init, first, midrun, end; its process name shows the phase. Messages
go to the agent as JSON lines: {"phase"}, {"busy", "expect_s"}, {"sample"}, {"group_s"}, {"done"}
or {"error"}. The worker never gives up by itself: deadlines are the agent's.
"""

from __future__ import annotations

import faulthandler
import itertools
import os
import re
import signal
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import msgspec
import torch
import torch.distributed as dist
from torch.distributed import PrefixStore, Store, TCPStore

from bench.facts import libraries
from bench.measure import process, timing
from bench.measure.clock import Clock, CpuClock, CudaClock
from bench.measure.collectives import COLLECTIVES, DTYPES, Place
from bench.measure.stopping import Rule, Warmup
from bench.plan.sizes import enough
from bench.records import Phase, PlanSettings, Sample

# The backend's own timeout must never fire before the agent's deadline: gloo's would come after
# 75 s of silence, with a message that names no rank.
_BACKEND_TIMEOUT = timedelta(hours=1)
_SOURCE = re.compile(r"\[(?:/[^/\s\]]{1,100}){1,30}/([^/\s\]]{1,100}:\d+)\] ?")
_MAX_ERROR = 600  # characters of a backend's message that are worth keeping


class Ladder(msgspec.Struct, frozen=True):
    """The sizes of one collective: `ends_early` lets the plateau rule cut them short."""

    collective: str
    sizes_bytes: tuple[int, ...]
    held_out: tuple[int, ...] = ()
    ends_early: bool = False


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """All that a worker needs to know; crosses the nursery's socket as JSON."""

    rank: int  # within the case's group
    ranks: int
    global_rank: int
    local_rank: int  # on this host
    shares_gpu: bool = False  # more ranks than GPUs on this host
    backend: str
    environment: dict[str, str | None]
    store_host: str
    store_port: int
    prefix: str
    settings: PlanSettings
    ladders: tuple[Ladder, ...]
    devices: int = 1
    stacks_file: str = os.devnull
    words_file: str = os.devnull  # what the backend's libraries print
    log_file: str | None = None  # NCCL's own log


class Voice:
    """The worker's end of the pipe."""

    def __init__(self, pipe: int, rank: int) -> None:
        self._pipe, self._rank = pipe, rank

    def say(self, message: dict[str, Any]) -> None:
        data = msgspec.json.encode(message) + b"\n"
        while data:
            data = data[os.write(self._pipe, data) :]

    def phase(self, phase: Phase) -> None:
        process.set_name(f"b{self._rank}:{phase}")
        self.say({"phase": phase})


class TorchGroup:
    """timing.Group over the default process group."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def align(self) -> None:
        dist.barrier()

    def extremes(self, times: Sequence[float]) -> tuple[list[float], list[float]]:
        vector = torch.tensor([*times, *(-t for t in times)], dtype=torch.float64)
        vector = vector.to(self._place.device)
        dist.all_reduce(vector, op=dist.ReduceOp.MAX)
        both = vector.tolist()
        return both[: len(times)], [-t for t in both[len(times) :]]

    def total(self, count: int) -> int:
        number = torch.tensor([count], dtype=torch.int64, device=self._place.device)
        dist.all_reduce(number)
        return int(number.item())


def serve(message: dict[str, Any], pipe: int) -> None:
    """Run one request in a freshly forked process; every failure becomes an {"error"} message."""
    request = msgspec.convert(message, Request)
    voice = Voice(pipe, request.global_rank)
    words = os.open(request.words_file, os.O_WRONLY | os.O_APPEND)
    for stream in (1, 2):  # gloo and c10d write to stderr what only matters when something failed
        os.dup2(words, stream)
    with open(request.stacks_file, "w") as stacks:  # noqa: PTH123 (os.devnull is no Path to make)
        faulthandler.register(signal.SIGUSR1, file=stacks, all_threads=True)
        try:
            _session(request, voice)
        except Exception as error:  # noqa: BLE001 - whatever the backend raises is the result
            voice.say({"error": _plain(error)})
            os._exit(1)
        voice.say({"done": True})


def _plain(error: Exception) -> str:
    """The backend's words in one line, without the paths of the machine that compiled it."""
    text = _SOURCE.sub(r"\1 ", " ".join(f"{type(error).__name__}: {error}".split()))
    return text[:_MAX_ERROR]


def _session(request: Request, voice: Voice) -> None:
    for name, value in request.environment.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    if request.backend == "nccl":
        _prepare_nccl(request)
    voice.phase("rendezvous")
    store = _meet(request)
    voice.phase("init")
    started = time.perf_counter()
    place = _join(request, store)
    voice.say({"group_s": time.perf_counter() - started})
    clock: Clock = CudaClock(place.device) if request.backend == "nccl" else CpuClock()
    group = TorchGroup(place)
    voice.phase("first")
    first = True
    expect_s: float | None = None  # of one call of the next size
    for ladder in request.ladders:
        fitted: list[int] = []
        medians: list[float] = []
        sizes = sorted((*ladder.sizes_bytes, *ladder.held_out))
        for size, after in itertools.pairwise((*sizes, sizes[0])):
            sample = _cell(request, ladder, size, place, clock, group, voice, expect_s)
            growth = after / size if size else 1.0  # a barrier has no size
            expect_s = 2 * growth * _median(sample.times_s)
            if first:
                voice.phase("midrun")
                voice.say({"mapped": libraries.mapped()})
                first = False
            if request.rank == 0:
                voice.say({"sample": msgspec.to_builtins(sample)})
            if sample.group == "fit":
                fitted.append(sample.size_bytes)
                medians.append(_median(sample.times_s))
            if ladder.ends_early and enough(
                fitted, medians, cell_s=request.settings.cell_s,
                unit_s=medians[-1] * sample.calls_per_time if medians else 0.0,
                units=request.settings.min_iterations,
            ):  # fmt: skip
                break
    voice.phase("end")
    dist.barrier()  # nobody closes connections while a peer is still in its last call
    dist.destroy_process_group()


def _prepare_nccl(request: Request) -> None:
    """Let NCCL tell what it does; let ranks that share a GPU pass for hosts of their own.

    NCCL refuses two ranks of one host on one GPU; a distinct NCCL_HOSTID each sends all traffic
    over the network, which is what a network sweep on one GPU wants. RAS is another listener on
    the bootstrap interface, and has crashed (2.26, 2.27): it is off for a benchmark.
    """
    os.environ["NCCL_DEBUG"] = "INFO"
    os.environ["NCCL_DEBUG_SUBSYS"] = "INIT,BOOTSTRAP,ENV,NET,GRAPH"
    if request.log_file is not None:
        os.environ["NCCL_DEBUG_FILE"] = request.log_file
    os.environ.setdefault("NCCL_RAS_ENABLE", "0")
    if request.shares_gpu:
        for name, value in (
            ("NCCL_HOSTID", f"rank{request.global_rank}"),
            ("NCCL_NVLS_ENABLE", "0"),
            ("NCCL_MAX_CTAS", "4"),  # ranks that share a GPU also share its multiprocessors
        ):
            os.environ.setdefault(name, value)


def _meet(request: Request) -> Store:
    """Everybody has registered in the store: the last one to come opens the door."""
    store = PrefixStore(
        request.prefix,
        TCPStore(
            request.store_host, request.store_port, is_master=False, timeout=_BACKEND_TIMEOUT
        ),
    )
    if store.add("here", 1) == request.ranks:
        store.set("all", "1")
    store.wait(["all"], _BACKEND_TIMEOUT)
    return store


def _join(request: Request, store: Store) -> Place:
    """Form the process group; over NCCL eagerly, so that its failure is seen in this phase."""
    device = torch.device("cpu")
    if request.backend == "nccl":
        count = torch.cuda.device_count()
        if count == 0:
            raise RuntimeError("torch sees no GPU here (CUDA_VISIBLE_DEVICES, driver)")
        device = torch.device("cuda", request.local_rank % count)
        torch.cuda.set_device(device)
    dist.init_process_group(
        request.backend,
        store=store,
        rank=request.rank,
        world_size=request.ranks,
        timeout=_BACKEND_TIMEOUT,
        device_id=device if request.backend == "nccl" else None,
    )
    return Place(request.rank, request.ranks, device, DTYPES[request.settings.dtype])


def _cell(
    request: Request,
    ladder: Ladder,
    size: int,
    place: Place,
    clock: Clock,
    group: TorchGroup,
    voice: Voice,
    expect_s: float | None,
) -> Sample:
    collective = COLLECTIVES[ladder.collective]
    label = f"{ladder.collective} {size}"

    def announce(expect_s: float) -> None:
        voice.say({"busy": label, "expect_s": expect_s})

    call = collective.prepare(size, place)
    sample = timing.measure(
        ladder.collective, call, clock, group, Warmup.of(request.settings),
        Rule.of(request.settings, call.size_bytes),
        turns=request.devices, only_slowest=collective.only_slowest, announce=announce,
        expect_s=expect_s,
    )  # fmt: skip
    return msgspec.structs.replace(
        sample,
        dtype=request.settings.dtype,
        group="held-out" if size in ladder.held_out else "fit",
    )


def _median(times: Sequence[float]) -> float:
    ordered = sorted(times)
    return ordered[len(ordered) // 2]
