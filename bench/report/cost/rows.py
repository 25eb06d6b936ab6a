"""The cost of strategies as rows of words, for the screen and for the page.

In: a CostReport. Out: heads and cells. Nothing is computed here but the words.
"""

from __future__ import annotations

from dataclasses import dataclass

from bench.records import CostReport, FaultCost, Interval, StepCollective, StrategyCost
from bench.report import units
from bench.report.text import printable

FITS = {True: "yes", False: "no", None: units.UNKNOWN}


@dataclass(frozen=True)
class Row:
    """One strategy. Cells that nobody knows are left out of all rows by `heads`."""

    strategy: str
    also: str
    fits: str
    state: str
    memory: str
    sent: str
    communication: str
    step: str
    overlapped: str
    share: str


def rows(report: CostReport) -> list[Row]:
    return [
        Row(
            strategy=cost.strategy,
            also=cost.also,
            fits=FITS[cost.fits],
            state=gigabytes(cost.state_bytes),
            memory=gigabytes(cost.memory_bytes),
            sent=amount(cost.sent_bytes),
            communication=interval(cost.communication_s),
            step=units.time(cost.step_no_overlap_s),
            overlapped=units.time(cost.step_full_overlap_s),
            share=units.UNKNOWN if cost.share is None else units.percent(cost.share, 1.0),
        )
        for cost in report.strategies
    ]


def columns(report: CostReport) -> list[tuple[str, str]]:
    """Head and field of each column that somebody has a figure in."""
    made = [("strategy", "strategy")]
    if any(cost.fits is not None for cost in report.strategies):
        made.append(("fits", "fits"))
    made += [("state", "state"), ("memory", "memory"), ("sent", "sent")]
    if any(cost.communication_s is not None for cost in report.strategies):
        made.append(("communication", "communication"))
    if any(cost.step_no_overlap_s is not None for cost in report.strategies):
        made += [("step", "step"), ("overlapped", "overlapped"), ("share", "share")]
    return made


def gigabytes(amount_bytes: float | None) -> str:
    """Memory in 1e9 bytes, as GPUs are sold."""
    if amount_bytes is None:
        return units.UNKNOWN
    value = amount_bytes / 1e9
    return f"{value:,.0f} GB" if value >= 999.5 else f"{units.significant(value)} GB"


def amount(amount_bytes: float) -> str:
    """Traffic in powers of 1000, as wires count it."""
    for factor, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if amount_bytes >= factor:
            return f"{units.significant(amount_bytes / factor)} {unit}"
    return f"{amount_bytes:.0f} B"


def interval(time_s: Interval | None) -> str:
    """`61.2 ms ±3.0 %`; nothing is sent: `0`."""
    if time_s is None:
        return units.UNKNOWN
    if time_s.value == 0:
        return "0"
    return f"{units.time(time_s.value)} {units.spread(time_s)}"


def model_words(report: CostReport) -> list[str]:
    """ "Llama-2-7b (llama)", "6.74 billion parameters", "32 blocks"."""
    model = report.job.model
    kind = f" ({printable(model.architecture)})" if model.architecture else ""
    trained = report.trained
    words = [f"{printable(model.name)}{kind}"]
    if model.basis == "config":
        words.append(f"{billions(report.parameters)} parameters")
    words.append(f"{model.layers} blocks" + (" (estimated)" if model.basis != "config" else ""))
    if trained != report.parameters:
        words.append(f"{billions(trained)} of them trained")
    return words


def billions(number: int) -> str:
    for factor, unit in ((10**9, "billion"), (10**6, "million")):
        if number >= factor:
            return f"{units.significant(number / factor)} {unit}"
    return f"{number:,}"


def job_words(report: CostReport) -> list[str]:
    job = report.job
    words = [
        _group(report),
        job.precision,
        job.optimizer,
        units.count(job.micro_batches, "micro-batch", "micro-batches"),
    ]
    if job.framework != "paper":
        words.append({"torch": "ZeRO-1 of torch", "deepspeed": "DeepSpeed"}[job.framework])
    if report.configured:
        words.append(f"configured: {report.configured}")
    if job.gpu_memory_bytes:
        words.append(f"GPUs of {gigabytes(job.gpu_memory_bytes)}")
    if job.compute_s is not None:
        words.append(f"{units.time(job.compute_s)} of computation ({job.compute_basis})")
    if job.sequence and job.batch:
        words.append(f"{job.batch} x {job.sequence:,} tokens a rank")
    return words


def _group(report: CostReport) -> str:
    """Without a report nobody has said how the ranks spread over hosts."""
    job = report.job
    ranks = units.count(job.ranks, "rank")
    if report.source is None and job.hosts == 1:
        return ranks
    return f"{ranks} on {units.count(job.hosts, 'host')}"


def day(fault: FaultCost) -> str:
    """ "5.1 h", or "at most 5.1 h" where the time of computation is not known."""
    hours = f"{units.significant(fault.hours_a_day, 2)} h"
    return f"≤ {hours}" if fault.at_most else hours


def collective_words(cost: StrategyCost) -> list[str]:
    """ "34 all_reduce of 25 MiB (gradients by bucket)", for the page and for --json's readers."""
    return [collective_line(use) for use in cost.collectives]


def collective_line(use: StepCollective) -> str:
    where = {"all": "", "host": " inside a host", "between": " between hosts"}[use.scope]
    return (
        f"{use.count:,} × {use.collective} of {units.size(use.size_bytes)}{where}, {use.purpose}"
    )
