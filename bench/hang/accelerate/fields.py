"""Fields and options that have no effect, and those at which Accelerate ends before it starts.

In: a Job. Out: accelerate-ignored-field and accelerate-refused. Tried with 1.15.0, and read in
releases back to 0.20: what the parser's own defaults hide, what a switch makes of the word behind
it, what is no value of its field.
"""

from __future__ import annotations

import difflib

from bench.formats.accelerate_config import FIELDS
from bench.formats.launcher_options import TORCHRUN_VALUES
from bench.hang.accelerate import values
from bench.hang.accelerate.accusation import finding
from bench.hang.accelerate.jobs import Job
from bench.hang.accelerate.nodes import AGENTS, TYPES, Node
from bench.judge.docket import Docket
from bench.records import Evidence, Setting

PRECISIONS = ("no", "fp16", "bf16", "fp8")
NEARNESS = 0.84  # of a mistyped word to the field it is meant to be (difflib's ratio)
# torchrun's word for each, and Accelerate's.
_ACCELERATES = {
    "nnodes": "num_machines",
    "nproc_per_node": "num_processes, the total",
    "node_rank": "machine_rank",
    "master_addr": "main_process_ip",
    "master_port": "main_process_port",
    "rdzv_endpoint": "main_process_ip and main_process_port",
}


def judge(job: Job, docket: Docket) -> None:
    """Each configuration and each command once."""
    seen: set[int] = set()
    for node in job.nodes:
        if node.command is not None and id(node.command) not in seen:
            seen.add(id(node.command))
            _options(node, docket)
        if node.config is not None and id(node.config) not in seen:
            seen.add(id(node.config))
            _types(node, docket)
            _unknown(node, docket)
            _twice(node, docket)
            _unread(node, docket)


def _refused(
    node: Node, at: Setting | None, summary: str, docket: Docket, kind: str, remedy: str
) -> None:
    docket.add(
        finding(
            "refused",
            "broken",
            summary,
            node=node,
            at=at,
            evidence=(values.evidence(str(at.value)[:80], at),) if at else (),
            remedy=remedy,
            kind=kind,
        )
    )


# --- the command line -------------------------------------------------------------------------


def _options(node: Node, docket: Docket) -> None:
    command = node.command
    if command is None or command.launcher != "accelerate":
        return
    switch, program = command.program_after, command.program
    if switch and program.lower() in ("true", "false", "1", "0", "yes", "no"):
        docket.add(
            finding(
                "ignored-field",
                "broken",
                f"--{switch} takes no value, so Accelerate takes {program!r} for the training "
                "script and everything behind it for the script's options.",
                node=node,
                at=command.options.get(switch),
                evidence=(Evidence(basis="asked", text=f"command: {command.text[:160]}"),),
                remedy=f"--{switch}   # without {program}",
                kind="value-of-a-switch",
            )
        )
    foreign = [name for name in command.unknown if name in TORCHRUN_VALUES]
    if foreign:
        name = foreign[0]
        wanted = _ACCELERATES.get(name)
        _refused(
            node,
            command.unknown[name],
            f"--{name} is torchrun's option; accelerate launch does not know it and ends."
            + (f" Its own is {wanted}." if wanted else ""),
            docket,
            "option",
            f"--{wanted.partition(',')[0]} …" if wanted else f"without --{name}",
        )


# --- the file ---------------------------------------------------------------------------------


def _types(node: Node, docket: Docket) -> None:
    """Values of the wrong type or of no meaning."""
    kind = node.of_file("distributed_type")
    strange = (
        kind is not None
        and isinstance(kind.value, str)
        and kind.value not in TYPES
        and not (values.is_open(kind) or _is_sagemaker(node))
    )
    if strange and kind is not None:
        near = difflib.get_close_matches(str(kind.value).upper(), TYPES, n=1)
        hint = f"; did you mean {near[0]}?" if near else "."
        summary = f"distributed_type {kind.value} is none that Accelerate has{hint}"
        remedy = f"distributed_type: {near[0] if near else 'MULTI_GPU'}"
        _refused(node, kind, summary, docket, "type", remedy)
    _precision(node, docket)
    gpus = node.of_file("gpu_ids")
    if node.config and node.config.form == "report":
        return  # what it prints has no types
    if gpus is not None and isinstance(gpus.value, int) and node.option("gpu_ids") is None:
        summary = f"gpu_ids {gpus.value} is a number, not text: Accelerate ends with an error."
        _refused(node, gpus, summary, docket, "type", f"gpu_ids: '{gpus.value}'")
    _one_gpu(node, docket)
    for name in ("num_processes", "num_machines", "main_process_port"):
        told = node.of_file(name)
        if told is None or node.option(name) is not None or not isinstance(told.value, str):
            continue
        if values.number(told) is not None and (node.machines or 1) > 1:
            _refused(node, told, f"{name} '{told.value}' is text, not a number: the quotes make "
                     "Accelerate end with a TypeError.", docket, "type",
                     f"{name}: {told.value}")  # fmt: skip


def _one_gpu(node: Node, docket: Docket) -> None:
    """One GPU named for a type of several, on one machine."""
    told = node.get("gpu_ids")
    text = values.text(told)
    if told is None or text is None or not isinstance(told.value, str) or text == "all":
        return
    if "," in text or not text or not (node.kind or "").startswith("MULTI_"):
        return
    if node.kind == "MULTI_CPU" or node.machines != 1:
        return
    summary = f"gpu_ids {text} names one GPU, and distributed_type {node.kind} wants two at least."
    _refused(node, told, summary, docket, "one-gpu", "distributed_type: 'NO'   # or gpu_ids: all")


def _precision(node: Node, docket: Docket) -> None:
    told = node.of_file("mixed_precision")
    if told is None or told.value is None or node.option("mixed_precision") is not None:
        return
    if _is_sagemaker(node):
        return
    if isinstance(told.value, bool):
        written = "no" if told.value is False else str(told.value).lower()
        _refused(node, told, f"mixed_precision: {written} without quotes is YAML's "
                 f"{told.value}, at which Accelerate ends with an AttributeError.", docket, "type",
                 "mixed_precision: 'no'")  # fmt: skip
    elif not values.is_open(told) and str(told.value).lower() not in PRECISIONS:
        _refused(node, told, f"mixed_precision {told.value} is none of {', '.join(PRECISIONS)}.",
                 docket, "type", "mixed_precision: bf16")  # fmt: skip


def _is_sagemaker(node: Node) -> bool:
    told = node.of_file("compute_environment")
    return told is not None and told.value == "AMAZON_SAGEMAKER"


def _unknown(node: Node, docket: Docket) -> None:
    """A field of no release is refused; what it may have been meant to be."""
    config = node.config
    if config is None or config.form in ("report", "text") or _is_sagemaker(node):
        return
    if not {"distributed_type", "compute_environment"} & set(config.values):
        return  # trimmed, or nobody's configuration at all
    strange = [name for name in (*config.values, *config.sections) if name not in FIELDS]
    for name in strange[:1]:
        near = difflib.get_close_matches(name, FIELDS, n=1, cutoff=NEARNESS)
        line = config.section_lines.get(name)
        at = config.values.get(name) or Setting(value=name, file=config.file, line=line)
        more = f" and {len(strange) - 1} more" if len(strange) > 1 else ""
        hint = f" Did you mean {near[0]}?" if near else ""
        docket.add(
            finding(
                "refused",
                "broken" if near else "warning",
                f"{name}{more} is a field of no release from 0.12 to 1.15; Accelerate ends at "
                f"unknown fields.{hint}",
                node=node,
                at=at,
                evidence=(values.evidence(name, at),),
                remedy=near[0] + ": …" if near else f"remove {name}, or upgrade Accelerate",
                kind="unknown-field",
                sure=bool(near),
            )
        )


def _twice(node: Node, docket: Docket) -> None:
    config = node.config
    if config is None or config.form in ("report", "text"):
        return
    for name, line in config.twice[:2]:
        at = config.values.get(name) or Setting(value=name, file=config.file, line=line)
        docket.add(
            finding(
                "ignored-field",
                "warning",
                f"{name} stands twice in {config.file}; only the last counts.",
                node=node,
                at=at,
                evidence=(values.evidence(f"{name} {at.value}: counts", at),),
                remedy=f"remove one {name}",
                kind="twice",
            )
        )


def _unread(node: Node, docket: Docket) -> None:
    """What the launcher never reads, where somebody may count on it."""
    backend = node.of_file("rdzv_backend")
    several = (node.machines or 1) > 1
    on_line = node.option("rdzv_backend") is not None
    if (
        backend is not None
        and values.text(backend) not in (None, "static")
        and several
        and not on_line
    ):
        _without_effect(
            node,
            backend,
            f"rdzv_backend {backend.value} in the file is not read: the meeting is static unless "
            "--rdzv_backend is on the command line.",
            f"accelerate launch --rdzv_backend {backend.value} …",
            docket,
        )
    cpu = node.of_file("use_cpu")
    if cpu is not None and cpu.value is True and node.kind in AGENTS:
        _without_effect(
            node,
            cpu,
            f"use_cpu has no effect with distributed_type {node.kind}.",
            "distributed_type: MULTI_CPU",
            docket,
        )


def _without_effect(node: Node, at: Setting, summary: str, remedy: str, docket: Docket) -> None:
    docket.add(
        finding(
            "ignored-field",
            "info",
            summary,
            node=node,
            at=at,
            evidence=(values.evidence(str(at.value), at),),
            remedy=remedy,
            kind="not-read",
        )
    )
