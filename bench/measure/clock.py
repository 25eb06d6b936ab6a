"""Clocks that time consecutive calls: the CPU's for blocking backends, CUDA events for streams.

A clock returns one duration per timed unit, in seconds, on this rank. Nothing else happens between
two stamps: no barrier, no synchronisation, no Python beyond the loop.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Protocol

import torch

# Event resolution is about 0.5 µs: a sample of 200 µs keeps that at 0.25 %.
_EVENT_SAMPLE_S = 200e-6
_SPIN_CYCLES_PER_CALL = 20_000  # ~10 µs at 2 GHz: what enqueueing one collective costs the host
_SPIN_CYCLES_MAX = 20_000_000


class Clock(Protocol):
    """Time `count` units, each of `calls` consecutive calls; seconds per call, one per unit."""

    def times(self, call: Callable[[], object], count: int, calls: int = 1) -> list[float]: ...

    def calls_per_time(self, one_call_s: float) -> int: ...


class CpuClock:
    """perf_counter around blocking calls, back to back as an application makes them."""

    def times(self, call: Callable[[], object], count: int, calls: int = 1) -> list[float]:
        now = time.perf_counter_ns
        stamps = [now()]
        if calls == 1:
            for _ in range(count):
                call()
                stamps.append(now())
        else:
            for _ in range(count):
                for _ in range(calls):
                    call()
                stamps.append(now())
        scale = 1e-9 / calls
        return [(b - a) * scale for a, b in itertools.pairwise(stamps)]

    def calls_per_time(self, one_call_s: float) -> int:
        del one_call_s
        return 1


class CudaClock:
    """CUDA events around each unit on the current stream; one synchronisation at the end.

    A short spin kernel is enqueued first, so that the host is ahead of the device and launch cost
    does not show (nvbandwidth does the same). Short calls are batched to 200 µs a sample, which
    makes them pipelined: `calls_per_time` > 1 says so in the record.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def times(self, call: Callable[[], object], count: int, calls: int = 1) -> list[float]:
        events = [
            torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
            for _ in range(count + 1)
        ]
        torch.cuda.synchronize(self._device)
        spin = min(_SPIN_CYCLES_PER_CALL * count * calls, _SPIN_CYCLES_MAX)
        torch.cuda._sleep(spin)  # type: ignore[no-untyped-call]
        events[0].record()
        for event in events[1:]:
            for _ in range(calls):
                call()
            event.record()
        torch.cuda.synchronize(self._device)
        return [a.elapsed_time(b) * 1e-3 / calls for a, b in itertools.pairwise(events)]

    def calls_per_time(self, one_call_s: float) -> int:
        return max(1, -int(-_EVENT_SAMPLE_S // max(one_call_s, 1e-7)))
