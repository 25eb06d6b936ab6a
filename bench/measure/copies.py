"""Copies with pinned memory: host to GPU, GPU to host, GPU to its neighbours, one at a time.

In: a copier (the real one is CUDA through torch), NVML for the state of the link meanwhile. Out:
one CopyFigure per step. As nvbandwidth does it: 64 MiB, CUDA events around each copy, the median
of consecutive ones, nothing else moving. NCCL's figures hide a narrow PCIe link behind NVLink, and
a link at rest says less than it can: here it is loaded first and read while it works.
"""

from __future__ import annotations

import itertools
import os
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import msgspec
import torch

from bench.facts.nvml import NvmlReader, NvmlRefused, PynvmlReader
from bench.facts.placement import parse_cpu_list
from bench.records import CopyFigure

SIZE_BYTES = 64 << 20  # nvbandwidth's; at 64 GB/s a copy takes 1 ms, a thousand event ticks
COPIES = 20
LEAST_COPIES = 5
STEP_S = 1.0  # a link of 1 GB/s would need 1.3 s for all copies
LEAD_IN = 4  # copies before the timed ones: the link wakes, the host gets ahead
LOADED_S = 0.05  # NVML answers within a millisecond or two; the link must still be at work then

Way = Literal["to-device", "from-device", "to-peer"]


@dataclass(frozen=True)
class Step:
    """One thing to copy, in CUDA's device numbers."""

    way: Way
    device: int
    peer: int | None = None


class Lane(Protocol):
    """Buffers made ready for one step."""

    def times_s(self, copies: int) -> list[float]:
        """Seconds of each of so many consecutive copies, after a few that do not count."""
        ...

    def start(self, copies: int) -> None:
        """Set copies going and return at once."""
        ...

    def wrong(self) -> int:
        """Wait for what goes on; elements that did not arrive as they left."""
        ...


class Copier(Protocol):
    """What the check needs of CUDA."""

    def devices(self) -> int: ...

    def uuid(self, device: int) -> str | None: ...

    def direct(self, device: int, peer: int) -> bool | None: ...

    def lane(self, step: Step, size_bytes: int) -> Lane: ...


class LinkStates:
    """NVML's side: which of its GPUs a CUDA device is, and how its link stands right now."""

    def __init__(self, reader: NvmlReader | None = None) -> None:
        self._reader = reader or PynvmlReader()
        try:
            self._count = self._reader.open()
        except NvmlRefused:
            self._count = 0

    def index(self, uuid: str | None) -> int | None:
        if uuid is None:
            return None
        bare = uuid.lower().removeprefix("gpu-")
        for index in range(self._count):
            if str(self._value(index, "uuid")).lower().removeprefix("gpu-") == bare:
                return index
        return None

    def cpus(self, gpu: int | None) -> set[int]:
        """CPUs beside the GPU; empty where that is not known."""
        return parse_cpu_list(str(self._value(gpu, "cpu_affinity") or ""))

    def link(self, gpu: int | None) -> tuple[int | None, int | None]:
        """PCIe generation and width of this moment."""
        return self._value(gpu, "pcie_generation"), self._value(gpu, "pcie_width")

    def _value(self, gpu: int | None, item: str) -> Any:
        try:
            return self._reader.value(gpu, item) if gpu is not None else None
        except NvmlRefused:
            return None


def steps(devices: int) -> list[Step]:
    """Both directions of each device's link, then of the way to the next device in a circle:
    every GPU and every neighbourhood once, without the square of their number."""
    found = [
        Step(way, device) for device in range(devices) for way in ("to-device", "from-device")
    ]
    pairs = [(a, (a + 1) % devices) for a in range(devices if devices > 2 else devices - 1)]
    for a, b in pairs:
        found += [Step("to-peer", a, b), Step("to-peer", b, a)]
    return found


def check(
    copier: Copier,
    links: LinkStates,
    host: str,
    *,
    size_bytes: int = SIZE_BYTES,
    starting: Callable[[Step, tuple[int, ...]], None] = lambda step, gpus: None,
) -> Iterator[CopyFigure | str]:
    """A figure per step, or a sentence for one that cannot be made; the others go on.

    `starting` hears of each step before it begins, with NVML's numbers where they are known:
    whoever waits knows then what does not end.
    """
    devices = copier.devices()
    gpus = [links.index(copier.uuid(device)) for device in range(devices)]
    at_home = os.sched_getaffinity(0)
    for step in steps(devices):
        gpu = gpus[step.device]
        peer = gpus[step.peer] if step.peer is not None else None
        starting(step, tuple(n for n in (gpu, peer) if n is not None))
        near = None if step.way == "to-peer" else _go_near(links.cpus(gpu), at_home)
        try:
            yield _figure(copier, links, host, step, (gpu, peer), near, size_bytes)
        except RuntimeError as error:  # torch's own class for whatever CUDA refuses
            told = " ".join(str(error).split())[:200]
            yield f"{_name(step)} on {host} could not be copied: {told}"
        finally:
            os.sched_setaffinity(0, at_home)


def _name(step: Step) -> str:
    if step.peer is not None:
        return f"device {step.device} to device {step.peer}"
    return f"host to device {step.device}" if step.way == "to-device" else (
        f"device {step.device} to host"
    )  # fmt: skip


def _go_near(cpus: set[int], allowed: set[int]) -> bool | None:
    """Run on the GPU's own CPUs, so that pinned memory is made on its NUMA node (the first one to
    touch a page decides). False where this process may not."""
    if not cpus:
        return None
    if not cpus & allowed:
        return False
    os.sched_setaffinity(0, cpus & allowed)
    return True


def _figure(
    copier: Copier,
    links: LinkStates,
    host: str,
    step: Step,
    gpus: tuple[int | None, int | None],
    near: bool | None,
    size_bytes: int,
) -> CopyFigure:
    lane = copier.lane(step, size_bytes)
    first = statistics.median(lane.times_s(LEAST_COPIES))
    copies = max(LEAST_COPIES, min(COPIES, int(STEP_S / max(first, 1e-9))))
    times = lane.times_s(copies)
    rates = sorted(size_bytes / time / 1e9 for time in times)
    middle = statistics.median(rates)
    generation, width = None, None
    if step.way != "to-peer":
        lane.start(int(LOADED_S * middle * 1e9 / size_bytes) + 1)
        generation, width = links.link(gpus[0])
    return CopyFigure(
        host=host,
        way=step.way,
        device=step.device,
        gpu=gpus[0],
        peer_device=step.peer,
        peer=gpus[1],
        size_bytes=size_bytes,
        copies=len(times),
        bandwidth_gbs=round(middle, 3),
        least_gbs=round(rates[0], 3),
        most_gbs=round(rates[-1], 3),
        pcie_generation=generation,
        pcie_width=width,
        near=near,
        direct=copier.direct(step.device, step.peer) if step.peer is not None else None,
        wrong=lane.wrong(),
    )


# ------------------------------------------------------------------------------------ CUDA


class CudaCopier:
    """The real thing. Every call may raise RuntimeError with CUDA's words."""

    def devices(self) -> int:
        return torch.cuda.device_count()

    def uuid(self, device: int) -> str | None:
        told = getattr(torch.cuda.get_device_properties(device), "uuid", None)
        return str(told) if told is not None else None

    def direct(self, device: int, peer: int) -> bool | None:
        return bool(torch.cuda.can_device_access_peer(device, peer))

    def lane(self, step: Step, size_bytes: int) -> Lane:
        return CudaLane(step, size_bytes)


class CudaLane:
    """Numbers in order at one end, zeros at the other."""

    def __init__(self, step: Step, size_bytes: int) -> None:
        self._device = torch.device("cuda", step.device)
        # Freed pinned memory would come back from torch's cache, on another GPU's NUMA node.
        getattr(torch._C, "_host_emptyCache", lambda: None)()
        ends: list[torch.device | None] = [self._device, None]
        if step.way == "to-device":
            ends = [None, self._device]
        elif step.peer is not None:
            ends = [self._device, torch.device("cuda", step.peer)]
        count = size_bytes // torch.int32.itemsize
        self._source = _on(ends[0], torch.arange(count, dtype=torch.int32))
        self._destination = _on(ends[1], torch.zeros(count, dtype=torch.int32))

    def _copy(self) -> None:
        self._destination.copy_(self._source, non_blocking=True)

    def times_s(self, copies: int) -> list[float]:
        with torch.cuda.device(self._device):
            events = [_event() for _ in range(copies + 1)]
            for _ in range(LEAD_IN):
                self._copy()
            events[0].record()
            for event in events[1:]:
                self._copy()
                event.record()
            events[-1].synchronize()
        return [a.elapsed_time(b) * 1e-3 for a, b in itertools.pairwise(events)]

    def start(self, copies: int) -> None:
        with torch.cuda.device(self._device):
            for _ in range(copies):
                self._copy()

    def wrong(self) -> int:
        for end in (self._source.device, self._destination.device):
            if end.type == "cuda":
                torch.cuda.synchronize(end)
        there = self._destination
        right = torch.arange(there.numel(), dtype=torch.int32, device=there.device)
        return int(torch.count_nonzero(there != right).item())


def _on(device: torch.device | None, values: torch.Tensor) -> torch.Tensor:
    return values.pin_memory() if device is None else values.to(device)


def _event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]


# ---------------------------------------------------------------------------------- worker


def serve(message: dict[str, Any], pipe: int) -> None:
    """Run the check in a freshly forked process. Lines out: {"step", "gpus"}, {"figure"},
    {"trouble"}, and {"done"} at the end."""

    def say(told: dict[str, Any]) -> None:
        data = msgspec.json.encode(told) + b"\n"
        while data:
            data = data[os.write(pipe, data) :]

    def starting(step: Step, gpus: Sequence[int]) -> None:
        say({"step": _name(step), "gpus": list(gpus)})

    if message.get("visible") is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = str(message["visible"])
    try:
        for found in check(CudaCopier(), LinkStates(), str(message["host"]), starting=starting):
            if isinstance(found, CopyFigure):
                say({"figure": msgspec.to_builtins(found)})
            else:
                say({"trouble": found})
    except RuntimeError as error:  # CUDA does not even start
        say({"trouble": " ".join(str(error).split())[:200]})
    say({"done": True})
