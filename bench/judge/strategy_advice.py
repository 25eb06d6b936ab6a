"""Which strategy to take, in one sentence.

In: StrategyCosts of one job. Out: the chosen one, and the sentence. The least sharded one that
fits wins, unless another is much faster because it sends less: sharding that saves memory nobody
needs only costs time. What is not known is not weighed.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.model.strategies.names import ZERO3
from bench.records import StrategyCost, TrainingJob

# Strategies whose times differ by less than lines err by are as fast as each other.
AS_FAST = 1.05
# More sharding is advised for its speed only where it takes a fifth less time and sends a fifth
# less between hosts: what DDP loses by 25 MiB buckets, larger buckets give back.
WORTH_SHARDING = 0.8


def choose(rows: Sequence[StrategyCost]) -> StrategyCost | None:
    """The row to recommend; None where none fits. Where the GPU's memory is not known, all count
    as fitting; where times are not known, the least sharded."""
    able = [row for row in rows if row.fits is not False]
    chosen = able[0] if able else None
    for row in able[1:]:
        if chosen is not None and _is_faster(row, chosen):
            chosen = row
    return chosen


def _is_faster(row: StrategyCost, than: StrategyCost) -> bool:
    ours, theirs = row.communication_s, than.communication_s
    if ours is None or theirs is None or theirs.value == 0:
        return False
    if ours.value > WORTH_SHARDING * theirs.value:
        return False
    return _outside(row) <= WORTH_SHARDING * _outside(than)


def _outside(row: StrategyCost) -> float:
    """Bytes that leave a rank for more than its own host."""
    return sum(use.sent_bytes for use in row.collectives if use.scope != "host")


def sentence(
    job: TrainingJob,
    rows: Sequence[StrategyCost],
    chosen: StrategyCost | None,
    configured: str = "",
) -> str:
    """ "The model fits with DDP; ZeRO-3 would add 41 ms of communication a step (+18 %), saves
    92 GB you do not need." The other strategy is the configured one, where there is one."""
    if chosen is None:
        return _nothing_fits(job, rows)
    if job.ranks == 1:
        return "A single rank sends nothing, so nothing is won by sharding."
    first = _why(job, rows, chosen)
    if configured == chosen.strategy:
        first += ", as configured"
    other = _alternative(rows, chosen, configured)
    if other is None:
        return f"{first}."
    known = chosen.fits is not None and chosen.memory.activations is not None
    return f"{first}; {_against(chosen, other, known=known)}."


def _why(job: TrainingJob, rows: Sequence[StrategyCost], chosen: StrategyCost) -> str:
    name = chosen.strategy
    if chosen.fits is None:
        speed = "communicates least" if chosen.communication_s else "shards least"
        return (
            f"Give the GPU's memory to learn what fits: {name} takes "
            f"{gigabytes(chosen.memory_bytes)} and {speed}"
        )
    before = rows[: list(rows).index(chosen)]
    over = [row for row in before if row.fits is False]
    if not over:
        uncounted = "" if chosen.memory.activations is not None else ", activations not counted"
        return f"The model fits with {name}{uncounted}"
    nearest = min(over, key=lambda row: row.memory_bytes)
    return (
        f"{nearest.strategy} does not fit ({gigabytes(nearest.memory_bytes)} of "
        f"{gigabytes(job.gpu_memory_bytes or 0)}); take {name} ({gigabytes(chosen.memory_bytes)})"
    )


def _alternative(
    rows: Sequence[StrategyCost], chosen: StrategyCost, configured: str
) -> StrategyCost | None:
    """What is configured; else ZeRO-3, which people reach for; else the fastest that fits."""
    others = [row for row in rows if row is not chosen and row.fits is not False]
    by_name = {row.strategy: row for row in others}
    for name in (configured, ZERO3):
        if name in by_name:
            return by_name[name]
    timed = [row for row in others if row.communication_s is not None]
    return min(timed, key=lambda row: row.communication_s.value if row.communication_s else 0.0,
               default=None)  # fmt: skip


def _against(chosen: StrategyCost, other: StrategyCost, *, known: bool) -> str:
    saved = chosen.memory_bytes - other.memory_bytes
    memory = f"saves {gigabytes(saved)}" + (" you do not need" if known else "")
    if saved <= 0:
        memory = f"takes {gigabytes(-saved)} more"
    ours, theirs = chosen.communication_s, other.communication_s
    if ours is None or theirs is None:
        factor = other.sent_bytes / chosen.sent_bytes if chosen.sent_bytes else 1.0
        return f"{other.strategy} would send {factor:.2g} times as much, {memory}"
    added = theirs.value - ours.value
    if abs(added) <= (AS_FAST - 1) * ours.value:
        return f"{other.strategy} would communicate as long, {memory}"
    word = "add" if added > 0 else "take off"
    base = chosen.step_no_overlap_s or ours.value
    of = " of the step" if chosen.step_no_overlap_s else ""
    return (
        f"{other.strategy} would {word} {duration(abs(added))} of communication a step "
        f"({100 * added / base:+.0f} %{of}), {memory}"
    )


def _nothing_fits(job: TrainingJob, rows: Sequence[StrategyCost]) -> str:
    least = min(rows, key=lambda row: row.memory_bytes)
    return (
        f"Nothing fits: even {least.strategy} takes {gigabytes(least.memory_bytes)} of "
        f"{gigabytes(job.gpu_memory_bytes or 0)} on {job.ranks} ranks; more ranks, a smaller "
        f"micro-batch, checkpointing or offloading would make room."
    )


def duration(seconds: float) -> str:
    """Three digits: "41.2 ms", "1.24 s"."""
    for factor, unit in ((1e6, "µs"), (1e3, "ms")):
        if seconds * factor < 999.5 and (unit == "ms" or seconds < 1e-4):
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds:.3g} s" if seconds < 999.5 else f"{seconds:,.0f} s"


def gigabytes(amount: float) -> str:
    """Memory in 1e9 bytes, as GPUs are sold."""
    value = amount / 1e9
    return f"{value:.0f} GB" if value >= 99.5 else f"{value:.3g} GB"
