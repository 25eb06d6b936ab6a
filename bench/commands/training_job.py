"""What the options of `cost` say, as a training job, and the whole answer to it.

In: Wishes (options as typed) and a FabricLines or none. Out: a TrainingJob and a CostReport.
Contradictions and values that cannot be are one sentence each.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import get_args

import msgspec

from bench.commands.fabric_lines import FabricLines
from bench.commands.wishes import Wishes
from bench.judge import fault_cost, strategy_advice
from bench.model.strategies import memory, outcome, scaling, transformer
from bench.model.strategies.measured import MeasuredLine
from bench.model.strategies.storage import named
from bench.plan.sizes import parse_bytes
from bench.records import BadInput, CostReport, FaultCost, Model, TrainingJob
from bench.records.training import Framework, Optimizer, Precision, Reshard, Synchronise

_NUMBER = re.compile(r"([0-9]+(?:\.[0-9]+)?(?:e[0-9]{1,2})?)\s*([kmbt]?)", re.IGNORECASE)
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "b": 10**9, "t": 10**12}
FLOPS, FLOPS_AGAIN, FLOPS_FROZEN = 6, 8, 4  # per parameter and token: whole, recomputed, adapters
MOST_RANKS = 1 << 20
DEEPSPEED_BUCKET = 500_000_000  # elements: reduce_bucket_size and allgather_bucket_size


def number(text: str, option: str) -> int:
    """7e9, 7B, 6.74b, 350M, 7,000,000,000."""
    match = _NUMBER.fullmatch(text.strip().replace(",", "").replace("_", "")[:40])
    value = float(match[1]) * _UNITS[match[2].lower()] if match else 0.0
    if match is None or not 1 <= value <= transformer.MOST_PARAMETERS:
        raise BadInput(f"{option} is a number of parameters such as 7e9, 7B or 350M, not {text!r}")
    return round(value)


def job_of(wishes: Wishes, fabric: FabricLines | None) -> TrainingJob:
    """BadInput for what cannot be, in one sentence."""
    for name, count in (
        ("--ranks", wishes.ranks), ("--hosts", wishes.hosts), ("--batch", wishes.batch),
        ("--micro-batches", wishes.micro_batches), ("--sequence", wishes.sequence),
    ):  # fmt: skip
        if not 0 <= count <= MOST_RANKS:
            raise BadInput(f"{name} lies between 1 and {MOST_RANKS:,}, not {count:,}")
    for name, value in (
        ("--gpu-memory", wishes.gpu_memory), ("--compute", wishes.compute),
        ("--tflops", wishes.tflops), ("--activations", wishes.activations),
    ):  # fmt: skip
        if value is not None and not (math.isfinite(value) and value > 0):
            raise BadInput(f"{name} is a number above 0, not {value:g}")
    if wishes.compute is not None and wishes.tflops is not None:
        raise BadInput("--compute and --tflops both say how long a step computes; give one")
    model = _model(wishes)
    ranks, hosts = _ranks(wishes, fabric)
    job = TrainingJob(
        model=model,
        ranks=ranks,
        hosts=hosts,
        precision=named(wishes.precision or "bf16-mixed", get_args(Precision), "precision"),
        optimizer=named(wishes.optimizer or "adamw", get_args(Optimizer), "optimizer"),
        framework=named(wishes.framework or "paper", get_args(Framework), "framework"),
        backend=fabric.backend if fabric is not None else "nccl",
        micro_batches=wishes.micro_batches or 1,
        synchronise=named(wishes.sync, get_args(Synchronise), "--sync"),
        reshard=named(wishes.reshard or "usual", get_args(Reshard), "--reshard"),
        reduce_dtype="fp32" if wishes.reduce_fp32 else "as-parameters",
        bucket_bytes=parse_bytes(wishes.bucket) if wishes.bucket else None,
        bucket_elements=wishes.bucket_elements or DEEPSPEED_BUCKET,
        bucket_view=not wishes.copy_buckets,
        offload_optimizer=wishes.offload_optimizer,
        offload_parameters=wishes.offload_parameters,
        clip=wishes.clip,
        sequence=wishes.sequence or None,
        batch=wishes.batch or None,
        checkpointing=wishes.checkpointing,
        activation_bytes=wishes.activations * 1e9 if wishes.activations is not None else None,
        gpu_memory_bytes=_gpu_memory(wishes, fabric),
        compute_s=wishes.compute / 1e3 if wishes.compute is not None else None,
    )
    if wishes.tflops is not None:
        job = _with_estimate(job, wishes.tflops)
    outcome.check(job)
    return job


def _model(wishes: Wishes) -> Model:
    from bench.formats import model_config

    if bool(wishes.params) == bool(wishes.model):
        raise BadInput("give the model either by --params or by --model config.json")
    if wishes.model:
        model = model_config.read(Path(wishes.model))
    else:
        model = transformer.estimated(number(wishes.params, "--params"))
    if sum(map(bool, (wishes.lora, wishes.qlora, wishes.trained))) > 1:
        raise BadInput("--lora, --qlora and --trained exclude each other")
    if wishes.lora or wishes.qlora:
        rank = wishes.lora or wishes.qlora
        return transformer.with_adapters(model, rank, quantised=bool(wishes.qlora))
    if wishes.trained:
        return transformer.with_trained(model, number(wishes.trained, "--trained"))
    return model


def _ranks(wishes: Wishes, fabric: FabricLines | None) -> tuple[int, int]:
    """As asked; else the report's; else a rank by itself. More hosts have as many ranks each."""
    known_ranks = (fabric.ranks if fabric else None) or 1
    known_hosts = (fabric.hosts if fabric else None) or 1
    per_host = max(1, known_ranks // known_hosts)
    if wishes.ranks and wishes.hosts:
        return wishes.ranks, wishes.hosts
    if wishes.hosts:
        return per_host * wishes.hosts, wishes.hosts
    if not wishes.ranks:
        return known_ranks, known_hosts
    if fabric is None:
        return wishes.ranks, 1
    return wishes.ranks, max(1, -(-wishes.ranks // per_host))


def _gpu_memory(wishes: Wishes, fabric: FabricLines | None) -> float | None:
    if wishes.gpu_memory is not None:
        return wishes.gpu_memory * 1e9
    return float(fabric.gpu_memory_bytes) if fabric and fabric.gpu_memory_bytes else None


def _with_estimate(job: TrainingJob, tflops: float) -> TrainingJob:
    """Computation of a step: 6 floating-point operations per parameter and token, 8 where
    activations are computed again, 4 where the weights themselves are frozen."""
    if not (job.sequence and job.batch):
        raise BadInput("--tflops estimates a step's computation of --sequence and --batch as well")
    flops = FLOPS_AGAIN if job.checkpointing else FLOPS
    if job.model.trained < job.model.parameters:
        flops -= FLOPS - FLOPS_FROZEN
    tokens = job.sequence * job.batch * job.micro_batches
    compute_s = flops * job.model.parameters * tokens / (tflops * 1e12)
    return msgspec.structs.replace(job, compute_s=compute_s, compute_basis="estimated")


# -------------------------------------------------------------------------------------- the answer


def answer(wishes: Wishes, fabric: FabricLines | None, *, infer: bool = True) -> CostReport:
    """All of it. BadInput where the lines that were named cannot time this job at all."""
    if wishes.training:
        from bench.commands import training_settings

        wishes = training_settings.filled(wishes)
    job = job_of(wishes, fabric)
    lines = fabric.chosen if fabric is not None else ()
    if fabric is not None:
        _refuse(job, fabric, infer)
    rows, inferred = outcome.costs(job, lines, infer=infer)
    chosen = strategy_advice.choose(rows)
    faults: tuple[FaultCost, ...] = ()
    if chosen is not None and fabric is not None:
        faults = fault_cost.faults(
            job, chosen, lines, fabric.others, fabric.default, fabric.findings
        )
    return CostReport(
        job=job,
        parameters=job.model.parameters,
        trained=job.model.trained,
        source=fabric.source if fabric is not None else None,
        lines=tuple(_told(lines)),
        inferred=inferred,
        strategies=rows,
        chosen=chosen.strategy if chosen is not None else None,
        configured=wishes.configured or None,
        recommendation=strategy_advice.sentence(job, rows, chosen, wishes.configured),
        faults=faults,
        scaling=scaling.over_hosts(job, lines, infer=infer),
        notes=tuple(_notes(job, fabric)),
    )


def _refuse(job: TrainingJob, fabric: FabricLines, infer: bool) -> None:
    """Several hosts need a line between hosts; and all_gather one that was measured, or that may
    be inferred."""
    if job.ranks < 2:
        return
    inside = job.hosts == 1
    able = [each for each in fabric.chosen if (each.hosts == 1) == inside]
    if not able:
        where = "of one host" if inside else f"between {job.hosts} hosts"
        there = "several hosts" if inside else "one host"
        raise BadInput(
            f"no line was measured {where}: the lines named are of {there}; name a report or a "
            "table of the other kind as well",
            file=fabric.source,
        )
    have = {each.line.collective for each in able}
    if not infer and (lacking := {"all_reduce", "all_gather", "reduce_scatter"} - have):
        raise BadInput(
            f"no {' and no '.join(sorted(lacking))} line was measured; sweep with --collective "
            f"{sorted(lacking)[0]}, or leave out --measured-only to have it inferred",
            file=fabric.source,
        )
    if not have & {"all_reduce", "all_gather", "reduce_scatter"}:
        raise BadInput(
            f"no all_reduce, all_gather or reduce_scatter line was measured, only "
            f"{', '.join(sorted(have))}",
            file=fabric.source,
        )


def _told(lines: tuple[MeasuredLine, ...]) -> list[str]:
    """ "data: all_reduce, all_gather on 4 ranks, 4 hosts (gloo)"."""
    groups: dict[tuple[str, int, int, str], list[str]] = {}
    for each in lines:
        key = (each.source, each.ranks, each.hosts, each.backend)
        groups.setdefault(key, []).append(each.line.collective)
    return [
        f"{source}: {', '.join(names)} of {ranks} ranks on {hosts} "
        f"host{'s' if hosts != 1 else ''} ({backend})"
        for (source, ranks, hosts, backend), names in groups.items()
    ]


def _notes(job: TrainingJob, fabric: FabricLines | None) -> list[str]:
    """What a reader must know before believing it."""
    notes = list(job.model.notes)
    if memory.activations(job) is None:
        notes.append(
            "memory is without activations: --activations, or --sequence and --batch with --model"
        )
    elif job.activation_bytes is None:
        notes.append("activations are estimated: 34 bytes a token and hidden unit of each block")
    if fabric is None and job.ranks > 1:
        notes.append("no report was named: memory and bytes only")
    if any(weight.name == "router" for unit in job.model.units for weight in unit.weights):
        notes.append("experts are taken as replicated and sharded like all else, not spread out")
        if job.compute_basis == "estimated" and job.compute_s is not None:
            notes.append("computation is estimated as if all experts worked on every token")
    if job.offload_optimizer or job.offload_parameters:
        notes.append("copies to and from the host for offloading are not timed")
    return notes + (list(fabric.notes) if fabric is not None else [])
