"""Clocks: what they time. CUDA's runs on a stand-in for the absent device, with its own time."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import SimpleNamespace

import pytest
import torch

from bench.measure import clock
from bench.measure.clock import CpuClock, CudaClock

CYCLES_PER_S = 1.5e9
DEVICE = torch.device("cuda", 0)


class FakeCuda:
    """Stands in for torch.cuda where there is no GPU: one stream and one host, simulated.

    Work given to the stream starts when the stream and the host have come to it; a spin takes its
    cycles. `queued` is the most calls that were handed over between two synchronisations.
    """

    def __init__(self) -> None:
        self.host = self.stream = 0.0
        self.spun_s = 0.0
        self.queued = self._queue = 0

    def give(self, host_s: float, device_s: float) -> None:
        self.host += host_s
        self.stream = max(self.stream, self.host) + device_s
        self._queue += 1
        self.queued = max(self.queued, self._queue)

    def synchronize(self, _device: object = None) -> None:
        self.host = max(self.host, self.stream)
        self._queue = 0

    def sleep(self, cycles: int) -> None:
        self.host += 5e-6
        self.stream = max(self.stream, self.host) + cycles / CYCLES_PER_S
        self.spun_s += cycles / CYCLES_PER_S

    def event(self, *, enable_timing: bool) -> SimpleNamespace:
        assert enable_timing
        event = SimpleNamespace(at=0.0)

        def record() -> None:
            self.host += 2e-6
            event.at = max(self.stream, self.host)

        event.record = record
        event.elapsed_time = lambda other: (other.at - event.at) * 1e3
        return event

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(torch.cuda, "synchronize", self.synchronize)
        monkeypatch.setattr(torch.cuda, "_sleep", self.sleep, raising=False)
        monkeypatch.setattr(torch.cuda, "Event", self.event)
        monkeypatch.setattr(clock, "time", SimpleNamespace(perf_counter=lambda: self.host))


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeCuda:
    stand_in = FakeCuda()
    stand_in.install(monkeypatch)
    return stand_in


def calling(fake: FakeCuda, host_s: float, device_s: float) -> Callable[[], None]:
    return lambda: fake.give(host_s, device_s)


@pytest.mark.parametrize("host_s", [5e-6, 30e-6, 200e-6])
@pytest.mark.parametrize("device_s", [4e-6, 50e-6, 2e-3])
@pytest.mark.parametrize("calls", [1, 16])
def test_the_device_is_timed_and_not_how_fast_python_enqueues(
    fake: FakeCuda, host_s: float, device_s: float, calls: int
) -> None:
    cuda = CudaClock(DEVICE)
    call = calling(fake, host_s, device_s)
    told = cuda.host_s(call)
    assert told == pytest.approx(host_s)
    times = cuda.times(call, 30, calls, lead_in=2, host_s=told)
    assert times == pytest.approx([device_s] * 30)


def test_the_launch_queue_and_the_spin_stay_short(fake: FakeCuda) -> None:
    cuda = CudaClock(DEVICE)
    call = calling(fake, 30e-6, 4e-6)
    cuda.times(call, 1)
    fake.spun_s = 0.0
    assert len(cuda.times(call, 100, 64, lead_in=2, host_s=30e-6)) == 100
    assert fake.queued <= 128
    spent = 30e-6 * 100 * (64 + 2)
    assert spent < fake.spun_s < 1.6 * spent


def test_ranks_told_the_same_cost_make_the_same_calls(fake: FakeCuda) -> None:
    made = []
    for own_host_s in (20e-6, 90e-6):
        fake.queued = 0
        CudaClock(DEVICE).times(calling(fake, own_host_s, 8e-6), 50, 4, lead_in=2, host_s=90e-6)
        made.append(fake.queued)
    assert made[0] == made[1]


def test_a_time_stands_for_a_power_of_two_calls_that_last_long_enough() -> None:
    cuda = CudaClock(DEVICE)
    assert [cuda.calls_per_time(s) for s in (1e-6, 9e-6, 11e-6, 60e-6, 90e-6, 1e-3)] == [
        64, 32, 32, 4, 4, 1,
    ]  # fmt: skip
    assert CpuClock().calls_per_time(1e-6) == 1


def test_the_cpu_clock_times_units_of_calls_after_an_untimed_lead_in() -> None:
    made: list[float] = []

    def call() -> None:
        made.append(0.0)
        time.sleep(0.2 if len(made) == 1 else 0.002)

    times = CpuClock().times(call, 3, 2, lead_in=1)
    assert len(made) == 7
    assert len(times) == 3
    assert all(0.002 <= one < 0.05 for one in times)
    assert CpuClock().host_s(call) == 0.0
    assert len(made) == 7
