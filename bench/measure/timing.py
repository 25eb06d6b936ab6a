"""One cell: warm up, time in batches, stop when the median is known, check the values.

Every rank takes the same decision because it decides on the same numbers: each batch's times are
all-reduced to their maximum and minimum over ranks, outside the timed region. The clock and the
group are handed in, so the whole loop is tested with scripted ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from typing import Protocol

from bench.measure.clock import HOST_S, Clock, CpuClock
from bench.measure.collectives import Call
from bench.measure.stopping import PROBE, Rule, Warmup
from bench.records import Sample

DEAR_S = 0.05
# After a pause the first calls find cold caches and sleeping threads: 4 % of the median of 20.
LEAD_IN_CALLS, LEAD_IN_BELOW_S = 5, 0.002
FIRST_S = 0.3  # what a first call is announced with at least: it may have to connect first
_BATCH_S = 1.0  # a batch is cut to about this long, so that the agent hears from slow cells


class Group(Protocol):
    """What timing needs of a process group: start together, agree on numbers."""

    def align(self) -> None:
        """Return on all ranks at about the same time."""
        ...

    def extremes(self, times: Sequence[float]) -> tuple[list[float], list[float]]:
        """Per position the largest and the smallest over ranks; the same answer on every rank."""
        ...

    def total(self, count: int) -> int:
        """The sum of `count` over ranks."""
        ...


def measure(
    name: str,
    call: Call,
    clock: Clock,
    group: Group,
    warmup: Warmup,
    rule: Rule,
    *,
    turns: int = 1,
    only_slowest: bool = False,
    announce: Callable[[float], None] = lambda expect_s: None,
    expect_s: float | None = None,
) -> Sample:
    """Time one collective at one size.

    `turns`: consecutive calls that share one time, because the backend's interfaces take turns.
    `announce(seconds)` is told before each stretch how long it should take. `expect_s`: seconds
    that one call takes at the very most if nothing has to be set up (a few times what the size
    before took; None: nothing is known); a first call within it counts as warm. Times are in
    seconds per call; those of a call that blocks the host are the host's, whatever `clock` is.
    Raises whatever the backend raises when a peer has gone.
    """
    if call.blocks_host:
        clock = CpuClock()
    warm: list[float] = []
    wrong, one_s = 0, max(FIRST_S, expect_s or 0.0)
    host_s: float | None = None
    while more := warmup.next_batch(warm, expected_s=expect_s):
        announce(one_s * more)
        ahead = clock.source == "device" and more > 1 and one_s < LEAD_IN_BELOW_S
        if ahead and host_s is None:
            # the largest, because every rank has to cut its stretches at the same calls
            host_s = group.extremes([clock.host_s(call.run)])[0][0]
        call.refill()
        group.align()
        warm += group.extremes(clock.times(call.run, more, host_s=host_s or HOST_S))[0]
        wrong += call.wrong() if more == 1 else 0
        one_s = median(warm[1:] or warm)  # the first may have connected
    calls = turns * clock.calls_per_time(one_s)
    lead_in = LEAD_IN_CALLS if one_s * calls < LEAD_IN_BELOW_S else 0
    times: list[float] = []
    fastest: list[float] = []
    known_s = one_s * calls if len(warm) > PROBE else None
    while more := rule.next_batch(times, sum(times) * calls, expected_s=known_s):
        more = max(1, min(more, int(_BATCH_S / (one_s * calls))))
        announce(one_s * (calls * more + lead_in))
        call.refill()
        group.align()  # else the first call of a batch waits for whoever refilled last
        high, low = group.extremes(
            clock.times(call.run, more, calls, lead_in=lead_in, host_s=host_s or HOST_S)
        )
        times += high
        fastest += low
    if one_s * calls < DEAR_S:  # a dear call has been checked once, before timing
        announce(one_s)
        call.refill()
        call.run()
        wrong += call.wrong()
    return Sample(
        collective=name,
        size_bytes=call.size_bytes,
        times_s=tuple(times),
        times_min_s=() if only_slowest else tuple(fastest),
        calls_per_time=calls,
        clock=clock.source,
        warmup_calls=len(warm),
        settled=not warmup.unsettled(warm),
        wrong=group.total(wrong),
    )
