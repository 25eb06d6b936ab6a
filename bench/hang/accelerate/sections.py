"""FSDP, DeepSpeed and parallelism sections against the top level, each other and DeepSpeed's file.

In: a Job. Out: accelerate-inconsistent where Accelerate or DeepSpeed would end, or do otherwise
than the file says; accelerate-ignored-field where a section is not used. Rules of Accelerate 1.15
(utils/launch.py, utils/dataclasses.py, parallelism_config.py), DeepSpeed's of runtime/config.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from bench.hang.accelerate import contradiction, deepspeed_section, values
from bench.hang.accelerate.jobs import Job
from bench.hang.accelerate.nodes import Node
from bench.judge.docket import Docket
from bench.records import Evidence, Setting

USERS = {
    "fsdp_config": ("FSDP", "--use_fsdp"),
    "deepspeed_config": ("DEEPSPEED", "--use_deepspeed"),
    "megatron_lm_config": ("MEGATRON_LM", "--use_megatron_lm"),
}
SHARDING = ("FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD", "HYBRID_SHARD", "HYBRID_SHARD_ZERO2")
WRAPS = ("TRANSFORMER_BASED_WRAP", "SIZE_BASED_WRAP", "NO_WRAP")
STATES = ("FULL_STATE_DICT", "LOCAL_STATE_DICT", "SHARDED_STATE_DICT")
SIZES = ("dp_replicate_size", "dp_shard_size", "tp_size", "cp_size", "sp_size")


def judge(job: Job, docket: Docket) -> None:
    """Each configuration once; nodes of one job hold the same."""
    said: set[tuple[str, str]] = set()
    for node in job.nodes:
        if not node.is_accelerate or node.config is None:
            continue
        for rule in RULES:
            own = Docket()
            rule(node, own)
            for each in own.findings:
                if (each.code, each.summary) not in said:
                    said.add((each.code, each.summary))
                    docket.add(each)


def _unused(node: Node, docket: Docket) -> None:
    """A section that the distributed type does not use."""
    kind = node.kind
    config = node.config
    if kind is None or config is None:
        return
    for name, (user, switch) in USERS.items():
        held = config.sections.get(name)
        if not held or kind == user:
            continue
        at = Setting(value=name, file=config.file, line=config.section_lines.get(name))
        told = node.of_file("distributed_type")
        unless = "" if node.command else f" unless {switch} is on the command line"
        two = [n for n in USERS if config.sections.get(n) and n != name and USERS[n][0] == kind]
        other = f"; {two[0]} is" if two else ""
        contradiction.add(
            docket,
            node,
            at,
            "info" if kind == "NO" else "warning",  # one process needs no section
            f"{name} is not used with distributed_type {kind}{other}{unless}.",
            f"distributed_type: {user}   # or remove {name}",
            evidence=(
                values.evidence(f"{name} with {values.counted(len(held), 'value')}", at),
                *((values.evidence(f"distributed_type {kind}", told),) if told else ()),
            ),
            rule="inconsistent" if two else "ignored-field",
            kind="section",
        )


def _of_fsdp(node: Node, key: str) -> Setting | None:
    return node.of_section("fsdp_config", f"fsdp_{key}")


def _fsdp(node: Node, docket: Docket) -> None:
    if node.kind != "FSDP":
        return
    get = partial(_of_fsdp, node)
    efficient, sync = get("cpu_ram_efficient_loading"), get("sync_module_states")
    if (
        sync is not None
        and sync.value is False
        and (efficient is None or values.is_true(efficient))
    ):
        told = values.place(efficient) if efficient else "true by default"
        contradiction.add(
            docket,
            node,
            sync,
            "broken",
            "fsdp_sync_module_states is false while fsdp_cpu_ram_efficient_loading is true: only "
            "rank 0 would have weights, and Accelerate ends.",
            "fsdp_sync_module_states: true",
            evidence=(
                values.evidence("fsdp_sync_module_states false", sync),
                Evidence(basis="asked", text=f"fsdp_cpu_ram_efficient_loading true ({told})"),
            ),
            kind="fsdp",
        )
    version = values.number(get("version")) or 1
    _fsdp_words(node, docket, version, get)
    offload = get("activation_checkpointing_offload")
    if values.is_true(offload):
        plain = not values.is_true(get("activation_checkpointing"))
        if plain or version != 2:
            lacks = "activation_checkpointing: true" if plain else "fsdp_version: 2"
            contradiction.add(docket, node, offload, "broken",
                 f"fsdp_activation_checkpointing_offload needs {lacks}; Accelerate ends.",
                 f"fsdp_{lacks}" if plain else lacks, kind="fsdp")  # fmt: skip


def _fsdp_words(
    node: Node, docket: Docket, version: int, get: Callable[[str], Setting | None]
) -> None:
    """Words that are none of the field's."""
    asked: list[tuple[str, tuple[str, ...]]] = [
        ("auto_wrap_policy", WRAPS),
        ("state_dict_type", STATES),
    ]
    if version == 1:
        asked.append(("sharding_strategy", SHARDING))
    for key, words in asked:
        told = get(key)
        text = values.text(told)
        if told is None or text is None or text.upper() in words or text.isdecimal():
            continue
        contradiction.add(docket, node, told, "broken",
             f"fsdp_{key} {text} is none of {', '.join(words)}.", f"fsdp_{key}: {words[0]}",
             rule="refused", kind="type")  # fmt: skip
    state = get("state_dict_type")
    if version == 2 and (values.text(state) or "").upper() == "LOCAL_STATE_DICT":
        contradiction.add(docket, node, state, "broken",
             "fsdp_version 2 has no LOCAL_STATE_DICT; Accelerate ends.",
             "fsdp_state_dict_type: SHARDED_STATE_DICT", kind="fsdp")  # fmt: skip
    strategy = get("sharding_strategy")
    if version == 2 and strategy is not None and strategy.basis == "file":
        contradiction.add(docket, node, strategy, "info",
             "fsdp_sharding_strategy is not read with fsdp_version 2; "
             "fsdp_reshard_after_forward is.", "fsdp_reshard_after_forward: true",
             rule="ignored-field", kind="not-read")  # fmt: skip


def _parallelism(node: Node, docket: Docket) -> None:
    """The product of the mesh's sizes is the number of ranks."""
    held = node.config.sections.get("parallelism_config", {}) if node.config else {}
    machines, each = node.machines, node.per_machine
    if not held or machines is None or not each or node.kind is None:
        return
    sizes = {}
    for key in SIZES:
        told = node.of_section("parallelism_config", f"parallelism_config_{key}")
        size = values.number(told) if told is not None else 1
        if size is None or size < 1:
            return
        sizes[key] = (size, told)
    product = math.prod(size for size, _ in sizes.values())
    ranks = machines * each
    shown = " × ".join(f"{key.removesuffix('_size')} {size}" for key, (size, _) in sizes.items()
                       if size > 1)  # fmt: skip
    at = next((told for size, told in sizes.values() if size > 1 and told), None)
    if sizes["sp_size"][0] > 1 or product == 1:
        return  # sequence parallelism is counted by DeepSpeed itself
    if product != ranks:
        contradiction.add(docket, node, at, "broken",
             f"parallelism_config makes {shown} = {product} ranks, but {ranks} are started; "
             "Accelerate ends.",
             "num_processes = the product of the sizes", kind="parallelism")  # fmt: skip
    version = values.number(_of_fsdp(node, "version"))
    unsharded = sizes["dp_shard_size"][0] == 1 and sizes["cp_size"][0] == 1
    if node.kind == "FSDP" and version == 2 and unsharded:
        contradiction.add(docket, node, at, "broken",
             f"FSDP has nothing to shard over: all ranks go to {shown}, dp_shard_size and "
             "cp_size are 1; Accelerate ends.",
             "distributed_type: MULTI_GPU   # or a dp_shard_size above 1",
             kind="parallelism")  # fmt: skip


RULES = (_unused, _fsdp, deepspeed_section.judge, _parallelism)
