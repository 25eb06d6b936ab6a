"""deepspeed_config against the top level, the command line and DeepSpeed's own file.

In: a Node. Out: findings on the docket. Accelerate's rules are those of DeepSpeedPlugin
(utils/dataclasses.py) and prepare_deepspeed_cmd_env (utils/launch.py), DeepSpeed's those of
launcher/runner.py and runtime/config.py.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from bench.hang.accelerate import values
from bench.hang.accelerate.contradiction import add
from bench.hang.accelerate.nodes import Node
from bench.judge.docket import Docket
from bench.records import Evidence, Setting

# With a deepspeed_config_file Accelerate refuses these of its own section, and mixed_precision.
NOT_BESIDE_A_FILE = (
    "gradient_accumulation_steps", "gradient_clipping", "zero_stage", "offload_optimizer_device",
    "offload_param_device", "offload_param_nvme_path", "offload_optimizer_nvme_path",
    "zero3_save_16bit_model",
)  # fmt: skip


def judge(node: Node, docket: Docket) -> None:
    """The launcher, then the values."""
    if node.kind != "DEEPSPEED":
        return
    get = partial(node.of_section, "deepspeed_config")
    _launcher(node, docket, get)
    named = get("deepspeed_config_file")
    if values.text(named) not in (None, "none") or (named is not None and values.is_open(named)):
        _beside_a_file(node, docket, named)
        _of_the_file(node, docket)
        return
    stage = values.number(get("zero_stage"))
    parameters = get("offload_param_device")
    if stage is not None and stage < 3 and values.word(parameters) in ("cpu", "nvme"):
        add(docket, node, parameters, "info",
             f"offload_param_device {parameters.value if parameters else ''} has no effect at "
             f"zero_stage {stage}: parameters are sharded at stage 3 only.",
             "zero_stage: 3", rule="ignored-field", kind="not-read")  # fmt: skip
    init = get("zero3_init_flag")
    if stage is not None and stage < 3 and values.is_true(init):
        add(docket, node, init, "info",
             f"zero3_init_flag has no effect at zero_stage {stage}; Accelerate sets it to false.",
             "zero3_init_flag: false", rule="ignored-field", kind="not-read")  # fmt: skip


def _launcher(node: Node, docket: Docket, get: Callable[[str], Setting | None]) -> None:
    """pdsh and its like without a host file: deepspeed finds none and runs on one machine."""
    if (node.machines or 1) < 2 or not node.starts_others:
        return
    hostfile = get("deepspeed_hostfile")
    if hostfile is not None and hostfile.value not in (None, "", "none", "None"):
        return
    launcher = node.deepspeed_launcher or "pdsh"
    by = "by default" if get("deepspeed_multinode_launcher") is None else "as set"
    add(
        docket,
        node,
        node.get("num_machines"),
        "degraded" if node.command or by == "as set" else "warning",
        f"DeepSpeed's launcher is {launcher} ({by}) and there is no deepspeed_hostfile: it finds "
        f"no other machine and would train on each alone instead of on {node.machines}"
        + ("." if node.command else ", unless the command line names one."),
        "deepspeed_multinode_launcher: standard   # in deepspeed_config, on every node",
        evidence=(
            values.evidence(f"num_machines {node.machines}", node.get("num_machines")),
            Evidence(
                basis="predicted", text='"deepspeed --hostfile None …" uses this machine only'
            ),
        ),
        kind="hostfile",
    )


def _beside_a_file(node: Node, docket: Docket, named: Setting | None) -> None:
    """Values that DeepSpeed's file must hold, and Accelerate's section must not."""
    held = node.config.sections.get("deepspeed_config", {}) if node.config else {}
    precision = node.of_file("mixed_precision")
    told = [(key, held[key]) for key in NOT_BESIDE_A_FILE if key in held]
    named_there = precision is not None and precision.value is not None
    if precision is not None and named_there and node.option("mixed_precision") is None:
        told.append(("mixed_precision", precision))
    if not told:
        return
    names = values.joined([key for key, _ in told], 3)
    add(
        docket,
        node,
        told[0][1],
        "broken",
        f"With deepspeed_config_file Accelerate ends at {names} in its own file: DeepSpeed's "
        "file holds them.",
        f"remove {names}; set them in {values.text(named) or 'DeepSpeed’s file'}",
        evidence=(
            values.evidence("deepspeed_config_file", named),
            *(values.evidence(f"{key} {setting.value}", setting) for key, setting in told[:4]),
        ),
        kind="deepspeed-file",
    )


def _of_the_file(node: Node, docket: Docket) -> None:
    """DeepSpeed's own file: precision and batch sizes."""
    file = node.deepspeed
    if file is None:
        return
    both = [file.values.get(f"{name}.enabled") for name in ("fp16", "bf16")]
    if all(values.is_true(each) for each in both):
        add(docket, node, both[1], "broken",
             "fp16 and bf16 are both enabled in DeepSpeed's file, which allows one.",
             '"fp16": {"enabled": false}',
             evidence=tuple(values.evidence("enabled", each) for each in both),
             kind="precision")  # fmt: skip
    precision = node.option("mixed_precision")
    word = values.word(precision)
    other = {"fp16": both[1], "bf16": both[0], "fp8": both[0]}.get(word or "")
    if precision is not None and other is not None and values.is_true(other):
        name = "bf16" if word == "fp16" else "fp16"
        add(docket, node, precision, "broken",
             f"--mixed_precision {word}, but DeepSpeed's file enables {name}; Accelerate ends.",
             f"--mixed_precision {name}",
             evidence=(values.evidence(f"--mixed_precision {word}", precision),
                       values.evidence(f"{name} enabled", other)),
             kind="precision")  # fmt: skip
    _batch(node, docket)


def _batch(node: Node, docket: Docket) -> None:
    """train_batch_size = micro batch × accumulation × ranks, where all four are numbers."""
    file = node.deepspeed
    machines, each = node.machines, node.per_machine
    if file is None or machines is None or each is None:
        return
    total = file.values.get("train_batch_size")
    micro = values.number(file.values.get("train_micro_batch_size_per_gpu"))
    steps = values.number(file.values.get("gradient_accumulation_steps"))
    whole = values.number(total)
    if whole is None or micro is None or steps is None or not each:
        return
    ranks = machines * each
    if whole != micro * steps * ranks:
        add(docket, node, total, "broken",
             f"train_batch_size {whole:,} is not {micro} per GPU × {steps} steps × {ranks} ranks "
             f"= {micro * steps * ranks:,}; DeepSpeed ends.",
             f'"train_batch_size": {micro * steps * ranks}   # or "auto"',
             kind="batch-size")  # fmt: skip
