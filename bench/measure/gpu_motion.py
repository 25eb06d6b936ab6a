"""What GPUs did between two readings: throttling, clocks, and what should have stood still.

In: the GPUs before and after a session, as `facts.gpus.pulse` reads them. Out: the parts of
HostEvidence that are theirs. At both ends a GPU rests between two cases, so the reasons that hold
there say little of the session: the driver's own running totals of throttled time do.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.facts import gpu_groups
from bench.records import Gpu

LEAST_THROTTLED_S = 0.001  # the driver counts in steps of a microsecond
_STILL = ("nvlinks_active", "pcie_width")  # the generation may fall at rest


def reasons(before: Sequence[Gpu], after: Sequence[Gpu]) -> tuple[str, ...]:
    """Reasons that held at either end: "gpu0: hardware slowdown"."""
    held = [f"gpu{gpu.index}: {why}" for gpu in (*before, *after) for why in gpu.throttle_reasons]
    return tuple(dict.fromkeys(held))


def throttled_s(before: Sequence[Gpu], after: Sequence[Gpu]) -> dict[str, float]:
    """How much longer each policy has held clocks down: "gpu0.power" -> seconds."""
    found = {}
    for then, now in _both(before, after):
        for policy, seconds in now.throttled_s.items():
            rise = seconds - then.throttled_s.get(policy, seconds)
            if rise >= LEAST_THROTTLED_S:
                found[f"gpu{now.index}.{policy}"] = round(rise, 3)
    return found


def clocks_mhz(before: Sequence[Gpu], after: Sequence[Gpu]) -> dict[str, tuple[int, int]]:
    """SM clock before and after; GPUs alike in one line: "gpu0-7.sm"."""
    told = {
        now.index: (then.sm_clock_mhz, now.sm_clock_mhz)
        for then, now in _both(before, after)
        if then.sm_clock_mhz is not None and now.sm_clock_mhz is not None
    }
    return {f"gpu{indexes}.sm": clocks for indexes, clocks in gpu_groups.alike(told).items()}


def changed(before: Sequence[Gpu], after: Sequence[Gpu]) -> dict[str, tuple[int, int]]:
    """What should have stood still and did not: "gpu3.pcie_width" -> before, after."""
    found = {}
    for then, now in _both(before, after):
        for field in _STILL:
            old, new = getattr(then, field), getattr(now, field)
            if old is not None and new is not None and old != new:
                found[f"gpu{now.index}.{field}"] = (old, new)
    return found


def _both(before: Sequence[Gpu], after: Sequence[Gpu]) -> list[tuple[Gpu, Gpu]]:
    then = {gpu.index: gpu for gpu in before}
    return [(then[gpu.index], gpu) for gpu in after if gpu.index in then]
