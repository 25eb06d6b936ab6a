"""Clocks that time consecutive calls: the CPU's for blocking calls, CUDA events for streams.

A clock returns one duration per timed unit, in seconds, on this rank. Nothing else happens between
two stamps: no barrier, no synchronisation, no Python beyond the loop. On a stream the host has to
be ahead of the device, or the times are those of Python enqueueing: a spin kernel holds the device
back for as long as that takes (nvbandwidth does the same).
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Literal, Protocol

import torch

HOST_S = 50e-6  # of enqueueing one call, before it was measured: c10d takes 15 to 30 µs
# Event resolution is about 0.5 µs: a sample of 200 µs keeps that at 0.25 %.
_EVENT_SAMPLE_S = 200e-6
_MOST_CALLS_PER_TIME = 64  # 64 of the fastest calls (3 µs on one host) last as long as a sample
_HOST_CALLS = 8
_SPIN_SHARE = 1.5  # the host has hiccups; too long a spin costs only time
_SPIN_MOST_S = 20e-3
_HOST_LEAST_S = 5e-6
# A launch blocks once about a thousand are queued; a call is up to five (kernel, events, waits).
_QUEUED_CALLS = 128
_WAKE_S, _CALIBRATE_CYCLES = 10e-3, 2_000_000  # an idle device raises its clocks within a few ms


class Clock(Protocol):
    """Times calls that all ranks make alike: same counts everywhere, or they would deadlock.

    `source` says whose time it is. `times` gives seconds per call, one for each of `count` units
    of `calls` consecutive calls; `lead_in` calls go before, untimed. `host_s`, of `host_s()`, must
    be the same number on every rank.
    """

    @property
    def source(self) -> Literal["host", "device"]: ...

    def host_s(self, call: Callable[[], object]) -> float:
        """Seconds that handing over one call costs the host; 0 where a call blocks anyway."""
        ...

    def times(
        self,
        call: Callable[[], object],
        count: int,
        calls: int = 1,
        *,
        lead_in: int = 0,
        host_s: float = HOST_S,
    ) -> list[float]: ...

    def calls_per_time(self, one_call_s: float) -> int:
        """Calls that share one time, so that the clock can tell it."""
        ...


class CpuClock:
    """perf_counter around blocking calls, back to back as an application makes them."""

    source: Literal["host", "device"] = "host"

    def host_s(self, call: Callable[[], object]) -> float:
        del call
        return 0.0

    def times(
        self,
        call: Callable[[], object],
        count: int,
        calls: int = 1,
        *,
        lead_in: int = 0,
        host_s: float = HOST_S,
    ) -> list[float]:
        del host_s
        for _ in range(lead_in):
            call()
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
    """CUDA events around each unit on the current stream, behind a spin that lets the host ahead.

    The spin is 1.5 times what enqueueing takes; units beyond what one spin of 20 ms or the launch
    queue covers get a spin of their own. The lead-in stands behind the spin, so that ranks whose
    spins end apart have met before the first stamp. Short calls share a time of 200 µs or more,
    which makes them pipelined: `calls_per_time` > 1 says so in the record.
    """

    source: Literal["host", "device"] = "device"

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._cycles_per_s = 0.0

    def host_s(self, call: Callable[[], object]) -> float:
        """Mean over eight calls, the device idle before and after. Raises what the call raises."""
        torch.cuda.synchronize(self._device)
        started = time.perf_counter()
        for _ in range(_HOST_CALLS):
            call()
        spent = time.perf_counter() - started
        torch.cuda.synchronize(self._device)
        return spent / _HOST_CALLS

    def times(
        self,
        call: Callable[[], object],
        count: int,
        calls: int = 1,
        *,
        lead_in: int = 0,
        host_s: float = HOST_S,
    ) -> list[float]:
        host_s = max(host_s, _HOST_LEAST_S)
        covered = min(_QUEUED_CALLS, int(_SPIN_MOST_S / (_SPIN_SHARE * host_s)))
        most = max(1, (covered - lead_in) // calls)  # units; the same on all ranks, as host_s is
        times: list[float] = []
        while len(times) < count:
            units = min(most, count - len(times))
            times += self._stretch(call, units, calls, lead_in, host_s)
        return times

    def _stretch(
        self, call: Callable[[], object], units: int, calls: int, lead_in: int, host_s: float
    ) -> list[float]:
        events = [_event() for _ in range(units + 1)]
        rate = self._cycles_per_s or self._calibrated()
        torch.cuda.synchronize(self._device)
        spin_s = min(_SPIN_SHARE * host_s * (lead_in + units * calls), _SPIN_MOST_S)
        torch.cuda._sleep(int(spin_s * rate))  # type: ignore[no-untyped-call]
        for _ in range(lead_in):
            call()
        events[0].record()
        for event in events[1:]:
            for _ in range(calls):
                call()
            event.record()
        torch.cuda.synchronize(self._device)
        return [a.elapsed_time(b) * 1e-3 / calls for a, b in itertools.pairwise(events)]

    def _calibrated(self) -> float:
        """Spin cycles per second, once per session: device properties do not always tell."""
        best, started = 0.0, time.perf_counter()
        while best == 0.0 or time.perf_counter() - started < _WAKE_S:
            before, after = _event(), _event()
            before.record()
            torch.cuda._sleep(_CALIBRATE_CYCLES)  # type: ignore[no-untyped-call]
            after.record()
            torch.cuda.synchronize(self._device)
            best = max(best, _CALIBRATE_CYCLES / (before.elapsed_time(after) * 1e-3))
        self._cycles_per_s = best
        return best

    def calls_per_time(self, one_call_s: float) -> int:
        """A power of two: sessions whose calls differ a little share it, and stay comparable."""
        calls = 1
        while calls < _MOST_CALLS_PER_TIME and calls * one_call_s < _EVENT_SAMPLE_S:
            calls *= 2
        return calls


def _event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
