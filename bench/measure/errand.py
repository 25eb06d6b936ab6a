"""What every forked process that forms a group does alike: environment, store, group, last words.

In: an Errand (JSON from the agent), the pipe to it. It starts with nothing initialised, sets the
candidate's environment, and passes through phases that its process name shows. Messages go to the
agent as JSON lines: {"phase"}, {"busy", "expect_s"}, …, {"done"} or {"error"}. It never gives up
by itself: deadlines are the agent's.
"""

from __future__ import annotations

import faulthandler
import os
import re
import signal
from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

import msgspec
import torch
import torch.distributed as dist
from torch.distributed import PrefixStore, Store, TCPStore

from bench.measure import process
from bench.records import Phase

# The backend's own timeout must never fire before the agent's deadline: gloo's would come after
# 75 s of silence, with a message that names no rank.
_BACKEND_TIMEOUT = timedelta(hours=1)
_SOURCE = re.compile(
    r"\[(?:enforce fail at )?(?:/[^/\s\]]{1,100}){1,30}/([^/\s\]]{1,100}:\d+)\] ?"
)
_MAX_ERROR = 600  # characters of a backend's message that are worth keeping


class Errand(msgspec.Struct, frozen=True, kw_only=True):
    """Who the process is and where its peers are; crosses the nursery's socket as JSON."""

    rank: int  # within the group
    ranks: int
    global_rank: int
    local_rank: int  # on this host
    shares_gpu: bool = False  # more ranks than GPUs on this host
    backend: str
    environment: dict[str, str | None]
    store_host: str
    store_port: int
    prefix: str
    stacks_file: str = os.devnull
    words_file: str = os.devnull  # what the backend's libraries print
    log_file: str | None = None  # NCCL's own log


AnErrand = TypeVar("AnErrand", bound=Errand)


class Voice:
    """The process's end of the pipe."""

    def __init__(self, pipe: int, rank: int) -> None:
        self._pipe, self._rank = pipe, rank

    def say(self, message: dict[str, Any]) -> None:
        data = msgspec.json.encode(message) + b"\n"
        while data:
            data = data[os.write(self._pipe, data) :]

    def phase(self, phase: Phase) -> None:
        process.set_name(f"b{self._rank}:{phase}")
        self.say({"phase": phase})


def perform(errand: AnErrand, pipe: int, work: Callable[[AnErrand, Voice], None]) -> None:
    """Do the work in this freshly forked process; every failure becomes an {"error"} message."""
    voice = Voice(pipe, errand.global_rank)
    words = os.open(errand.words_file, os.O_WRONLY | os.O_APPEND)
    for stream in (1, 2):  # gloo and c10d write to stderr what only matters when something failed
        os.dup2(words, stream)
    with open(errand.stacks_file, "w") as stacks:  # noqa: PTH123 (os.devnull is no Path to make)
        faulthandler.register(signal.SIGUSR1, file=stacks, all_threads=True)
        try:
            _prepare(errand)
            work(errand, voice)
        except Exception as error:  # noqa: BLE001 - whatever the backend raises is the result
            voice.say({"error": _plain(error)})
            os._exit(1)
        voice.say({"done": True})


def _plain(error: Exception) -> str:
    """The backend's words in one line, without the paths of the machine that compiled it."""
    text = _SOURCE.sub(r"\1 ", " ".join(f"{type(error).__name__}: {error}".split()))
    return text[:_MAX_ERROR]


def _prepare(errand: Errand) -> None:
    for name, value in errand.environment.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    if errand.backend == "nccl":
        _prepare_nccl(errand)
    # Refilling a buffer with a thread per core leaves them spinning into the timed calls: 2 %.
    torch.set_num_threads(1)


def _prepare_nccl(errand: Errand) -> None:
    """Let NCCL tell what it does; let ranks that share a GPU pass for hosts of their own.

    NCCL refuses two ranks of one host on one GPU; a distinct NCCL_HOSTID each sends all traffic
    over the network, which is what a network sweep on one GPU wants. RAS is another listener on
    the bootstrap interface, and has crashed (2.26, 2.27): it is off for a benchmark.

    torch's own watch over NCCL would take a case's failure for one of every later case: its signal
    to write dumps is a key of the store, which all cases share, and a monitor that finds it there
    sleeps for minutes and then aborts the process. The agents keep the deadlines.
    """
    os.environ["TORCH_NCCL_ENABLE_MONITORING"] = "0"
    os.environ["TORCH_NCCL_DUMP_ON_TIMEOUT"] = "0"
    os.environ["TORCH_FR_DUMP_ON_TIMEOUT"] = "0"  # its name from 2.15 on
    os.environ["NCCL_DEBUG"] = "INFO"
    os.environ["NCCL_DEBUG_SUBSYS"] = "INIT,BOOTSTRAP,ENV,NET,GRAPH"
    if errand.log_file is not None:
        os.environ["NCCL_DEBUG_FILE"] = errand.log_file
    os.environ.setdefault("NCCL_RAS_ENABLE", "0")
    if errand.shares_gpu:
        for name, value in (
            ("NCCL_HOSTID", f"rank{errand.global_rank}"),
            ("NCCL_NVLS_ENABLE", "0"),
            ("NCCL_MAX_CTAS", "4"),  # ranks that share a GPU also share its multiprocessors
        ):
            os.environ.setdefault(name, value)


def store_of(errand: Errand) -> Store:
    """A client of the store in which the group's members find each other."""
    return TCPStore(
        errand.store_host, errand.store_port, is_master=False, timeout=_BACKEND_TIMEOUT
    )


def meet(errand: Errand, store: Store, prefix: str) -> Store:
    """Everybody has registered in the store: the last one to come opens the door."""
    room = PrefixStore(prefix, store)
    if room.add("here", 1) == errand.ranks:
        room.set("all", "1")
    room.wait(["all"], _BACKEND_TIMEOUT)
    return room


def join(errand: Errand, room: Store) -> torch.device:
    """Form the process group; over NCCL eagerly, so that its failure is seen in this phase."""
    device = torch.device("cpu")
    if errand.backend == "nccl":
        count = torch.cuda.device_count()
        if count == 0:
            raise RuntimeError("torch sees no GPU here (CUDA_VISIBLE_DEVICES, driver)")
        device = torch.device("cuda", errand.local_rank % count)
        torch.cuda.set_device(device)
    dist.init_process_group(
        errand.backend,
        store=room,
        rank=errand.rank,
        world_size=errand.ranks,
        timeout=_BACKEND_TIMEOUT,
        device_id=device if errand.backend == "nccl" else None,
    )
    return device


def leave() -> None:
    """End the group; nobody closes connections while a peer is still in its last call."""
    dist.barrier()
    dist.destroy_process_group()
