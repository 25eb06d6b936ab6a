"""The worker: one rank of one session. Forms the group, runs its cells, says how far it is.

An errand (bench/measure/errand.py) through the phases rendezvous, init, first, midrun, end. Beside
an errand's messages it says {"group_s"}, {"mapped"} and, as group rank 0, a {"sample"} per cell.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from typing import Any

import msgspec
import torch
import torch.distributed as dist

from bench.facts import libraries
from bench.measure import errand, timing
from bench.measure.clock import Clock, CpuClock, CudaClock
from bench.measure.collectives import COLLECTIVES, DTYPES, Place
from bench.measure.errand import Errand, Voice
from bench.measure.stopping import Rule, Warmup
from bench.plan.sizes import enough
from bench.records import PlanSettings, Sample


class Ladder(msgspec.Struct, frozen=True):
    """The sizes of one collective: `ends_early` lets the plateau rule cut them short."""

    collective: str
    sizes_bytes: tuple[int, ...]
    held_out: tuple[int, ...] = ()
    ends_early: bool = False


class Request(Errand, frozen=True, kw_only=True):
    """All that a worker needs to know."""

    settings: PlanSettings
    ladders: tuple[Ladder, ...]
    devices: int = 1


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
    """Run one request in a freshly forked process."""
    errand.perform(msgspec.convert(message, Request), pipe, _session)


def _session(request: Request, voice: Voice) -> None:
    voice.phase("rendezvous")
    room = errand.meet(request, errand.store_of(request), request.prefix)
    voice.phase("init")
    started = time.perf_counter()
    device = errand.join(request, room)
    place = Place(request.rank, request.ranks, device, DTYPES[request.settings.dtype])
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
    errand.leave()


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
