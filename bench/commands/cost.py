"""`cost [REPORT…]`: what DDP, ZeRO and FSDP would cost on a measured fabric."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bench.commands.answer import DONE, WIDTH, print_json
from bench.records import BadInput

if TYPE_CHECKING:
    from bench.records import CostReport


def cost(
    reports: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[REPORT…]",
            show_default=False,
            help="Reports of ours, or nccl-tests outputs: of one host, of several, or both. "
            "Without, memory and bytes only.",
        ),
    ] = None,
    params: Annotated[
        str, typer.Option(metavar="N", help="The model's parameters: 7e9, 7B, 350M.")
    ] = "",
    model: Annotated[
        str, typer.Option(metavar="FILE", help="Or its config.json, as Hugging Face writes it.")
    ] = "",
    training: Annotated[
        str,
        typer.Option(
            metavar="FILE",
            help="A DeepSpeed or Accelerate configuration, for what no option says.",
        ),
    ] = "",
    ranks: Annotated[
        int, typer.Option(show_default=False, metavar="N", help="Ranks (default: the report's).")
    ] = 0,
    hosts: Annotated[
        int, typer.Option(show_default=False, metavar="M", help="Hosts (default: the report's).")
    ] = 0,
    precision: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="fp32, bf16-mixed (the default) or fp16-mixed: 16-bit beside fp32 masters, as "
            "DeepSpeed; bf16-autocast or fp16-autocast: fp32, cast to compute, as torch; or bf16.",
        ),
    ] = "",
    optimizer: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="sgd, momentum, adam, adamw (the default), lion, adafactor or adam8bit.",
        ),
    ] = "",
    framework: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Whose ZeRO-1 and ZeRO-2: paper (the default), torch or deepspeed.",
        ),
    ] = "",
    micro_batches: Annotated[
        int,
        typer.Option(
            show_default=False,
            metavar="K",
            help="Micro-batches of a step (gradient accumulation).",
        ),
    ] = 0,
    sync: Annotated[
        str,
        typer.Option(
            metavar="WHEN",
            show_default=False,
            help="Gradients are reduced after each micro-batch, after the last, or as usual: "
            "each for what shards gradients, else last.",
        ),
    ] = "usual",
    reshard: Annotated[
        str,
        typer.Option(
            metavar="WHEN", help="FSDP's reshard_after_forward: usual (blocks), always, never."
        ),
    ] = "",
    reduce_fp32: Annotated[
        bool, typer.Option("--reduce-fp32", help="Gradients are reduced in fp32.")
    ] = False,
    bucket: Annotated[
        str, typer.Option(metavar="SIZE", help="DDP's buckets (default: 1M, then 25M).")
    ] = "",
    copy_buckets: Annotated[
        bool,
        typer.Option("--copy-buckets", help="Without gradient_as_bucket_view: buckets beside."),
    ] = False,
    clip: Annotated[bool, typer.Option("--clip", help="Gradients are clipped by norm.")] = False,
    sequence: Annotated[
        int, typer.Option(show_default=False, metavar="T", help="Tokens of a sequence.")
    ] = 0,
    batch: Annotated[
        int,
        typer.Option(
            show_default=False, metavar="B", help="Sequences of a micro-batch on one GPU."
        ),
    ] = 0,
    checkpointing: Annotated[
        bool, typer.Option("--checkpointing", help="Activations are computed again.")
    ] = False,
    activations: Annotated[
        float | None,
        typer.Option(metavar="GB", help="Activations on a GPU, instead of an estimate."),
    ] = None,
    gpu_memory: Annotated[
        float | None,
        typer.Option(metavar="GB", help="A GPU's memory in 1e9 bytes (default: the report's)."),
    ] = None,
    compute: Annotated[
        float | None, typer.Option(metavar="MS", help="Computation of a step, as you measured it.")
    ] = None,
    tflops: Annotated[
        float | None,
        typer.Option(metavar="T", help="Or TFLOP/s that a GPU reaches, to estimate it."),
    ] = None,
    lora: Annotated[
        int,
        typer.Option(
            show_default=False,
            metavar="R",
            help="LoRA of this rank on every matrix of the blocks.",
        ),
    ] = 0,
    qlora: Annotated[
        int, typer.Option(show_default=False, metavar="R", help="Likewise, over 4-bit weights.")
    ] = 0,
    trained: Annotated[
        str, typer.Option(metavar="N", help="Only so many parameters are trained.")
    ] = "",
    candidate: Annotated[
        str, typer.Option(metavar="NAME", help="The report's network to take (default: the best).")
    ] = "",
    measured_only: Annotated[
        bool,
        typer.Option("--measured-only", help="Infer no collective that was not measured."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The answer as JSON.")] = False,
    page: Annotated[
        str, typer.Option(metavar="FILE", help="Also write a page with the chart over hosts.")
    ] = "",
) -> int:
    """Say what DDP, ZeRO and FSDP would cost on this fabric.

    Memory on a GPU, bytes sent, and the time of a step's collectives by the lines that a sweep (or
    nccl-tests) measured. Advice in one sentence.
    """
    from bench.commands import fabric_lines, training_job
    from bench.commands.wishes import Wishes

    if page and not Path(page).parent.is_dir():
        raise BadInput("no such folder", file=str(Path(page).parent))
    wishes = Wishes(
        params=params, model=model, training=training, ranks=ranks, hosts=hosts,
        precision=precision, optimizer=optimizer, framework=framework,
        micro_batches=micro_batches, sync=sync, reshard=reshard, reduce_fp32=reduce_fp32,
        bucket=bucket, copy_buckets=copy_buckets, clip=clip, sequence=sequence, batch=batch,
        checkpointing=checkpointing, activations=activations, gpu_memory=gpu_memory,
        compute=compute, tflops=tflops, lora=lora, qlora=qlora, trained=trained,
    )  # fmt: skip
    if candidate and not reports:
        raise BadInput("--candidate names a network of a report; name the report as well")
    fabric = fabric_lines.gather(reports, candidate) if reports else None
    result = training_job.answer(wishes, fabric, infer=not measured_only)
    if as_json:
        print_json(result)
    else:
        from bench.report.cost import screen as cost_screen
        from bench.report.text import encodable

        text = cost_screen.screen(result, width=WIDTH, colour=sys.stdout.isatty())
        typer.echo(encodable(text, sys.stdout.encoding))
    if page:
        _write_page(result, Path(page))
    return DONE


def _write_page(result: CostReport, file: Path) -> None:
    from bench.report import named_file
    from bench.report.cost import page as cost_page

    trouble = named_file.put(file, cost_page.render(result).encode())
    if trouble is not None:
        raise BadInput(trouble.rstrip("."))
