"""Message sizes: read and written as people do, the ladder of a sweep, and where it may end.

In: plan settings, or times on the ladder so far. Out: sizes in bytes, as nccl-tests counts them
(K, M, G binary), rounded down to what every rank can hold an equal, 16-byte aligned share of.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence

import numpy as np

from bench.records import BadInput, PlanSettings

ALIGNMENT = 16  # nccl-tests' per-rank rounding; also a multiple of every dtype's size
MOST_SIZES = 100  # a cost line over more takes longer to fit than it can gain
SMALLEST_STEP = 1.05

_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_SIZE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([kmgt]?)(?:i?b)?\s*", re.IGNORECASE | re.ASCII)


def parse_bytes(size: int | str) -> int:
    """Bytes of 4096, "4096", "4K", "4KiB" or "1.5M": binary units, as nccl-tests reads them.

    Raises BadInput for anything else, for 0 and for a fraction of a byte.
    """
    wanted = f"a size is a number of bytes such as 4096, 64K or 1G, not {size!r}"
    if isinstance(size, bool) or not isinstance(size, int | str):
        raise BadInput(wanted)
    if isinstance(size, str):
        match = _SIZE.fullmatch(size[:40])
        if match is None or len(size) > 40:
            raise BadInput(wanted)
        exact = float(match[1]) * _UNITS[match[2].lower()]
        if exact != int(exact):
            raise BadInput(f"{size!r} is not a whole number of bytes")
        size = int(exact)
    if not 0 < size <= 2**50:
        raise BadInput(f"a size lies between 1 byte and 1 PiB, not {size}")
    return size


def format_bytes(size_bytes: int) -> str:
    """A size as people read it: "64 KiB", "1.5 MiB", "90.5 KiB", "512 B"."""
    value, unit = float(size_bytes), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{round(value, 1):g} {unit}" if value < 1e5 else f"{value:.0f} {unit}"


def _rounded(size: float, ranks: int) -> int:
    """Down to a multiple of 16 bytes a rank, but at least one such share."""
    share = ALIGNMENT * ranks
    return max(share, int(size) // share * share)


def ladder(settings: PlanSettings, ranks: int = 1) -> tuple[int, ...]:
    """The sizes to measure, in bytes, ascending, from min_bytes to max_bytes by step_factor.

    Each is rounded down to a multiple of 16 bytes x `ranks`, as nccl-tests does, so that every
    rank's share of an all_gather is equal and aligned. The last is always max_bytes: it replaces
    the step before it where it lies less than half a step above. Raises BadInput for sizes out of
    order, a step that is no step, or more than 100 sizes.
    """
    smallest, largest = parse_bytes(settings.min_bytes), parse_bytes(settings.max_bytes)
    step = settings.step_factor
    if smallest > largest:
        raise BadInput(f"min_bytes ({smallest}) is larger than max_bytes ({largest})")
    if not SMALLEST_STEP <= step < math.inf:
        raise BadInput(
            f"step_factor is at least {SMALLEST_STEP} (2 doubles each size), not {step}"
        )
    steps = math.floor(math.log(largest / smallest) / math.log(step) + 1e-9)
    if steps >= MOST_SIZES:
        raise BadInput(
            f"sizes {settings.min_bytes} to {settings.max_bytes} in steps of {step} are "
            f"{steps + 1}; at most {MOST_SIZES} are measured"
        )
    exact = [smallest * step**i for i in range(steps + 1)]
    if len(exact) > 1 and largest < exact[-1] * math.sqrt(step):
        exact[-1] = largest
    elif largest > exact[-1]:
        exact.append(largest)
    return tuple(sorted({_rounded(size + 1e-6, ranks) for size in exact}))


def held_out(sizes: Sequence[int], ranks: int = 1) -> tuple[int, ...]:
    """Half-steps between neighbouring sizes (geometric means, rounded as the ladder is): measured
    to try the cost line, never fitted. Pairs with no room between them give none."""
    between = ((a, b, _rounded(math.sqrt(a * b), ranks)) for a, b in itertools.pairwise(sizes))
    return tuple(half for a, b, half in between if a < half < b)


PLATEAU_SIZES = 4  # what the last piece of a cost line needs
LATENCY_SHARE = 0.02  # of the largest size's time: NCCL switches protocol at 30-40 %


def plateau(sizes: Sequence[int], times_s: Sequence[float], tolerance: float = 0.02) -> bool:
    """May the ladder end here: is the last piece's bandwidth known to ± `tolerance`?

    `sizes` ascending in bytes, `times_s` one time each. True only if a line t = latency +
    n / bandwidth through the last four sizes fits each of them within `tolerance`, its bandwidth's
    own 95 % interval is within `tolerance`, each increment of size costs what the line says
    within 2 x `tolerance`, and latency is under 2 % of the largest size's time. The last condition
    is what keeps an LL or LL128 plateau from ending the ladder: a switch to a protocol of higher
    latency pays off long before the first one's latency is hidden.
    """
    if len(sizes) != len(times_s):
        raise BadInput("plateau: one time per size")
    if len(sizes) < PLATEAU_SIZES:
        return False
    n = np.asarray(sizes[-PLATEAU_SIZES:], dtype=float)
    t = np.asarray(times_s[-PLATEAU_SIZES:], dtype=float)
    if not (np.isfinite(t).all() and (t > 0).all() and (np.diff(n) > 0).all()):
        raise BadInput("plateau: sizes ascend and times are finite and above 0")
    # Relative error: each row divided by its time, so that every size counts the same.
    design = np.stack([1 / t, n / t], axis=1)
    (latency, per_byte), *_ = np.linalg.lstsq(design, np.ones_like(t), rcond=None)
    if per_byte <= 0:
        return False
    misfit = design @ (latency, per_byte) - 1
    variance = float(misfit @ misfit) / (PLATEAU_SIZES - 2)
    covariance = variance * np.linalg.inv(design.T @ design)
    uncertainty = 2 * math.sqrt(covariance[1, 1]) / per_byte
    increments = np.diff(t) / np.diff(n) / per_byte - 1
    return bool(
        abs(latency) <= LATENCY_SHARE * t[-1]
        and np.abs(misfit).max() <= tolerance
        and uncertainty <= tolerance
        and np.abs(increments).max() <= 2 * tolerance
    )


SLOPE = 0.9  # d ln t / d ln n; 1 is pure transfer, 0 pure latency
DEAR = 2.0  # times the plan's seconds per cell


def transfer_bound(sizes: Sequence[int], times_s: Sequence[float]) -> bool:
    """Do the last four sizes cost in proportion to their bytes, to within noise?

    The weaker sister of `plateau` for cells that have become dear: a call of a second is not
    repeated to learn its bandwidth to 2 %, four sizes of transfer tell it well enough.
    """
    if len(sizes) < PLATEAU_SIZES:
        return False
    n, t = np.log(sizes[-PLATEAU_SIZES:]), np.log(times_s[-PLATEAU_SIZES:])
    return bool((t[-1] - t[0]) / (n[-1] - n[0]) >= SLOPE)


def enough(
    sizes: Sequence[int], times_s: Sequence[float], *, cell_s: float, unit_s: float, units: int
) -> bool:
    """May a ladder end after its last size: the plateau is known, or the next size is dear.

    `unit_s` seconds make one timed unit of the last size, of which a cell must have `units`; dear
    is what takes more than twice the plan's `cell_s`.
    """
    dear = unit_s * units > DEAR * cell_s
    return plateau(sizes, times_s) or (dear and transfer_bound(sizes, times_s))
