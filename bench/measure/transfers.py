"""One end of a pair: sends and receives with one peer, over fresh connections each repetition.

An errand of two ranks. Each repetition forms a group of its own (over gloo a new process group,
over NCCL a new communicator: sockets and queue pairs are made anew, so the paths that a fabric
hashes them to are drawn anew), then moves data first to second, second to first, both ways at
once, and small messages to and fro. Times are taken where data arrive, between arrivals of
transfers that follow each other without a gap: neither the connection's start nor an answer's way
back is in them, and no two clocks are compared. Says {"transfer"} after each repetition.
"""

from __future__ import annotations

import itertools
import time
from typing import Any, Protocol

import msgspec
import torch
import torch.distributed as dist
from torch.distributed import Store

from bench.measure import errand
from bench.measure.errand import Errand, Voice
from bench.plan.amounts import Amounts

LATE_PINGS = 4  # the first small messages wake both ends


class PairRequest(Errand, frozen=True, kw_only=True):
    """All that one end of a pair needs to know; rank 0 is the pair's first host."""

    amounts: Amounts
    repeats: int


class Arrivals(msgspec.Struct, frozen=True, kw_only=True):
    """One repetition as this end saw it: seconds of a transfer towards it, alone and while it sent
    itself; of a small message, half the way to the peer and back (told by the first host)."""

    alone_s: float
    both_s: float
    latency_s: float | None = None


def serve(message: dict[str, Any], pipe: int) -> None:
    """Run one request in a freshly forked process."""
    errand.perform(msgspec.convert(message, PairRequest), pipe, _repetitions)


def _repetitions(request: PairRequest, voice: Voice) -> None:
    voice.phase("rendezvous")
    store = errand.store_of(request)
    for number in range(request.repeats):
        if number:
            voice.phase("rendezvous")
        voice.say({"transfer": msgspec.to_builtins(_repetition(request, store, number, voice))})


def _repetition(request: PairRequest, store: Store, number: int, voice: Voice) -> Arrivals:
    amounts = request.amounts
    room = errand.meet(request, store, f"{request.prefix}/{number}")
    voice.phase("init")
    lane = _lane(errand.join(request, room), 1 - request.rank, amounts.size_bytes)
    voice.phase("first")
    lane.pings(LATE_PINGS, first=request.rank == 0)
    voice.phase("midrun")
    voice.say({"busy": "small messages", "expect_s": amounts.one_s})
    half = amounts.pings // 2  # before and after, or one disturbance would spoil them all
    before = lane.pings(half, first=request.rank == 0)
    alone: list[float] = []
    for sender in (0, 1):
        mine = request.rank == sender
        expect_s = amounts.one_s * (amounts.counted + 1)
        voice.say({"busy": _label(amounts, "to" if mine else "from"), "expect_s": expect_s})
        alone += lane.stream(amounts.counted + 1, sends=mine, receives=not mine)
    expect_s = 2 * amounts.one_s * (amounts.both + 1)  # half duplex takes twice as long
    voice.say({"busy": _label(amounts, "to and from"), "expect_s": expect_s})
    both = lane.stream(amounts.both + 1, sends=True, receives=True)
    voice.say({"busy": "small messages", "expect_s": amounts.one_s})
    after = lane.pings(half, first=request.rank == 0)
    voice.phase("end")
    errand.leave()
    return Arrivals(alone_s=_each(alone), both_s=_each(both), latency_s=_latency(before, after))


def _label(amounts: Amounts, way: str) -> str:
    return f"{amounts.size_bytes} bytes {way} its peer"


def _each(gaps: list[float]) -> float:
    """Seconds of one transfer: the whole stretch over its number. A median of so few would take
    two arrivals that one late wake-up has put together for a fast and a slow transfer."""
    return sum(gaps) / len(gaps)


def _latency(*stretches: list[float]) -> float | None:
    """Half of a round trip: the lower quartile of the better stretch, for what disturbs a small
    message only delays it."""
    quartiles = [sorted(times)[(len(times) - 1) // 4] for times in stretches if times]
    return min(quartiles) / 2 if quartiles else None


# ------------------------------------------------------------------------------------ lanes


class Lane(Protocol):
    """The way to the peer."""

    def stream(self, count: int, *, sends: bool, receives: bool) -> list[float]:
        """Move `count` transfers without a gap; seconds between the arrivals, one fewer."""
        ...

    def pings(self, count: int, *, first: bool) -> list[float]:
        """Small messages to and fro; seconds of each round trip, told where they begin."""
        ...


def _lane(device: torch.device, peer: int, size_bytes: int) -> Lane:
    return CudaLane(device, peer, size_bytes) if device.type == "cuda" else CpuLane(
        peer, size_bytes
    )  # fmt: skip


class CpuLane:
    """gloo: everything is posted at once, and each arrival stamped as it completes."""

    def __init__(self, peer: int, size_bytes: int) -> None:
        self._peer = peer
        self._out = torch.zeros(size_bytes, dtype=torch.uint8)
        self._into = torch.zeros(size_bytes, dtype=torch.uint8)
        self._small = torch.zeros(8, dtype=torch.uint8)

    def stream(self, count: int, *, sends: bool, receives: bool) -> list[float]:
        coming = [dist.irecv(self._into, self._peer) for _ in range(count if receives else 0)]
        going = [dist.isend(self._out, self._peer) for _ in range(count if sends else 0)]
        stamps = []
        for work in coming:
            _wait(work)
            stamps.append(time.perf_counter())
        for work in going:
            _wait(work)
        return [b - a for a, b in itertools.pairwise(stamps)]

    def pings(self, count: int, *, first: bool) -> list[float]:
        times = []
        for _ in range(count):
            began = time.perf_counter()
            if first:
                dist.send(self._small, self._peer)
            dist.recv(self._small, self._peer)
            if first:
                times.append(time.perf_counter() - began)
            else:
                dist.send(self._small, self._peer)
        return times


class CudaLane:
    """NCCL: one stream, an event after each transfer; both ways of a transfer in one group call,
    or they would run one after the other."""

    def __init__(self, device: torch.device, peer: int, size_bytes: int) -> None:
        self._device, self._peer = device, peer
        self._out = torch.zeros(size_bytes, dtype=torch.uint8, device=device)
        self._into = torch.zeros(size_bytes, dtype=torch.uint8, device=device)
        self._small = torch.zeros(8, dtype=torch.uint8, device=device)

    def stream(self, count: int, *, sends: bool, receives: bool) -> list[float]:
        events = [_event() for _ in range(count)]
        for event in events:
            calls = [dist.P2POp(dist.isend, self._out, self._peer)] if sends else []
            calls += [dist.P2POp(dist.irecv, self._into, self._peer)] if receives else []
            for work in dist.batch_isend_irecv(calls):
                work.wait()
            event.record()
        torch.cuda.synchronize(self._device)
        if not receives:
            return []
        return [a.elapsed_time(b) * 1e-3 for a, b in itertools.pairwise(events)]

    def pings(self, count: int, *, first: bool) -> list[float]:
        """As a program meets them: the launch is in the time."""
        times = []
        for _ in range(count):
            began = time.perf_counter()
            if first:
                dist.send(self._small, self._peer)
            dist.recv(self._small, self._peer)
            if not first:
                dist.send(self._small, self._peer)
            torch.cuda.synchronize(self._device)
            if first:
                times.append(time.perf_counter() - began)
        return times


def _wait(work: dist.Work | None) -> None:
    assert work is not None, "both ranks are in the group"
    work.wait()


def _event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
