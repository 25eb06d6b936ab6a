"""The timing loop with a scripted clock and group: what it decides, and that all ranks agree."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from typing import Literal

import pytest

from bench.measure import timing
from bench.measure.clock import HOST_S
from bench.measure.collectives import Call
from bench.measure.stopping import Rule, Warmup
from bench.records import PlanSettings, Sample

QUICK = PlanSettings(name="quick")
NIGHTLY = PlanSettings(name="nightly", cell_s=5.0, min_iterations=30, max_iterations=500)


class ScriptedClock:
    """Calls take what the script says, in seconds; nothing waits."""

    def __init__(
        self,
        script: Callable[[int], float],
        batch: int = 1,
        source: Literal["host", "device"] = "host",
        host_s: float = 0.0,
    ) -> None:
        self._script, self._batch, self.calls = script, batch, 0
        self.source, self._host_s = source, host_s
        self.told: list[tuple[int, float]] = []  # lead-in and cost of enqueueing, per stretch

    def host_s(self, call: Callable[[], object]) -> float:
        call()
        return self._host_s

    def times(
        self,
        call: Callable[[], object],
        count: int,
        calls: int = 1,
        *,
        lead_in: int = 0,
        host_s: float = HOST_S,
    ) -> list[float]:
        self.told.append((lead_in, host_s))
        for _ in range(lead_in):
            call()
        result = []
        for _ in range(count):
            total = 0.0
            for _ in range(calls):
                call()
                total += self._script(self.calls)
                self.calls += 1
            result.append(total / calls)
        return result

    def calls_per_time(self, one_call_s: float) -> int:
        return self._batch


class Alone:
    """A group of one rank, or of several of which the others are `slower` by a factor."""

    def __init__(self, slower: float = 1.0) -> None:
        self._slower = slower

    def align(self) -> None:
        pass

    def extremes(self, times: Sequence[float]) -> tuple[list[float], list[float]]:
        other = [t * self._slower for t in times]
        pairs = list(zip(times, other, strict=True))
        return [max(p) for p in pairs], [min(p) for p in pairs]

    def total(self, count: int) -> int:
        return count


class Counted:
    """A call that counts its runs and refills; `bad` wrong elements at each check."""

    def __init__(self, bad: int = 0) -> None:
        self.runs = self.refills = 0
        self.bad = bad
        self.call = Call(
            run=self._run, refill=self._refill, wrong=lambda: self.bad, size_bytes=1 << 20
        )

    def _run(self) -> None:
        self.runs += 1

    def _refill(self) -> None:
        self.refills += 1


def measured(
    script: Callable[[int], float],
    plan: PlanSettings = QUICK,
    *,
    turns: int = 1,
    batch: int = 1,
    bad: int = 0,
    slower: float = 1.0,
    expect_s: float | None = 1.0,
) -> tuple[Sample, Counted]:
    counted = Counted(bad)
    sample = timing.measure(
        "all_reduce", counted.call, ScriptedClock(script, batch), Alone(slower), Warmup.of(plan),
        Rule.of(plan, 1 << 20), turns=turns, expect_s=expect_s,
    )  # fmt: skip
    return sample, counted


def test_a_slow_call_is_timed_the_least_number_of_times() -> None:
    sample, counted = measured(lambda _: 0.126)
    assert len(sample.times_s) == QUICK.min_iterations
    assert sample.warmup_calls == 1
    assert counted.runs == 4, "its values were checked at warm-up; a fifth call would cost 0.1 s"


def test_a_steady_fast_call_stops_as_soon_as_the_median_is_known() -> None:
    noise = random.Random(1)
    sample, _ = measured(lambda _: 1e-3 * noise.gauss(1, 0.002), NIGHTLY)
    assert len(sample.times_s) == 30
    assert sample.settled


def test_a_noisy_call_is_timed_until_the_cap() -> None:
    noise = random.Random(2)
    sample, _ = measured(lambda _: 1e-3 * noise.lognormvariate(0, 0.5), NIGHTLY)
    assert len(sample.times_s) == 500


def test_a_call_that_still_gets_faster_after_200_is_told_as_unsettled() -> None:
    noise = random.Random(3)
    sample, _ = measured(lambda i: 1e-3 * 0.93 ** (i // 10) * noise.gauss(1, 0.002), NIGHTLY)
    assert sample.warmup_calls >= 200
    assert not sample.settled


def test_interfaces_that_take_turns_share_one_time() -> None:
    sample, _ = measured(lambda i: 0.010 if i % 2 else 0.050, turns=2)
    assert sample.calls_per_time == 2
    assert sample.times_s == pytest.approx([0.030] * len(sample.times_s))


def test_short_calls_are_batched_by_the_clock() -> None:
    sample, _ = measured(lambda _: 20e-6, batch=10)
    assert sample.calls_per_time == 10


def test_the_slowest_and_the_fastest_rank_are_both_kept() -> None:
    sample, _ = measured(lambda _: 0.010, slower=1.5)
    assert sample.times_s == pytest.approx([0.015] * len(sample.times_s))
    assert sample.times_min_s == pytest.approx([0.010] * len(sample.times_s))


def test_wrong_values_are_counted_before_and_after_timing() -> None:
    sample, counted = measured(lambda _: 0.010, bad=3)
    assert sample.wrong == 9  # after each single warm-up call, and after the timed ones
    assert counted.refills >= 4
    slow, _ = measured(lambda _: 0.126, bad=3)
    assert slow.wrong == 3


def test_the_agent_is_told_before_every_stretch_how_long_it_should_take() -> None:
    told: list[float] = []
    counted = Counted()
    timing.measure(
        "all_reduce", counted.call, ScriptedClock(lambda _: 0.4), Alone(), Warmup.of(QUICK),
        Rule.of(QUICK, 1 << 20), announce=told.append, expect_s=0.5,
    )  # fmt: skip
    assert all(0.4 <= expect <= 1.3 for expect in told), told  # a batch is cut to about a second


def test_the_first_call_is_given_time_to_connect_even_where_the_last_size_was_fast() -> None:
    told: list[float] = []
    timing.measure(
        "all_reduce", Counted().call, ScriptedClock(lambda _: 1e-3), Alone(), Warmup.of(QUICK),
        Rule.of(QUICK, 1 << 20), announce=told.append, expect_s=0.004,
    )  # fmt: skip
    assert told[0] == timing.FIRST_S


@pytest.mark.parametrize("expect_s", [None, 0.01])
def test_a_first_call_that_connects_sets_neither_the_pace_nor_the_warmth(
    expect_s: float | None,
) -> None:
    sample, _ = measured(lambda i: 1.5 if i == 0 else 2e-3, expect_s=expect_s)
    assert sample.warmup_calls == 20
    assert len(sample.times_s) >= 20
    assert max(sample.times_s) == 2e-3


def test_a_stream_is_told_the_cost_of_enqueueing_that_the_slowest_rank_has() -> None:
    clock = ScriptedClock(lambda _: 1e-4, 4, "device", host_s=20e-6)
    sample = timing.measure(
        "all_reduce", Counted().call, clock, Alone(slower=2.0), Warmup.of(QUICK),
        Rule.of(QUICK, 1 << 20),
    )  # fmt: skip
    assert sample.clock == "device"
    assert clock.told[:2] == [(0, HOST_S), (0, HOST_S)]
    assert clock.told[2] == (0, 40e-6)
    assert set(clock.told[3:]) == {(timing.LEAD_IN_CALLS, 40e-6)}


def test_a_call_that_blocks_the_host_is_timed_by_the_host() -> None:
    clock = ScriptedClock(lambda _: 1e-4, 4, "device")
    blocking = Call(lambda: time.sleep(1e-3), lambda: None, lambda: 0, 0, blocks_host=True)
    sample = timing.measure(
        "barrier", blocking, clock, Alone(), Warmup.of(QUICK), Rule.of(QUICK, 0)
    )
    assert (sample.clock, sample.calls_per_time, clock.calls) == ("host", 1, 0)
    assert min(sample.times_s) >= 1e-3
